"""Claims about a result as the line that is written."""

import contextlib
import dataclasses
import io
import json
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.batch.extras import take_extras
from gpt2cli.batch.items import BatchItem
from gpt2cli.batch.lines import format_as_record, format_as_text, make_line
from gpt2cli.batch.results import Result
from gpt2cli.config import GenerationConfig, SamplingConfig
from gpt2cli.errors import PromptError, UsageError
from gpt2cli.generation.interfaces import Finish, FinishReason
from gpt2cli.generation.requests import PreparedRequest, Request
from gpt2cli.loading import LoadedModel
from gpt2cli.resumable.journal import Journal
from gpt2cli.resumable.view import RunView
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.progress import Bar
from gpt2cli.terminal.result import ResultWriter
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.batch.feeding import fed
from tests.gpt2cli.batch.parsing import make_source

ERROR = Result(BatchItem(4, "", identity="mine", prompt="x", error="top_k:\nwrong"))


def finished(*pieces: str, identity: object = None, prompt: str = "x") -> Result:
    """Return the second of two samples, which is done."""
    sampling, generation = SamplingConfig(), GenerationConfig()
    request = Request(
        prompt=prompt, sampling=sampling, generation=generation, seed=7, samples=2, index=3
    )
    finish = Finish(
        reason=FinishReason.LENGTH, stop_sequence=None, prompt_tokens=1, completion_tokens=2
    )
    item = BatchItem(3, "", identity, prompt, PreparedRequest(request, (1,)))
    return Result(item, 1, list(pieces), finish)


def read(result: Result, model: LoadedModel) -> dict[str, Any]:
    """Return the record that is written."""
    line = format_as_record(result, model)
    assert line.count("\n") == 1
    record: dict[str, Any] = json.loads(line.encode())
    return record


def test_a_record_tells_the_sample_and_the_id(small_model: LoadedModel) -> None:
    record = read(finished("a", "b", identity=[1]), small_model)
    assert list(record)[:4] == ["index", "id", "prompt", "completion"]
    assert record | {"index": 3, "id": [1], "completion": "ab", "sample": 1, "seed": 7} == record
    assert "error" not in record


def test_a_record_has_the_users_own_fields_before_the_prompt(small_model: LoadedModel) -> None:
    """So does that of an error."""
    extras = {"task_id": 7, "tests": [None]}
    for result in finished("a", identity=1), ERROR:
        item = dataclasses.replace(result.item, extras=extras)
        record = read(dataclasses.replace(result, item=item), small_model)
        assert list(record)[:5] == ["index", "id", "task_id", "tests", "prompt"]
        assert record["tests"] == [None]


def test_no_field_that_a_result_has_can_be_kept(small_model: LoadedModel) -> None:
    """Each of them is refused, or one of the record's own."""
    for name in read(finished("a"), small_model) | read(ERROR, small_model):
        with contextlib.suppress(UsageError):
            assert take_extras({name: 1}, "keep") == {}


def test_an_errors_record_has_the_same_keys_and_the_error(small_model: LoadedModel) -> None:
    """So that a table can be made of them all."""
    record = read(ERROR, small_model)
    assert list(record) == [*read(finished("a", identity=1), small_model), "error"]
    assert record["finish_reason"] == "error"
    assert (record["completion"], record["seed"]) == ("", None)
    assert (record["prompt"], record["id"], record["error"]) == ("x", "mine", "top_k:\nwrong")


def test_a_sample_that_could_not_go_on_is_an_error_too(small_model: LoadedModel) -> None:
    """With its number; what it had by then is no result."""
    result = finished("a")
    assert result.finish is not None
    finish = dataclasses.replace(
        result.finish, reason=FinishReason.ERROR, error=PromptError("nothing left")
    )
    failed = dataclasses.replace(result, finish=finish)
    record = read(failed, small_model)
    told = [record[key] for key in ("completion", "finish_reason", "sample", "error")]
    assert told == ["", "error", 1, "nothing left"]
    assert format_as_text(failed) == "\n"


def test_half_a_surrogate_pair_comes_back_as_a_replacement_character(
    small_model: LoadedModel,
) -> None:
    r"""In the record of its error: at its escape, \ud83d, jq stops."""
    result = Result(BatchItem(0, "", {"\udfff": ["\ud83d"]}, "a\ud83dé", error="no text"))
    record = read(result, small_model)
    assert (record["id"], record["prompt"]) == ({"\ufffd": ["\ufffd"]}, "a\ufffdé")


@given(st.lists(st.text(), max_size=3))
def test_a_completion_is_one_line_from_which_it_can_be_had_back(pieces: list[str]) -> None:
    r"""By undoing \\, \n, \r and \0000, from left to right."""
    line = format_as_text(finished(*pieces))
    assert line.count("\n") == 1
    assert not set(line) & {"\r", "\0"}
    undone, rest = "", line[:-1]
    while rest:
        known = {"\\\\": "\\", "\\n": "\n", "\\r": "\r", "\\0000": "\0"}
        mark = next((mark for mark in known if rest.startswith(mark)), None)
        undone += rest[0] if mark is None else known[mark]
        rest = rest[len(mark or rest[0]) :]
    assert undone == "".join(pieces)


@pytest.mark.skipif(sys.platform == "win32", reason="printf(1)")
def test_printf_undoes_the_escapes(tmp_path: pathlib.Path) -> None:
    r"""`printf '%b'` of the shell, also where digits follow a NUL and letters a backslash."""
    text = "a\\nb\nc\\\\d\re\0" + "12\\x41\\0101\\c \\\ttäb\\"
    script = "IFS= read -r line; printf '%b' \"$line\""
    done = subprocess.run(
        ["sh", "-c", script], input=format_as_text(finished(text)).encode(), capture_output=True
    )
    assert done.stdout == text.encode()


def show(
    tokenizer: Tokenizer,
    model: LoadedModel,
    output: ResultWriter | Journal,
    *,
    as_text: bool,
    quiet: bool = False,
) -> RunView:
    """Show a sample and an error; return the view, which has counted them."""
    notes = Notes(quiet=quiet)
    with fed(b"") as descriptor:
        items = make_source(descriptor, tokenizer)
        view = RunView(items, output, notes, Bar(notes, None), as_text)
        for result in (finished("é", "\nb"), ERROR):
            view.show(make_line(result, model, as_text=as_text))
    return view


@pytest.mark.parametrize(
    ("as_text", "quiet", "told"),
    [(True, False, "gpt2: record 4: top_k: wrong\n"), (True, True, ""), (False, False, "")],
    ids=["text", "quiet", "jsonl"],
)
def test_each_result_is_written_and_counted(
    ascii_tokenizer: Tokenizer,
    small_model: LoadedModel,
    capsys: pytest.CaptureFixture[str],
    as_text: bool,
    quiet: bool,
    told: str,
) -> None:
    """What is wrong is a note of one line where the result cannot say it."""
    file = io.BytesIO()
    writer = ResultWriter(file, on_terminal=False)
    view = show(ascii_tokenizer, small_model, writer, as_text=as_text, quiet=quiet)
    lines = file.getvalue().decode().splitlines()
    texts = lines if as_text else [json.loads(line)["completion"] for line in lines]
    assert texts == ["é\\nb" if as_text else "é\nb", ""]
    assert (view.records, view.errors, view.tokens) == (2, 1, 2)
    assert capsys.readouterr().err == told
    rate = r" in \d+\.\d s \(\d+\.\d tokens/s\)"
    assert re.fullmatch(f"2 records, 1 error among them, 2 tokens{rate}", view.summarise())


def test_a_journal_is_told_of_each_result(
    ascii_tokenizer: Tokenizer, small_model: LoadedModel, tmp_path: pathlib.Path
) -> None:
    """Its record, its number among the samples, and whether it is an error."""
    with (tmp_path / "out").open("wb") as out, (tmp_path / "journal").open("wb") as journal:
        before = Journal(out, journal, done=7, errors=2)
        view = show(ascii_tokenizer, small_model, before, as_text=True)
    done_before = "; 7 of the input were done before, 2 errors among them"
    assert view.summarise().endswith(done_before)
    assert (tmp_path / "out").read_bytes() == "é\\nb\n\n".encode()
    lines = map(json.loads, (tmp_path / "journal").read_bytes().splitlines())
    assert [(index, sample, failed) for index, sample, *_, failed in lines] == [
        (3, 1, False),
        (4, 0, True),
    ]
