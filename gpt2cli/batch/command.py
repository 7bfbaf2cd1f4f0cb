"""`gpt2 batch`: its options, and which of them go together."""

from pathlib import Path
from typing import Annotated, Final

import typer

from gpt2cli.batch.cluster.config import ClusterConfig
from gpt2cli.batch.config import InputOutput
from gpt2cli.config import OF_A_PROMPT, DraftConfig, ModelConfig, PresetConfig, ReportConfig
from gpt2cli.errors import UsageError
from gpt2cli.options import takes
from gpt2cli.settings import Settings

_OF_MERGING: Final = ("merge", "output", "quiet", "verbose", "log_file")


@takes(
    *OF_A_PROMPT,
    InputOutput,
    ClusterConfig,
    PresetConfig,
    ReportConfig,
    ModelConfig,
    DraftConfig,
)
def batch(
    *,
    prompts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="Prompts, one per line, or records (--jsonl); several only with --merge. Default: "
            "stdin, also as -.",
        ),
    ] = None,
    settings: Settings,
) -> None:
    """Complete many prompts, side by side, with a record for each in the order of the input.

    A record is written as soon as it and all before it are done; a bad one becomes a record with
    "error", and the rest goes on.

    For example:

    cat prompts.txt | gpt2 batch -n 50 > records.jsonl

    gpt2 batch prompts.jsonl -o records.jsonl --resume

    gpt2 batch --merge part-*.jsonl -o records.jsonl
    """
    io, files = settings.make(InputOutput), prompts or []
    code = _merge(files, settings, io) if io.merge else _run(files, settings, io)
    if code:
        raise typer.Exit(code)


def _run(files: list[str], settings: Settings, io: InputOutput) -> int:
    if settings.values["logprobs"] is not None and io.as_text:
        raise UsageError(option="logprobs", expected="{format} jsonl, whose records hold them")
    io.check_alone(settings.values["seed"])
    if len(files) > 1:
        raise UsageError(f"expected one FILE of prompts, found {len(files)}")
    if files and io.file is not None:
        raise UsageError(option="file", expected="no FILE argument together with it")
    from gpt2cli.batch.run import run_batch  # heavy: not for --help

    file = next(iter(files), None)
    return run_batch(file if io.file is None else str(io.file), settings, io)


def _merge(files: list[str], settings: Settings, io: InputOutput) -> int:
    others = [field for field in settings.layers[0] if field not in _OF_MERGING]
    if others:
        raise UsageError(option="merge", expected=f"no {{{others[0]}}} together with it")
    if not files:
        raise UsageError("expected the FILEs that the shards were written to", option="merge")
    from gpt2cli.batch.merge import run_merge

    return run_merge([Path(file) for file in files], io, settings.make(ReportConfig))
