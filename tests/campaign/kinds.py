"""The kinds of tries, and how a worker makes one."""

import os
import pathlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.campaign import batches, chats, commands, files, signals, texts
from tests.campaign.lab import Lab, Place, make_lab


@dataclass(frozen=True)
class Kind:
    """What makes a try in a lab, and its share of all tries."""

    attempt: Callable[[Lab], None]
    share: int


@dataclass(frozen=True)
class Done:
    """A try, what is wrong, and what was run."""

    kind: str
    number: int
    faults: list[str]
    told: list[str]


KINDS: Final[dict[str, Kind]] = {
    "commands": Kind(commands.attempt, 30),
    "files": Kind(files.attempt, 30),
    "batches": Kind(batches.attempt, 12),
    "chats": Kind(chats.attempt, 12),
    "signals": Kind(signals.attempt, 8),
    "texts": Kind(texts.attempt, 8),
}


def make_try(job: tuple[pathlib.Path, str, int]) -> Done:
    """Make a try: what is prepared, its kind, its number."""
    root, kind, number = job
    lab = make_lab(Place(root), root / f"try-{os.getpid()}", kind, number)
    try:
        KINDS[kind].attempt(lab)
    except Exception as error:
        lab.faults.append(f"the campaign itself: {error!r}")
    return Done(kind, number, lab.faults, lab.told)


def load_modules() -> None:
    """Import what takes long, before children are forked."""
    import llguidance
    import onnx
    import onnxruntime
    import prompt_toolkit
    import rich.console
    import tokenizers

    import gpt2cli.app
    import gpt2cli.loading  # noqa: F401

    assert all((llguidance, onnx, onnxruntime, prompt_toolkit, rich.console, tokenizers))
