"""Chats in this process with a scripted model, typed by nobody."""

import io
import pathlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from gpt2cli.chat.chat import Chat
from gpt2cli.chat.dialogue import Dialogue, ReplyView
from gpt2cli.chat.input import ChatInput, Entry, read_entry
from gpt2cli.chat.run import talk
from gpt2cli.chat.settable import all_options
from gpt2cli.conversations.conversation import Conversation, SessionFile
from gpt2cli.engine.devices import Device
from gpt2cli.loading import LoadedModel
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.settings import Given, Settings
from gpt2cli.store.store import StoredModel
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.result import ResultWriter
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.chat.talking import refuse_template, shout, spell
from tests.gpt2cli.folders import bare_folder
from tests.gpt2cli.scripted import ScriptedEngine


class TellingEngine(ScriptedEngine):
    """A scripted engine of which statistics can be told."""

    device = Device("cpu")
    threads = 1
    runtime_version = "0"


class Typed(ChatInput):
    """Lines as a person or a script gives them; an exception stands for itself."""

    def __init__(self, lines: Iterable[str | BaseException], *, on_terminal: bool) -> None:
        self._lines: Iterator[str | BaseException] = iter(lines)
        self._count = 0
        self.on_terminal = on_terminal

    @property
    def position(self) -> str:
        return "" if self.on_terminal else f"line {self._count}: "

    def read(self) -> Entry | None:
        """Return the next entry."""
        return read_entry(lambda continued: self._next())

    def _next(self) -> str | None:
        self._count += 1
        line = next(self._lines, None)
        if isinstance(line, BaseException):
            raise line
        return line


@dataclass
class Session:
    """A dialogue, its engine, and what it wrote to stdout."""

    dialogue: Dialogue
    engine: TellingEngine
    _file: io.BytesIO

    def run(self, *lines: str | BaseException) -> str:
        """Type these lines to the end; return what was written since the last time."""
        source = Typed(lines, on_terminal=self.dialogue.source.on_terminal)
        self.dialogue.source, self.dialogue.ended = source, False
        talk(self.dialogue)
        return self.written()

    def written(self) -> str:
        text = self._file.getvalue().decode()
        self._file.seek(0)
        self._file.truncate()
        return text

    @property
    def turns(self) -> list[tuple[str, str]]:
        return [(turn.message, turn.reply) for turn in self.dialogue.chat.conversation.turns]


def open_session(
    tokenizer: Tokenizer,
    reply_of: Callable[[str], str] = shout,
    *,
    on_terminal: bool = False,
    quiet: bool = False,
    stats: bool = False,
    as_records: bool = False,
    session: pathlib.Path | None = None,
    conversation: Conversation | None = None,
    n_positions: int = 200,
    vocab_size: int = 97,
    **options: Any,
) -> Session:
    """Return a session with a model that answers; `options` are those of the command line."""
    engine = TellingEngine(
        spell(tokenizer, reply_of, vocab_size=vocab_size),
        n_positions=n_positions,
        vocab_size=vocab_size,
        max_slots=1,
    )
    folder = bare_folder(pathlib.Path("m"), vocab_size=vocab_size, eos_token_id=vocab_size - 1)
    model = LoadedModel(StoredModel(folder, "m", None), cast(Any, engine), tokenizer, Sampler())
    given = {"greedy": True, "max_new_tokens": 40, **options}
    layer = {field: Given(value) for field, value in given.items()}
    options = {option.field: option for option in all_options()}
    options["max_new_tokens"] = replace(options["max_new_tokens"], default=128)  # as in chat
    settings = Settings(options, (layer,))
    chat = Chat(
        engine,
        tokenizer,
        model.sampler,
        settings=settings,
        conversation=(conversation or Conversation()).in_form("transcript"),
        load_template=refuse_template,
    )
    file = io.BytesIO()
    writer = ResultWriter(file, on_terminal=on_terminal)
    dialogue = Dialogue(
        chat=chat,
        model=model,
        session=SessionFile(session, model="m") if session else None,
        source=Typed([], on_terminal=on_terminal),
        view=ReplyView(writer, model, as_records=as_records),
        notes=Notes(quiet=quiet),
        stats=stats,
    )
    return Session(dialogue, engine, file)
