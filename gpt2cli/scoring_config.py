"""The options of scoring."""

from dataclasses import dataclass
from typing import Final

from gpt2cli.errors import UsageError
from gpt2cli.option_kinds import WHOLE, Range, check_ranges, option

_SCORING: Final = "Scoring"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringConfig:
    """How texts are scored."""

    stride: int | None = option(
        None, "Distance in tokens between the starts of a long text's windows. A smaller one gives "
        "more context and is slower.", _SCORING,
        kind=WHOLE, within=Range(1, words="1 or more, and less than the model's context"),
        usual="half of the context", settable=False,
    )  # fmt: skip
    top: int = option(
        0, "Also tell the N likeliest tokens at each place.", _SCORING,
        kind=WHOLE, within=Range(0), off="0: off", settable=False,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_ranges(self)

    def choose_stride(self, n_positions: int) -> int:
        """Return the stride for a model.

        Raises:
            UsageError: if it is as long as a window: a window's first token would have no context.
        """
        stride = max(1, n_positions // 2) if self.stride is None else self.stride
        if stride >= n_positions:
            expected = f"1 to {n_positions - 1}, less than the model's context"
            raise UsageError(option="stride", expected=expected, found=stride)
        return stride
