"""The exit codes that scripts rely on."""

from typing import Final

DONE: Final = 0  # also where the reader of a pipe has gone
FAILED: Final = 1  # a known failure, or a batch with errors among its records
USAGE: Final = 2
HUNG_UP: Final = 129  # 128 + SIGHUP, as shells tell it: the terminal has been closed
INTERRUPTED: Final = 130  # 128 + SIGINT
TERMINATED: Final = 143  # 128 + SIGTERM
