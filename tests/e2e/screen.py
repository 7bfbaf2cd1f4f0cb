"""A terminal that a test sees and types on: the program in it, and what stands on the screen."""

import os
import pathlib
import re
import select
import termios
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import pexpect
import pyte

from tests.e2e.program import HANGS_AFTER, Finished, Program

CTRL_C: Final = "\x03"
CTRL_D: Final = "\x04"
CTRL_Z: Final = "\x1a"
ENTER: Final = "\r"
TAB: Final = "\t"
_PASTE: Final = "\x1b[200~{}\x1b[201~"
_TICK: Final = 0.05
# What switches the cursor and bracketed paste; each as a shell expects it.
_SWITCHES: Final = ((r"\x1b\[\?25([hl])", "h"), (r"\x1b\[\?2004([hl])", "l"))


class _Display(pyte.Screen):
    """A screen that answers as a terminal does when it is asked where the cursor is."""

    answer: Callable[[str], object] = staticmethod(lambda data: None)

    def write_process_input(self, data: str) -> None:
        """Send an answer to the program."""
        self.answer(data)


class Terminal:
    """A program in a terminal, by default of 80 columns and of more lines than it fills."""

    def __init__(
        self,
        program: Program,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        shell: str = "",
        folder: pathlib.Path | None = None,
        columns: int = 80,
        lines: int = 40,
    ) -> None:
        """Start `gpt2 ARGUMENTS`, or a line of shell in which $GPT2 is the program."""
        command = ["/bin/sh", "-c", shell] if shell else [str(program.path), *arguments]
        self.process: Any = pexpect.spawn(
            command[0],
            command[1:],
            env={**program.environment, "GPT2": str(program.path), **(environment or {})},
            cwd=folder,
            timeout=HANGS_AFTER,
            dimensions=(lines, columns),
        )
        self.process.delaybeforesend = None  # each test waits for what it answers
        self.process.ptyproc.delayafterclose = 0
        self.raw = ""  # all that the program has written
        self._display = _Display(columns, lines)
        self._display.answer = self.process.send
        self._stream = pyte.ByteStream(self._display)

    @property
    def lines(self) -> list[str]:
        """The lines of the screen up to the cursor's, without spaces at their ends."""
        return [line.rstrip() for line in self._display.display[: self._display.cursor.y + 1]]

    def wait_for(self, wanted: str) -> str:
        """Wait until the screen holds `wanted`; return the screen."""
        return self.wait_until(lambda: wanted in "\n".join(self.lines))

    def wait_for_prompt(self, count: int) -> str:
        """Wait for the prompt line to stand there for the nth time, empty; return the screen."""
        return self.wait_until(lambda: self._is_asking(count))

    def wait_until(self, condition: Callable[[], bool]) -> str:
        """Wait until something is so of what the program has written; return the screen."""
        deadline = time.monotonic() + HANGS_AFTER
        while not condition():
            assert time.monotonic() < deadline, "\n".join(self.lines)
            self.take()
        return "\n".join(self.lines)

    def type(self, keys: str) -> None:
        """Press keys."""
        self.process.send(keys)

    def say(self, line: str, *, prompt: int) -> str:
        """Type a line and wait for the nth prompt; return the screen."""
        self.type(f"{line}{ENTER}")
        return self.wait_for_prompt(prompt)

    def paste(self, text: str) -> None:
        """Paste text as a terminal does that knows bracketed paste."""
        self.process.send(_PASTE.format(text))

    def resize(self, columns: int) -> None:
        """Change the size of the window, of which the program is told."""
        self.process.setwinsize(self._display.lines, columns)

    def leave(self) -> int:
        """Press Ctrl-D and return the exit code."""
        self.type(CTRL_D)
        return self.finish()

    def finish(self) -> int:
        """Return the exit code when the program has ended and left the terminal as it was.

        What a signal has ended has its number as a negative code.
        """
        while self.take():
            continue
        modes = termios.tcgetattr(self.process.child_fd)
        self.process.wait()
        self.process.close()
        number = self.process.signalstatus
        code = self.process.exitstatus if number is None else -number
        told = f"{self.raw}\nended with {code}"
        assert "Traceback" not in self.raw, told
        assert "WARNING" not in self.raw, told
        assert modes == _find_first_modes(), told
        for pattern, expected in _SWITCHES:
            assert (re.findall(pattern, self.raw) or [expected])[-1] == expected, told
        return int(code)

    def close(self) -> int:
        """Close the terminal under the program; return the exit code when that has ended."""
        self.process.ptyproc.fileobj.close()
        deadline = time.monotonic() + HANGS_AFTER
        while self.process.isalive():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return int(self.process.exitstatus)

    def take(self) -> bool:
        """Show all that the program has written, or writes in a moment; False at the end."""
        descriptor, timeout = self.process.child_fd, _TICK
        # pexpect takes the end of the process for the end of what it has written, of which the
        # system may hold some back for a moment.
        while select.select([descriptor], [], [], timeout)[0]:
            try:
                block = os.read(descriptor, 1 << 16)
            except OSError:  # Linux: nobody can write any more
                return False
            if not block:  # macOS
                return False
            self.raw += block.decode("utf-8", "replace")
            self._stream.feed(block)
            timeout = 0.0
        return True

    def _is_asking(self, count: int) -> bool:
        asked = sum(line.startswith(">>>") for line in self.lines)
        last = self.lines[-1] if self.lines else ""
        return asked >= count and last in (">>>", ">>> Write a message, or /help")


def _find_first_modes() -> object:
    """Return the modes that a terminal begins with."""
    ours, theirs = os.openpty()
    try:
        return termios.tcgetattr(theirs)
    finally:
        os.close(ours)
        os.close(theirs)


def show(program: Program, *arguments: str, **environment: str) -> Finished:
    """Run the program in a terminal; `err` is all that is shown, with plain newlines."""
    terminal = Terminal(program, *arguments, environment=environment)
    code = terminal.finish()
    return Finished(code, b"", terminal.raw.replace("\r\n", "\n"))
