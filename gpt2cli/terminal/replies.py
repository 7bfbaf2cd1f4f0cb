"""Shows the replies of a chat as they come: as running text, or as one record each."""

from typing import Protocol

from gpt2cli.chat import Exchange
from gpt2cli.loading import LoadedModel
from gpt2cli.records import format_record, make_record
from gpt2cli.terminal.result import ResultWriter


class ReplyView(Protocol):
    """Takes a reply piece by piece."""

    def show(self, piece: str) -> None:
        """Show what this piece adds."""

    def end(self, exchange: Exchange) -> None:
        """Leave nothing half shown, however it ended."""


class TextReplies:
    """Replies as they are made, a newline after each; on a terminal an empty line too."""

    def __init__(self, writer: ResultWriter) -> None:
        self._writer = writer
        self._end = "\n\n" if writer.on_terminal else "\n"

    def show(self, piece: str) -> None:
        """Write the piece."""
        self._writer.write(piece)

    def end(self, exchange: Exchange) -> None:
        """Finish the line."""
        self._writer.write(self._end)


class ReplyRecords:
    """One JSON record per turn, written when it is finished."""

    def __init__(self, writer: ResultWriter, *, model: LoadedModel) -> None:
        self._writer = writer
        self._model = model

    def show(self, piece: str) -> None:
        """Write nothing yet."""

    def end(self, exchange: Exchange) -> None:
        """Write the record, if there is a turn."""
        if exchange.finish is None:
            return
        record = make_record(
            exchange.request,
            sample=0,
            completion=exchange.reply,
            finish=exchange.finish,
            model=self._model,
        )
        self._writer.write(format_record(record))
