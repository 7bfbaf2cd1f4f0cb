"""Shows the samples of one prompt as they come: as running text, or as one record each."""

from typing import Protocol

from gpt2cli.generation import Chunk, Finish, Request
from gpt2cli.loading import LoadedModel
from gpt2cli.records import format_record, make_record
from gpt2cli.terminal.result import ResultWriter


class SampleView(Protocol):
    """Takes the chunks of a request's samples, sample after sample."""

    def begin(self) -> None:
        """Show what there is before the first chunk."""

    def show(self, chunk: Chunk) -> None:
        """Show what this chunk adds."""

    def end(self) -> None:
        """Leave nothing half shown, however it ended."""


class TextView:
    """The prompt, its completion as it is made, one newline at the end; samples set apart."""

    def __init__(self, writer: ResultWriter, *, prompt: str, separator: str) -> None:
        """Begin; `prompt` is written before each completion ("" for none)."""
        self._writer = writer
        self._prompt = prompt
        self._separator = separator
        self._sample = 0
        self._open = False  # whether the line of a sample is unfinished

    def begin(self) -> None:
        """Write the prompt: the first token takes a while."""
        self._open = True
        self._writer.write_prompt(self._prompt)

    def show(self, chunk: Chunk) -> None:
        """Write the chunk's text."""
        if chunk.sample != self._sample:
            self._writer.write(f"{self._separator}\n")
            self._sample = chunk.sample
            self.begin()
        if chunk.text:
            self._writer.write(chunk.text)
        if chunk.finish is not None:
            self.end()

    def end(self) -> None:
        """Finish the line."""
        if self._open:
            self._open = False
            self._writer.write("\n")


class RecordView:
    """One JSON record per sample, written when it is finished."""

    def __init__(self, writer: ResultWriter, *, request: Request, model: LoadedModel) -> None:
        self._writer = writer
        self._request = request
        self._model = model
        self._completion = ""

    def begin(self) -> None:
        """Write nothing yet."""

    def show(self, chunk: Chunk) -> None:
        """Gather the chunk's text; write the record at the end."""
        self._completion += chunk.text
        if chunk.finish is not None:
            self._write(chunk.sample, chunk.finish)

    def end(self) -> None:
        """Write nothing: a record is whole, or is not."""

    def _write(self, sample: int, finish: Finish) -> None:
        record = make_record(
            self._request,
            sample=sample,
            completion=self._completion,
            finish=finish,
            model=self._model,
        )
        self._writer.write(format_record(record))
        self._completion = ""
