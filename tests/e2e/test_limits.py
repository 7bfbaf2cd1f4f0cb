"""Lengths around the starter's limit of 512 tokens, in the real program."""

import json
import pathlib
from typing import Final

import pytest

from tests.e2e.program import Program

_STARTER: Final = ("generate", "--model", "starter", "--ignore-eos")


@pytest.mark.parametrize("wanted", ["512", "10000"])
def test_a_completion_without_end_stops_at_the_limit_and_says_so(
    program: Program, wanted: str
) -> None:
    """Ten tokens of prompt leave 502: `context`, one line on stderr, exit code 0."""
    done = program.run(*_STARTER, "-n", wanted, "--json", "x" + " the" * 9)
    record = json.loads(done.out)
    assert done.code == 0
    assert record["finish_reason"] == "context"
    assert (record["prompt_tokens"], record["completion_tokens"]) == (10, 502)
    assert done.err == (
        "gpt2: stopped at the model's limit of 512 tokens; --overflow slide goes on\n"
    )


def test_a_prompt_beyond_the_limit_is_an_error_that_names_the_way_on(
    program: Program, tmp_path: pathlib.Path
) -> None:
    """Both numbers, and `--overflow slide`, which then works."""
    file = tmp_path / "prompt.txt"
    file.write_text("x" + " the" * 599)
    done = program.run(*_STARTER, "--file", str(file))
    assert (done.code, done.out) == (1, b"")
    assert done.err == (
        "gpt2: error: the prompt has 600 tokens, the model takes 512; shorten it, "
        "or use --overflow slide to keep its end\n"
    )
    slid = program.run(*_STARTER, "--file", str(file), "--overflow", "slide", "-n", "3", "-q")
    assert (slid.code, slid.err) == (0, "")
    assert slid.out.startswith(file.read_bytes())


def test_sliding_goes_on_beyond_the_limit(program: Program) -> None:
    """A completion longer than the model's context ends at the limit that was asked for."""
    done = program.run(*_STARTER, "-n", "520", "--overflow", "slide", "--json", "x")
    record = json.loads(done.out)
    assert (record["completion_tokens"], record["finish_reason"]) == (520, "length")
    assert (done.code, done.err) == (0, "")
