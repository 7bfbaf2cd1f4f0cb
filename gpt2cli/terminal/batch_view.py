"""Writes the results of a batch, one after the other."""

from collections.abc import Callable

from gpt2cli.batch import Journal, Result, format_as_record, format_as_text
from gpt2cli.loading import LoadedModel
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.progress import BatchProgress
from gpt2cli.terminal.result import ResultWriter
from gpt2cli.terminal.statistics import describe_cut


class BatchView:
    """Takes results in order; each is written and flushed at once."""

    def __init__(
        self,
        model: LoadedModel,
        output: ResultWriter | Journal,
        notes: Notes,
        progress: BatchProgress,
        *,
        as_text: bool,
        bytes_taken: Callable[[], int],
    ) -> None:
        """`bytes_taken` tells how much of the input has been read, for the progress."""
        self._model = model
        self._output = output
        self._notes = notes
        self._progress = progress
        self._as_text = as_text
        self._bytes_taken = bytes_taken

    def show(self, result: Result) -> None:
        """Write a result; what is wrong with it, or was left out, is a note if it cannot say so.

        Raises:
            BrokenPipeError: if nobody reads any more.
            OutputError: if it cannot be written for another reason.
        """
        text = format_as_text(result) if self._as_text else format_as_record(result, self._model)
        error, finish = result.error, result.finish
        if isinstance(self._output, Journal):
            self._output.write(
                text.encode(), result.item, sample=result.sample, failed=error is not None
            )
        else:
            self._output.write(text)
        cuts = [] if finish is None else describe_cut(finish, self._model.engine.shape.n_positions)
        told = cuts if error is None else [" ".join(error.split())]
        for line in told if self._as_text else []:
            self._notes.note(f"record {result.item.index}: {line}")
        self._progress.add(
            error=error is not None,
            cut=bool(cuts),
            tokens=0 if finish is None else finish.completion_tokens,
            bytes_read=self._bytes_taken(),
        )
