"""Declares every option once, in groups that commands take whole.

A command writes `sampling: SamplingOptions` and `flatten` spreads the group's fields into the
signature that Typer reads. None means that the user did not say.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import Field, dataclass, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

_MODEL, _SAMPLING, _LIMITS, _REPORT = "Model", "Sampling", "Limits", "Input and output"


class PrecisionChoice(StrEnum):
    """Values of --precision."""

    AUTO = "auto"
    FP32 = "fp32"


class ExportPrecision(StrEnum):
    """Values of --precision where something is written."""

    FP32 = "fp32"


class OverflowChoice(StrEnum):
    """Values of --overflow."""

    STOP = "stop"
    SLIDE = "slide"
    ERROR = "error"


def _option(panel: str, *names: str, help: str, **settings: Any) -> Any:  # noqa: A002
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=False, **settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Which model runs, and on what."""

    model: Annotated[
        str | None,
        _option(
            _MODEL, "--model", "-m", metavar="NAME",
            help="Model to run: gpt2, gpt2-medium, gpt2-large, gpt2-xl, distilgpt2, starter, a hub "
            "id (owner/name), or a folder. Default gpt2, or the starter if that is out of reach.",
        ),
    ] = None  # fmt: skip
    revision: Annotated[
        str | None,
        _option(
            _MODEL, "--revision", metavar="REV",
            help="Branch, tag or commit of a hub model. Default main.",
        ),
    ] = None  # fmt: skip
    precision: Annotated[
        PrecisionChoice,
        _option(_MODEL, "--precision", help="Precision of the weights. Default auto (fp32)."),
    ] = PrecisionChoice.AUTO
    device: Annotated[
        str,
        _option(
            _MODEL, "--device", metavar="auto|cpu|cuda|cuda:N",
            help="Where the model runs. Default auto: CUDA where a device answers, else the CPU.",
        ),
    ] = "auto"  # fmt: skip
    threads: Annotated[
        int | None,
        _option(_MODEL, "--threads", help="CPU threads, 1 or more. Default: all cores."),
    ] = None
    offline: Annotated[
        bool, _option(_MODEL, "--offline", help="Never ask the network. Default: only if needed.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """How the next token is chosen."""

    temperature: Annotated[
        float | None,
        _option(
            _SAMPLING, "--temperature", "-t",
            help="Flattens (above 1) or sharpens (below 1) the distribution. 0 or more; 0: greedy. "
            "Default 1.0, or the model's own.",
        ),
    ] = None  # fmt: skip
    top_k: Annotated[
        int | None,
        _option(
            _SAMPLING, "--top-k", "-k",
            help="Draw from the k most likely tokens only. 0 or more; 0: off. "
            "Default 40, or the model's own.",
        ),
    ] = None  # fmt: skip
    top_p: Annotated[
        float | None,
        _option(
            _SAMPLING, "--top-p", "-p",
            help="Draw from the fewest tokens whose probabilities reach p. 0 to 1; 1: off. "
            "Default 1.0, or the model's own.",
        ),
    ] = None  # fmt: skip
    min_p: Annotated[
        float | None,
        _option(
            _SAMPLING, "--min-p",
            help="Drop tokens less likely than p times the most likely one. 0 to 1; 0: off. "
            "Default 0.0, or the model's own.",
        ),
    ] = None  # fmt: skip
    repetition_penalty: Annotated[
        float | None,
        _option(
            _SAMPLING, "--repetition-penalty",
            help="Make tokens of prompt and completion less likely. Above 0; 1: off. "
            "Default 1.0, or the model's own.",
        ),
    ] = None  # fmt: skip
    greedy: Annotated[
        bool, _option(_SAMPLING, "--greedy", help="Always take the most likely token (-t 0).")
    ] = False
    seed: Annotated[
        int | None,
        _option(
            _SAMPLING, "--seed",
            help="Seed of the draws, 0 to 2^53-1. Default random, told by --stats and --json.",
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """Where a completion ends."""

    max_new_tokens: Annotated[
        int | None,
        _option(
            _LIMITS, "--max-new-tokens", "-n",
            help="Most tokens to generate, the prompt not counted. 0 or more. "
            "Default 256, or the model's own.",
        ),
    ] = None  # fmt: skip
    stop: Annotated[
        list[str] | None,
        _option(
            _LIMITS, "--stop", "-s", metavar="TEXT",
            help=r"End before this text; repeatable; \n and \t are understood. Default: none.",
        ),
    ] = None  # fmt: skip
    ignore_eos: Annotated[
        bool,
        _option(_LIMITS, "--ignore-eos", help="Go on when the model ends the text. Default: end."),
    ] = False
    overflow: Annotated[
        OverflowChoice,
        _option(
            _LIMITS, "--overflow",
            help="At the model's context limit: stop there, slide on with the last half, or refuse "
            "up front (error). Default stop.",
        ),
    ] = OverflowChoice.STOP  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What is told beside the result."""

    stats: Annotated[
        bool, _option(_REPORT, "--stats", help="Tell speeds, counts and the seed on stderr.")
    ] = False
    quiet: Annotated[
        bool, _option(_REPORT, "--quiet", "-q", help="No notes and no progress on stderr.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """Where the prompt comes from, beside the argument."""

    file: Annotated[
        Path | None,
        _option(
            _REPORT, "--file", "-f", metavar="FILE", help="Read the prompt from FILE; - is stdin."
        ),
    ] = None
    allow_special: Annotated[
        bool,
        _option(
            _REPORT, "--allow-special",
            help="Read <|endoftext|> in the prompt as the token, not as text. Default: as text.",
        ),
    ] = False  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """What is written of the samples, and where."""

    samples: Annotated[
        int,
        _option(
            _REPORT, "--samples", "-N", metavar="N",
            help="How many completions, from one reading of the prompt. 1 or more. Default 1.",
        ),
    ] = 1  # fmt: skip
    separator: Annotated[
        str,
        _option(
            _REPORT, "--separator",
            help=r"Line between samples; \n and \t are understood. Default ---.",
        ),
    ] = "---"  # fmt: skip
    echo: Annotated[
        bool,
        _option(
            _REPORT, "--echo/--no-echo", help="Print the prompt before its completion. Default: do."
        ),
    ] = True
    json: Annotated[
        bool, _option(_REPORT, "--json", help="Print one JSON record per sample, not text.")
    ] = False
    output: Annotated[
        Path | None,
        _option(
            _REPORT, "--output", "-o", metavar="FILE",
            help="Write the result to FILE, whole or not at all. Default: stdout.",
        ),
    ] = None  # fmt: skip


def flatten(command: Callable[..., None]) -> Callable[..., None]:
    """Spread the option groups among a command's parameters into single options."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        if isinstance(hint, type) and is_dataclass(hint):
            groups[parameter.name] = hint
            parameters += _parameters_of(hint)
        else:
            parameters.append(
                parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY)
            )

    @functools.wraps(command)
    def spread(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{f.name: values.pop(f.name) for f in fields(group)})
        command(**values)

    spread.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    spread.__annotations__ = {p.name: p.annotation for p in parameters}
    return spread


def _parameters_of(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)

    def parameter(declared: Field[Any]) -> inspect.Parameter:
        return inspect.Parameter(
            declared.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=declared.default,
            annotation=hints[declared.name],
        )

    return [parameter(declared) for declared in fields(group)]
