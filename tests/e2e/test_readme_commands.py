"""Runs the README's fenced blocks and holds what they show of the output against the real one.

To the letter on the kind of CPU that the README was written on. Another kind may draw another text:
there the form is compared, and what was not drawn.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.checkpoints import write_adapter
from tests.e2e.conftest import make_environment
from tests.e2e.program import Finished, Program
from tests.model_folders import SMALL_SHAPE, ModelFolders

_ROOT: Final = pathlib.Path(__file__).parents[2]
_README: Final = (_ROOT / "README.md").read_text(encoding="utf-8")
_DRAWN: Final = ("completion", "completion_tokens", "finish_reason", "stop_sequence", "logprobs")
_TYPED: Final = ">>> "
_SEPARATOR: Final = "\n---\n"

# Blocks that are not run, by their first word, and why. The installing part of the first two needs
# the network; a test below runs the command that comes after it.
_NOT_RUN: Final = {
    "python3": "installs from the network",
    "checkpoint": "a picture",
    "ray": "needs several machines; tests/interop/cluster_faults.py has a cluster",
    "0": "a line for cron; its command is run below",
    "#!/bin/bash": "a script for Slurm; it is run below",
    "from": "needs Optimum or openai; scripts in tests/interop run it",
    "curl": "asks a server; test_serve.py runs it",
    "gpt2": "the same",
    "import": "needs onnxruntime-genai or transformers.js, the same; our own is run below",
}

# A text and its log-probability by the starter in fp32, computed on the README's kind of CPU.
_PROBE: Final = "Once upon"
_LOGPROB: Final = -0.5281933530882448


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
        """Whether its output is a text that was drawn, and no whole records."""
        return "--json " not in f"{self.command} " and bool(
            re.search(r"gpt2 (generate|chat|replay)|--format text|jq ", self.command)
        )

    @property
    def tool(self) -> str:
        """A program that it needs and that is not installed here; else an empty text."""
        words = re.findall(r"(?:^|\| )(\w+)", self.command)
        return next((word for word in words if word != "gpt2" and not shutil.which(word)), "")


def find_blocks(readme: str) -> Iterator[str]:
    """Yield the fenced blocks; one that goes on with a chat is part of the chat's."""
    blocks: list[str] = []
    for block in re.findall(r"^```\w+\n(.*?)^```$", readme, flags=re.M | re.S):
        if block.startswith(_TYPED):
            chat = next(n for n, earlier in enumerate(blocks) if "gpt2 chat" in earlier)
            blocks[chat] += f"\n{block}"
        else:
            blocks.append(block)
    yield from blocks


def find_commands(block: str) -> Iterator[Shown]:
    """Yield what is typed after a dollar, with its output; `>` goes on with a command."""
    parts = re.split(r"^\$ ", re.sub(r"\\\n> +", "", block), flags=re.M)
    assert parts[0] == "", f"a block begins with neither $ nor a known word: {block}"
    for part in parts[1:]:
        command, _, output = part.partition("\n")
        yield Shown(command, output)


_BLOCKS: Final = list(find_blocks(_README))
_RUN: Final = [list(find_commands(b)) for b in _BLOCKS if b.split()[0] not in _NOT_RUN]


@pytest.fixture(scope="module")
def reader(
    program: Program, model_folders: ModelFolders, tmp_path_factory: pytest.TempPathFactory
) -> Program:
    """Return the program for a reader who has the starter, and a small model as `gpt2`.

    Of the models that are not the starter the README shows no text.
    """
    home = tmp_path_factory.mktemp("reader")
    path = program.path
    environment = {
        **make_environment(home),
        "HOME": str(home),
        "GPT2_DEVICE": "cpu",
        "PATH": f"{path.parent}{os.pathsep}{os.environ['PATH']}",
    }
    shutil.copytree(program.environment["XDG_CACHE_HOME"], environment["XDG_CACHE_HOME"])
    commit = "0" * 40
    cached = home / "hub" / "hub" / "models--openai-community--gpt2"
    shutil.copytree(model_folders.checkpoint(), cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit, encoding="utf-8")
    return Program(path, environment)


@pytest.fixture(scope="module")
def exact(reader: Program) -> bool:
    """Tell whether this CPU computes what the README's did, to the last bit."""
    record = json.loads(reader.run("score", "-m", "starter", _PROBE, "--json").out)
    assert record["total_logprob"] == pytest.approx(_LOGPROB, abs=1e-3)
    return record["total_logprob"] == _LOGPROB


@pytest.fixture
def folder(tmp_path: pathlib.Path, model_folders: ModelFolders) -> pathlib.Path:
    """Return a folder with the files that the README's commands name."""
    (tmp_path / "prompts.txt").write_text("Once upon\nThe little fox\n", encoding="utf-8")
    (tmp_path / "story.txt").write_text("There was a fox.\n", encoding="utf-8")
    shutil.copytree(model_folders.checkpoint(), tmp_path / "checkpoint")
    write_adapter(tmp_path / "adapter", n_embd=SMALL_SHAPE.n_embd)
    return tmp_path


@pytest.mark.parametrize("block", _RUN, ids=lambda block: " ".join(block[0].command.split()[:9]))
def test_a_commands_output_is_what_the_readme_shows(
    block: Sequence[Shown], reader: Program, exact: bool, folder: pathlib.Path
) -> None:
    """Of each command; those whose tools are not installed are left out."""
    missing = {shown.tool for shown in block} - {""}
    for shown in block:
        if shown.command.startswith("cat ") and "|" not in shown.command:
            (folder / shown.command.removeprefix("cat ")).write_text(shown.output, "utf-8")
        elif not shown.tool:
            real = run(shown, reader, folder)
            assert real.code == 0, real.out.decode()
            compare(shown, real.out.decode(), exact=exact)
    if missing:
        pytest.skip(f"ran, but for what needs {', '.join(missing)}")


def test_every_block_is_run_or_has_a_reason_not_to_be() -> None:
    """Else a block that nothing holds could come in unseen."""
    not_run = [block.split()[0] for block in _BLOCKS if block.split()[0] in _NOT_RUN]
    others = [
        "#!/bin/bash",
        "0",
        "checkpoint",
        "curl",
        "from",
        "from",
        "gpt2",
        "import",
        "import",
        "import",
    ]
    others += ["python3", "python3", "ray"]
    assert sorted(not_run) == others
    assert len(_RUN) >= 12


def test_the_first_command_tells_a_story_without_the_network(
    program: Program, reader: Program, tmp_path: pathlib.Path
) -> None:
    """By the starter, as the README says."""
    last = _BLOCKS[0].split(" && ")[-1].strip()
    assert last.startswith(".venv/bin/gpt2 ")
    newcomer = {
        **reader.environment,
        **make_environment(tmp_path),
        "XDG_CACHE_HOME": program.environment["XDG_CACHE_HOME"],
        "PATH": reader.environment["PATH"],
    }
    done = Program(reader.path, newcomer).run_shell(last.removeprefix(".venv/bin/"))
    assert done.code == 0
    assert done.out.startswith(b"Once upon")
    assert "the bundled starter model" in done.err


def test_the_lines_for_python_run(reader: Program) -> None:
    """With the text that the command line writes by the same seed."""
    lines = next(block for block in _BLOCKS if block.startswith("import gpt2cli"))
    options = ("-m", "starter", "--no-echo", "-q", "--seed", "6", "-n", "12")
    shell = reader.run("generate", *options, "Once upon")
    done = reader.run_python("-c", lines)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(shell.out)
    assert done.out.count(b" length ") == 2
    assert float(done.out.split(b"\n")[-2]) > 1


def test_the_line_for_cron_runs(reader: Program) -> None:
    """After the five fields that say when."""
    home = pathlib.Path(reader.environment["HOME"])
    (home / ".local" / "bin").mkdir(parents=True)
    (home / ".local" / "bin" / "gpt2").symlink_to(reader.path)
    line = next(block for block in _BLOCKS if block.startswith("0 "))
    done = reader.run_shell(line.split(maxsplit=5)[5])
    assert (done.code, done.out, done.err) == (0, b"", "")
    assert (home / "morning.txt").read_text(encoding="utf-8").startswith("Good morning")


def test_the_script_for_slurm_runs_its_shards_and_goes_on_with_them(
    reader: Program, folder: pathlib.Path
) -> None:
    """By the variables that Slurm sets."""
    script = next(block for block in _BLOCKS if block.startswith("#!/bin/bash"))
    (folder / "prompts.jsonl").write_text('{"prompt": "Once upon", "max_new_tokens": 2}\n' * 33)
    for _ in range(2):
        for number in "12":
            task = {"SLURM_ARRAY_TASK_ID": number, "SLURM_ARRAY_TASK_COUNT": "2"}
            environment = {**task, "SLURM_CPUS_PER_TASK": "1"}
            done = reader.run_shell(f"cd {folder}\n{script}", environment=environment)
            assert (done.code, done.err) == (0, "")
        merged = reader.run_shell(f"cd {folder}; gpt2 batch --merge part*.jsonl")
        assert merged.out.count(b"\n") == 33
        os.truncate(folder / "part1.jsonl", 1000)


def run(shown: Shown, reader: Program, folder: pathlib.Path) -> Finished:
    """Run a command in a folder as a person's shell would; both streams come in one.

    What the README shows as typed in a chat comes from stdin.
    """
    (folder / "typed").write_text("".join(f"{line}\n" for line in shown.typed), encoding="utf-8")
    line = f"set -o pipefail; {{ {shown.command} ; }} <typed 2>&1"
    line = f"cd {shlex.quote(str(folder))} && bash -c {shlex.quote(line)}"
    return reader.run_shell(line, environment={"XDG_CONFIG_HOME": str(folder / "config")})


def compare(shown: Shown, real: str, *, exact: bool) -> None:
    """Fail unless the real output is the one shown; if not `exact`, in its form."""
    if not shown.output:  # the README shows the command only
        assert real or "-o" in shown.command
    elif exact:
        assert list(comparable(real)) == list(comparable(shown.output))
    elif shown.typed:
        compare_talk(shown, real)
    elif shown.draws_text:
        compare_samples(shown, real)
    else:
        lines = (real.splitlines(), shown.output.splitlines())
        assert [describe(line) for line in lines[0]] == [describe(line) for line in lines[1]]


def comparable(output: str) -> Iterator[str]:
    """Yield its lines without times, versions, and what only a first use or a terminal shows."""
    for line in output.splitlines():
        if line.startswith("gpt2: exporting "):
            continue
        if line and not line.startswith(_TYPED) and not line.endswith("Ctrl-D leaves"):
            line = re.sub(r"in [\d.]+ s \([\d.]+ tokens/s\)", "in a time", line)
            yield re.sub(r'"versions": {[^}]+}', '"versions": {}', line)


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
