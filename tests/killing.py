"""Runs a function in a process of its own that is killed at one of its operations on files."""

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

import pytest

_MODULES: Final = frozenset({"_io", "fcntl", "io", "posix"})
_KILLED: Final = 9


def killed_everywhere(prepare: Callable[[], object], work: Callable[[], object]) -> Iterator[int]:
    """Run `work` again and again, killed before its first, second, … operation on files.

    `prepare` comes before each run. Yields the number of each operation, until `work` gets to its
    end. Nothing of a killed process runs any more: no cleanup, and its locks are gone.
    """
    prepare()
    work()  # what it imports then is no part of it later
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)  # takes time, and a kill needs it not
        number = 0
        prepare()
        while _is_killed(work, number):
            yield number
            number += 1
            prepare()
    assert number > 1, "nothing was done with files"


def _is_killed(work: Callable[[], object], number: int) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads, which the child never asks
        child = os.fork()
    if child == 0:
        _run_and_die(work, number)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, _KILLED)
    return code == _KILLED


def _run_and_die(work: Callable[[], object], number: int) -> None:
    left = number

    def count(_: FrameType, event: str, called: Any) -> None:
        nonlocal left
        if event != "c_call":
            return
        owner = called.__module__ or type(called.__self__).__module__
        if owner in _MODULES:
            if left == 0:
                os._exit(_KILLED)
            left -= 1

    try:
        sys.setprofile(count)
        work()
        sys.setprofile(None)
    except BaseException:
        sys.setprofile(None)
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
