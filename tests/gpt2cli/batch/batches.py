"""Runs batches in this process."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from typer.testing import Result

from tests.gpt2cli.runner import invoke

Record = Mapping[str, Any]


def write(path: pathlib.Path, records: Sequence[Record]) -> pathlib.Path:
    """Write records as lines of JSON."""
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def run(model: pathlib.Path, file: pathlib.Path, *options: object) -> list[Record]:
    """Return the records of a run that must succeed in silence."""
    result = invoke("batch", file, "-m", model, "-q", *map(str, options))
    assert (result.exit_code, result.stderr) == (0, "")
    return read(result)


def read(result: Result) -> list[Record]:
    """Return the records on stdout, whose texts may hold what Python takes for an end of a line."""
    return [json.loads(line) for line in result.stdout.removesuffix("\n").split("\n") if line]
