"""Runs the program in forked children, in a folder of its own, and judges what must always hold."""

import json
import os
import pathlib
import random
import shutil
import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from tests.campaign.children import Outcome, run_child

_MOST_MEMORY: Final = 900  # MB, of which the modules alone take 150
NEVER_SAID: Final = (
    *("Traceback", "Exception ignored", "panicked", "Fatal Python", "terminate called"),
    *("Unhandled exception", "Warning:"),
)
_ERROR: Final = "gpt2: error: "


class Place:
    """What is made once for all tries, and only copied from there."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.checkpoint = root / "checkpoint"  # a tiny one: 33 positions, 289 ids that decode
        self.model = root / "model"  # its model folder
        self.starter = root / "starter"  # the starter's model folder


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
        given = [os.fsencode(argument) for argument in arguments]
        done = run_child(given, variables, self.home, stdin=stdin, out=out, after=after)
        self.told += [f"  code: {done.code}, {done.megabytes} MB", f"  stdout: {done.out[:2000]!r}"]
        self.told.append(f"  stderr: {done.err[:3000]!r}")
        self._judge(done, codes, records)
        if may_write is not None:
            now = _look(self.folder)
            other = {n for n in before.keys() | now.keys() if before.get(n) != now.get(n)}
            self.claim(other <= set(may_write), f"changed {sorted(other)}")
        left = [p.name for p in self.home.rglob("*.partial")]
        killed = done.code == -signal.SIGKILL
        self.claim(killed or not left, f"left {left}")
        return done

    def environment(self) -> dict[str, str]:
        """Return the variables of a run, with folders that are its own."""
        names = ("CACHE", "CONFIG", "STATE")
        folders = {f"XDG_{name}_HOME": str(self.home / name.lower()) for name in names}
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
        for words in NEVER_SAID:
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
