"""Claims about how samples are shown."""

import io
import json
import pathlib

import pytest

from gpt2cli.config import GenerationConfig, SamplingConfig
from gpt2cli.generation import Chunk, Finish, FinishReason, Request
from gpt2cli.loading import LoadedModel
from gpt2cli.terminal.result import ResultWriter
from gpt2cli.terminal.samples import RecordView, SampleView, TextView
from tests.gpt2cli.loaded import load

_DONE = Finish(reason=FinishReason.LENGTH, stop_sequence=None, prompt_tokens=1, completion_tokens=2)
_TWO_SAMPLES = (
    Chunk(0, 0, "a"),
    Chunk(0, 0, "b", _DONE),
    Chunk(0, 1, "c", _DONE),
)


@pytest.fixture(scope="module")
def model(starter_folder: pathlib.Path) -> LoadedModel:
    """Return a model that records can name."""
    return load(starter_folder)


def text_of(prompt: str, *chunks: Chunk, separator: str = "---") -> str:
    """Return the text that these chunks are shown as."""
    file = io.BytesIO()
    writer = ResultWriter(file, on_terminal=False)
    feed(TextView(writer, prompt=prompt, separator=separator), *chunks)
    return file.getvalue().decode()


def feed(view: SampleView, *chunks: Chunk) -> None:
    """Show chunks from the beginning to the end."""
    view.begin()
    for chunk in chunks:
        view.show(chunk)
    view.end()


def test_the_prompt_comes_before_each_completion_and_a_newline_after_it() -> None:
    """The separator is a line of its own, between samples only."""
    assert text_of("P ", *_TWO_SAMPLES) == "P ab\n---\nP c\n"


def test_without_a_prompt_only_completions_are_shown() -> None:
    """A separator may be empty, or several lines."""
    assert text_of("", *_TWO_SAMPLES, separator="") == "ab\n\nc\n"
    assert text_of("", *_TWO_SAMPLES, separator="x\ny") == "ab\nx\ny\nc\n"


def test_a_sample_may_have_no_text() -> None:
    """Its line is there all the same."""
    assert text_of("P", Chunk(0, 0, "", _DONE), Chunk(0, 1, "", _DONE)) == "P\n---\nP\n"


def test_a_completions_own_newline_is_not_taken_for_the_end() -> None:
    """One is added in any case."""
    assert text_of("P\n", Chunk(0, 0, "a\n", _DONE)) == "P\na\n\n"


@pytest.mark.parametrize("chunks", [(), (Chunk(0, 0, "a"),)], ids=["none", "one"])
def test_the_line_is_finished_where_a_sample_was_not(chunks: tuple[Chunk, ...]) -> None:
    """An error or Ctrl-C may come at any time after the prompt."""
    text = "".join(chunk.text for chunk in chunks)

    assert text_of("P", *chunks) == f"P{text}\n"


def test_the_prompt_is_shown_before_the_first_token() -> None:
    """That one takes a while."""
    file = io.BytesIO()
    TextView(ResultWriter(file, on_terminal=False), prompt="P", separator="").begin()

    assert file.getvalue() == b"P"


def test_a_record_is_written_whole_when_its_sample_is_done(model: LoadedModel) -> None:
    """With all text of its own chunks; one that was not finished is not written at all."""
    request = Request(
        prompt="P\n", sampling=SamplingConfig(), generation=GenerationConfig(), seed=7, samples=3
    )
    file = io.BytesIO()
    writer = ResultWriter(file, on_terminal=False)
    view = RecordView(writer, request=request, model=model)
    view.begin()
    view.show(_TWO_SAMPLES[0])
    assert file.getvalue() == b""

    feed(view, *_TWO_SAMPLES[1:], Chunk(0, 2, "d"))

    lines = file.getvalue().decode().splitlines()
    records = [json.loads(line) for line in lines]
    assert [(r["sample"], r["completion"]) for r in records] == [(0, "ab"), (1, "c")]
    assert {record["prompt"] for record in records} == {"P\n"}
