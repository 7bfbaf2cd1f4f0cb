"""Writes to stderr: notes that stay, and a line about the current stage that vanishes.

Also makes text safe to show: on a terminal, what would control it becomes visible.
"""

import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Self

from export.errors import STREAMS
from gpt2cli.terminal.interrupt import signals_held_back

if TYPE_CHECKING:
    from rich.status import Status

PROGRAM: Final = "gpt2"
LOGGER: Final = "gpt2cli"  # above those of all modules
TOLD: Final = 15  # the level of what stderr has anyway, below INFO
# C0 except \t and \n, DEL, C1, line and paragraph separators; and characters that reorder or hide
# others, or show nothing: Unicode's format characters (Cf), with all of U+E0000 to
# U+E0FFF, in which text can be hidden. Except visible ones, such as the Arabic number signs, and
# the joiners that scripts and emoji need, U+200C and U+200D.
_CONTROLS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029"
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_LONGEST_ANSWER: Final = 100  # bytes
_INFO: Final = 20  # logging's own level


class Notes:
    """Notes and stages of a run; silent if quiet. Stages are seen on a terminal only.

    As a context manager: whatever happens, the vanishing line is gone at the end.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._status: Status | None = None

    @property
    def watched(self) -> bool:
        """Whether progress is shown: on a terminal, if neither quiet nor verbose."""
        if self._quiet or sys.stderr is None or not sys.stderr.isatty():
            return False
        return not is_verbose()

    def note(self, text: str) -> None:
        """Write one line that stays."""
        log(TOLD, text)
        if not self._quiet:
            self.pause()
            write_line(f"{PROGRAM}: {text}")

    def report(self, text: str) -> None:
        """Write one line that was asked for (--stats): also when quiet."""
        self.pause()
        write_line(text)

    def tell_run(self, lines: Sequence[str], *, shown: bool) -> None:
        """Write the statistics of a run if they are to be `shown`, and log them."""
        if shown:
            self.report("\n".join(lines))
        for line in lines:
            log(TOLD if shown else _INFO, line)

    def stage(self, text: str) -> None:
        """Say what goes on now, until the next stage or `pause`."""
        log(_INFO, text)
        if not self.watched:
            return
        from rich.console import Console  # only where a person watches
        from rich.text import Text

        if self._status is None:
            console = Console(stderr=True, no_color=not wants_colour(), highlight=False)
            self._status = console.status("")
        with STREAMS, signals_held_back():  # rich 15 cannot stop what is half started
            self._status.update(Text(f"{make_safe(text)} …"))  # a name may look like markup
            self._status.start()

    def pause(self) -> None:
        """Remove the vanishing line, for others to write."""
        if self._status is not None:
            with STREAMS, signals_held_back():
                self._status.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.pause()


def log(level: int, text: str) -> None:
    """Add a line to the log, if there is one."""
    logging = sys.modules.get("logging")  # to import it takes 15 ms, and without it there is none
    if logging is not None:
        logging.getLogger(LOGGER).log(level, "%s", text)


def is_verbose() -> bool:
    """Tell whether stderr has the lines of --verbose."""
    logging = sys.modules.get("logging")
    if logging is None:
        return False
    handlers = logging.getLogger(LOGGER).handlers
    return any(not isinstance(handler, logging.FileHandler) for handler in handlers)


def wants_colour() -> bool:
    """Tell whether colours and bold are wanted (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def write_error(message: str) -> None:
    """Write a known failure as one line, whatever it quotes."""
    write_line(f"{PROGRAM}: error: {' '.join(message.split())}")


def confirm(question: str) -> bool:
    """Ask on stderr; any answer on stdin but yes means no, and so does none."""
    if sys.stdin is None:
        return False
    sys.stderr.write(make_safe(f"{PROGRAM}: {question} [y/N] "))
    sys.stderr.flush()
    answer = sys.stdin.buffer.readline(_LONGEST_ANSWER)
    if not (sys.stdin.isatty() and answer.endswith(b"\n")):  # no Enter has ended the line
        write_line("")
    return answer.strip().lower() in (b"y", b"yes")


def end_line() -> None:
    """Begin a new line on the terminal if the cursor may be within one, as after ^C."""
    if sys.stderr is not None and sys.stderr.isatty():
        write_line("")


def write_line(text: str) -> None:
    """Write one line to stderr; if that is closed, nothing happens."""
    try:
        with STREAMS:
            sys.stderr.write(make_safe(text) + "\n")
            sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return


def make_safe(text: str) -> str:
    """Return `text` with control characters as visible ones: ESC as ␛, U+202E as <U+202E>."""
    return _CONTROLS.sub(_show, text)


def _show(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's control pictures
    return "␡" if code == 0x7F else f"<U+{code:04X}>"
