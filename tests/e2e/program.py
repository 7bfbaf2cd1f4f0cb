"""Drives the installed program as a person's shell would."""

import contextlib
import errno
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, BinaryIO, Final

import pytest

posix = pytest.mark.skipif(sys.platform == "win32", reason="a shell, FIFOs and bytes as arguments")

HANGS_AFTER: Final = 100.0  # seconds; far above what anything here takes


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run ended, and what it wrote."""

    code: int
    out: bytes
    err: str


@dataclass(frozen=True, slots=True)
class Program:
    """The installed `gpt2`, in an environment that is apart from the user's."""

    path: pathlib.Path
    environment: Mapping[str, str]

    def run(
        self,
        *arguments: str | bytes,
        stdin: bytes | int = subprocess.DEVNULL,
        environment: Mapping[str, str] | None = None,
    ) -> Finished:
        """Run it to its end; `stdin` is what it reads, or a file descriptor."""
        with self.start(*arguments, stdin=stdin, environment=environment) as process:
            return finish(process, stdin if isinstance(stdin, bytes) else b"")

    def start(
        self,
        *arguments: str | bytes,
        stdin: bytes | int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        environment: Mapping[str, str] | None = None,
    ) -> "contextlib.AbstractContextManager[subprocess.Popen[bytes]]":
        """Start it; whatever happens in the block, it has ended after it."""
        return _start(
            [self.path, *arguments],
            stdin=subprocess.PIPE if isinstance(stdin, bytes) else stdin,
            stdout=stdout,
            environment={**self.environment, **(environment or {})},
        )

    def start_shell(
        self, line: str, *, environment: Mapping[str, str] | None = None
    ) -> "contextlib.AbstractContextManager[subprocess.Popen[bytes]]":
        """Start a line of shell in which $GPT2 is the program."""
        variables = {**self.environment, "GPT2": str(self.path), **(environment or {})}
        return _start(["sh", "-c", line], environment=variables)

    def run_shell(self, line: str, *, environment: Mapping[str, str] | None = None) -> Finished:
        """Run a line of shell in which $GPT2 is the program."""
        with self.start_shell(line, environment=environment) as process:
            return finish(process)

    def run_python(self, *arguments: str | pathlib.Path) -> Finished:
        """Run the program's interpreter in its environment."""
        python = self.path.parent / "python"
        with _start([python, *map(str, arguments)], environment=self.environment) as process:
            return finish(process)


def finish(process: "subprocess.Popen[bytes]", stdin: bytes = b"") -> Finished:
    """Wait for a started program's end; nothing that it does may end in a traceback."""
    out, err = process.communicate(stdin or None)
    text = err.decode("utf-8")
    assert "Traceback" not in text, text
    return Finished(process.returncode, out or b"", text)


def read_until(stream: IO[bytes] | None, wanted: bytes) -> bytes:
    """Read from a running program until `wanted` has come, and no further than it has written."""
    assert stream is not None
    read = b""
    while wanted not in read:
        block = os.read(stream.fileno(), 1 << 16)
        assert block, f"ended after {read!r}"
        read += block
    return read


def open_when_read(fifo: pathlib.Path, reader: int) -> BinaryIO:
    """Open a FIFO to write once the process `reader` has opened it and waits for what it will read.

    Python does not see a signal that comes in the moment before a read that waits.
    """
    deadline = time.monotonic() + HANGS_AFTER
    while True:
        try:
            file = os.fdopen(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK), "wb")
        except OSError as error:
            if error.errno != errno.ENXIO or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            while not _is_waiting(reader):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            return file


def _is_waiting(process: int) -> bool:
    """Tell whether a process waits for something, as Linux knows; elsewhere allow it some time."""
    status = pathlib.Path(f"/proc/{process}/stat")
    if not status.exists():
        time.sleep(0.5)
        return True
    return status.read_text().rpartition(") ")[2].startswith("S")


def send(process: "subprocess.Popen[bytes]", content: bytes) -> None:
    """Write to the stdin of a running program, which stays open."""
    assert process.stdin is not None
    process.stdin.write(content)
    process.stdin.flush()


def press_ctrl_c(process: "subprocess.Popen[bytes]") -> None:
    """Do what the terminal does at Ctrl-C."""
    process.send_signal(signal.SIGINT)


@contextlib.contextmanager
def _start(
    command: Sequence[str | bytes | pathlib.Path],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.PIPE,
    environment: Mapping[str, str],
) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, env=environment
    )
    hangs = threading.Timer(HANGS_AFTER, process.kill)
    hangs.start()
    try:
        with process:
            yield process
    finally:
        hangs.cancel()
