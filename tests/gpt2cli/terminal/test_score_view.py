"""Claims about how scores are shown; what a pipe gets is tested with the command."""

import io
import math
import pathlib
from collections.abc import Iterator, Sequence

import pytest

from gpt2cli.scoring import TokenScore, Totals
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.result import ResultWriter, open_result
from gpt2cli.terminal.score_progress import ScoreProgress
from gpt2cli.terminal.score_view import (
    ColouredView,
    LineView,
    ScoreView,
)

GREEN, YELLOW, MAGENTA, RED = "30;42", "30;43", "30;45", "97;41"
LEGEND = (
    f"probability  ≥ 0.5 \x1b[{GREEN}m ≥ 0.1 \x1b[0m\x1b[{YELLOW}m ≥ 0.01 \x1b[0m"
    f"\x1b[{MAGENTA}m ≥ 0.001 \x1b[0m\x1b[{RED}m < 0.001 \x1b[0m\n"
)


@pytest.fixture(autouse=True)
def colours_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the environment of who runs the tests say nothing else."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


Text = Sequence[tuple[bytes, float | None]]  # pieces, and the probability of each


def on(style: str, text: str) -> str:
    """Return text on a ground."""
    return f"\x1b[{style}m{text}\x1b[0m"


def feed(view: ScoreView, text: Text, name: str | None = None) -> None:
    """Show a whole text, token by token; ids are places in it."""
    totals = Totals()
    view.begin(name)
    for place, (_, probability) in enumerate(text):
        score = TokenScore(place, None if probability is None else math.log(probability))
        view.add([score])
        totals.add([score])
    view.stop()
    view.end(totals)


def colour(text: Text, name: str | None = None) -> str:
    """Return what a terminal gets of one text."""
    file = io.BytesIO()
    view = ColouredView(ResultWriter(file, on_terminal=True), lambda place: text[place][0])
    feed(view, text, name)
    return file.getvalue().decode()


@pytest.mark.parametrize(
    ("probability", "style"),
    [
        (0.51, ""),
        (0.49, GREEN),
        (0.11, GREEN),
        (0.09, YELLOW),
        (0.011, YELLOW),
        (0.009, MAGENTA),
        (0.0011, MAGENTA),
        (0.0009, RED),
        (1e-300, RED),
        (None, ""),
    ],
)
def test_the_ground_tells_the_probability(probability: float | None, style: str) -> None:
    """In the legend's steps; a likely token has none, nor one without a score."""
    shown, _ = colour([(b"word", probability)]).split("\n", 1)
    assert shown == (on(style, "word") if style else "word")


def test_the_text_is_followed_by_the_perplexity_and_the_legend() -> None:
    """On a line of its own."""
    shown = colour([(b"a", 0.25), (b" b", 0.25)])
    text = on(GREEN, "a") + on(GREEN, " b")
    assert shown == f"{text}\nperplexity 4 (2 tokens)\n{LEGEND}"


def test_characters_are_whole_and_as_unlikely_as_their_least_likely_token() -> None:
    """`日` in three tokens: shown with the last one; the next character is itself again."""
    shown = colour([(b"a\xe6", 0.9), (b"\x97", 0.0001), (b"\xa5", 0.9), (b"b", 0.9)])
    assert shown.startswith(f"a{on(RED, '日')}b\n")


def test_a_character_that_is_never_completed_is_shown_as_such() -> None:
    """At the end of the text; the next text begins anew."""
    pieces = {0: b"\xe6", 1: b"x"}
    file = io.BytesIO()
    view = ColouredView(ResultWriter(file, on_terminal=True), pieces.__getitem__)
    view.begin(None)
    view.add([TokenScore(0, math.log(0.0001))])
    view.stop()
    view.begin(None)
    view.add([TokenScore(1, 0.0)])
    view.stop()
    assert file.getvalue().decode() == f"{on(RED, '�')}\nx\n"


def test_newlines_have_no_ground() -> None:
    """It would fill the rest of the line; a text that ends with one has no empty line after it."""
    shown = colour([(b"a\n\nb\n", 0.2)])
    assert shown.startswith(f"{on(GREEN, 'a')}\n\n{on(GREEN, 'b')}\nperplexity")


def test_what_would_control_the_terminal_is_visible() -> None:
    """Nor does anything take the text for markup."""
    shown = colour([(b"[red]\x1b[31m\r", 0.9)])
    assert shown.startswith("[red]␛[31m␍\n")


def test_texts_of_files_have_their_names_and_stand_apart() -> None:
    """In bold; a name with a newline stays one line."""
    file = io.BytesIO()
    writer = ResultWriter(file, on_terminal=True)
    view = ColouredView(writer, lambda place: b"x")
    feed(view, [(b"x", 0.9)], "a.txt")
    feed(view, [(b"x", 0.9)], "b\nc")
    end = f"x\nperplexity 1.11111 (1 token)\n{LEGEND}"
    bold = ("\x1b[1ma.txt\x1b[22m", '\x1b[1m"b\\nc"\x1b[22m')
    assert file.getvalue().decode() == f"{bold[0]}\n{end}\n{bold[1]}\n{end}"


def test_an_empty_text_has_no_line_of_its_own() -> None:
    """Only that of the perplexity, which it has none of."""
    assert colour([]) == f"perplexity - (0 tokens)\n{LEGEND}"


def test_a_token_without_a_score_has_a_dash_in_its_line() -> None:
    """As the first one of a model without BOS."""
    file = io.BytesIO()
    view = LineView(ResultWriter(file, on_terminal=False), lambda place: b"x")
    feed(view, [(b"x", None), (b"x", 0.5)], "a\tb")
    assert file.getvalue() == b'-\t"x"\n-0.693147\t"x"\nperplexity\t2\t1\t"a\\tb"\n'


def test_a_result_that_goes_elsewhere_is_not_coloured(tmp_path: pathlib.Path) -> None:
    """Neither into a file nor into a pipe, which stdout is here."""
    for path in (None, pathlib.Path("-"), tmp_path / "out"):
        with open_result(path) as writer:
            assert not writer.coloured


class _Watched(Notes):
    """Notes that a person sees."""

    @property
    def watched(self) -> bool:
        return True


class TestProgress:
    """Claims about the bar."""

    @pytest.fixture
    def seconds(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
        """Return the clock's times to come: the last one stays."""
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich draws for a terminal only
        yield [0.0]

    @pytest.mark.parametrize(
        ("waited", "hidden", "shown"),
        [(0.9, False, False), (1.1, False, True), (1.1, True, False)],
        ids=["quick", "slow", "hidden"],
    )
    def test_a_bar_is_shown_once_it_takes_more_than_a_second(
        self,
        seconds: list[float],
        capsys: pytest.CaptureFixture[str],
        waited: float,
        hidden: bool,
        shown: bool,
    ) -> None:
        """On stderr, with the count and the rate."""
        progress = ScoreProgress(_Watched(), total=200, hidden=hidden, clock=lambda: seconds[0])
        with progress:
            seconds[0] = waited
            progress.add(110)
        captured = capsys.readouterr()
        assert captured.out == ""
        assert ("110 tokens, 100 tokens/s" in captured.err) is shown
        assert (captured.err != "") is shown

    def test_the_bar_makes_way_and_comes_again(
        self, seconds: list[float], capsys: pytest.CaptureFixture[str]
    ) -> None:
        """For a record to be written in between."""
        with ScoreProgress(_Watched(), total=9, clock=lambda: seconds[0]) as progress:
            seconds[0] = 2.0
            progress.add(3)
            progress.pause()
            assert capsys.readouterr().err.endswith("\x1b[2K")
            progress.add(3)
        assert "6 tokens" in capsys.readouterr().err
