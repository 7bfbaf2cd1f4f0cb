"""`gpt2 bench`: how fast a model runs on this machine."""

from functools import partial
from typing import TYPE_CHECKING

import typer

from gpt2cli import exit_codes
from gpt2cli.commands.option_groups import flatten
from gpt2cli.commands.options import BenchOptions, ModelOptions

if TYPE_CHECKING:
    from gpt2cli.bench import Bench
    from gpt2cli.terminal.notes import Notes


@flatten
def bench(*, measuring: BenchOptions, model: ModelOptions) -> None:
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

    with Notes(quiet=measuring.quiet) as notes, open_result(None) as writer:
        run = _get_ready(measuring, model, notes)
        for piece in run.run():
            if writer.is_abandoned():
                raise typer.Exit(exit_codes.DONE)
            notes.stage(piece)
        notes.pause()

        from gpt2cli.terminal.bench_view import format_bench

        writer.write(format_bench(run, json=measuring.json))


def _get_ready(measuring: BenchOptions, model: ModelOptions, notes: "Notes") -> "Bench":
    """Check the options, and load the model once: for its context, and to export it if need be."""
    from gpt2cli.bench import Bench, BenchConfig  # heavy: not for --help
    from gpt2cli.commands.start import load
    from gpt2cli.terminal.notes import Notes

    config = BenchConfig(
        rounds=measuring.rounds,
        prompt_lengths=tuple(measuring.prompt_length or ()),
        batch_sizes=tuple(measuring.batch_size or BenchConfig().batch_sizes),
    )
    slots = max(config.batch_sizes)
    open_model = partial(load, model, max_slots=slots, min_slots=slots)  # fewer measure nothing
    n_positions = open_model(listener=notes).engine.shape.n_positions
    silent = Notes(quiet=True)  # what it told once it need not tell again
    return Bench(config.settle(n_positions), partial(open_model, listener=silent))
