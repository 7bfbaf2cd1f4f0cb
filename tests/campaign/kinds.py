"""The kinds of tries, and how a worker makes one."""

import os
import pathlib
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.campaign import batches, chats, commands, files, signals, texts
from tests.campaign.lab import Lab, Place, make_lab

# What makes a try in a lab, and its share of all tries.
KINDS: Final[dict[str, tuple[Callable[[Lab], None], int]]] = {
    "commands": (commands.attempt, 30),
    "files": (files.attempt, 30),
    "batches": (batches.attempt, 12),
    "chats": (chats.attempt, 12),
    "signals": (signals.attempt, 8),
    "texts": (texts.attempt, 8),
}


@dataclass(frozen=True)
class Done:
    """A try, what is wrong, and what was run."""

    kind: str
    number: int
    faults: list[str]
    told: list[str]


def make_try(job: tuple[pathlib.Path, str, int]) -> Done:
    """Make a try: what is prepared, its kind, its number."""
    root, kind, number = job
    lab = make_lab(Place(root), root / f"try-{os.getpid()}", kind, number)
    try:
        KINDS[kind][0](lab)
    except Exception as error:
        lab.faults.append(f"the campaign itself: {error!r}")
    return Done(kind, number, lab.faults, lab.told)


def prepare_worker() -> None:
    """Import what takes long, before children are forked; let them hear Ctrl-C."""
    import llguidance
    import onnx
    import onnxruntime
    import prompt_toolkit
    import rich.console
    import tokenizers

    import gpt2cli.app
    import gpt2cli.loading  # noqa: F401

    assert all((llguidance, onnx, onnxruntime, prompt_toolkit, rich.console, tokenizers))
    signal.signal(signal.SIGINT, signal.default_int_handler)
