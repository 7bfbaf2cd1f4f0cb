"""What all requests use: the model, its settings, and the runner."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpt2cli.config import ModelConfig
from gpt2cli.conversations.replies import ChatForm
from gpt2cli.errors import UsageError
from gpt2cli.generation.requests import Request
from gpt2cli.loading import LoadedModel
from gpt2cli.model_folder import ModelShape
from gpt2cli.openai.chatting import USUAL_TOKENS
from gpt2cli.openai.faults import Fault
from gpt2cli.serve.config import ServeConfig
from gpt2cli.serve.runner import Runner
from gpt2cli.settings import Settings
from gpt2cli.tokenizer import Tokenizer

# Of an option: each is looked up in the whole vocabulary (2 ms for 4,096 tokens), or compared with
# the text at each token, while others wait.
_MOST_TEXTS: Final = 256


@dataclass(frozen=True, slots=True)
class Service:
    """A model that is loaded, and how it is offered."""

    model: LoadedModel
    settings: Settings  # for what a request does not say, with the model's own
    form: ServeConfig
    runner: Runner
    chat: ChatForm
    names: Collection[str]  # that mean the model
    asked: ModelConfig = field(default_factory=ModelConfig)  # when it was started
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return self.model.tokenizer

    @property
    def shape(self) -> ModelShape:
        """The model's sizes."""
        return self.model.engine.shape

    @property
    def usual_tokens(self) -> int:
        """How many a reply has at most where nobody says anything."""
        return min(USUAL_TOKENS, self.form.max_tokens_limit)

    def check_model(self, name: str) -> None:
        """Refuse a request that is for another model.

        Raises:
            Fault: if it is.
        """
        if name not in self.names:
            own = self.model.stored.name
            message = f"there is no model {name} here; this server has {own}"
            raise Fault(404, message, param="model", code="model_not_found")

    def check_size(self, request: Request) -> None:
        """Refuse a request that takes more than one client should have.

        Raises:
            UsageError: naming the option.
        """
        most, asked = self.form.max_tokens_limit, request.generation.max_new_tokens
        if asked > most:
            expected = f"at most {most} on this server"
            raise UsageError(option="max_new_tokens", expected=expected, found=asked)
        sampling = request.sampling
        self._check_texts("stop", request.generation.stop)
        self._check_texts("ban", sampling.ban)
        self._check_texts("dry_sequence_breaker", sampling.dry_sequence_breaker)
        slots, search = self.model.engine.max_slots, request.search
        if search.on and search.beams > slots:
            expected = f"at most {slots} on this server"
            raise UsageError(option="beams", expected=expected, found=search.beams)

    def _check_texts(self, option: str, texts: Sequence[str]) -> None:
        if len(texts) > _MOST_TEXTS:
            expected = f"at most {_MOST_TEXTS} texts on this server"
            raise UsageError(option=option, expected=expected, found=len(texts))
