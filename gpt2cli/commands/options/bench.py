"""What `bench` measures."""

from dataclasses import dataclass
from typing import Annotated

from gpt2cli.commands.option_kinds import number, option
from gpt2cli.commands.options.panels import BENCH, MOST_SLOTS, REPORT, Quiet
from gpt2cli.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What is measured, how often, and how it is told."""

    rounds: Annotated[
        int,
        number(
            BENCH, "--rounds", kind=int, help="How often each thing is measured.",
            within="1 or more", default="5",
        ),
    ] = 5  # fmt: skip
    prompt_length: Annotated[
        list[int] | None,
        number(
            BENCH, "--prompt-length", kind=int,
            help="Tokens of a prompt whose prefill is measured; repeatable.",
            within="1 or more, up to the model's context",
            default="32, 128 and 512, as far as the context goes",
        ),
    ] = None  # fmt: skip
    batch_size: Annotated[
        list[int] | None,
        number(
            BENCH, "--batch-size", kind=int,
            help="How many rows are decoded at once; repeatable.",
            within=f"1 to {MOST_SLOTS}", default="1, 8 and 16",
        ),
    ] = None  # fmt: skip
    json: Annotated[bool, option(REPORT, "--json", help="Print one JSON record, not a table.")] = (
        False
    )
    quiet: Quiet = False

    def __post_init__(self) -> None:
        for size in self.batch_size or ():
            if not 1 <= size <= MOST_SLOTS:
                raise UsageError(f"--batch-size: expected 1 to {MOST_SLOTS}, found {size}")
