"""Runs the program in forked children, in a folder of its own, and judges what must always hold."""

import atexit
import json
import os
import pathlib
import random
import resource
import select
import shutil
import signal
import sys
import termios
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

from gpt2cli.__main__ import main

HANGS_AFTER: Final = 100.0  # seconds, on a machine that does other things as well
_MOST_MEMORY: Final = 900  # MB, of which the modules alone take 150
_ADDRESSES: Final = 16 << 30  # bytes; only so that the machine survives what is found
_MOST_IN_PIPE: Final = 60_000  # bytes
_NEVER_SAID: Final = (
    "Traceback",
    "Exception ignored",
    "panicked",
    "Fatal Python",
    "terminate called",
    "Unhandled exception",
    "Warning:",
)
_ERROR: Final = "gpt2: error: "


@dataclass(frozen=True)
class Outcome:
    """How a run ended, what it wrote, and what it took."""

    code: int
    out: bytes
    err: str
    megabytes: int


@dataclass
class Place:
    """What is made once for all tries, and only copied from there."""

    root: pathlib.Path

    @property
    def model(self) -> pathlib.Path:
        """The model folder of a tiny checkpoint: 33 positions, 289 ids that decode."""
        return self.root / "model"

    @property
    def checkpoint(self) -> pathlib.Path:
        """The checkpoint of that model."""
        return self.root / "checkpoint"

    @property
    def starter(self) -> pathlib.Path:
        """The starter's model folder."""
        return self.root / "starter"


@dataclass
class Lab:
    """A try: where it runs, its own random numbers, what was run, and what is wrong."""

    place: Place
    home: pathlib.Path
    rng: random.Random
    faults: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    @property
    def folder(self) -> pathlib.Path:
        """The working folder of its runs."""
        return self.home / "work"

    def claim(self, holds: bool, fault: str) -> None:
        """Note a fault unless the claim holds."""
        if not holds:
            self.faults.append(fault)

    def some(self, *choices: str) -> str:
        """Return one of them."""
        return self.rng.choice(choices)

    def run(
        self,
        *arguments: str | bytes,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        codes: Collection[int] = (0, 1, 2),
        may_write: Collection[str] | None = (),
        records: bool = False,
        after: Callable[[int], None] = lambda pid: None,
        out: str = "",
    ) -> Outcome:
        """Run `gpt2 ARGUMENTS` and judge it.

        `may_write` are the names that may be new or other in the working folder (None: any);
        `records`: stdout is lines of JSON; `after` may send signals; `out` is what stdout is.
        """
        before = _look(self.folder)
        self.told.append(f"gpt2 {' '.join(map(repr, arguments))}")
        if stdin:
            self.told.append(f"  stdin: {stdin[:2000]!r}")
        if environment:
            self.told.append(f"  environment: {dict(environment)!r}")
        variables = {**self.environment(), **(environment or {})}
        with _Streams(self.home, stdin, out) as streams:
            child = os.fork()
            if child == 0:
                _become_program([os.fsencode(a) for a in arguments], variables, self, streams)
            code, megabytes = _wait(child, after)
            done = Outcome(code, *streams.read(), megabytes)
        self.told += [f"  code: {code}, {megabytes} MB", f"  stdout: {done.out[:2000]!r}"]
        self.told.append(f"  stderr: {done.err[:3000]!r}")
        self._judge(done, codes, records)
        if may_write is not None:
            after_run = _look(self.folder)
            other = {
                n for n in before.keys() | after_run.keys() if before.get(n) != after_run.get(n)
            }
            self.claim(other <= set(may_write), f"changed {sorted(other)}")
        left = [p.name for p in self.home.rglob("*.partial")]
        killed = code == -signal.SIGKILL
        self.claim(killed or not left, f"left {left}")
        return done

    def environment(self) -> dict[str, str]:
        """Return the variables of a run, with folders that are its own."""
        folders = {
            f"XDG_{name}_HOME": str(self.home / name.lower())
            for name in ("CACHE", "CONFIG", "STATE")
        }
        return folders | {
            "HOME": str(self.home),
            "HF_HOME": str(self.home / "hub"),
            "HF_HUB_OFFLINE": "1",
            "HF_ENDPOINT": "http://127.0.0.1:9",
            "PATH": os.environ["PATH"],
            "TMPDIR": str(self.home / "tmp"),
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "80",
        }

    def _judge(self, done: Outcome, codes: Collection[int], records: bool) -> None:
        if done.code == -signal.SIGKILL and -signal.SIGKILL not in codes:
            self.faults.append("hangs")
            return
        self.claim(done.code in codes, f"exit code {done.code}")
        for words in _NEVER_SAID:
            self.claim(words not in done.err, f"stderr has {words!r}")
        lines = done.err.splitlines()
        errors = [line for line in lines if line.startswith(_ERROR)]
        if done.code == 0:
            self.claim(not errors, "an error and exit code 0")
        if done.code == 2:
            self.claim(len(errors) == 1 or not lines, "exit code 2 without one line of error")
            self.claim(lines[-1:] == errors, "something after the error")
        self.claim(done.megabytes < _MOST_MEMORY, f"took {done.megabytes} MB")
        if records:
            self.claim(done.code != 2 or not done.out, "records and a usage error")
            self.read_records(done.out, torn=done.code < 0 or done.code > 2)

    def read_records(self, out: bytes, *, torn: bool = False) -> list[dict[str, object]]:
        """Return what lines of JSON hold; whatever is no JSON by its RFC is a fault."""
        *lines, rest = out.split(b"\n")
        self.claim(torn or not rest, "the last record has no newline")
        values = []
        for line in lines:
            try:
                values.append(json.loads(line.decode(), parse_constant=_refuse))
            except ValueError as error:
                self.faults.append(f"no JSON: {error}: {line[:200]!r}")
        return values


class _Streams:
    """Stdin, stdout and stderr of a child."""

    def __init__(self, home: pathlib.Path, stdin: bytes, out: str) -> None:
        self._out, self._err = home / "out", home / "err"
        if len(stdin) < _MOST_IN_PIPE:
            read, write = os.pipe()
            os.write(write, stdin)
            os.close(write)
        else:
            (home / "in").write_bytes(stdin)
            read = os.open(home / "in", os.O_RDONLY)
        writing = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        self._out.touch()
        if out == "closed pipe":
            reader, stdout = os.pipe()
            os.close(reader)
        else:
            stdout = os.open(out or self._out, writing)
        self.all = [read, stdout, os.open(self._err, writing)]

    def __enter__(self) -> "_Streams":
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self.all:
            os.close(descriptor)

    def take(self) -> None:
        """Make them those of this process."""
        for number, descriptor in enumerate(self.all):
            os.dup2(descriptor, number)
        os.closerange(3, 256)
        sys.stdin = os.fdopen(0, "r", encoding="utf-8", errors="surrogateescape", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="strict", closefd=False)
        sys.stderr = os.fdopen(
            2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1
        )

    def read(self) -> tuple[bytes, str]:
        """Return what was written."""
        return self._out.read_bytes(), self._err.read_bytes().decode("utf-8", "replace")


def _become_program(
    arguments: Sequence[bytes], environment: Mapping[str, str], lab: Lab, streams: _Streams
) -> NoReturn:
    code = 70
    try:
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(lab.folder)
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        streams.take()
        code = _run_to_end([os.fsdecode(a) for a in arguments])
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


def _look(folder: pathlib.Path) -> dict[str, object]:
    """Return what lies directly in a folder, with what would tell a change."""
    return {path.name: _describe(path) for path in folder.iterdir()}


def _describe(path: pathlib.Path) -> object:
    if path.is_symlink():
        return path.readlink()
    if path.is_dir():
        return sorted((p.relative_to(path).as_posix(), _describe(p)) for p in _files_of(path))
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns, facts.st_ino, facts.st_mode


def _files_of(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    return (path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def make_lab(place: Place, home: pathlib.Path, kind: str, number: int) -> Lab:
    """Return the lab of a try, in an empty folder, with a cache that holds the starter."""
    shutil.rmtree(home, ignore_errors=True)
    for name in ("work", "config", "state", "tmp", "hub"):
        (home / name).mkdir(parents=True)
    shutil.copytree(place.root / "cache", home / "cache", copy_function=os.link, symlinks=True)
    return Lab(place, home, random.Random(f"{kind}:{number}"))


def read_modes(descriptor: int) -> list[object]:
    """Return a terminal's modes."""
    return list(termios.tcgetattr(descriptor))
