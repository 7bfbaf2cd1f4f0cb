"""Keeps what is typed out of the text that is being written."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gpt2cli.terminal.interrupt import signals_taken

if sys.platform != "win32":
    import termios

    _LOCAL_MODES = 3  # its place in what tcgetattr gives


@contextmanager
def echo_off(descriptor: int) -> Iterator[None]:
    """Let a terminal not show what is typed meanwhile; it waits there to be read.

    While Ctrl-Z has stopped the program the terminal is as it was before.
    """
    if sys.platform == "win32" or not _has_echo(descriptor):
        yield
        return

    def stop(number: int) -> None:
        _set_echo(descriptor, on=True)
        handler = signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)  # it returns when the program goes on
        signal.signal(number, handler)
        _set_echo(descriptor, on=False)

    with signals_taken(stop, [signal.SIGTSTP]):
        try:
            _set_echo(descriptor, on=False)
            yield
        finally:
            _set_echo(descriptor, on=True)


def _has_echo(descriptor: int) -> bool:
    try:
        return bool(termios.tcgetattr(descriptor)[_LOCAL_MODES] & termios.ECHO)
    except termios.error:  # it is no terminal, or has gone
        return False


def _set_echo(descriptor: int, *, on: bool) -> None:
    with suppress(termios.error):
        modes = termios.tcgetattr(descriptor)
        if on:
            modes[_LOCAL_MODES] |= termios.ECHO
        else:
            modes[_LOCAL_MODES] &= ~termios.ECHO
        termios.tcsetattr(descriptor, termios.TCSANOW, modes)
