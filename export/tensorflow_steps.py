"""Which of the TensorFlow checkpoints in a folder is meant.

Each is `NAME.index` with its shards; a name that ends in a number, as `model-1000`, tells the step
of training. The file `checkpoint` names the newest (`checkpoint_state.proto` of TensorFlow).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from export import small_files
from export.errors import CheckpointError, list_some

INDEX_SUFFIX: Final = ".index"
_STATE_FILE: Final = "checkpoint"
_STEP: Final = re.compile(r".*-(\d{1,18})")
_NEWEST: Final = re.compile(r'^\s*model_checkpoint_path\s*:\s*"((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
_SEPARATORS: Final = re.compile(r"[/\\]+")


@dataclass(frozen=True, slots=True)
class TensorflowName:
    """The checkpoint that is meant, and why, if the user should know."""

    name: str
    notes: Sequence[str]


def find_steps(folder: Path) -> list[int]:
    """Return the steps of the TensorFlow checkpoints in a folder, or raise OSError."""
    return sorted({step for name in _find_names(folder) if (step := _step_of(name)) is not None})


def choose_name(folder: Path, step: int | None) -> TensorflowName | None:
    """Return the checkpoint of a step; without one, that which `checkpoint` names, else the last.

    None if there is no TensorFlow checkpoint.

    Raises:
        CheckpointError: if it cannot be told which is meant, or there is none of that step.
        OSError: if the folder cannot be read.
    """
    names = _find_names(folder)
    if step is not None:
        return TensorflowName(_find_step(folder, names, step), ())
    if not names:
        return None
    newest = _read_newest(folder)
    if newest in names:
        return TensorflowName(newest, _describe_choice(newest, names))
    last = _find_last(folder, names)
    return TensorflowName(last, _describe_choice(last, names, lost=newest))


def _find_names(folder: Path) -> list[str]:
    files = (path.name for path in folder.glob(f"[!.]*{INDEX_SUFFIX}"))
    return sorted(name.removesuffix(INDEX_SUFFIX) for name in files)


def _step_of(name: str) -> int | None:
    found = _STEP.fullmatch(name)
    return int(found[1]) if found else None


def _find_step(folder: Path, names: Sequence[str], step: int) -> str:
    found = [name for name in names if _step_of(name) == step]
    if len(found) == 1:
        return found[0]
    if found:
        raise CheckpointError(folder, [f"step {step} is there twice, as {list_some(found)}"])
    raise CheckpointError(folder, [f"there is no TensorFlow checkpoint of step {step}"])


def _find_last(folder: Path, names: Sequence[str]) -> str:
    steps = {name: _step_of(name) for name in names}
    last = max(-1 if step is None else step for step in steps.values())
    found = [name for name, step in steps.items() if step == (None if last < 0 else last)]
    if len(found) > 1:
        fault = f"there are several TensorFlow checkpoints: {list_some(found)}"
        raise CheckpointError(folder, [f"{fault}; keep one, or name it in the file checkpoint"])
    return found[0]


def _describe_choice(chosen: str, names: Sequence[str], *, lost: str | None = None) -> list[str]:
    others = [name for name in names if name != chosen]
    reason = f"; {_STATE_FILE} names {lost}, which is not here" if lost else ""
    if not others and not lost:
        return []
    return [f"{chosen} was read{f', not {list_some(others)}' if others else ''}{reason}"]


def _read_newest(folder: Path) -> str | None:
    """Return the name that the file `checkpoint` has, without any folder; None if it has none.

    Its paths are those of the machine that it was written on, so a path is never followed.
    """
    if not (folder / _STATE_FILE).is_file():
        return None
    try:
        text = small_files.read_text(folder / _STATE_FILE)
    except small_files.ReadError as error:
        raise CheckpointError(folder, [f"{_STATE_FILE} {error}"]) from error
    found = _NEWEST.search(text)
    return _SEPARATORS.split(found[1])[-1] if found else None
