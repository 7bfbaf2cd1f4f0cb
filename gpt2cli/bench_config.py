"""The options of a benchmark."""

from dataclasses import dataclass, replace
from typing import Final

from gpt2cli.config import MOST_SLOTS, REPORT
from gpt2cli.errors import UsageError
from gpt2cli.option_kinds import SWITCH, WHOLE, Range, check_ranges, option

_BENCH: Final = "Measuring"
_PROMPT_LENGTHS: Final = (32, 128, 512)
_SMALLEST_CONTEXT: Final = 4  # of a model that can decode two tokens after one


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchConfig:
    """What is measured, how often, and how it is told."""

    rounds: int = option(
        5, "How often each thing is measured.", _BENCH, kind=WHOLE, within=Range(1), settable=False
    )
    prompt_length: tuple[int, ...] = option(
        (), "Tokens of a prompt whose prefill is measured; repeatable.", _BENCH,
        kind=WHOLE, within=Range(1, words="1 or more, up to the model's context"), repeatable=True,
        usual="32, 128 and 512, as far as the context goes", settable=False,
    )  # fmt: skip
    batch_size: tuple[int, ...] = option(
        (1, 8, 16), "How many rows are decoded at once; repeatable.", _BENCH,
        kind=WHOLE, within=Range(1, MOST_SLOTS), repeatable=True, usual="1, 8 and 16",
        settable=False,
    )  # fmt: skip
    json: bool = option(
        False, "Print one JSON record, not a table.", REPORT, kind=SWITCH, settable=False
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def fit(self, n_positions: int) -> "BenchConfig":
        """Return what is measured of a model with this context.

        Raises:
            UsageError: if a prompt length that was asked for is beyond it.
        """
        if n_positions < _SMALLEST_CONTEXT:
            raise UsageError(f"a context of {n_positions} tokens is too short to be measured")
        usual = tuple(length for length in _PROMPT_LENGTHS if length <= n_positions)
        lengths = self.prompt_length or usual or (n_positions,)
        if max(lengths) > n_positions:
            expected = f"1 to {n_positions}, the model's context"
            raise UsageError(option="prompt_length", expected=expected, found=max(lengths))
        # From the least: what has been done before a measure must not show in its memory.
        return replace(
            self,
            prompt_length=tuple(sorted(set(lengths))),
            batch_size=tuple(sorted(set(self.batch_size))),
        )
