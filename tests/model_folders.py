"""Owns the checkpoints and model folders that tests share: each is made once per session."""

import json
import pathlib
from collections.abc import Mapping
from typing import Final, Literal, TypedDict, Unpack

from export.convert import convert
from export.storage import Precision
from tests.checkpoints import CheckpointDtype, CheckpointShape, TokenizerKind, write_checkpoint

# Two of everything that can be two; an odd n_positions, an odd vocabulary, every id decodes.
SMALL_SHAPE: Final = CheckpointShape(
    n_layer=2, n_head=2, n_embd=32, n_positions=33, vocab_size=289, seed=178
)

# No size is a multiple of a block, or of anything else.
ODD_SHAPE: Final = CheckpointShape(
    n_layer=2, n_head=3, n_embd=48, n_positions=35, vocab_size=291, seed=7
)
ODD_N_INNER: Final = 101


class CheckpointOptions(TypedDict, total=False):
    """What `tests.checkpoints.write_checkpoint` takes beside the shape, with its defaults."""

    dtype: CheckpointDtype
    config: Mapping[str, object]
    prefix: Literal["transformer.", ""]
    tied: bool
    n_inner: int | None
    tokenizer: TokenizerKind | None


class ModelFolders:
    """Makes model folders on demand and remembers them; callers only read what they are given."""

    def __init__(self, root: pathlib.Path) -> None:
        self._root = root
        self._checkpoints: dict[str, pathlib.Path] = {}
        self._converted: dict[tuple[pathlib.Path, Precision, bool], pathlib.Path] = {}

    def __call__(
        self,
        shape: CheckpointShape = SMALL_SHAPE,
        *,
        precision: Precision = Precision.FP32,
        portable: bool = False,
        **options: Unpack[CheckpointOptions],
    ) -> pathlib.Path:
        """Return the model folder of `checkpoint(...)` with the same arguments."""
        checkpoint = self.checkpoint(shape, **options)
        return self.convert(checkpoint, precision, portable=portable)

    def checkpoint(
        self, shape: CheckpointShape = SMALL_SHAPE, **options: Unpack[CheckpointOptions]
    ) -> pathlib.Path:
        """Return a checkpoint folder; its tokenizer is `filled` if nothing else is asked."""
        key = json.dumps([repr(shape), options], sort_keys=True, default=dict)
        if key not in self._checkpoints:
            folder = self._root / f"checkpoint-{len(self._checkpoints)}"
            options.setdefault("tokenizer", "filled")
            self._checkpoints[key] = write_checkpoint(folder, shape, **options)
        return self._checkpoints[key]

    def convert(
        self,
        checkpoint: pathlib.Path,
        precision: Precision = Precision.FP32,
        *,
        portable: bool = False,
    ) -> pathlib.Path:
        """Return the model folder of any checkpoint folder."""
        key = (checkpoint, precision, portable)
        if key not in self._converted:
            folder = self._root / f"model-{len(self._converted)}"
            convert(checkpoint, folder, precision=precision, portable=portable)
            self._converted[key] = folder
        return self._converted[key]
