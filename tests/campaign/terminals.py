"""Runs the program on a terminal of its own, types, and looks at what is left of the terminal."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.campaign.children import HANGS_AFTER
from tests.campaign.lab import Lab

_PROGRAM: Final = Path(sys.executable).with_name("gpt2")
_NEVER_SHOWN: Final = (b"Traceback", b"Exception", b"panicked", b"Press ENTER", b"Fatal")
_AT_PROMPT: Final = b">>> "


def run_on_terminal(
    lab: Lab, arguments: Sequence[str | bytes], keys: Sequence[str], *, end: int | None = None
) -> None:
    """Type keys, then Ctrl-D until it ends; or send `end`, where 0 closes the terminal."""
    ours, theirs = pty.openpty()
    modes = termios.tcgetattr(theirs)
    lab.told.append(f"on a terminal: gpt2 {arguments}; keys {keys}; end {end}")
    process = subprocess.Popen(
        [_PROGRAM, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**lab.environment(), "TERM": "xterm", "EDITOR": "true", "NO_COLOR": "1"},
        cwd=lab.folder,
        start_new_session=True,
        preexec_fn=lambda: _control(theirs),
    )
    shown = _read(ours, until=_AT_PROMPT, seconds=30)
    for key in keys:
        if process.poll() is not None:
            break
        os.write(ours, key.encode())
        shown += _read(ours, seconds=lab.rng.random() * 0.15)
    if end == 0:
        os.close(theirs)
        os.close(ours)
    elif end is not None and process.poll() is None:
        process.send_signal(end)
    code, more = _end(process, None if end == 0 else ours, type_ends=end is None)
    shown += more
    lab.told += [f"  code: {code}", f"  shown: {shown[-3000:]!r}"]
    expected = {None: (0, 1, 2), 0: (129, 0, 1)}.get(end, (128 + (end or 0), 0, 1, 2))
    if any("\x1c" in key for key in keys):
        expected = (*expected, -signal.SIGQUIT)  # Ctrl-\\, where it comes while no line is read
    lab.claim(code in expected, "hangs" if code is None else f"exit code {code} on a terminal")
    for words in _NEVER_SHOWN:
        lab.claim(words not in shown, f"shows {words!r}")
    if end != 0:
        lab.claim(termios.tcgetattr(theirs) == modes, "the terminal's modes are others")
        for on, off in ((b"\x1b[?2004h", b"\x1b[?2004l"), (b"\x1b[?25l", b"\x1b[?25h")):
            lab.claim(shown.rfind(on) <= shown.rfind(off), f"{on!r} was left")
        os.close(theirs)
        os.close(ours)


def _control(terminal: int) -> None:
    import fcntl

    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _read(terminal: int, *, until: bytes = b"", seconds: float) -> bytes:
    """Read until it has come, or for so long; answers where the cursor is, as terminals do."""
    read = b""
    deadline = time.monotonic() + seconds
    while not (until and until in read):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([terminal], [], [], left)[0]:
            break
        try:
            block = os.read(terminal, 1 << 16)
        except OSError:
            break
        if b"\x1b[6n" in block:
            os.write(terminal, b"\x1b[1;1R")
        read += block
    return read


def _end(
    process: "subprocess.Popen[bytes]", terminal: int | None, *, type_ends: bool
) -> tuple[int | None, bytes]:
    deadline = time.monotonic() + HANGS_AFTER
    shown = b""
    while process.poll() is None and time.monotonic() < deadline:
        if terminal is None:
            time.sleep(0.02)
            continue
        if type_ends:
            with contextlib.suppress(OSError):
                os.write(terminal, b'\x07\x15\r"""\r\x15\x04')
        shown += _read(terminal, seconds=0.2)
    if process.poll() is None:
        process.kill()
        process.wait()
        return None, shown
    if terminal is not None:
        shown += _read(terminal, seconds=0.02)
    return process.returncode, shown
