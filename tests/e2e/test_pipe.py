"""What the program writes where no terminal is: the result alone, as UTF-8, whatever happens."""

import json
import os
import pathlib
import stat
import sys
from importlib import metadata
from typing import Final

import pytest

from tests.e2e.program import Finished, Program

_STARTER: Final = ("generate", "--model", "starter")
_GREEDY: Final = (*_STARTER, "--greedy", "--max-new-tokens", "5", "--quiet")
_KEYS: Final = [
    *("index", "prompt", "completion", "finish_reason", "stop_sequence", "prompt_tokens"),
    *("completion_tokens", "sample", "seed", "model", "revision", "precision", "device"),
]
_HOSTILE: Final = "[/red] [bold]x \x1b[31mé\x9b1m\x07\u202eb\ta"

posix = pytest.mark.skipif(sys.platform == "win32", reason="a shell, FIFOs and /dev")


@pytest.fixture(scope="module")
def greedy(program: Program) -> Finished:
    """Return a short greedy run that others are compared with."""
    return program.run(*_GREEDY, "Once upon a time")


def test_stdout_is_the_prompt_the_completion_and_one_newline(greedy: Finished) -> None:
    """Nothing before, between or after; with --quiet stderr is empty."""
    assert greedy.code == 0
    assert greedy.out.startswith(b"Once upon a time")
    assert greedy.out.count(b"\n") == 1
    assert greedy.out.endswith(b"\n")
    assert greedy.err == ""


def test_no_echo_leaves_the_completion_alone(program: Program, greedy: Finished) -> None:
    """What is left is exactly what stood after the prompt."""
    done = program.run(*_GREEDY, "--no-echo", "Once upon a time")
    assert done.out == greedy.out.removeprefix(b"Once upon a time")


def test_nobody_but_us_keeps_anything_on_the_users_disk(fresh_program: Program) -> None:
    """ONNX Runtime would keep a device's id and a database of what it is to report."""
    assert fresh_program.run(*_STARTER, "-n", "1", "x").code == 0
    cache = pathlib.Path(fresh_program.environment["XDG_CACHE_HOME"])
    assert [path.name for path in cache.iterdir()] == ["gpt2"]


def test_a_pipe_gets_the_prompt_byte_for_byte(program: Program) -> None:
    """Markup, escape sequences, a bell and bidi controls pass through; none is added."""
    done = program.run(*_GREEDY, "-n", "0", _HOSTILE)
    assert done.out == _HOSTILE.encode() + b"\n"


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["ascii streams", "ascii arguments"],
)
def test_text_is_utf8_whatever_the_locale(program: Program, environment: dict[str, str]) -> None:
    """Neither an ASCII locale nor Python's own variables change what comes in or goes out."""
    done = program.run(*_GREEDY, "-n", "0", "é 日本 👩‍🚀", environment=environment)
    assert done.out == "é 日本 👩‍🚀\n".encode()
    assert done.code == 0


def test_json_is_one_record_per_line_with_the_keys_of_the_contract(program: Program) -> None:
    """In the contract's order, in UTF-8, and with an end that is the text's end too."""
    done = program.run(*_STARTER, "-n", "3", "-N", "2", "--json", "--seed", "7", "é\n")
    lines = done.out.decode().splitlines()
    records = [json.loads(line) for line in lines]
    assert [list(record) for record in records] == [_KEYS, _KEYS]
    assert [record["sample"] for record in records] == [0, 1]
    assert {"prompt": "é\n", "seed": 7, "model": "starter", "index": 0}.items() <= records[
        1
    ].items()
    assert '"é\\n"' in lines[0]
    assert done.err == ""


def test_samples_stand_apart_by_the_separator(program: Program) -> None:
    r"""--separator is a line of its own; \n and \t in it are understood, \\ is a backslash."""
    done = program.run(*_GREEDY, "-n", "0", "-N", "3", "--separator", r"=\n\t\\n", "x")
    assert done.out == b"x\n=\n\t\\n\nx\n=\n\t\\n\nx\n"


def test_a_result_file_replaces_what_was_there_and_keeps_its_mode(
    program: Program, tmp_path: pathlib.Path, greedy: Finished
) -> None:
    """Nothing goes to stdout, and nothing else is left in the folder."""
    file = tmp_path / "out.txt"
    file.write_text("old")
    file.chmod(0o640)
    done = program.run(*_GREEDY, "-o", str(file), "Once upon a time")
    assert (done.code, done.out, done.err) == (0, b"", "")
    assert file.read_bytes() == greedy.out
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


@posix
def test_closed_stdout_is_a_failure_of_one_line(program: Program) -> None:
    """`>&-` leaves nowhere to write to."""
    done = program.run_shell('"$GPT2" generate -m starter -n 1 x >&-')
    assert (done.code, done.err) == (1, "gpt2: error: cannot write the result: stdout is closed\n")


@posix
def test_no_file_takes_the_place_of_a_closed_stream(
    program: Program, tmp_path: pathlib.Path
) -> None:
    """What a library writes to stderr must not land in a file that was opened meanwhile."""
    code = (
        "import os, sys\n"
        "from gpt2cli.__main__ import fill_closed_streams\n"
        "fill_closed_streams()\n"
        "sys.stderr.write('lost')\n"
        "os.write(2, b'lost')\n"
        "with open(sys.argv[1], 'w') as file:\n"
        "    print(file.fileno() > 2, file=file)\n"
    )
    file = tmp_path / "out.txt"
    line = '"$(dirname "$GPT2")/python" -c "$CODE" "$FILE" <&- >&- 2>&-'
    assert program.run_shell(line, environment={"CODE": code, "FILE": str(file)}).code == 0
    assert file.read_text() == "True\n"


@posix
def test_a_result_file_needs_no_standard_streams(program: Program, tmp_path: pathlib.Path) -> None:
    """With all three closed, none of the files opened meanwhile is taken for one of them."""
    file = tmp_path / "out.txt"
    line = '"$GPT2" generate -m starter -n 0 x -o "$FILE" <&- >&- 2>&-'
    assert program.run_shell(line, environment={"FILE": str(file)}).code == 0
    assert file.read_bytes() == b"x\n"


def test_the_same_seed_gives_the_same_bytes_whatever_the_threads(program: Program) -> None:
    """Three processes, one of them on a single thread."""
    same = (*_STARTER, "--seed", "11", "-n", "40", "-q", "The old man")
    first, again, single = (program.run(*same, *more) for more in ([], [], ["--threads", "1"]))
    assert first.out == again.out == single.out


def test_stats_and_records_tell_the_seed_that_gives_the_text_again(program: Program) -> None:
    """The random seed of one run, typed again, is that run; stats and record name the same one."""
    first = program.run(*_STARTER, "--stats", "--json", "-n", "20", "The old man")
    record = json.loads(first.out)
    assert f"seed {record['seed']}" in first.err.splitlines()
    again = program.run(
        *_STARTER, "--seed", str(record["seed"]), "-n", "20", "--no-echo", "-q", "The old man"
    )
    assert again.out.decode() == record["completion"] + "\n"


def test_a_sample_does_not_depend_on_how_many_there_are(program: Program) -> None:
    """Two samples are the first two of ten, which do not all fit into the engine at once."""
    two, ten = (
        program.run(*_STARTER, "--seed", "3", "-n", "12", "-q", "-N", samples, "The old man")
        for samples in ("2", "10")
    )
    assert ten.out.removesuffix(b"\n").split(b"\n---\n")[:2] == two.out.removesuffix(b"\n").split(
        b"\n---\n"
    )


def test_the_starter_stands_in_for_a_default_out_of_reach_and_says_so(
    fresh_program: Program,
) -> None:
    """One note says why, one tells of the export at first use; later starts have only the first."""
    first = fresh_program.run("generate", "-n", "1", "--json", "x")
    second = fresh_program.run("generate", "-n", "1", "x")
    note, export_note = first.err.splitlines()
    assert note.startswith("gpt2: using the bundled starter model")
    assert "openai-community/gpt2" in note
    assert "exporting starter" in export_note
    assert second.err.splitlines() == [note]
    assert (first.code, second.code) == (0, 0)
    assert json.loads(first.out)["model"] == "starter"


def test_quiet_hides_the_note(program: Program) -> None:
    """The starter runs as it would, silently."""
    done = program.run("generate", "-n", "0", "-q", "x")
    assert done == Finished(0, b"x\n", "")


def test_a_model_that_is_named_is_never_replaced(program: Program) -> None:
    """`--model gpt2` out of reach is an error of one line that says what to do."""
    done = program.run("generate", "--model", "gpt2", "x")
    assert (done.code, done.out) == (1, b"")
    assert done.err.startswith("gpt2: error: openai-community/gpt2")
    assert "run once without HF_HUB_OFFLINE" in done.err
    assert done.err.count("\n") == 1


def test_version_is_the_packages(program: Program) -> None:
    """One line on stdout."""
    done = program.run("--version")
    assert done == Finished(0, f"{metadata.version('gpt2')}\n".encode(), "")


def test_a_warning_free_run(program: Program) -> None:
    """Not even Python's own warnings, which others would see with -W, come from a run."""
    done = program.run(*_STARTER, "-n", "1", "x", environment={"PYTHONWARNINGS": "default"})
    assert done.err == ""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux binds processes")
def test_a_single_core_is_no_reason_to_warn(program: Program, greedy: Finished) -> None:
    """As under `taskset -c 0`: ONNX Runtime says nothing of threads that it cannot bind."""
    arguments = ["gpt2", *_STARTER, "--greedy", "-n", "5", "Once upon a time"]
    done = program.run_python(
        "-c",
        "import os, sys\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from gpt2cli.__main__ import main\n"
        f"sys.argv = {arguments!r}\n"
        "main()\n",
    )
    assert done == greedy


def test_python_m_is_the_same_program(program: Program) -> None:
    """`python -m gpt2cli` answers as `gpt2` does."""
    done = program.run_python("-m", "gpt2cli", "--version")
    assert done == program.run("--version")
