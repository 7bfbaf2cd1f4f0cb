"""Claims about a conversation that is taken up again: it goes on with the same bits.

A new process is an engine whose slots are empty and a conversation that comes from its file.
"""

import functools
import hashlib
import pathlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from export.storage import Precision
from gpt2cli.chat.chat import Chat
from gpt2cli.config import SamplingConfig
from gpt2cli.conversations.conversation import (
    Conversation,
    Turn,
    read_conversation,
    write_conversation,
)
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.model_folder import ModelFolder, read_model_folder
from gpt2cli.sampling.history import History
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.store.names import STARTER_FOLDER
from gpt2cli.tokenizer import Tokenizer
from tests.checkpoints import CheckpointShape
from tests.gpt2cli.chat.talking import answer as take_answer
from tests.gpt2cli.chat.talking import make_chat, make_settings, say
from tests.model_folders import ModelFolders

_MESSAGES = ("Hi", "Who?", "", "And then?")


class Witness(Sampler):
    """Draws, and keeps a digest of all logits that it drew by."""

    def __init__(self) -> None:
        super().__init__()
        self.digest = hashlib.sha256()

    def step(self, logits: NDArray[np.float32], histories: Sequence[History]) -> list[int]:
        """Draw the next ids."""
        self.digest.update(logits.tobytes())
        return super().step(logits, histories)


@dataclass
class Talk:
    """A conversation, in one process or in a new one before whatever is said or done."""

    engine: Engine
    tokenizer: Tokenizer
    path: pathlib.Path
    settings: Mapping[str, Any]
    resumed: bool
    witness: Witness = field(default_factory=Witness)
    chat: Chat | None = None

    def open(self) -> Chat:
        """Return the chat, taken up from its file if this is a new process."""
        if self.chat is None or self.resumed:
            while self.engine.lengths:
                self.engine.free(0)
            kept = read_conversation(self.path) if self.path.exists() else Conversation()
            self.chat = make_chat(
                self.engine,
                self.tokenizer,
                settings=make_settings(**self.settings),
                conversation=kept,
                sampler=self.witness,
            )
            assert self.chat.known_by_text == 0
        return self.chat

    def do(self, what: str, message: str = "") -> None:
        """Say something, draw the last reply anew, or take it back; then keep what there is."""
        chat = self.open()
        if what == "system":
            chat.change_system(message[:3])
        elif what == "undo" and chat.conversation.turns:
            chat.undo()
        elif what == "regen" and chat.conversation.turns:
            take_answer(chat, chat.ask_again())
        elif what == "stop":  # a reply that the user ends after its first piece
            pieces = chat.answer(chat.ask(message), lambda: False)
            next(pieces, None)
            pieces.close()
        else:
            say(chat, message)
        if self.resumed:
            write_conversation(self.path, chat.conversation, model="m")

    @property
    def outcome(self) -> tuple[Sequence[Turn], str]:
        """All turns, and the digest of all logits."""
        assert self.chat is not None
        return self.chat.conversation.turns, self.witness.digest.hexdigest()


@pytest.fixture(scope="module", params=[Precision.FP32, Precision.INT8], ids=str)
def starter_in(request: pytest.FixtureRequest, model_folders: ModelFolders) -> ModelFolder:
    """Return the starter in each precision."""
    return read_model_folder(model_folders.convert(STARTER_FOLDER, request.param))


@pytest.fixture(scope="module")
def narrow(model_folders: ModelFolders) -> ModelFolder:
    """Return a model of printable ASCII with a context of 100."""
    shape = CheckpointShape(2, 2, 32, 100, 97, seed=5)
    return read_model_folder(model_folders(shape, tokenizer="ascii"))


@functools.cache
def load_tokenizer(folder: pathlib.Path) -> Tokenizer:
    """Return the tokenizer of a model folder."""
    return Tokenizer(read_model_folder(folder))


def run(
    folder: ModelFolder,
    path: pathlib.Path,
    doings: Sequence[tuple[str, str]],
    settings: Mapping[str, Any],
    engine: Engine,
) -> tuple[Sequence[Turn], Sequence[Turn]]:
    """Do all in one process and in one process each; the logits must be the same."""
    outcomes, tokenizer = [], load_tokenizer(folder.path)
    for resumed in (False, True):
        kept = path / f"{resumed}.json"
        kept.unlink(missing_ok=True)
        while engine.lengths:
            engine.free(0)
        talk = Talk(engine, tokenizer, kept, settings, resumed)
        for what, message in doings:
            talk.do(what, message)
        outcomes.append(talk.outcome)
    assert outcomes[0][1] == outcomes[1][1]
    return outcomes[0][0], outcomes[1][0]


def test_a_process_for_each_turn_gives_the_text_of_one_process(
    starter_in: ModelFolder, tmp_path: pathlib.Path
) -> None:
    """A hundred seeds, half of them in each precision, four turns each."""
    engine = Engine(starter_in, Device("cpu"), max_slots=1, threads=1)
    sampling = SamplingConfig(temperature=1.0, top_k=0)
    doings = [("say", message) for message in _MESSAGES]
    texts = set()
    begin = 50 * (starter_in.precision == "int8")
    for seed in range(begin, begin + 50):
        settings = {"seed": seed, "sampling": sampling, "max_new_tokens": 2}
        whole, resumed = run(starter_in, tmp_path, doings, settings, engine)
        assert whole == resumed
        texts.add(tuple(turn.reply for turn in whole))
    assert len(texts) > 45


@pytest.mark.parametrize("overflow", ["stop", "slide"])
@pytest.mark.parametrize("seed", range(8))
def test_whatever_was_done_before_gives_the_same(
    narrow: ModelFolder, tmp_path: pathlib.Path, seed: int, overflow: str
) -> None:
    """Turns taken back, drawn anew, cut short or dropped, and other system texts, in 100 tokens."""
    draw = random.Random(seed)
    engine = Engine(narrow, Device("cpu"), max_slots=1, threads=1)
    kinds = ["say", "say", "say", "undo", "regen", "stop", "system"]
    doings = [
        (draw.choice(kinds), "ab c " * draw.randrange(6) + chr(97 + number)) for number in range(10)
    ]
    settings = {
        "seed": seed,
        "sampling": SamplingConfig(temperature=1.0),
        "max_new_tokens": 12,
        "overflow": overflow,
    }
    whole, resumed = run(narrow, tmp_path, doings, settings, engine)
    assert whole == resumed
