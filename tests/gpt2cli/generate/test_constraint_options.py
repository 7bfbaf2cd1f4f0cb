"""Claims about --choice, --regex and --json-schema, in `gpt2 generate` and `gpt2 batch`."""

import json
import os
import pathlib
import re
from typing import Any

import pytest

from tests.gpt2cli.batch.batches import Record, read, run, write
from tests.gpt2cli.runner import error_line, invoke

_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "old": {"type": "boolean"}},
    "required": ["name", "old"],
    "additionalProperties": False,
}


@pytest.fixture
def schema(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a file with the schema."""
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(_SCHEMA))
    return path


def record(model: pathlib.Path, *options: str | os.PathLike[str]) -> Record:
    """Return the record of one completion."""
    result = invoke("generate", "The fox", "-m", model, "-q", "--json", "--seed", "1", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def test_a_choice_is_made(starter_folder: pathlib.Path) -> None:
    """One of the texts, and the completion ends with it; each comes up in some sample."""
    options = ("--choice", " ran", "--choice", r" sat\n", "--seed", "1", "-N", "12", "--json")
    result = invoke("generate", "The fox", "-m", starter_folder, "-q", *options)
    assert {made["completion"] for made in read(result)} == {" ran", " sat\n"}


def test_a_pattern_is_matched_from_end_to_end(starter_folder: pathlib.Path) -> None:
    r"""A backslash is the pattern's own."""
    made = record(starter_folder, "--regex", r" [a-z]{3,9}\.\n")
    assert re.fullmatch(r" [a-z]{3,9}\.\n", made["completion"])
    assert made["finish_reason"] == "stop"
    assert made["stop_sequence"] is None


def test_a_schema_is_obeyed(starter_folder: pathlib.Path, schema: pathlib.Path) -> None:
    """The completion alone is JSON."""
    made = record(starter_folder, "--json-schema", schema)
    value = json.loads(made["completion"])
    assert set(value) == {"name", "old"}
    assert len(value["name"]) <= 8
    assert isinstance(value["old"], bool)


def test_an_unfinished_constraint_is_told_as_length(starter_folder: pathlib.Path) -> None:
    """The text is a beginning of what was asked for."""
    made = record(starter_folder, "--regex", "[a-z]{40}", "-n", "2")
    assert made["finish_reason"] == "length"
    assert re.fullmatch("[a-z]{1,39}", made["completion"])


def test_what_may_go_on_goes_on_if_the_end_of_text_is_ignored(
    starter_folder: pathlib.Path,
) -> None:
    """EOS is not drawn; the completion ends where nothing may follow."""
    made = record(starter_folder, "--regex", "(ab){0,9}", "--ignore-eos")
    assert (made["completion"], made["finish_reason"]) == ("ab" * 9, "stop")


def test_nothing_may_be_all_that_is_allowed(starter_folder: pathlib.Path) -> None:
    """An empty pattern is met at once."""
    made = record(starter_folder, "--regex", "")
    assert (made["completion"], made["finish_reason"]) == ("", "stop")
    assert made["completion_tokens"] == 0


def test_a_ban_that_leaves_nothing_is_an_error_in_one_line(starter_folder: pathlib.Path) -> None:
    """Nothing is made that breaks either."""
    options = ("--regex", "b", "--ban", "b", "--no-echo", "--json")
    line = error_line(invoke("generate", "x", "-m", starter_folder, *options))
    assert line.startswith("every token is forbidden here; relax --ban, ")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--regex", "("), "--regex: unclosed group"),
        (("--regex", "a", "--choice", "b"), "--regex: expected no --choice together with it"),
        (("--choice", ""), "--choice: expected some text, found an empty one"),
        (("--json-schema", "no-such-file"), "--json-schema no-such-file: it is missing"),
        (("--regex", "a", "--beams", "2"), "--regex: expected no --beams together with it"),
    ],
    ids=str,
)
@pytest.mark.parametrize("command", ["generate", "batch"])
def test_a_bad_constraint_is_wrong_usage(
    starter_folder: pathlib.Path,
    tmp_path: pathlib.Path,
    command: str,
    options: tuple[str, ...],
    told: str,
) -> None:
    """Told once, before anything runs, in batch too."""
    (tmp_path / "in").write_text("x\ny\n")
    source = "x" if command == "generate" else tmp_path / "in"
    result = invoke(command, source, "-m", starter_folder, *options)
    assert result.exit_code == 2
    assert error_line(result).startswith(told)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "it is empty, expected JSON"),
        (b'{"type":\n?', "it is not JSON: Expecting value (line 2, column 1)"),
        (b'{"a": "\xff"}', "it is not valid UTF-8 (byte 7)"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b"[1]", "expected a JSON schema, an object, found [1]"),
        (b'{"type": "strin"}', "Invalid type: strin"),
        (b'{"not": {}}', 'Unimplemented keys: ["not"]'),
    ],
    ids=["empty", "cut", "latin-1", "deep", "a list", "a wrong type", "not supported"],
)
def test_what_is_wrong_with_a_schema_is_told_with_its_file(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path, content: bytes, told: str
) -> None:
    """Whether it is the file, its JSON, or what the schema says."""
    schema = tmp_path / "schema"
    schema.write_bytes(content)
    result = invoke("generate", "x", "-m", starter_folder, "--json-schema", schema)
    assert result.exit_code == 2
    assert error_line(result).startswith(f"--json-schema {schema}: {told}")


def test_a_record_has_its_own_constraint(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Of any kind, in place of the command line's; the schema stands in the record itself."""
    records: list[dict[str, Any]] = [
        {"prompt": "a"},
        {"prompt": "a", "regex": " (red|blue)"},
        {"prompt": "a", "json_schema": {"type": "boolean"}},
        {"prompt": "a", "choice": "!"},
        {"prompt": "a", "choice": ["?", ";"]},
    ]
    done = run(starter_folder, write(tmp_path / "in.jsonl", records), "--choice", " ok")
    texts = [made["completion"] for made in done]
    assert texts[0] == " ok"
    assert texts[1] in (" red", " blue")
    assert texts[2] in ("true", "false")
    assert texts[3] == "!"
    assert texts[4] in ("?", ";")


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"regex": 3}, "regex: expected a text, found 3"),
        ({"regex": "("}, "regex: unclosed group"),
        ({"json_schema": "{}"}, "json_schema: expected a JSON schema, an object, found '{}'"),
        ({"json_schema": {"type": "foo"}}, "json_schema: Invalid type: foo"),
        ({"choice": []}, "choice: expected at least one text, found an empty list"),
        ({"choice": 3}, "choice: expected a text, found 3"),
        ({"choice": "a", "regex": "a"}, "regex: expected no choice together with it"),
    ],
    ids=str,
)
def test_a_bad_constraint_of_a_record_is_its_error_alone(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path, option: Record, told: str
) -> None:
    """The others go on."""
    file = write(tmp_path / "in.jsonl", [{"prompt": "a", **option}, {"prompt": "b"}])
    result = invoke("batch", file, "-m", starter_folder, "-q", "-n", "1")
    bad, good = read(result)
    assert bad["error"] == told
    assert (result.exit_code, good["finish_reason"]) == (1, "length")


def test_constrained_records_are_the_same_in_any_company(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """One at a time, three at a time, and among records without a constraint."""
    records: list[dict[str, Any]] = [
        {"prompt": f"The {name}", "seed": 5, **({} if plain else {"regex": "( [a-z]{2,5}){3,6}"})}
        for name in ("fox", "king", "old man", "sea")
        for plain in (False, True)
    ]
    file = write(tmp_path / "in.jsonl", records)
    runs = [run(starter_folder, file, "-n", "12", "--batch-size", size) for size in (1, 3, 8)]
    assert runs[0] == runs[1] == runs[2]
