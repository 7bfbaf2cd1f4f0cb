"""Writes the results of a batch, one input record after the other."""

from collections.abc import Callable

from gpt2cli.batch import Group, Journal, format_completions, format_records
from gpt2cli.loading import LoadedModel
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.progress import BatchProgress
from gpt2cli.terminal.result import ResultWriter


class BatchView:
    """Takes groups in order; each is written and flushed at once."""

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

    def show(self, group: Group) -> None:
        """Write a group's results; what is wrong with a record is a note if they cannot say it.

        Raises:
            BrokenPipeError: if nobody reads any more.
            OutputError: if it cannot be written for another reason.
        """
        text = format_completions(group) if self._as_text else format_records(group, self._model)
        if isinstance(self._output, Journal):
            self._output.write(group.item.digest, text.encode("utf-8", "replace"))
        else:
            self._output.write(text)
        failed = group.item.prepared is None
        if failed and self._as_text:
            self._notes.note(f"record {group.item.index}: {group.item.error}")
        finishes = [sample.finish for sample in group.samples if sample.finish is not None]
        self._progress.add(
            records=group.item.results,
            errors=int(failed),
            tokens=sum(finish.completion_tokens for finish in finishes),
            bytes_read=self._bytes_taken(),
        )
