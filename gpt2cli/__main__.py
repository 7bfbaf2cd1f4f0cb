"""Where the program starts, also as `python -m gpt2cli`.

It imports nothing that takes time: until `main` runs, Ctrl-C gives a traceback.
"""

import os
import sys

_INTERRUPTED = 130  # as in exit_codes, which imports typing
_STDERR = 2


def main() -> None:
    """Run the program and exit."""
    try:
        fill_closed_streams()
        from gpt2cli.terminal.interrupt import unwind_on_signals

        unwind_on_signals()
        from gpt2cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def fill_closed_streams() -> None:
    """Let no file that is opened later take the place of a closed stdin, stdout or stderr.

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
