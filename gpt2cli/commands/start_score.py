"""From options to texts that are ready to be scored: a loaded model, and ids."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from gpt2cli.config import ModelConfig, TextConfig
from gpt2cli.loading import LoadedModel, load_model
from gpt2cli.scoring import TokenScore, score
from gpt2cli.scoring_config import ScoringConfig
from gpt2cli.settings import Settings
from gpt2cli.store.store import Listener
from gpt2cli.text_input import NamedText


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A text's ids, and the name of its file if it has one."""

    name: str | None
    ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class ReadyTexts:
    """Texts whose model is loaded, and how they are to be scored."""

    model: LoadedModel
    texts: Sequence[EncodedText]
    stride: int
    top: int

    @property
    def total_tokens(self) -> int:
        """The number of tokens of all texts."""
        return sum(len(text.ids) for text in self.texts)

    def score(self, text: EncodedText) -> Generator[list[TokenScore], None, None]:
        """Yield the scores of one of the texts as they are made."""
        bos = self.model.tokenizer.context_id
        return score(
            self.model.engine, text.ids, bos_token_id=bos, stride=self.stride, top=self.top
        )


def get_scoring_ready(
    texts: Sequence[NamedText], settings: Settings, *, listener: Listener
) -> ReadyTexts:
    """Load the model and encode the texts.

    Raises:
        Gpt2Error: whatever is wrong with the options, the model or a text.
    """
    loaded = load_model(settings.make(ModelConfig), max_slots=1, listener=listener)
    config = settings.make(ScoringConfig)
    stride = config.choose_stride(loaded.engine.shape.n_positions)
    encode, special = loaded.tokenizer.encode_long, settings.make(TextConfig).allow_special
    encoded = [
        EncodedText(t.name, encode(t.text, allow_special=special, begins=True)) for t in texts
    ]
    return ReadyTexts(loaded, encoded, stride, config.top)
