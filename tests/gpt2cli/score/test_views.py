"""Claims about how scores are shown; what a pipe gets is tested with the command."""

import io
import math
import pathlib
from collections.abc import Iterator, Sequence

import pytest

from gpt2cli.sampling.logprobs import TokenLogprob
from gpt2cli.score.views import ScoredText, show_coloured, show_lines
from gpt2cli.terminal.result import ResultWriter, open_result

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
    return f"\x1b[{style}m{text}\x1b[0m"


def scored(text: Text, name: str | None = None, index: int = 0) -> ScoredText:
    """Return a text that is scored token by token; ids are indices into it."""
    told = ScoredText(index, name)

    def take() -> Iterator[list[TokenLogprob]]:
        for i, (_, probability) in enumerate(text):
            score = TokenLogprob(i, None if probability is None else math.log(probability))
            yield [score]
            told.totals.add([score])

    told.scores = take()
    return told


def colour(text: Text, name: str | None = None, index: int = 0) -> str:
    file = io.BytesIO()
    writer = ResultWriter(file, on_terminal=True)
    show_coloured(scored(text, name, index), writer, lambda i: text[i][0])
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
    shown = colour([(b"a", 0.25), (b" b", 0.25)])
    text = on(GREEN, "a") + on(GREEN, " b")
    assert shown == f"{text}\nperplexity 4 (2 tokens)\n{LEGEND}"


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        # `日` in three tokens, as unlikely as the least likely of them; the next is itself again.
        (
            [(b"a\xe6", 0.9), (b"\x97", 0.0001), (b"\xa5", 0.9), (b"b", 0.9)],
            f"a{on(RED, '日')}b\n",
        ),
        # A character that is never completed.
        ([(b"\xe6", 0.0001)], f"{on(RED, '�')}\nperplexity"),
        # The ground of a newline would fill the rest of the line.
        ([(b"a\n\nb\n", 0.2)], f"{on(GREEN, 'a')}\n\n{on(GREEN, 'b')}\nperplexity"),
        # What would control the terminal, or be taken for markup.
        ([(b"[red]\x1b[31m\r", 0.9)], "[red]␛[31m␍\n"),
        ([], f"perplexity - (0 tokens)\n{LEGEND}"),
    ],
    ids=["whole", "cut", "newlines", "controls", "empty"],
)
def test_characters_are_shown_whole_and_safe(text: Text, begins: str) -> None:
    assert colour(text).startswith(begins)


def test_the_line_is_finished_where_the_text_was_not() -> None:
    """As after Ctrl-C: no perplexity follows."""

    def stop() -> Iterator[list[TokenLogprob]]:
        yield [TokenLogprob(0, 0.0)]
        raise KeyboardInterrupt

    file = io.BytesIO()
    with pytest.raises(KeyboardInterrupt):
        show_coloured(
            ScoredText(0, None, stop()), ResultWriter(file, on_terminal=True), lambda i: b"x"
        )
    assert file.getvalue() == b"x\n"


def test_texts_of_files_have_their_names_and_stand_apart() -> None:
    text, end = [(b"x", 0.9)], f"x\nperplexity 1.11111 (1 token)\n{LEGEND}"
    assert colour(text, "a.txt") == f"\x1b[1ma.txt\x1b[22m\n{end}"
    assert colour(text, "b\nc", index=1) == f'\n\x1b[1m"b\\nc"\x1b[22m\n{end}'


def test_a_token_without_a_score_has_a_dash_in_its_line() -> None:
    """As the first one of a model without BOS."""
    file = io.BytesIO()
    text = scored([(b"x", None), (b"x", 0.5)], "a\tb")
    show_lines(text, ResultWriter(file, on_terminal=False), lambda i: b"x")
    assert file.getvalue() == b'-\t"x"\n-0.693147\t"x"\nperplexity\t2\t1\t"a\\tb"\n'


def test_a_result_that_goes_elsewhere_is_not_coloured(tmp_path: pathlib.Path) -> None:
    """Neither into a file nor into a pipe, which stdout is here."""
    for path in (None, pathlib.Path("-"), tmp_path / "out"):
        with open_result(path) as writer:
            assert not writer.coloured
