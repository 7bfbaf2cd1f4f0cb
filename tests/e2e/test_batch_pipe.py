"""`gpt2 batch` in pipes: records as they come, whoever reads or writes them."""

import json
import pathlib
from typing import Any, Final

from tests.e2e.program import Finished, Program, finish, press_ctrl_c, read_until, send

_BATCH: Final = ("batch", "--model", "starter", "--seed", "3", "-n", "6")
_SHELL: Final = '"$GPT2" batch -m starter --seed 3 -n 6'


def prompts_of(out: bytes) -> list[str]:
    """Return the prompt of each record."""
    return [json.loads(line)["prompt"] for line in out.splitlines()]


def test_a_record_is_out_before_the_next_prompt_is_sent(program: Program) -> None:
    """Its reader answers it with the next one; `-` is stdin by its name, and stdout."""
    with program.start(*_BATCH, "-q", stdin=b"") as process:
        send(process, b"a\n")
        first = read_until(process.stdout, b"\n")
        assert prompts_of(first) == ["a"]
        send(process, b"b\n")
        second = read_until(process.stdout, b"\n")
        assert finish(process) == Finished(0, b"", "")
    named = program.run(*_BATCH, "-q", "-", "-o", "-", stdin=b"a\nb")
    assert named == Finished(0, first + second, "")


def test_an_empty_input_gives_nothing(program: Program) -> None:
    """`< /dev/null` is no failure."""
    done = program.run(*_BATCH)
    assert (done.code, done.out) == (0, b"")
    assert done.err.startswith("gpt2: 0 records, ")


def test_completions_line_up_with_their_prompts(program: Program, tmp_path: pathlib.Path) -> None:
    """By paste, also where a record is an error."""
    line = f"printf 'a\\nb\\351\\n\\nc\\n' > $DIR/p; {_SHELL} --format text $DIR/p | paste $DIR/p -"
    done = program.run_shell(line, environment={"DIR": str(tmp_path)})
    names = [row.split(b"\t")[0] for row in done.out.splitlines()]
    completions = [row.split(b"\t")[1] for row in done.out.splitlines()]
    assert names == [b"a", b"b\xe9", b"", b"c"]
    assert [bool(text) for text in completions] == [True, False, True, True]
    assert done.err.startswith("gpt2: record 1: the record is not valid UTF-8 (byte 1); convert it")


# Ctrl-C


def test_ctrl_c_leaves_whole_records_and_none_that_is_interrupted(program: Program) -> None:
    """The first one is short, the second would never end."""
    records: list[dict[str, Any]] = [
        {"prompt": "a"},
        {"prompt": "b", "ignore_eos": True, "overflow": "slide", "max_new_tokens": 10**6},
        {"prompt": "c"},
    ]
    lines = "".join(f"{json.dumps(record)}\n" for record in records).encode()
    with program.start(*_BATCH, "--jsonl", stdin=b"") as process:
        send(process, lines)
        begun = read_until(process.stdout, b"\n")
        press_ctrl_c(process)
        done = finish(process)
    assert (done.code, done.err) == (130, "")
    assert prompts_of(begun + done.out) == ["a"]


def test_ctrl_c_ends_the_wait_for_a_silent_input(program: Program) -> None:
    """Here between two prompts."""
    with program.start(*_BATCH, stdin=b"") as process:
        send(process, b"a\n")
        read_until(process.stdout, b"\n")
        press_ctrl_c(process)
        assert finish(process) == Finished(130, b"", "")


def test_ctrl_c_is_heard_among_errors_without_end(program: Program, tmp_path: pathlib.Path) -> None:
    """A million lines that are no JSON, of which none needs the model; blank ones between them."""
    (tmp_path / "in").write_bytes(b"x\n\n" * 1_000_000)
    with program.start(*_BATCH, "--jsonl", str(tmp_path / "in")) as process:
        begun = read_until(process.stdout, b"\n")
        press_ctrl_c(process)
        done = finish(process)
    assert (done.code, done.err) == (130, "")
    assert {json.loads(line)["completion"] for line in (begun + done.out).splitlines()} == {""}
