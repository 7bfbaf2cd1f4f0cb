"""Ctrl-C at every stage: 130, no traceback, and what was made so far."""

import fcntl
import json
import os
import pathlib
import signal
import sys
import termios
import time
from typing import Final

import pytest

from tests.e2e.program import (
    HANGS_AFTER,
    Finished,
    Program,
    finish,
    open_when_read,
    press_ctrl_c,
    read_until,
)

_LONG: Final = (
    *("generate", "--model", "starter", "--seed", "5", "--ignore-eos", "--quiet"),
    *("--max-new-tokens", "80", "Once"),
)
_ENDLESS: Final = (*_LONG, "--overflow", "slide", "--max-new-tokens", "100000")
_PRESS_IN_IMPORT: Final = """
import signal, sys
from gpt2cli.__main__ import main

class Finder:
    def find_spec(self, name, path, target=None):
        if name == "onnxruntime.capi.onnxruntime_pybind11_state":
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                raise ImportError("initialization failed")  # as that module does within

sys.meta_path.insert(0, Finder())
sys.argv = ["gpt2", "generate", "-m", "starter", "-n", "400", "--ignore-eos", "--json", "x"]
main()
"""
_MOST_SLOTS: Final = 8  # samples that run side by side


def test_before_the_model_is_loaded(program: Program, tmp_path: pathlib.Path) -> None:
    """Here while the prompt is read: nothing is written at all."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with (
        program.start("generate", "-m", "starter", "--file", str(fifo)) as process,
        open_when_read(fifo, process.pid),
    ):
        press_ctrl_c(process)
        assert finish(process) == Finished(130, b"", "")


def test_while_an_extension_module_is_imported(program: Program) -> None:
    """Cut short, onnxruntime's takes Ctrl-C for a damaged library, so it is not cut short."""
    done = program.run_python("-c", _PRESS_IN_IMPORT)
    assert (done.code, done.err) == (130, "")


def test_while_text_streams_what_was_made_stays_and_the_line_is_finished(
    program: Program,
) -> None:
    """The output is the beginning of the uninterrupted run's, and a newline."""
    whole = program.run(*_LONG)
    with program.start(*_ENDLESS) as process:
        begun = read_until(process.stdout, b" ")
        press_ctrl_c(process)
        done = finish(process)
    shown = begun + done.out
    assert (done.code, done.err) == (130, "")
    assert shown.endswith(b"\n")
    both = min(len(shown), len(whole.out)) - len(b"\n")
    assert both > 0
    assert shown[:both] == whole.out[:both]


def test_with_json_the_unfinished_samples_are_recorded_and_no_other_begins(
    program: Program,
) -> None:
    """Samples that were done have their own reason, those that ran are `interrupted`."""
    arguments = ("-m", "starter", "--seed", "5", "-n", "200", "-N", "5000", "--json", "Once")
    with program.start("generate", *arguments) as process:
        begun = read_until(process.stdout, b"\n")  # the others have other lengths, and go on
        press_ctrl_c(process)
        done = finish(process)
    records = [json.loads(line) for line in (begun + done.out).splitlines()]
    reasons = [record["finish_reason"] for record in records]
    assert (done.code, done.err) == (130, "")
    assert [record["sample"] for record in records] == list(range(len(records)))
    assert set(reasons) <= {"stop", "length", "interrupted"}
    assert reasons[0] != "interrupted"
    assert 1 <= reasons.count("interrupted") <= _MOST_SLOTS
    assert all(
        record["completion_tokens"] < 200
        for record in records
        if record["finish_reason"] == "interrupted"
    )


def test_a_result_file_has_what_was_made(program: Program, tmp_path: pathlib.Path) -> None:
    """Whole records; nothing is left beside the file."""
    file = tmp_path / "out.jsonl"
    file.write_text("old")
    samples = ("--samples", "5000", "-n", "4", "--no-quiet", "--json")
    with program.start(*_LONG, *samples, "-o", str(file)) as process:
        wait_for_bytes(tmp_path, len("old") + 1)
        press_ctrl_c(process)
        done = finish(process)
    assert (done.code, done.out) == (130, b"")
    assert done.err == f"gpt2: interrupted; what was made so far is in {file}\n"
    reasons = [json.loads(line)["finish_reason"] for line in file.read_text().splitlines()]
    assert reasons[0] == "length"
    assert len(reasons) < 5000
    assert set(reasons) <= {"length", "interrupted"}
    assert list(tmp_path.iterdir()) == [file]


def test_lines_that_were_scored_stay_and_are_whole(
    program: Program, tmp_path: pathlib.Path
) -> None:
    """In a pipe at once, in a file to go on with."""
    file, out = tmp_path / "lines", tmp_path / "out"
    file.write_text("x\n" * 300_000)
    command = ("score", "--model", "starter", "--lines", "--file", str(file))
    with program.start(*command) as process:
        begun = read_until(process.stdout, b"\n")
        press_ctrl_c(process)
        done = finish(process)
    shown = begun + done.out
    assert (done.code, done.err) == (130, "")
    assert shown == begun * shown.count(b"\n")
    with program.start(*command, "--output", str(out)) as process:
        wait_for_bytes(tmp_path, file.stat().st_size + 10_000)
        press_ctrl_c(process)
        done = finish(process)
    lines = out.read_bytes().count(b"\n")
    told = f"interrupted after {lines} records; --resume continues from there"
    assert done == Finished(130, b"", f"gpt2: {told}\n")
    assert out.read_bytes() == begun * lines


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_who_is_told_to_end_leaves_nothing_half_written_either(
    program: Program, tmp_path: pathlib.Path, ending: signal.Signals
) -> None:
    """As by `timeout`, systemd, or a terminal that is closed."""
    with program.start(*_ENDLESS, "-o", str(tmp_path / "out.txt")) as process:
        wait_for_bytes(tmp_path, 1)
        process.send_signal(ending)
        assert finish(process) == Finished(128 + ending, b"", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_who_is_told_to_end_does_not_wait_for_a_reader(
    program: Program, ending: signal.Signals
) -> None:
    """What a full pipe does not take is lost; the first Ctrl-C waits, another one for nobody."""
    reader, writer = os.pipe()
    arguments = (*_LONG, "--samples", "1000", "--separator", "-" * 1000, "-n", "1")
    with program.start(*arguments, stdout=writer) as process:
        os.close(writer)
        wait_until_stuck(reader)
        process.send_signal(ending)
        while ending == signal.SIGINT and process.poll() is None:
            time.sleep(0.1)  # two that come at once are one
            process.send_signal(ending)
        assert finish(process) == Finished(128 + ending, b"", "")
    os.close(reader)


def test_a_program_that_was_started_to_ignore_it_goes_on(program: Program) -> None:
    """As a shell's background jobs are."""
    line = 'trap "" INT; exec "$GPT2" generate -m starter -n 100 --ignore-eos -q --seed 1 x'
    with program.start_shell(line) as process:
        begun = read_until(process.stdout, b" ")
        press_ctrl_c(process)
        done = finish(process)
    whole = program.run_shell(line)
    assert (done.code, done.err, begun + done.out) == (0, "", whole.out)


def wait_for_bytes(folder: pathlib.Path, count: int) -> None:
    """Wait until the files of a folder have so many bytes."""
    deadline = time.monotonic() + HANGS_AFTER
    while sum(path.stat().st_size for path in folder.iterdir()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_until_stuck(pipe: int) -> None:
    """Wait until the writer of a pipe that nobody reads has filled it."""
    deadline = time.monotonic() + HANGS_AFTER
    waiting, before = 0, -1
    while waiting == 0 or waiting != before:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        count = bytearray(4)
        fcntl.ioctl(pipe, termios.FIONREAD, count)
        waiting, before = int.from_bytes(count, sys.byteorder), waiting
