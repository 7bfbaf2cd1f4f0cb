"""The exit codes that scripts rely on."""

from typing import Final

DONE: Final = 0  # also where nobody reads the result any more
FAILED: Final = 1  # a known failure, or a batch with errors among its records
USAGE: Final = 2
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells tell it
