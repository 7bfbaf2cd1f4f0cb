"""What bytes that may end within a character become on stdout."""

import io
import sys

import pytest

from gpt2cli.errors import OutputError
from gpt2cli.terminal.result import open_result


class _Stdout(io.TextIOWrapper):
    """A stdout that is, or is not, a terminal."""

    def __init__(self, *, terminal: bool) -> None:
        self.written = io.BytesIO()
        self._terminal = terminal
        super().__init__(self.written)

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("data", "piped", "shown"),
    [
        (b"", b"", ""),
        (b"a\n", b"a\n", "a\n"),
        (b"\xe6\x97\x1b", b"\xe6\x97\x1b", "�␛\n"),
    ],
)
def test_a_pipe_gets_the_bytes_and_a_terminal_whole_safe_lines(
    monkeypatch: pytest.MonkeyPatch, data: bytes, piped: bytes, shown: str
) -> None:
    """The shell's prompt then begins a line of its own."""
    for terminal, expected in ((False, piped), (True, shown.encode())):
        stdout = _Stdout(terminal=terminal)
        monkeypatch.setattr(sys, "stdout", stdout)
        with open_result(None) as writer:
            writer.write_bytes(data)
        assert stdout.written.getvalue() == expected


def test_a_closed_stdout_is_a_known_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for every result."""
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(OutputError, match="stdout is closed"):
        open_result(None)
