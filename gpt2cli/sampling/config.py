"""The sampling options of one request, validated when built."""

import sys
from dataclasses import dataclass
from typing import Final

from gpt2cli.errors import UsageError

# Below this a temperature is greedy: dividing by it leaves one token anyway (vLLM's limit too).
GREEDY_BELOW: Final = 1e-5

# Leaves out infinity, and the integers of a JSON record that no float can hold. NaN fails any test.
_LARGEST: Final = sys.float_info.max


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingConfig:
    """How the next token is chosen. Names and definitions are Hugging Face's.

    Raises:
        UsageError: naming the option, its range and the value found.
    """

    temperature: float = 1.0  # 0: greedy
    top_k: int = 40  # 0: off
    top_p: float = 1.0  # 1: off
    min_p: float = 0.0  # 0: off
    repetition_penalty: float = 1.0  # 1: off

    def __post_init__(self) -> None:
        temperature, penalty = self.temperature, self.repetition_penalty
        _require("temperature", temperature, "0 or more", 0 <= temperature <= _LARGEST)
        _require("top-k", self.top_k, "0 or more", self.top_k >= 0)
        _require("top-p", self.top_p, "between 0 and 1", 0 <= self.top_p <= 1)
        _require("min-p", self.min_p, "between 0 and 1", 0 <= self.min_p <= 1)
        _require("repetition-penalty", penalty, "above 0", 0 < penalty <= _LARGEST)

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is taken, without a draw."""
        return self.temperature < GREEDY_BELOW


def _require(option: str, value: float, expected: str, holds: bool) -> None:
    if not holds:
        raise UsageError(f"--{option}: expected a number {expected}, found {value}")
