"""Fixtures for what signals do."""

import signal
import sys
from collections.abc import Iterator

import pytest

from gpt2cli.terminal.interrupt import ENDINGS


@pytest.fixture
def default_handlers() -> Iterator[None]:
    """Begin as a program in the foreground does; set handlers and hooks back after the test."""
    hook = sys.unraisablehook
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDINGS)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in ENDINGS:
        signal.signal(number, signal.SIG_DFL)
    yield
    sys.unraisablehook = hook
    for number, handler in before.items():
        signal.signal(number, handler)
