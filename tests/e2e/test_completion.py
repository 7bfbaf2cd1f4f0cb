"""Claims about completion, driven in the shells themselves."""

import contextlib
import os
import pathlib
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pexpect
import pytest

from tests.e2e.program import HANGS_AFTER, Program

_SHELLS: Final[Mapping[str, tuple[str, ...]]] = {
    "bash": ("--noprofile", "-i"),
    "zsh": ("-i",),
    "fish": ("-i",),
}
_BEGINNING_OF_LINE: Final = "\x01"
_TICK: Final = 0.02
_PATIENCE: Final = 0.2  # seconds until a line that a shell has not heard is typed again
_INSTALL: Final = '"$(gpt2 --install-completion)"'
_TELL: Final = '#!/bin/sh\nprintf %s "$*" >"$HOME/told.new" && mv "$HOME/told.new" "$HOME/told"\n'


class Shell:
    """An interactive shell; `tell` is a program in it that tells a test its arguments."""

    def __init__(self, name: str, program: Program, home: pathlib.Path) -> None:
        self._told = home / "told"
        self._count = 0
        tell = home / "bin" / "tell"
        tell.parent.mkdir(exist_ok=True)
        tell.write_text(_TELL, encoding="utf-8")
        tell.chmod(tell.stat().st_mode | stat.S_IXUSR)
        programs = (str(tell.parent), str(program.path.parent), os.environ["PATH"])
        places = {
            "HOME": str(home),
            "ZDOTDIR": str(home),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_DATA_HOME": str(home / ".local"),
        }
        self._process: Any = pexpect.spawn(
            name,
            list(_SHELLS[name]),
            env={**program.environment, **places, "PATH": os.pathsep.join(programs)},
            cwd=home,
            dimensions=(50, 200),
        )
        self._wait_until_it_listens()

    def complete(self, line: str) -> str:
        """Type a line, in which Tab completes, and return what it has become."""
        self._count += 1
        self._process.send(f"{line}{_BEGINNING_OF_LINE}tell {self._count} \r")
        deadline = time.monotonic() + HANGS_AFTER
        while (told := self._take()) is None:
            assert time.monotonic() < deadline, line
        return told

    def _wait_until_it_listens(self) -> None:
        """Type until it answers: a shell that just starts may be deaf."""
        deadline = time.monotonic() + HANGS_AFTER
        while self._take() is None:
            assert time.monotonic() < deadline
            self._process.send("tell 0 ready\r")
            time.sleep(_PATIENCE)

    def _take(self) -> str | None:
        """Read what it writes, so that it can write more; return what the last line told."""
        with contextlib.suppress(pexpect.TIMEOUT):
            self._process.read_nonblocking(1 << 16, timeout=_TICK)
        if not self._told.exists():
            return None
        count, _, told = self._told.read_text(encoding="utf-8").partition(" ")
        self._told.unlink()
        return told if count == str(self._count) else None

    def leave(self) -> None:
        """End it."""
        self._process.close(force=True)


@pytest.fixture(scope="module", params=_SHELLS)
def shell(
    request: pytest.FixtureRequest, program: Program, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    """Return each shell that is installed here, started again after completion was installed."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    home = tmp_path_factory.mktemp("shell")
    (home / "other").mkdir()
    first = Shell(request.param, program, home)
    told = first.complete(_INSTALL)
    first.leave()
    assert told.startswith(f"{request.param} completion installed in {home}")
    opened = Shell(request.param, program, home)
    if request.param == "zsh":
        opened.complete("gpt2 gen\t")  # Typer 0.28: the first Tab only loads the completion
    yield opened
    opened.leave()


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("gpt2 gen\t-m distil\t", "gpt2 generate -m distilgpt2"),
        ("gpt2 generate -m oth\t", "gpt2 generate -m other"),
        ("gpt2 chat --templ\td\t", "gpt2 chat --template dialogpt"),
        ("gpt2 models rm star\t", "gpt2 models rm starter"),
        ("gpt2 config set greedy of\t", "gpt2 config set greedy off"),
    ],
)
def test_a_tab_completes(shell: Shell, typed: str, completed: str) -> None:
    """Commands, options, models, choices and settings; a folder is left to the shell."""
    assert shell.complete(typed).removesuffix("/") == completed
