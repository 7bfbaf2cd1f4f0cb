"""Claims about how samples are shown."""

import io
import json
import pathlib
from collections.abc import Iterable, Iterator

import pytest

from gpt2cli.config import GenerationConfig, SamplingConfig
from gpt2cli.errors import ModelError
from gpt2cli.generate.run import Run, show_records, show_text
from gpt2cli.generation.interfaces import Chunk, Finish, FinishReason
from gpt2cli.generation.requests import PreparedRequest, Request
from gpt2cli.terminal.result import ResultWriter
from tests.gpt2cli.loaded import load

_DONE = Finish(reason=FinishReason.LENGTH, stop_sequence=None, prompt_tokens=1, completion_tokens=2)
_TWO_SAMPLES = (Chunk(0, 0, "a"), Chunk(0, 0, "b", _DONE), Chunk(0, 1, "c", _DONE))


def text_of(prompt: str, chunks: Iterable[Chunk], *, separator: str = "---") -> str:
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
    assert text_of("P", [Chunk(0, 0, "", _DONE), Chunk(0, 1, "", _DONE)]) == "P\n---\nP\n"
    assert text_of("P\n", [Chunk(0, 0, "a\n", _DONE)]) == "P\na\n\n"


@pytest.mark.parametrize("text", ["", "a"])
def test_the_line_is_finished_where_a_sample_was_not(text: str) -> None:
    """After Ctrl-C, and where the model fails; the prompt was there before the first token."""
    chunks = [Chunk(0, 0, text)] if text else []
    assert text_of("P", chunks) == f"P{text}\n"

    file = io.BytesIO()

    def fail() -> Iterator[Chunk]:
        assert file.getvalue() == b"P"
        yield from chunks
        raise ModelError("no")

    with pytest.raises(ModelError):
        show_text(fail(), ResultWriter(file, on_terminal=False), prompt="P", separator="")
    assert file.getvalue() == f"P{text}\n".encode()


def test_a_record_is_written_whole_when_its_sample_is_done(starter_folder: pathlib.Path) -> None:
    """With all text of its own chunks; one that was not finished is not written at all."""
    request = Request(
        prompt="P\n", sampling=SamplingConfig(), generation=GenerationConfig(), seed=7, samples=3
    )
    run = Run(load(starter_folder), PreparedRequest(request, (1,)), {})
    file = io.BytesIO()

    def watch() -> Iterator[Chunk]:
        yield _TWO_SAMPLES[0]
        assert file.getvalue() == b""
        yield from (*_TWO_SAMPLES[1:], Chunk(0, 2, "d"))

    show_records(watch(), run, ResultWriter(file, on_terminal=False))

    records = [json.loads(line) for line in file.getvalue().decode().splitlines()]
    assert [(r["sample"], r["completion"]) for r in records] == [(0, "ab"), (1, "c")]
    assert {record["prompt"] for record in records} == {"P\n"}
