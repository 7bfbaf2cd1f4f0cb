"""`gpt2 score` and `gpt2 tokens` as a shell runs them: pipes, Ctrl-C, and a terminal's colours."""

import json
import re
from typing import Final

from tests.e2e.program import Finished, Program
from tests.e2e.screen import show

_SCORE: Final = ("score", "--model", "starter")
_TOKENS: Final = ("tokens", "--model", "starter")
_STYLE: Final = re.compile(r"\x1b\[[\d;]*m")
_HOSTILE: Final = '[/red] [bold]x \x1b[31m\u2028a\u202eb\r\nc\t"\\ 👩‍🚀 日本\x00\r\n\n'


def test_a_text_is_scored_the_same_as_an_argument_and_from_stdin(program: Program) -> None:
    """One line per token and one for the perplexity; stderr is empty."""
    given = program.run(*_SCORE, "Once upon a time")
    assert (given.code, given.err, given.out.count(b"\n")) == (0, "", 5)
    assert program.run(*_SCORE, stdin=b"Once upon a time\n") == given


def test_a_terminal_shows_the_text_itself_in_colours(program: Program) -> None:
    """With whole characters, and the perplexity and the legend below."""
    text = "Once upon a time, there was a zebra 👩‍🚀 [/red]."
    done = show(program, *_SCORE, "-q", text)
    shown, below, legend, end = _STYLE.sub("", done.err).split("\n")
    record = json.loads(program.run(*_SCORE, text, "--json").out)
    assert shown == text
    assert below == f"perplexity {record['perplexity']:.6g} ({record['scored_tokens']} tokens)"
    assert legend.startswith("probability ")
    assert len(legend) <= 80
    assert end == ""
    assert done.err.startswith("Once upon")  # which is likely, and has no colour
    assert "\x1b[97;41m 👩‍🚀" in done.err.replace("\x1b[0m\x1b[97;41m", "")


def test_a_round_trip_through_ids_gives_the_text_again(program: Program) -> None:
    """Byte for byte; the one trailing newline that stdin drops is not given back."""
    ids = program.run(*_TOKENS, "--ids", stdin=_HOSTILE.encode())
    text = program.run(*_TOKENS, "--decode", stdin=ids.out)
    assert ids.err == ""
    assert text == Finished(0, _HOSTILE.encode().removesuffix(b"\n"), "")


def test_columns_of_ids_are_read_too(program: Program) -> None:
    """The first column of the lines of tokens, and the list of a record."""
    lines = program.run(*_TOKENS, "é\nx").out
    column = b"\n".join(line.split(b"\t")[0] for line in lines.splitlines())
    listed = json.dumps(json.loads(program.run(*_TOKENS, "é\nx", "--json").out)["ids"]).encode()
    for given in (column, listed):
        assert program.run(*_TOKENS, "--decode", stdin=given) == Finished(0, "é\nx".encode(), "")


def test_a_terminal_shows_decoded_text_safely_as_whole_lines(program: Program) -> None:
    """A part of a character as U+FFFD, an escape as what can be seen, and a last newline."""
    ids = program.run(*_TOKENS, "\x1b[31mé", "--ids").out.split()
    done = show(program, *_TOKENS, "-q", "--decode", *(i.decode() for i in ids[:-1]))
    assert done.err == "␛[31m�\n"
