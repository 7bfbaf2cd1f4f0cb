"""The options of `gpt2 bench`."""

from dataclasses import dataclass
from typing import Final

import typer

from gpt2cli.config import MOST_SLOTS, ModelConfig, ReportConfig, json_option
from gpt2cli.errors import ExitCode
from gpt2cli.option_kinds import WHOLE, Range, option
from gpt2cli.options import takes
from gpt2cli.settings import Settings
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.result import open_result

_BENCH: Final = "Measuring"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchConfig:
    """What is measured, how often, and how it is shown."""

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
    json: bool = json_option("Print one JSON record, not a table.")


@takes(BenchConfig, ReportConfig, ModelConfig, without={"stats"})
def bench(*, settings: Settings) -> None:
    """Measure how fast a model runs on this machine.

    Times, over several rounds after a warm-up: loading the model, a request to
    its first token, prefill of prompts of several lengths, and decode of several
    rows at once, without sampling. PEAK-MB is the most memory that was resident,
    mapped weights included. A wide spread says that the machine was not idle.

    With --json it is one record: "model", "revision", "precision", "device",
    "threads", "n_positions", "cpu", "system", "versions", "rounds", "measures".
    Each of "measures" has "measure", "batch_size", "prompt_tokens",
    "new_tokens", "unit", "median", "min", "max", "rounds" (the value of each
    round) and "peak_memory_bytes".

    For example:

    gpt2 bench --model starter

    gpt2 bench --batch-size 1 --batch-size 32 --json | jq .measures
    """
    how = settings.make(BenchConfig)
    with Notes(quiet=settings.make(ReportConfig).quiet) as notes, open_result(None) as writer:
        from gpt2cli.bench.run import format_bench, get_ready  # heavy: not for --help

        run = get_ready(
            settings.make(ModelConfig),
            rounds=how.rounds,
            prompt_lengths=how.prompt_length,
            batch_sizes=how.batch_size,
            notes=notes,
        )
        for piece in run.run():
            if writer.is_abandoned():
                raise typer.Exit(ExitCode.DONE)
            notes.stage(piece)
        notes.pause()
        writer.write(format_bench(run, json=how.json))
