"""Claims about the bar that a person watches."""

import pytest

from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.progress import Bar


class Watched(Notes):
    """Notes that a person sees."""

    @property
    def watched(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
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
    with Bar(Watched(), 9) as bar:
        bar.show(3, "first")
        bar.pause()
        assert capsys.readouterr().err.endswith("\x1b[2K")
        bar.show(6, "second")
    assert "second" in capsys.readouterr().err


def test_a_bar_may_wait_before_it_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    with Bar(Watched(), 9, patience=1, clock=lambda: now[0]) as bar:
        now[0] = 0.9
        bar.show(3, "first")
        assert capsys.readouterr().err == ""
        now[0] = 1.1
        bar.show(6, "second")
    assert "second" in capsys.readouterr().err
