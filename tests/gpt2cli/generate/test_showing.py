"""Claims about how samples are shown."""

import io
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.errors import ModelError
from gpt2cli.generate.showing import Piece, in_sample_order, show_records, show_text
from gpt2cli.terminal.result import ResultWriter

_DONE = {"finish_reason": "length"}
_TWO_SAMPLES = (Piece(0, "a"), Piece(0, "b", _DONE), Piece(1, "c", _DONE))


def text_of(prompt: str, chunks: Iterable[Piece], *, separator: str = "---") -> str:
    file = io.BytesIO()
    writer = ResultWriter(file, on_terminal=False)
    show_text(chunks, writer, prompt=prompt, separator=separator)
    return file.getvalue().decode()


def test_the_prompt_comes_before_each_completion_and_a_newline_after_it() -> None:
    """The separator is a line of its own, between samples only; it may be empty, or lines."""
    assert text_of("P ", _TWO_SAMPLES) == "P ab\n---\nP c\n"
    assert text_of("", _TWO_SAMPLES, separator="") == "ab\n\nc\n"
    assert text_of("", _TWO_SAMPLES, separator="x\ny") == "ab\nx\ny\nc\n"


def test_a_sample_without_text_has_a_line_and_one_that_ends_with_a_newline_an_empty_one() -> None:
    assert text_of("P", [Piece(0, "", _DONE), Piece(1, "", _DONE)]) == "P\n---\nP\n"
    assert text_of("P\n", [Piece(0, "a\n", _DONE)]) == "P\na\n\n"


@pytest.mark.parametrize("text", ["", "a"])
def test_the_line_is_finished_where_a_sample_was_not(text: str) -> None:
    """After Ctrl-C, and where the model fails; the prompt was there before the first token."""
    chunks = [Piece(0, text)] if text else []
    assert text_of("P", chunks) == f"P{text}\n"

    file = io.BytesIO()

    def fail() -> Iterator[Piece]:
        assert file.getvalue() == b"P"
        yield from chunks
        raise ModelError("no")

    with pytest.raises(ModelError):
        show_text(fail(), ResultWriter(file, on_terminal=False), prompt="P", separator="")
    assert file.getvalue() == f"P{text}\n".encode()


def test_a_record_is_written_whole_when_its_sample_is_done() -> None:
    """One that was not finished is not written at all."""
    file = io.BytesIO()

    def watch() -> Iterator[Piece]:
        yield Piece(0, "a")
        assert file.getvalue() == b""
        yield from (Piece(0, "b", {"completion": "ab"}), Piece(1, "c", {"é": 1}), Piece(2, "d"))

    show_records(watch(), ResultWriter(file, on_terminal=False))
    assert file.getvalue().decode() == '{"completion": "ab"}\n{"é": 1}\n'


def test_a_sample_streams_once_those_before_are_done() -> None:
    """What waited is given, and then each piece as it comes."""
    texts = [(1, "x", None), (0, "a", None), (0, "b", _DONE), (1, "y", None), (1, "z", _DONE)]
    made = iter([Piece(*piece) for piece in texts])
    ordered = in_sample_order(made)
    assert [next(ordered).text for _ in range(4)] == ["a", "b", "x", "y"]
    assert next(made).text == "z"  # it was not asked for yet


@given(st.permutations([0, 0, 1, 1, 1, 2, 3, 3]))
def test_nothing_is_lost_in_any_order(order: list[int]) -> None:
    """Any interleaving comes out sample by sample, each in its own order."""
    left = {sample: order.count(sample) for sample in order}
    made = []
    for number, sample in enumerate(order):
        left[sample] -= 1
        made.append(Piece(sample, str(number), None if left[sample] else _DONE))
    assert list(in_sample_order(made)) == sorted(made, key=lambda piece: piece.sample)
