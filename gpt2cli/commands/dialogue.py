"""Runs a chat: messages to the model, commands to where they are done, replies to the view."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

from gpt2cli.chat import Chat, Exchange, SessionFile
from gpt2cli.errors import ConversationError, Gpt2Error, OutputError
from gpt2cli.generation.interfaces import FinishReason
from gpt2cli.loading import LoadedModel
from gpt2cli.settings import Settings
from gpt2cli.terminal.chat_input import ChatInput
from gpt2cli.terminal.interrupt import ctrl_c_as_flag, signals_held_back
from gpt2cli.terminal.notes import Notes, end_line, write_error
from gpt2cli.terminal.replies import ReplyView
from gpt2cli.terminal.statistics import describe_cut, describe_run


@dataclass(slots=True, kw_only=True)
class Dialogue:
    """A chat in progress, as the commands see it."""

    chat: Chat
    model: LoadedModel
    settings: Settings
    session: SessionFile | None
    source: ChatInput
    view: ReplyView
    notes: Notes
    stats: bool = False
    abandoned: Callable[[], bool] = lambda: False  # whether nobody reads the replies any more
    failed: bool = False  # whether anything that was typed came to nothing
    interrupted: bool = False  # by Ctrl-C where nobody types
    ended: bool = False
    last: Exchange | None = None
    _told: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Take what is typed until the end.

        Raises:
            OutputError: if replies cannot be written.
            BrokenPipeError: if nobody reads them any more.
            KeyboardInterrupt: where nobody types.
        """
        while not (self.ended or self.interrupted or self.abandoned()):
            try:
                self._take_entry()
            except OutputError:
                raise
            except Gpt2Error as error:
                self.tell_failure(error)
            except KeyboardInterrupt:  # a person ends what goes on, not the chat
                if not self.source.on_terminal:
                    raise
                end_line()

    def say(self, message: str) -> None:
        """Send a message and show its reply."""
        self.reply(self.chat.ask(message))

    def reply(self, exchange: Exchange) -> None:
        """Show the reply to a message until its end, or until Ctrl-C.

        Raises:
            OutputError, BrokenPipeError: as `run`.
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
        finally:  # also where the terminal has gone, or the program is told to end
            if exchange.finish is not None:
                self.save_session()
        self._finish(exchange)

    def save_session(self) -> None:
        """Write the session's file, if there is one; a failure is told and nothing else."""
        if self.session is None:
            return
        try:
            with signals_held_back():
                self.session.write(self.chat.conversation)
        except ConversationError as error:
            self.tell_failure(error)

    def tell_failure(self, error: Gpt2Error) -> None:
        """Write what came to nothing."""
        write_error(self.source.place + error.tell(_spell))
        self.failed = True

    def describe_last(self) -> list[str]:
        """Return the lines of --stats for the last turn."""
        if self.last is None:
            return ["no reply yet"]
        return describe_run(
            self.model,
            self.last.counts,
            seed=self.last.request.seed,
            first_token_seconds=None,
            from_model=self.settings.from_model,
        )

    def _take_entry(self) -> None:
        from gpt2cli.commands.chat_commands import run_command

        entry = self.source.read()
        if entry is None:
            self.ended = True
        elif entry.is_command:
            run_command(self, entry.text)
        else:
            self.say(entry.text)

    def _show(self, exchange: Exchange, interrupted: Callable[[], bool]) -> None:
        try:
            with closing(self.chat.answer(exchange, interrupted)) as pieces:
                for piece in pieces:
                    self.view.show(piece)
        except SystemExit:  # told to end: a reader who has stopped is not waited for
            raise
        except BaseException:
            self.view.end(exchange)
            raise
        self.view.end(exchange)

    def _finish(self, exchange: Exchange) -> None:
        if exchange.finish is None:
            return  # interrupted before anything was made: there is no turn
        self.last = exchange
        for line in describe_cut(exchange.finish, self.chat.n_positions):
            self.notes.note(line)
        if self.source.on_terminal and exchange.finish.reason is FinishReason.LENGTH:
            limit = exchange.request.generation.max_new_tokens
            self._tell_once(f"stopped after {limit} tokens; /set max-new-tokens N changes that")
        if exchange.finish.reason is FinishReason.CONTEXT:
            self._tell_once(
                f"stopped at the model's limit of {self.chat.n_positions} tokens; "
                "the next message makes the oldest turns go"
            )
        if self.source.on_terminal and not exchange.reply:
            self.notes.note("the model said nothing")
        if self.stats:
            for line in self.describe_last():
                self.notes.report(line)

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.notes.note(text)


def _spell(field: str) -> str:
    """Return how an option is written in a chat: as /set takes it."""
    return field.replace("_", "-")
