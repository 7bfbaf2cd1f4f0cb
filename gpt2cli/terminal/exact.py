"""Writes text to stdout that may end or begin within a character, as decoded ids do."""

import sys

from gpt2cli.terminal.result import open_result


def write_exact(data: bytes) -> None:
    """Write bytes to stdout as they are; on a terminal made safe, as whole lines.

    Raises:
        BrokenPipeError: if nobody reads any more.
        OutputError: if it cannot be written for another reason.
    """
    with open_result(None) as writer:
        if sys.stdout.isatty():
            text = data.decode("utf-8", "replace")
            writer.write(text if not text or text.endswith("\n") else f"{text}\n")
        else:
            writer.write_bytes(data)
