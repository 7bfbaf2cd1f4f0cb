"""`gpt2 bench`: its options."""

import typer

from gpt2cli.bench.config import BenchConfig
from gpt2cli.config import ModelConfig, ReportConfig
from gpt2cli.errors import ExitCode
from gpt2cli.options import takes
from gpt2cli.settings import Settings
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.result import open_result


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

        run = get_ready(settings.make(ModelConfig), how, notes)
        for piece in run.run():
            if writer.is_abandoned():
                raise typer.Exit(ExitCode.DONE)
            notes.stage(piece)
        notes.pause()
        writer.write(format_bench(run, json=how.json))
