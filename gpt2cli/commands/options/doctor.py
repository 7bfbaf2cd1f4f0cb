"""What `doctor` looks at."""

from dataclasses import dataclass
from typing import Annotated

from gpt2cli.commands.completion import complete_device
from gpt2cli.commands.option_kinds import option
from gpt2cli.commands.options.panels import MODEL, REPORT, Offline, Quiet


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """What is looked at, and how it is told."""

    device: Annotated[
        str,
        option(
            MODEL, "--device", metavar="auto|cpu|cuda|cuda:N", autocompletion=complete_device,
            help="Where a step is tried. Default auto: CUDA where a device answers, else the CPU.",
        ),
    ] = "auto"  # fmt: skip
    offline: Offline = False
    verify: Annotated[
        bool,
        option(REPORT, "--verify", help="Read every model whole, to find damage."),
    ] = False
    json: Annotated[bool, option(REPORT, "--json", help="Print one JSON record, not lines.")] = (
        False
    )
    quiet: Quiet = False
