"""Runs the program on a terminal of its own, types, and looks at what is left of the terminal."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.campaign.children import HANGS_AFTER
from tests.campaign.lab import Lab
from tests.e2e.program import Program
from tests.e2e.screen import Terminal

PROGRAM: Final = Path(sys.executable).with_name("gpt2")
_NEVER_SHOWN: Final = ("Exception", "panicked", "Press ENTER", "Fatal")
_LEAVE: Final = '\x07\x15\r"""\r\x15\x04'


def run_on_terminal(
    lab: Lab, arguments: Sequence[str | bytes], keys: Sequence[str], *, end: int | None = None
) -> None:
    """Type keys, then Ctrl-D until it ends; or send `end`, where 0 closes the terminal."""
    lab.told.append(f"on a terminal: gpt2 {arguments}; keys {keys}; end {end}")
    variables = {**lab.environment(), "TERM": "xterm", "EDITOR": "true", "NO_COLOR": "1"}
    program = Program(PROGRAM, variables)
    terminal = Terminal(program, *map(os.fsdecode, arguments), folder=lab.folder)
    deadline = time.monotonic() + HANGS_AFTER
    while terminal.take() and ">>> " not in terminal.raw and time.monotonic() < deadline:
        continue
    for key in keys:
        if not terminal.process.isalive():
            break
        terminal.type(key)
        time.sleep(lab.rng.random() * 0.15)
        terminal.take()
    try:
        code = terminal.close() if end == 0 else _end(terminal, end, deadline)
    except AssertionError as error:  # of its modes and switches, and of what is shown
        lab.claim(False, f"on a terminal: {error}")
        return
    finally:
        terminal.process.close(force=True)
        lab.told.append(f"  shown: {terminal.raw[-3000:]!r}")
    expected = {None: (0, 1, 2), 0: (129, 0, 1)}.get(end, (128 + (end or 0), 0, 1, 2))
    if any("\x1c" in key for key in keys):
        expected = (*expected, -signal.SIGQUIT)  # Ctrl-\\, where it comes while no line is read
    lab.claim(code in expected, f"exit code {code} on a terminal")
    for words in _NEVER_SHOWN:
        lab.claim(words not in terminal.raw, f"shows {words!r}")


def _end(terminal: Terminal, number: int | None, deadline: float) -> int:
    """Send a signal, or type until it ends; return the exit code, or the signal's as negative."""
    if number is not None and terminal.process.isalive():
        terminal.process.kill(number)
    while terminal.take():
        assert time.monotonic() < deadline, "hangs"
        if number is None:
            terminal.type(_LEAVE)
            time.sleep(0.2)
    return terminal.finish()
