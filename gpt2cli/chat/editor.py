"""Lets a person edit a text in an editor of their choice."""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from gpt2cli.errors import UsageError
from gpt2cli.terminal.interrupt import ENDINGS, signals_held_back, signals_taken

_USUAL: Final = "notepad" if sys.platform == "win32" else "vi"
_STDERR: Final = 2


def edit(text: str) -> str:
    """Return the text as the person left it; the editor is $VISUAL, or $EDITOR, or vi.

    Meanwhile Ctrl-C is the editor's.

    Raises:
        UsageError: if the editor cannot be run, reports a failure, or leaves no text in UTF-8.
    """
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or _USUAL
    with tempfile.TemporaryDirectory(prefix="gpt2-") as folder:
        file = Path(folder) / "message.txt"
        file.write_text(text, encoding="utf-8")
        try:
            code = _run([*shlex.split(command), str(file)])
            edited = file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot edit with {command!r}: {error}; set EDITOR") from error
    if code:
        raise UsageError(f"the editor {command!r} ended with code {code}; nothing was sent")
    return edited


def _run(command: list[str]) -> int:
    """Return the code that a program ends with; it is shown on the terminal, wherever stdout is.

    The editor must restore the terminal, so it is never killed: if this program is to end, it gets
    SIGTERM.
    """
    stdout = None if sys.stdout is not None and sys.stdout.isatty() else _STDERR
    running: list[subprocess.Popen[bytes]] = []

    def tell(number: int) -> None:
        for editor in running:
            editor.send_signal(number)

    with (
        signals_taken(lambda number: None, [signal.SIGINT]),
        signals_held_back(ENDINGS, tell=tell) as came,
    ):
        running.append(subprocess.Popen(command, stdout=stdout))
        for number in came:  # before it ran
            tell(number)
        return running[0].wait()
