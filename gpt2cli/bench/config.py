"""The options that `gpt2 bench` alone has."""

from dataclasses import dataclass
from typing import Final

from gpt2cli.config import MOST_SLOTS, json_option
from gpt2cli.declarations import option
from gpt2cli.option_kinds import Range

_BENCH: Final = "Measuring"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchConfig:
    """What is measured, how often, and how it is shown."""

    rounds: int = option(5, "How often each thing is measured.", _BENCH, within=Range(1))
    prompt_length: tuple[int, ...] = option(
        (), "Tokens of a prompt whose prefill is measured; repeatable.", _BENCH,
        within=Range(1, words="1 or more, up to the model's context"),
        usual="32, 128 and 512, as far as the context goes",
    )  # fmt: skip
    batch_size: tuple[int, ...] = option(
        (1, 8, 16), "How many rows are decoded at once; repeatable.", _BENCH,
        within=Range(1, MOST_SLOTS), usual="1, 8 and 16",
    )  # fmt: skip
    json: bool = json_option("Print one JSON record, not a table.")
