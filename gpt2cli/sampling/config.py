"""The sampling options of one request, validated when built."""

import sys
from dataclasses import dataclass
from typing import Final

from gpt2cli.errors import UsageError, shorten

# Below this a temperature is greedy: dividing by it leaves one token anyway (vLLM's limit too).
GREEDY_BELOW: Final = 1e-5

# Leaves out infinity, and the integers of a JSON record that no float can hold. NaN fails any test.
_LARGEST: Final = sys.float_info.max

_LARGEST_BIAS: Final = 100  # OpenAI's range: 100 all but forces a token, -100 all but forbids it


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingConfig:
    """How the next token is chosen. Names and definitions are Hugging Face's, but two.

    `presence_penalty` and `frequency_penalty` are vLLM's.

    Raises:
        UsageError: naming the option, its range and the value found.
    """

    temperature: float = 1.0  # 0: greedy
    top_k: int = 40  # 0: off
    top_p: float = 1.0  # 1: off
    min_p: float = 0.0  # 0: off
    typical_p: float = 1.0  # 1: off
    repetition_penalty: float = 1.0  # 1: off; prompt and completion
    presence_penalty: float = 0.0  # 0: off; completion
    frequency_penalty: float = 0.0  # 0: off; completion
    no_repeat_ngram: int = 0  # 0: off; prompt and completion
    logit_bias: tuple[tuple[str, float], ...] = ()  # (an id, or a text that is one token; bias)
    ban: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        temperature, penalty = self.temperature, self.repetition_penalty
        presence, frequency = self.presence_penalty, self.frequency_penalty
        _require("temperature", temperature, "0 or more", 0 <= temperature <= _LARGEST)
        _require("top-k", self.top_k, "0 or more", self.top_k >= 0)
        _require("top-p", self.top_p, "between 0 and 1", 0 <= self.top_p <= 1)
        _require("min-p", self.min_p, "between 0 and 1", 0 <= self.min_p <= 1)
        _require("typical-p", self.typical_p, "above 0, up to 1", 0 < self.typical_p <= 1)
        _require("repetition-penalty", penalty, "above 0", 0 < penalty <= _LARGEST)
        _require("presence-penalty", presence, "between -2 and 2", -2 <= presence <= 2)
        _require("frequency-penalty", frequency, "between -2 and 2", -2 <= frequency <= 2)
        _require("no-repeat-ngram", self.no_repeat_ngram, "0 or more", self.no_repeat_ngram >= 0)
        for token, bias in self.logit_bias:
            _require_text("logit-bias", token)
            holds = -_LARGEST_BIAS <= bias <= _LARGEST_BIAS
            expected = f"between -{_LARGEST_BIAS} and {_LARGEST_BIAS}"
            _require("logit-bias", bias, f"{expected} for {shorten(token)!r}", holds)
        for text in self.ban:
            _require_text("ban", text)

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is taken, without a draw."""
        return self.temperature < GREEDY_BELOW

    @property
    def warping(self) -> tuple[float, ...]:
        """What the warpers go by: rows that agree in it are warped and drawn together."""
        return (self.temperature, self.top_k, self.top_p, self.min_p, self.typical_p)


def _require(option: str, value: float, expected: str, holds: bool) -> None:
    if not holds:
        raise UsageError(f"--{option}: expected a number {expected}, found {value}")


def _require_text(option: str, text: str) -> None:
    if not text:
        raise UsageError(f"--{option}: expected some text, found an empty one")
    try:
        text.encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair, from a JSON record
        found = ascii(shorten(text))
        raise UsageError(f"--{option}: expected valid Unicode, found {found}") from error
