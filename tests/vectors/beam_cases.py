"""Owns the table of beam searches whose results are stored in beams.json, and the reading of it."""

import json
import pathlib
from dataclasses import dataclass
from typing import Final

import numpy as np

from tests.checkpoints import CheckpointShape, write_checkpoint

STORED_FILE: Final = pathlib.Path(__file__).with_name("beams.json")
PROMPT_LENGTH: Final = 5

# Ids whose Philox keys no weight has.
_IDS_KEY: Final = 2**32 + 1


@dataclass(frozen=True)
class BeamCase:
    """One search: a checkpoint, the seed of its prompt of five ids, and the options."""

    name: str
    shape: CheckpointShape
    eos_ids: tuple[int, ...]
    beams: int
    length_penalty: float = 1.0
    ids_seed: int = 0
    max_new_tokens: int = 16  # the context may end it before
    min_new_tokens: int = 0
    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    ignore_eos: bool = False

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """The prompt, the same for ever."""
        philox = np.random.Philox(key=np.array([self.ids_seed, _IDS_KEY], dtype=np.uint64))
        words = philox.random_raw(PROMPT_LENGTH)  # uint64
        return tuple((words % np.uint64(self.shape.vocab_size)).tolist())


@dataclass(frozen=True)
class StoredBeams:
    """What transformers answered for one case: as many completions as beams, best first.

    One beam is greedy search, which has no score of its own: here it has that of its tokens.
    """

    ids: tuple[tuple[int, ...], ...]  # with the EOS that ends one
    scores: tuple[float, ...]


_SMALL: Final = CheckpointShape(2, 2, 64, 24, 97, seed=178)
_WIDE: Final = CheckpointShape(1, 2, 128, 40, 97, seed=11)
_PLAIN: Final = (  # shape, an id that comes often, the prompt's seed
    (_SMALL, 12, 2),
    (_WIDE, 63, 2),
    (CheckpointShape(2, 4, 128, 32, 289, seed=12), 61, 18),
)

_PLAIN_CASES: Final = tuple(
    BeamCase(
        f"layers{shape.n_layer}-vocab{shape.vocab_size}-beams{beams}-penalty{penalty:g}",
        shape,
        (eos_id,),
        beams,
        penalty,
        ids_seed,
    )
    for shape, eos_id, ids_seed in _PLAIN
    for beams in (1, 2, 3, 4, 5)
    for penalty in (0.0, 1.0, 2.0)
)

_OTHER_CASES: Final = (
    BeamCase("negative-penalty", _WIDE, (63,), 4, -0.5, 1),
    BeamCase("two-eos", _WIDE, (63, 87), 3, 1.0, 0),
    BeamCase("ignored-eos", _WIDE, (63,), 3, 1.0, 3, ignore_eos=True),
    BeamCase("at-least-six", _WIDE, (63,), 3, 1.0, 2, min_new_tokens=6),
    BeamCase("context", _SMALL, (12,), 3, 1.0, 1, max_new_tokens=64),
    BeamCase("one-token", _SMALL, (12,), 5, 1.0, 1, max_new_tokens=1),
    BeamCase("repetition", _SMALL, (12,), 4, 1.0, 0, repetition_penalty=1.3),
    BeamCase("rewarded-repetition", _WIDE, (63,), 5, 0.0, 2, repetition_penalty=0.8),
    BeamCase(
        "no-bigram-twice", _WIDE, (63,), 4, 1.0, 2,
        max_new_tokens=32, no_repeat_ngram=2, ignore_eos=True,
    ),
    BeamCase(
        "everything", _WIDE, (63, 87), 4, 0.5, 0,
        min_new_tokens=3, repetition_penalty=1.1, no_repeat_ngram=3,
    ),
)  # fmt: skip

CASES: Final = _PLAIN_CASES + _OTHER_CASES


def write_case(folder: pathlib.Path, case: BeamCase) -> pathlib.Path:
    """Write the checkpoint of `case` into `folder`, in float32, and return it."""
    return write_checkpoint(folder, case.shape, config=config_of(case), tokenizer=None)


def config_of(case: BeamCase) -> dict[str, object]:
    """Return what the checkpoint's config.json says beside the shape."""
    return {"eos_token_id": list(case.eos_ids)}


def load_stored(case: BeamCase) -> StoredBeams:
    """Read what beams.json holds for `case`.

    Raises:
        KeyError: beams.json is older than the case.
    """
    stored = json.loads(STORED_FILE.read_text(encoding="utf-8"))[case.name]
    return StoredBeams(tuple(map(tuple, stored["ids"])), tuple(stored["scores"]))
