"""Claims about the progress of a batch and its summary."""

import re
from typing import Any

import pytest

from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.progress import BatchProgress

_RATE = r" in \d+\.\d s \(\d+\.\d tokens/s\)"


def summarise(*results: tuple[bool, int], **options: Any) -> str:
    """Return the summary after results: whether each is an error, and its tokens."""
    progress = BatchProgress(Notes(quiet=True), total_bytes=None, **options)
    for error, tokens in results:
        progress.add(error=error, tokens=tokens, bytes_read=0)
    return progress.summarise()


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([], "0 records, 0 tokens"),
        ([(False, 1)], "1 record, 1 token"),
        ([(False, 5), (False, 0)], "2 records, 5 tokens"),
        ([(False, 5), (True, 0)], "2 records, 1 error among them, 5 tokens"),
        ([(True, 0), (True, 0)], "2 records, 2 errors among them, 0 tokens"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_summary_is_one_line(results: list[tuple[bool, int]], expected: str) -> None:
    """Records, errors if there are any, tokens, and the rate."""
    assert re.fullmatch(expected + _RATE, summarise(*results))


def test_the_summary_tells_what_an_earlier_run_has_done() -> None:
    """It is not counted among the records of this one."""
    told = summarise((False, 3), done=7)
    assert re.fullmatch(f"1 record, 3 tokens{_RATE}; 7 of the input were done before", told)
    failed = summarise((False, 3), done=7, done_errors=2)
    assert failed.endswith("; 7 of the input were done before, 2 errors among them")


class Watched(Notes):
    """Notes that a person sees."""

    @property
    def watched(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("notes", "hidden", "shown"),
    [(Watched(), False, True), (Watched(), True, False), (Notes(), False, False)],
    ids=["watched", "hidden", "unseen"],
)
@pytest.mark.parametrize("total_bytes", [100, None])
def test_a_bar_is_shown_where_a_person_watches(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    notes: Notes,
    hidden: bool,
    shown: bool,
    total_bytes: int | None,
) -> None:
    """On stderr, whether the size of the input is known or not; else nothing is written."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich draws for a terminal only
    with BatchProgress(notes, total_bytes=total_bytes, hidden=hidden) as progress:
        progress.add(error=False, tokens=5, bytes_read=50)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("1 record, " in captured.err) is shown
    assert (captured.err != "") is shown
