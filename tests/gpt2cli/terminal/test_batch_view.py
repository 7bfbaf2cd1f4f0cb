"""Claims about how the results of a batch are written."""

import io
import json
import pathlib

import pytest

from gpt2cli.batch import BatchItem, Journal, Result
from gpt2cli.config import GenerationConfig, SamplingConfig
from gpt2cli.generation import Finish, FinishReason, PreparedRequest, Request
from gpt2cli.loading import LoadedModel
from gpt2cli.terminal.batch_view import BatchView
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.progress import BatchProgress
from gpt2cli.terminal.result import ResultWriter
from tests.gpt2cli.loaded import load
from tests.model_folders import ModelFolders

ERROR = Result(BatchItem(1, "digest-of-1", error="what is\nwrong with it"))


def sample(number: int, text: str) -> Result:
    """Return one of two samples of the first record, which is done."""
    request = Request(
        prompt="x", sampling=SamplingConfig(), generation=GenerationConfig(), seed=7, samples=2
    )
    finish = Finish(
        reason=FinishReason.LENGTH, stop_sequence=None, prompt_tokens=1, completion_tokens=5
    )
    item = BatchItem(0, "digest-of-0", prompt="x", prepared=PreparedRequest(request, (1,)))
    return Result(item, number, [text], finish)


@pytest.fixture(scope="module")
def model(model_folders: ModelFolders) -> LoadedModel:
    """Return the smallest model."""
    return load(model_folders())


class Shown:
    """A view that has shown two samples and an error, and what it wrote."""

    def __init__(
        self, model: LoadedModel, output: ResultWriter | Journal, *, as_text: bool, quiet: bool
    ) -> None:
        notes = Notes(quiet=quiet)
        self.progress = BatchProgress(notes, total_bytes=None)
        view = BatchView(
            model, output, notes, self.progress, as_text=as_text, bytes_taken=lambda: 0
        )
        for result in (sample(0, "a\nb"), sample(1, "é"), ERROR):
            view.show(result)


@pytest.mark.parametrize("as_text", [False, True])
def test_each_result_is_a_line_and_is_counted(model: LoadedModel, as_text: bool) -> None:
    """Two samples of five tokens and an error."""
    file = io.BytesIO()
    shown = Shown(model, ResultWriter(file, on_terminal=False), as_text=as_text, quiet=True)
    lines = file.getvalue().decode().split("\n")
    if as_text:
        assert lines == ["a\\nb", "é", "", ""]
    else:
        assert [json.loads(line)["completion"] for line in lines[:3]] == ["a\nb", "é", ""]
    assert (shown.progress.records, shown.progress.errors, shown.progress.tokens) == (3, 1, 10)


@pytest.mark.parametrize(
    ("as_text", "quiet", "expected"),
    [
        (True, False, "gpt2: record 1: what is wrong with it\n"),
        (True, True, ""),
        (False, False, ""),
    ],
    ids=["text", "quiet", "jsonl"],
)
def test_what_is_wrong_is_a_note_where_the_result_cannot_say_it(
    model: LoadedModel,
    capsys: pytest.CaptureFixture[str],
    as_text: bool,
    quiet: bool,
    expected: str,
) -> None:
    """In one line."""
    Shown(model, ResultWriter(io.BytesIO(), on_terminal=False), as_text=as_text, quiet=quiet)
    assert capsys.readouterr().err == expected


def test_a_journal_is_told_of_each_result(model: LoadedModel, tmp_path: pathlib.Path) -> None:
    """Its record, its number among the samples, and whether it is an error."""
    with (tmp_path / "out").open("wb") as out, (tmp_path / "journal").open("wb") as journal:
        Shown(model, Journal(out, journal), as_text=True, quiet=True)
    assert (tmp_path / "out").read_bytes() == "a\\nb\né\n\n".encode()
    lines = map(json.loads, (tmp_path / "journal").read_bytes().splitlines())
    told = [(index, sample, record, failed) for index, sample, record, _, failed in lines]
    assert told == [
        (0, 0, "digest-of-0", False),
        (0, 1, "digest-of-0", False),
        (1, 0, "digest-of-1", True),
    ]
