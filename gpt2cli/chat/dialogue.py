"""A chat in progress: its replies, their statistics and notes, and the session file."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

from gpt2cli.chat.chat import Chat, Exchange
from gpt2cli.chat.input import ChatInput
from gpt2cli.conversations.conversation import SessionFile
from gpt2cli.errors import ConversationError, Gpt2Error
from gpt2cli.generation.interfaces import FinishReason
from gpt2cli.loading import LoadedModel
from gpt2cli.record_lines import format_record
from gpt2cli.recorded import describe_context
from gpt2cli.records import make_record
from gpt2cli.terminal.interrupt import ctrl_c_as_flag, signals_held_back
from gpt2cli.terminal.notes import Notes, write_error
from gpt2cli.terminal.result import ResultWriter
from gpt2cli.terminal.statistics import describe_cut, describe_run


@dataclass
class ReplyView:
    """Shows replies: as text while they are made, or as one JSON record for each turn."""

    writer: ResultWriter
    model: LoadedModel
    as_records: bool = False

    def show(self, piece: str) -> None:
        """Show what this piece adds."""
        if not self.as_records:
            self.writer.write(piece)

    def end(self, exchange: Exchange) -> None:
        """Finish the last line, however the reply ended."""
        if not self.as_records:
            self.writer.write("\n\n" if self.writer.on_terminal else "\n")
        elif exchange.finish is not None:  # else there is no turn
            record = make_record(
                exchange.request,
                sample=0,
                completion=exchange.reply,
                finish=exchange.finish,
                model=self.model,
                context=describe_context(exchange.prepared, exchange.ends),
            )
            self.writer.write(format_record(record))


@dataclass(slots=True, kw_only=True)
class Dialogue:
    """A chat in progress, as the commands see it."""

    chat: Chat
    model: LoadedModel
    session: SessionFile | None
    source: ChatInput
    view: ReplyView
    notes: Notes
    stats: bool = False
    abandoned: Callable[[], bool] = lambda: False  # whether the reader of the replies has gone
    failed: bool = False  # whether any input failed
    interrupted: bool = False  # by Ctrl-C, when the input is no terminal
    ended: bool = False
    last: Exchange | None = None
    _told: set[str] = field(default_factory=set)

    def reply(self, exchange: Exchange) -> None:
        """Show the reply to a message until its end, or until Ctrl-C.

        Raises:
            OutputError: if it cannot be written.
            BrokenPipeError: if nobody reads it any more.
            ModelError: if the model cannot go on.
        """
        if exchange.dropped:
            self._tell_once(
                f"the conversation has outgrown the model's {self.chat.n_positions} tokens: "
                "the model no longer sees its oldest turns (/context shows what it sees)"
            )
        try:
            with self.source.resting(), ctrl_c_as_flag() as pressed:
                self._show(exchange, lambda: pressed() or self.abandoned())
            self.interrupted = pressed() and not self.source.on_terminal
        except KeyboardInterrupt:  # a second one, before the reply could end
            if not self.source.on_terminal:
                raise
        finally:  # also where the terminal has gone, or a signal ends the program
            if exchange.finish is not None:
                self.save_session()
        self._finish(exchange)

    def save_session(self) -> None:
        """Write the session's file, if there is one; if that fails, say so and go on."""
        if self.session is None:
            return
        try:
            with signals_held_back():
                self.session.write(self.chat.conversation)
        except ConversationError as error:
            self.tell_failure(error)

    def tell_failure(self, error: Gpt2Error) -> None:
        """Write an error; options are spelled as /set takes them."""
        write_error(self.source.position + error.tell(lambda field: field.replace("_", "-")))
        self.failed = True

    def describe_last(self) -> str:
        """Return the lines of --stats for the last turn."""
        if self.last is None:
            return "no reply yet"
        seed, from_model = self.last.request.seed, self.chat.settings.from_model
        lines = describe_run(self.model, self.last.counts, seed=seed, from_model=from_model)
        return "\n".join(lines)

    def _show(self, exchange: Exchange, interrupted: Callable[[], bool]) -> None:
        try:
            with closing(self.chat.answer(exchange, interrupted)) as pieces:
                for piece in pieces:
                    self.view.show(piece)
        except SystemExit:  # ended by a signal: do not wait for a reader that has stopped
            raise
        except BaseException:
            self.view.end(exchange)
            raise
        self.view.end(exchange)

    def _finish(self, exchange: Exchange) -> None:
        if exchange.finish is None:
            return  # interrupted before anything was made: there is no turn
        self.last = exchange
        cut, of = exchange.finish.truncated_prompt_tokens, exchange.finish.prompt_tokens
        for line in describe_cut(cut, prompt_tokens=of, n_positions=self.chat.n_positions):
            self.notes.note(line)
        if self.source.on_terminal and exchange.finish.reason is FinishReason.LENGTH:
            limit = exchange.request.generation.max_new_tokens
            self._tell_once(f"stopped after {limit} tokens; /set max-new-tokens N changes that")
        if self.source.on_terminal and exchange.finish.reason is FinishReason.TIME:
            seconds = exchange.request.generation.max_time
            self._tell_once(f"stopped after {seconds:g} s; /set max-time S changes that")
        if exchange.finish.reason is FinishReason.CONTEXT:
            self._tell_once(
                f"stopped at the model's limit of {self.chat.n_positions} tokens; "
                "the next message drops the oldest turns"
            )
        if self.source.on_terminal and not exchange.reply:
            self.notes.note("the model said nothing")
        self.notes.tell_run(self.describe_last().split("\n"), shown=self.stats)

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.notes.note(text)
