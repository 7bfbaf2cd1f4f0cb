"""Runs the program in forked children: its modules are loaded once."""

import atexit
import contextlib
import os
import resource
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from gpt2cli.__main__ import main

HANGS_AFTER: Final = 100.0  # seconds, on a machine that does other things as well
_ADDRESSES: Final = 16 << 30  # bytes; only so that the machine survives what is found
_MOST_IN_PIPE: Final = 60_000  # bytes


@dataclass(frozen=True)
class Outcome:
    """How a run ended, what it wrote, and what it took."""

    code: int
    out: bytes
    err: str
    megabytes: int


def run_child(
    arguments: Sequence[bytes],
    environment: Mapping[str, str],
    home: Path,
    *,
    stdin: bytes,
    out: str,
    after: Callable[[int], None],
) -> Outcome:
    """Run the program to its end in `home`/work; `after` is told its id once it has begun.

    `out` is what stdout is: a file's name, "closed pipe", or nothing for what the outcome has.
    """
    with contextlib.ExitStack() as opened:
        streams = _open_streams(home, stdin, out)
        for descriptor in streams:
            opened.callback(os.close, descriptor)
        child = os.fork()
        if child == 0:
            _become_program(arguments, environment, home, streams)
        code, megabytes = _wait(child, after)
    error = (home / "err").read_bytes().decode("utf-8", "replace")
    return Outcome(code, (home / "out").read_bytes(), error, megabytes)


def _open_streams(home: Path, stdin: bytes, out: str) -> list[int]:
    """Return the descriptors of stdin, stdout and stderr of a child."""
    if len(stdin) < _MOST_IN_PIPE:
        read, write = os.pipe()
        os.write(write, stdin)
        os.close(write)
    else:
        (home / "in").write_bytes(stdin)
        read = os.open(home / "in", os.O_RDONLY)
    writing = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    (home / "out").touch()
    if out == "closed pipe":
        reader, stdout = os.pipe()
        os.close(reader)
    else:
        stdout = os.open(out or home / "out", writing)
    return [read, stdout, os.open(home / "err", writing)]


def _take_streams(streams: Sequence[int]) -> None:
    """Make them those of this process, as the interpreter has them at its start."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, 256)
    how: dict[str, Any] = {"encoding": "utf-8", "closefd": False}
    sys.stdin = os.fdopen(0, "r", errors="surrogateescape", **how)
    sys.stdout = os.fdopen(1, "w", errors="strict", **how)
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace", buffering=1, **how)


def _become_program(
    arguments: Sequence[bytes], environment: Mapping[str, str], home: Path, streams: Sequence[int]
) -> NoReturn:
    code = 70
    try:
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(home / "work")
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _take_streams(streams)
        code = _run_to_end([os.fsdecode(argument) for argument in arguments])
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(code)


def _run_to_end(arguments: Sequence[str]) -> int:
    """Do what the interpreter would: run the program, then what it does at its end."""
    sys.argv = ["gpt2", *arguments]
    atexit._clear()  # what the parent will do
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = 71
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = 120
    return code


def _wait(child: int, after: Callable[[int], None]) -> tuple[int, int]:
    """Wait for a child's end; kill it where it does not come. Return its code and peak in MB."""
    descriptor = os.pidfd_open(child)
    deadline = time.monotonic() + HANGS_AFTER
    try:
        after(child)
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(descriptor)
        _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss // 1024
