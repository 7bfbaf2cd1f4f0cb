"""`gpt2 bench`: how fast a model runs on this machine."""

from functools import partial
from typing import TYPE_CHECKING

import typer

from gpt2cli import exit_codes
from gpt2cli.bench_config import BenchConfig
from gpt2cli.config import ModelConfig, ReportConfig
from gpt2cli.options import takes
from gpt2cli.settings import Settings

if TYPE_CHECKING:
    from gpt2cli.bench import Bench
    from gpt2cli.terminal.notes import Notes


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
    from gpt2cli.terminal.notes import Notes
    from gpt2cli.terminal.result import open_result

    quiet = settings.make(ReportConfig).quiet
    with Notes(quiet=quiet) as notes, open_result(None) as writer:
        run = _get_ready(settings, notes)
        for piece in run.run():
            if writer.is_abandoned():
                raise typer.Exit(exit_codes.DONE)
            notes.stage(piece)
        notes.pause()

        from gpt2cli.terminal.bench_view import format_bench

        writer.write(format_bench(run, json=settings.make(BenchConfig).json))


def _get_ready(settings: Settings, notes: "Notes") -> "Bench":
    """Load the model once: for its context, and to export it if need be."""
    from gpt2cli.bench import Bench  # heavy: not for --help
    from gpt2cli.loading import load_model
    from gpt2cli.terminal.notes import Notes

    config = settings.make(BenchConfig)
    slots = max(config.batch_size)
    model = settings.make(ModelConfig)
    load = partial(load_model, model, max_slots=slots, min_slots=slots)  # fewer measure nothing
    n_positions = load(listener=notes).engine.shape.n_positions
    silent = Notes(quiet=True)  # what it told once it need not tell again
    return Bench(config.fit(n_positions), partial(load, listener=silent))
