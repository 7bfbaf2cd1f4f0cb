"""Where the program starts, also as `python -m gpt2cli`.

It imports nothing that takes time: until `main` runs, Ctrl-C gives a traceback.
"""

import os
import sys

_FAILED = 1  # the values of exit_codes, which is not imported since it imports typing
_INTERRUPTED = 130
_STDERR = 2


def main() -> None:
    """Run the program and exit."""
    code = _run()
    try:
        _end(code)
    except KeyboardInterrupt:  # another Ctrl-C, a second after the one that ends the program
        _end(code)


def _end(code: int) -> None:
    from gpt2cli.terminal.interrupt import exit_on_signals, leave_threads

    exit_on_signals(code)
    leave_threads(code)
    sys.exit(code)


def _run() -> int:
    """Run the program and return its exit code."""
    try:
        fill_closed_streams()
        from gpt2cli.terminal.interrupt import unwind_on_signals

        unwind_on_signals()
        from gpt2cli.app import app

        app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (ImportError, MemoryError, RuntimeError, SystemError) as error:
        from gpt2cli.errors import lacks_memory

        if not lacks_memory(error):
            raise
        os.write(_STDERR, b"gpt2: error: there is not enough memory to start\n")
        return _FAILED
    return 0


def fill_closed_streams() -> None:
    """Keep files that are opened later from becoming a closed stdin, stdout or stderr.

    `sys.stdin` and `sys.stdout` stay None where they were closed; stderr takes what others write.
    """
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= _STDERR:
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


if __name__ == "__main__":
    main()
