"""The options that `gpt2 score` alone has."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpt2cli.config import file_option, json_option, output_option, stdin_option
from gpt2cli.declarations import option
from gpt2cli.option_kinds import Range

_SCORING: Final = "Scoring"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringConfig:
    """How texts are scored."""

    stride: int | None = option(
        None, "Distance in tokens between the starts of a long text's windows. A smaller one gives "
        "more context and is slower.", _SCORING,
        within=Range(1, words="1 or more, and less than the model's context"),
        usual="half of the context",
    )  # fmt: skip
    top: int = option(
        0, "Also tell the N likeliest tokens at each index.", _SCORING,
        within=Range(0), off="0: off",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutput:
    """Where texts come from, beside the argument, what is written of the scores, and where."""

    file: tuple[Path, ...] = file_option(
        (), "Read a text from FILE; repeatable; - is stdin.", "the argument, or stdin"
    )
    stdin: bool | None = stdin_option()
    json: bool = json_option("Print one JSON record per text.")
    output: Path | None = output_option()
