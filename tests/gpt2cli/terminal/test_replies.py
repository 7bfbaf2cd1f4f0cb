"""Claims about how replies are shown."""

import io
import json

import pytest

from gpt2cli.chat import Exchange
from gpt2cli.loading import LoadedModel
from gpt2cli.terminal.replies import ReplyRecords, ReplyView, TextReplies
from gpt2cli.terminal.result import ResultWriter
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.chat.talking import NEVER, make_chat, make_settings, talker
from tests.gpt2cli.loaded import load
from tests.model_folders import ModelFolders


@pytest.fixture(scope="module")
def model(model_folders: ModelFolders) -> LoadedModel:
    """Return the smallest model; a record tells its name."""
    return load(model_folders())


def show(view: ReplyView, tokenizer: Tokenizer, written: str, *, begin: bool = True) -> Exchange:
    """Show the reply that a model writes; or none, if it is interrupted before it begins."""
    chat = make_chat(
        talker(tokenizer, lambda message: written, vocab_size=257),
        tokenizer,
        settings=make_settings(seed=7),
    )
    exchange = chat.ask("hi\x1b")
    for piece in chat.answer(exchange, NEVER if begin else lambda: True):
        view.show(piece)
    view.end(exchange)
    return exchange


@pytest.mark.parametrize(
    ("on_terminal", "expected"),
    [(False, "[/b]\x1b[31m\r é\n"), (True, "[/b]␛[31m␍ é\n\n")],
    ids=["pipe", "terminal"],
)
def test_text_is_shown_as_it_comes(
    byte_tokenizer: Tokenizer, on_terminal: bool, expected: str
) -> None:
    """In a pipe untouched; on a terminal safe, and with an empty line before the next prompt."""
    file = io.BytesIO()
    show(
        TextReplies(ResultWriter(file, on_terminal=on_terminal)),
        byte_tokenizer,
        " [/b]\x1b[31m\r é\n",
    )

    assert file.getvalue().decode() == expected


def test_a_record_tells_all_of_a_turn(byte_tokenizer: Tokenizer, model: LoadedModel) -> None:
    """On one line, in the order and with the fields of `generate --json`."""
    file = io.BytesIO()
    view = ReplyRecords(ResultWriter(file, on_terminal=False), model=model)
    show(view, byte_tokenizer, " a\nb\nUser:")

    line = file.getvalue().decode()
    assert line.count("\n") == 1
    assert list(json.loads(line).items()) == [
        ("index", 0),
        ("prompt", "hi\x1b"),
        ("completion", "a\nb"),
        ("finish_reason", "stop"),
        ("stop_sequence", "\nUser:"),
        ("prompt_tokens", len("User: hi\x1b\nBot:")),
        ("completion_tokens", len(" a\nb\nUser:")),
        ("sample", 0),
        ("seed", 7),
        ("model", model.stored.name),
        ("revision", None),
        ("precision", "fp32"),
        ("device", "cpu"),
    ]


def test_what_is_no_turn_has_no_record(byte_tokenizer: Tokenizer, model: LoadedModel) -> None:
    """Interrupted before anything was made of it."""
    file = io.BytesIO()
    view = ReplyRecords(ResultWriter(file, on_terminal=False), model=model)

    assert show(view, byte_tokenizer, " a", begin=False).finish is None
    assert file.getvalue() == b""
