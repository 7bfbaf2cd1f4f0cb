"""Writes the results of a batch, one after the other, and counts them."""

import time
from dataclasses import dataclass, field
from typing import Any, Final

from gpt2cli.batch.items import ItemSource
from gpt2cli.batch.journal import Journal
from gpt2cli.batch.results import Result
from gpt2cli.loading import LoadedModel
from gpt2cli.options import spell_flag
from gpt2cli.records import format_record, make_error_record, make_record
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.progress import Bar
from gpt2cli.terminal.result import ResultWriter
from gpt2cli.terminal.statistics import describe_cut, describe_ending

# One line per completion, so that paste(1) can put it beside its prompt; undone by printf '%b',
# which takes up to three digits after \0 for a part of it.
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\0": "\\0000"})


@dataclass(slots=True)
class BatchView:
    """Takes results in order; each is written and flushed at once."""

    model: LoadedModel
    items: ItemSource
    output: ResultWriter | Journal
    notes: Notes
    bar: Bar
    as_text: bool
    records: int = 0
    errors: int = 0
    tokens: int = 0
    _cuts: int = 0
    _hinted: bool = False  # at a space at the end of a prompt
    _started: float = field(default_factory=time.monotonic)

    def show(self, result: Result) -> None:
        """Write a result; a note tells an error or a cut prompt if the result itself does not.

        Raises:
            BrokenPipeError: if nobody reads any more.
            OutputError: if it cannot be written for another reason.
        """
        text = format_as_text(result) if self.as_text else format_as_record(result, self.model)
        error, finish = result.error, result.finish
        failed = error is not None
        if isinstance(self.output, Journal):
            self.output.write(text.encode(), result.item, sample=result.sample, failed=failed)
        else:
            self.output.write(text)
        cuts = [] if finish is None else describe_cut(finish, self.model.engine.shape.n_positions)
        told = cuts if error is None else [" ".join(error.split())]
        for line in told if self.as_text else []:
            self.notes.note(f"record {result.item.index}: {line}")
        self._hint(result)
        self.records += 1
        self.errors += failed
        self.tokens += 0 if finish is None else finish.completion_tokens
        self._cuts += bool(cuts)
        self.show_progress()

    def _hint(self, result: Result) -> None:
        """Hint at the first prompt that ends with a space."""
        prepared = result.item.prepared
        if self._hinted or prepared is None or prepared.request.heal:
            return
        for line in describe_ending(prepared.request.prompt, heal=spell_flag("heal")):
            self.notes.note(f"record {result.item.index}: {line}")
            self._hinted = True

    def show_progress(self) -> None:
        """Show the progress on a terminal."""
        told = f"{_count(self.records, 'record')}, {self._rate():.0f} tokens/s"
        self.bar.show(self.items.bytes_taken, told)

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


def format_as_record(result: Result, model: LoadedModel) -> str:
    """Return a result as a line of JSON."""
    item, finish = result.item, result.finish
    same: dict[str, Any] = {"sample": result.sample, "model": model, "identity": item.identity}
    if item.prepared is None or finish is None or finish.error is not None:
        error = result.error or ""
        record = make_error_record(item.index, prompt=item.prompt, error=error, **same)
    else:
        request, completion = item.prepared.request, result.completion
        record = make_record(request, completion=completion, finish=finish, **same)
    return format_record(record)


def format_as_text(result: Result) -> str:
    r"""Return the completion alone as one line, with \n escaped; an error is an empty line."""
    return f"{'' if result.error else result.completion.translate(_ESCAPES)}\n"


def _tell_errors(errors: int) -> str:
    return f", {_count(errors, 'error')} among them" if errors else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
