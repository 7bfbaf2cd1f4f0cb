"""Runs the README's commands and holds what it shows of their output against the real one.

Exact where nothing depends on the machine; where text was drawn, its form: another CPU may draw
another text.
"""

import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.e2e.program import Finished, Program

_README: Final = (pathlib.Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
_DRAWN: Final = ("completion", "completion_tokens", "finish_reason", "stop_sequence", "logprobs")
_TOOLS: Final = ("jq", "paste", "xargs", "parallel")  # that a command may pipe into
_TYPED: Final = ">>> "
_SEPARATOR: Final = "\n---\n"


@dataclass(frozen=True)
class Shown:
    """A command that the README shows, and its output there."""

    command: str
    output: str

    @property
    def typed(self) -> Sequence[str]:
        """What is typed at the prompt of a chat."""
        lines = self.output.splitlines()
        return [line.removeprefix(_TYPED) for line in lines if line.startswith(_TYPED)]

    @property
    def draws_text(self) -> bool:
        """Whether its output is a text that was drawn, and nothing else."""
        return "--json " not in f"{self.command} " and bool(
            re.search(r"gpt2 (generate|chat)|--format text", self.command)
        )

    def __str__(self) -> str:
        """Return what a test of it is called."""
        return self.command


def find_blocks(readme: str) -> Iterator[Sequence[Shown]]:
    """Yield the blocks of text that show commands, each after a dollar; `>` goes on with one."""
    for block in re.findall(r"^```text\n(.*?)^```$", readme, flags=re.M | re.S):
        parts = re.split(r"^\$ ", re.sub(r"\\\n> +", "", block), flags=re.M)
        if parts[0] == "" and "-m starter" in block:
            yield [Shown(*part.partition("\n")[::2]) for part in parts[1:]]


_BLOCKS: Final = list(find_blocks(_README))


@pytest.mark.parametrize("block", _BLOCKS, ids=lambda block: " ".join(block[0].command.split()[:9]))
def test_a_commands_output_is_what_the_readme_shows(
    block: Sequence[Shown], program: Program, tmp_path: pathlib.Path
) -> None:
    """In a folder with the files that the block shows by `cat`."""
    for shown in block:
        if shown.command.startswith("cat ") and "|" not in shown.command:
            (tmp_path / shown.command.removeprefix("cat ")).write_text(shown.output, "utf-8")
            continue
        skip_without(shown, tmp_path)
        real = run(shown, program, tmp_path)
        assert real.code == 0, real.out.decode()
        compare(shown, real.out.decode())


def test_there_are_commands_to_run() -> None:
    """Else nothing here would be tested."""
    assert len(_BLOCKS) > 2


def skip_without(shown: Shown, folder: pathlib.Path) -> None:
    """Skip a command for which a program or a file is missing."""
    for tool in _TOOLS:
        if re.search(rf"\b{tool}\b", shown.command) and shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    written = re.findall(r"(?:-o|>) *(\S+)", shown.command)
    for name in re.findall(r"(?<!\S)[\w./-]+\.(?:txt|jsonl|json)\b", shown.command):
        if name not in written and not (folder / name).exists():
            pytest.skip(f"there is no {name}")


def run(shown: Shown, program: Program, folder: pathlib.Path) -> Finished:
    """Run a command in a folder as a person's shell would; both streams come in one.

    What the README shows as typed in a chat comes from stdin.
    """
    path = f"{program.path.parent}{os.pathsep}{os.environ['PATH']}"
    (folder / "typed").write_text("".join(f"{line}\n" for line in shown.typed), encoding="utf-8")
    line = f"cd {str(folder)!r} && {{ {shown.command} ; }} <typed 2>&1"
    return program.run_shell(line, environment={"PATH": path})


def compare(shown: Shown, real: str) -> None:
    """Fail unless the real output has the form, and what is not drawn, of the one shown."""
    if shown.typed:
        compare_talk(shown, real)
    elif shown.draws_text:
        compare_samples(shown, real)
    else:
        lines = (real.splitlines(), shown.output.splitlines())
        assert [describe(line) for line in lines[0]] == [describe(line) for line in lines[1]]


def compare_talk(shown: Shown, real: str) -> None:
    """Fail unless each thing that was said stands where it is shown again, as by /context."""
    for line in shown.output.splitlines():
        if line.endswith(tuple(shown.typed)) and not line.startswith(_TYPED):
            assert line in real.splitlines()


def compare_samples(shown: Shown, real: str) -> None:
    """Fail unless there are as many samples, each with the prompt if it is shown."""
    samples = real.split(_SEPARATOR)
    assert len(samples) == len(shown.output.split(_SEPARATOR))
    prompt = re.search(r'gpt2 \w+(?: -m starter)? "([^"]*)"', shown.command)
    echoed = prompt[1] if prompt and shown.output.startswith(prompt[1]) else ""
    assert all(sample.startswith(echoed) and sample.strip() for sample in samples)
    assert not real.startswith("gpt2: ")


def describe(line: str) -> Any:
    """Return what a line holds that is the same on every machine."""
    if not line.startswith("{"):
        return re.sub(r"\d+(\.\d+)?", "0", line)
    record = json.loads(line)
    drawn = {name: type(record[name]).__name__ for name in _DRAWN if name in record}
    return list(record), without_rounding(record | drawn)


def without_rounding(value: Any) -> Any:
    """Return a record without its computed numbers, whose last digits depend on the CPU."""
    if isinstance(value, dict):
        return {name: without_rounding(own) for name, own in value.items()}
    if isinstance(value, list):
        return [without_rounding(own) for own in value]
    return "a number" if isinstance(value, float) else value
