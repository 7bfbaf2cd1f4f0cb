"""A digest of what an engine computes, by which machines are compared."""

import hashlib
from typing import Final

import numpy as np

from gpt2cli.engine.engine import Engine

_READ: Final = 65  # ids, more than attention takes at once; fewer where the context is short
_STEPS: Final = 3


def find_digest(engine: Engine) -> str:
    """Return a digest of the logits of a short text, read and stepped: 16 hexadecimal digits.

    No slot is active, before and after.
    """
    size = min(_READ, engine.shape.n_positions - _STEPS)
    draw = np.random.Generator(np.random.Philox(0))
    ids: list[int] = draw.integers(0, engine.shape.vocab_size, max(1, size) + _STEPS).tolist()
    logits = hashlib.sha256(engine.extend(0, ids[:-_STEPS], [len(ids) - _STEPS - 1]).tobytes())
    if size > 0:
        for token_id in ids[-_STEPS:]:
            logits.update(engine.decode([token_id]).tobytes())
    engine.free(0)
    return logits.hexdigest()[:16]
