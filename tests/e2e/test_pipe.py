"""What the program writes where no terminal is: the result alone, as UTF-8, whatever happens."""

import json
import os
import pathlib
import stat
from importlib import metadata
from typing import Final

import pytest

from tests.e2e.program import Finished, Program, posix

_STARTER: Final = ("generate", "--model", "starter")
_GREEDY: Final = (*_STARTER, "--greedy", "--max-new-tokens", "5", "--quiet")
_KEYS: Final = [
    *("index", "prompt", "completion", "finish_reason", "stop_sequence", "prompt_tokens"),
    *("completion_tokens", "sample", "seed", "options", "model", "revision", "precision", "device"),
    *("fingerprint", "versions"),
]
_LETTERS: Final = "é 日本 👩‍🚀"
_ASCII_ARGUMENTS: Final = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
_HOSTILE: Final = "[/red] [bold]x \x1b[31mé\x9b1m\x07\u202eb\ta"


@pytest.fixture(scope="module")
def greedy(program: Program) -> Finished:
    """Return a short greedy run that others are compared with, where Python would warn."""
    environment = {"PYTHONWARNINGS": "default"}
    return program.run(*_GREEDY, "Once upon a time", environment=environment)


def test_stdout_is_the_prompt_the_completion_and_one_newline(greedy: Finished) -> None:
    """Nothing before, between or after, nor on stderr."""
    assert (greedy.code, greedy.err) == (0, "")
    assert greedy.out.startswith(b"Once upon a time")
    assert greedy.out.endswith(b"\n")
    assert greedy.out.count(b"\n") == 1


@pytest.mark.parametrize(
    ("arguments", "environment", "out"),
    [
        ([_HOSTILE], {}, f"{_HOSTILE}\n"),
        ([_LETTERS], {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}, f"{_LETTERS}\n"),
        ([_LETTERS], _ASCII_ARGUMENTS, f"{_LETTERS}\n"),
        # The separator is a line of its own, in which \n, \t and \\ are understood.
        (["-N", "3", "--separator", r"=\n\t\\n", "x"], {}, "x\n=\n\t\\n\nx\n=\n\t\\n\nx\n"),
    ],
    ids=["hostile", "ascii streams", "ascii arguments", "separator"],
)
def test_a_pipe_gets_text_byte_for_byte(
    program: Program, arguments: list[str], environment: dict[str, str], out: str
) -> None:
    """Markup, escapes and bidi controls pass through; it is UTF-8 whatever the locale."""
    done = program.run(*_GREEDY, "-n", "0", *arguments, environment=environment)
    assert done == Finished(0, out.encode(), "")


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


def test_the_same_seed_gives_the_same_samples_whatever_the_threads_and_their_number(
    program: Program,
) -> None:
    """Two samples are the first two of ten, which do not all fit into the engine at once."""
    same = (*_STARTER, "--seed", "11", "-n", "40", "-q", "The old man")
    options = (["-N", "2", "--threads", "2"], ["-N", "10", "--threads", "1"])
    two, ten = (program.run(*same, *more).out.removesuffix(b"\n") for more in options)
    assert ten.split(b"\n---\n")[:2] == two.split(b"\n---\n")


def test_stats_and_records_tell_the_seed_that_gives_the_text_again(program: Program) -> None:
    """The random seed of one run, typed again, is that run; stats and record name the same one."""
    first = program.run(*_STARTER, "--stats", "--json", "-n", "20", "The old man")
    record = json.loads(first.out)
    assert f"seed {record['seed']}" in first.err.splitlines()
    again = program.run(
        *_STARTER, "--seed", str(record["seed"]), "-n", "20", "--no-echo", "-q", "The old man"
    )
    assert again.out.decode() == record["completion"] + "\n"


def test_the_starter_stands_in_for_a_default_out_of_reach_and_says_so(
    fresh_program: Program,
) -> None:
    """One note says why, one tells of the export at first use; later starts have only the first.

    Nobody but us keeps anything on the disk: ONNX Runtime would keep a device's id and reports.
    """
    first = fresh_program.run("generate", "-n", "1", "--json", "x")
    second = fresh_program.run("generate", "-n", "0", "x")
    note, export_note = first.err.splitlines()
    assert note.startswith("gpt2: using the bundled starter model")
    assert "openai-community/gpt2" in note
    assert "exporting starter" in export_note
    assert second.err.splitlines() == [note]
    assert (first.code, second.code) == (0, 0)
    assert json.loads(first.out)["model"] == "starter"
    cache = pathlib.Path(fresh_program.environment["XDG_CACHE_HOME"])
    assert [path.name for path in cache.iterdir()] == ["gpt2"]


def test_a_model_that_is_named_is_never_replaced(program: Program) -> None:
    """`--model gpt2` out of reach is an error of one line that says what to do."""
    done = program.run("generate", "--model", "gpt2", "x")
    assert (done.code, done.out, done.err.count("\n")) == (1, b"", 1)
    assert done.err.startswith("gpt2: error: openai-community/gpt2")
    assert "run once without HF_HUB_OFFLINE" in done.err


def test_version_is_the_packages(program: Program) -> None:
    """One line on stdout; `python -m gpt2cli` is the same program."""
    done = Finished(0, f"{metadata.version('gpt2')}\n".encode(), "")
    assert program.run("--version") == program.run_python("-m", "gpt2cli", "--version") == done


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
