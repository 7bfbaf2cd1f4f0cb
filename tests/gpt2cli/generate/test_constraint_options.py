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
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(_SCHEMA))
    return path


def record(model: pathlib.Path, *options: str | os.PathLike[str]) -> Record:
    result = invoke("generate", "The fox", "-m", model, "-q", "--json", "--seed", "1", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("options", "pattern", "reason"),
    [
        (["--choice", " ran", "--choice", r" sat\n"], " ran| sat\n", "stop"),
        (["--regex", r" [a-z]{3,9}\.\n"], r" [a-z]{3,9}\.\n", "stop"),  # its own backslashes
        (["--regex", "[a-z]{40}", "-n", "2"], "[a-z]{1,39}", "length"),  # a beginning
        # EOS is not drawn; the completion ends where nothing may follow.
        (["--regex", "(ab){0,9}", "--ignore-eos"], "(ab){9}", "stop"),
        (["--regex", ""], "", "stop"),
    ],
    ids=str,
)
def test_a_completion_is_what_was_asked_for(
    starter_folder: pathlib.Path, options: list[str], pattern: str, reason: str
) -> None:
    made = record(starter_folder, *options)
    assert re.fullmatch(pattern, made["completion"])
    assert (made["finish_reason"], made["stop_sequence"]) == (reason, None)


def test_a_schema_is_obeyed(starter_folder: pathlib.Path, schema: pathlib.Path) -> None:
    made = record(starter_folder, "--json-schema", schema)
    value = json.loads(made["completion"])
    assert set(value) == {"name", "old"}
    assert len(value["name"]) <= 8
    assert isinstance(value["old"], bool)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--regex", "("), "--regex: unclosed group"),
        (("--json-schema", "no-such-file"), "--json-schema no-such-file: it is missing"),
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
    (tmp_path / "in").write_text("x\ny\n")
    source = "x" if command == "generate" else tmp_path / "in"
    result = invoke(command, source, "-m", starter_folder, *options)
    assert result.exit_code == 2
    assert error_line(result).startswith(told)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"type":\n?', "it is not JSON: Expecting value (line 2, column 1)"),
        (b"[1]", "expected a JSON schema, an object, found [1]"),
        (b'{"type": "strin"}', "Invalid type: strin"),
    ],
    ids=["cut", "a list", "a wrong type"],
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
    own: list[tuple[dict[str, Any], str]] = [
        ({}, " ok"),
        ({"regex": " (red|blue)"}, " (red|blue)"),
        ({"json_schema": {"type": "boolean"}}, "true|false"),
        ({"choice": "!"}, "!"),
        ({"choice": ["?", ";"]}, "[?;]"),
    ]
    file = write(tmp_path / "in.jsonl", [{"prompt": "a", **fields} for fields, _ in own])
    done = run(starter_folder, file, "--choice", " ok")
    for made, (_, pattern) in zip(done, own, strict=True):
        assert re.fullmatch(pattern, made["completion"])


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"regex": "("}, "regex: unclosed group"),
        ({"json_schema": {"type": "foo"}}, "json_schema: Invalid type: foo"),
    ],
    ids=str,
)
def test_a_bad_constraint_of_a_record_is_its_error_alone(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path, option: Record, told: str
) -> None:
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
