"""Which model runs, and on what."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from gpt2cli.commands.completion import complete_device, complete_model
from gpt2cli.commands.option_kinds import number, option
from gpt2cli.commands.options.panels import MODEL, Offline
from gpt2cli.errors import UsageError

_MOST_THREADS: Final = 1024
_DEVICE: Final = r"auto|cpu|cuda(:\d+)?"  # as the engine reads it, which is heavy to import

# In two groups, and declared once.
Revision = Annotated[
    str | None,
    option(
        MODEL, "--revision", metavar="REV",
        help="Branch, tag or commit of a hub model. Default main.",
    ),
]  # fmt: skip


class PrecisionChoice(StrEnum):
    """Values of --precision."""

    AUTO = "auto"
    FP32 = "fp32"
    FP16 = "fp16"
    INT8 = "int8"
    INT4 = "int4"


class ExportPrecision(StrEnum):
    """Values of --precision where something is written."""

    FP32 = "fp32"
    FP16 = "fp16"
    INT8 = "int8"
    INT4 = "int4"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Which model runs, and on what."""

    model: Annotated[
        str | None,
        option(
            MODEL, "--model", "-m", metavar="NAME", autocompletion=complete_model,
            help="Model to run: gpt2, gpt2-medium, gpt2-large, gpt2-xl, distilgpt2, starter, a hub "
            "id (owner/name), or a folder. Default gpt2, or the starter if that is out of reach.",
        ),
    ] = None  # fmt: skip
    revision: Revision = None
    precision: Annotated[
        PrecisionChoice,
        option(
            MODEL, "--precision",
            help="Precision of the weights; fp16 is for CUDA. Default auto: fp32 on the CPU, fp16 "
            "on CUDA.",
        ),
    ] = PrecisionChoice.AUTO  # fmt: skip
    device: Annotated[
        str,
        option(
            MODEL, "--device", metavar="auto|cpu|cuda|cuda:N", autocompletion=complete_device,
            help="Where the model runs. Default auto: CUDA where a device answers, else the CPU.",
        ),
    ] = "auto"  # fmt: skip
    threads: Annotated[
        int | None,
        number(
            MODEL, "--threads", kind=int, within=f"1 to {_MOST_THREADS}", default="all cores",
            help="CPU threads.",
        ),
    ] = None  # fmt: skip
    offline: Offline = False

    def __post_init__(self) -> None:
        if not re.fullmatch(_DEVICE, self.device):
            raise UsageError(f"--device: expected auto, cpu, cuda or cuda:N, found {self.device!r}")
        if self.threads is not None and not 1 <= self.threads <= _MOST_THREADS:
            expected = f"a whole number 1 to {_MOST_THREADS}"
            raise UsageError(f"--threads: expected {expected}, found {self.threads}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerOptions:
    """Whose tokens they are."""

    model: Annotated[
        str | None,
        option(
            MODEL, "--model", "-m", metavar="NAME", autocompletion=complete_model,
            help="Model whose tokens they are, as for generate. Default gpt2, or the starter if "
            "that is out of reach.",
        ),
    ] = None  # fmt: skip
    revision: Revision = None
    offline: Offline = False
