"""Writes the results of a run, one after the other, and counts them."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpt2cli.errors import ExitCode
from gpt2cli.options import spell_flag
from gpt2cli.resumable.input import ItemSource, Line
from gpt2cli.resumable.journal import Journal
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.progress import Bar
from gpt2cli.terminal.result import ResultWriter


@dataclass(slots=True)
class RunView:
    """Takes results in order; each is written and flushed at once."""

    items: ItemSource[Any]
    output: ResultWriter | Journal
    notes: Notes
    bar: Bar
    as_text: bool
    more: Callable[[], str] = lambda: ""  # to be told of the progress
    records: int = 0
    errors: int = 0
    tokens: int = 0
    _cuts: int = 0
    _hinted: bool = False  # at a space at the end of a prompt
    _started: float = field(default_factory=time.monotonic)

    def show(self, line: Line) -> None:
        """Write a result; a note tells an error or a cut prompt if the result itself does not.

        Raises:
            BrokenPipeError: if nobody reads any more.
            OutputError: if it cannot be written for another reason.
        """
        if isinstance(self.output, Journal):
            self.output.write(line)
        else:
            self.output.write(line.text)
        told = line.cuts if line.error is None else [" ".join(line.error.split())]
        for words in told if self.as_text else []:
            self.notes.note(f"record {line.index}: {words}")
        self._hint(line)
        self.records += 1
        self.errors += line.error is not None
        self.tokens += line.tokens
        self._cuts += bool(line.cuts)
        self.show_progress()

    def _hint(self, line: Line) -> None:
        """Hint at the first prompt that ends with a space."""
        for hint in [] if self._hinted else line.hints:
            self.notes.note(f"record {line.index}: {hint}")
            self._hinted = True

    def show_progress(self) -> None:
        """Show the progress on a terminal."""
        told = f"{_count(self.records, 'record')}, {self._rate():.0f} tokens/s{self.more()}"
        self.bar.show(self.items.bytes_taken, told)

    def end(self, *, interrupted: bool | None) -> ExitCode:
        """Tell how the run ended, and return its exit code; None: the reader of a pipe has gone."""
        journal = self.output if isinstance(self.output, Journal) else None
        if interrupted is None:
            return ExitCode.DONE
        if interrupted:
            if journal is not None:
                how = f"{spell_flag('resume')} continues from there"
                self.notes.note(f"interrupted after {self.records} records; {how}")
            return ExitCode.INTERRUPTED
        self.notes.note(self.summarise())
        failed = self.errors or (journal is not None and journal.errors)
        return ExitCode.FAILED if failed else ExitCode.DONE

    def summarise(self) -> str:
        """Return the run in one line."""
        cut = f", {self._cuts} of them with only the end of a long prompt" if self._cuts else ""
        before = ""
        if isinstance(self.output, Journal) and self.output.done:
            errors = _tell_errors(self.output.errors)
            before = f"; {self.output.done} of the input were done before{errors}"
        seconds = time.monotonic() - self._started
        return (
            f"{_count(self.records, 'record')}{_tell_errors(self.errors)}{cut}, "
            f"{_count(self.tokens, 'token')} in {seconds:.1f} s ({self._rate():.1f} tokens/s)"
            f"{before}"
        )

    def _rate(self) -> float:
        return self.tokens / max(time.monotonic() - self._started, 1e-9)


def _tell_errors(errors: int) -> str:
    return f", {_count(errors, 'error')} among them" if errors else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
