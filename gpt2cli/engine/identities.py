"""Whether this machine computes the same bits however a text is computed.

Kernels differ between processors and versions of ONNX Runtime, so what is built on an identity asks
whether it was found here, by a few calls on the model itself. Measured so far on AVX-512: all three
hold, in fp32, int8 and int4.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from gpt2cli.engine.engine import Engine, Identities, Logits

_READ: Final = 40  # ids
_STEPS: Final = 4
_CUT: Final = 17


def find_identities(engine: Engine) -> Identities:
    """Compute a short text in several ways and compare the logits; about ten calls.

    No slot is active, before and after. Where the context is too short for it, nothing is taken for
    granted.
    """
    if engine.shape.n_positions < _READ + _STEPS:
        return Identities(rows=False, cuts=False, steps=False)
    draw = np.random.Generator(np.random.Philox(0))
    ids: list[int] = draw.integers(0, engine.shape.vocab_size, _READ + _STEPS).tolist()
    text, following = ids[:_READ], ids[_READ:]
    read = engine.extend(0, text, [_READ - 1])
    stepped = np.concatenate([engine.decode([token_id]).copy() for token_id in following])  # [K, V]
    found = Identities(rows=True, cuts=True, steps=None)
    if engine.most_steps >= _STEPS:
        engine.rewind(0, _READ)
        found = replace(found, steps=np.array_equal(engine.verify(0, following), stepped))
    engine.rewind(0, 0)
    engine.extend(0, text[:_CUT], [0])
    again = engine.extend(0, text[_CUT:], [_READ - _CUT - 1])
    # A step reads the whole cache, so its logits tell of that, too.
    step = engine.decode(following[:1])
    found = replace(found, cuts=np.array_equal(again, read) and _are_equal(step, stepped))
    engine.rewind(0, 0)
    engine.extend(0, text, [0])
    engine.extend(1, text[::-1], [0])
    beside = engine.decode(following[:1] * 2)
    engine.free(1)
    engine.free(0)
    return replace(found, rows=_are_equal(beside, stepped))


def _are_equal(some: Logits, others: Logits) -> bool:
    """Compare the first rows of logits [n, V]."""
    return np.array_equal(some[0], others[0])
