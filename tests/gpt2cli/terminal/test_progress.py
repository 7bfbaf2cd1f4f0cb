"""Claims about the progress of a batch and its summary."""

import re
from typing import Any

import pytest

from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.progress import Bar, BatchProgress

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


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rich draw, as for a terminal."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")


@pytest.mark.parametrize(
    ("notes", "hidden", "shown"),
    [(Watched(), False, True), (Watched(), True, False), (Notes(), False, False)],
    ids=["watched", "hidden", "unseen"],
)
@pytest.mark.parametrize("total", [100, None])
def test_a_bar_is_shown_where_a_person_watches(
    capsys: pytest.CaptureFixture[str], notes: Notes, hidden: bool, shown: bool, total: int | None
) -> None:
    """On stderr, whether it is known how much there is to do or not; else nothing is written."""
    with Bar(notes, total, hidden=hidden) as bar:
        bar.show(50, "halfway")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("halfway" in captured.err) is shown
    assert (captured.err != "") is shown


def test_the_bar_makes_way_and_comes_again(capsys: pytest.CaptureFixture[str]) -> None:
    """For a result to be written in between."""
    with Bar(Watched(), 9) as bar:
        bar.show(3, "first")
        bar.pause()
        assert capsys.readouterr().err.endswith("\x1b[2K")
        bar.show(6, "second")
    assert "second" in capsys.readouterr().err


def test_a_bar_may_wait_before_it_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """What is done soon needs none."""
    now = [0.0]
    with Bar(Watched(), 9, patience=1, clock=lambda: now[0]) as bar:
        now[0] = 0.9
        bar.show(3, "first")
        assert capsys.readouterr().err == ""
        now[0] = 1.1
        bar.show(6, "second")
    assert "second" in capsys.readouterr().err


def test_the_bar_of_a_batch_counts_records(capsys: pytest.CaptureFixture[str]) -> None:
    """From the beginning, before there is any."""
    with BatchProgress(Watched(), total_bytes=100) as progress:
        assert "0 records" in capsys.readouterr().err
        progress.add(error=False, tokens=5, bytes_read=50)
    assert "1 record, " in capsys.readouterr().err
