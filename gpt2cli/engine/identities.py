"""Whether this machine computes the same bits however a text is computed.

Kernels differ between processors and versions of ONNX Runtime, so what is built on an identity asks
whether it was found here, by a few calls on the model itself. Measured so far on AVX-512: all three
hold, in fp32, int8 and int4.
"""

from typing import Final

import numpy as np

from gpt2cli.engine.engine import Engine, Identities

_READ: Final = 129  # ids, more than attention takes at once; fewer where the context is short
_FEWEST: Final = 4
_STEPS: Final = 4


def find_identities(engine: Engine) -> Identities:
    """Compute a short text in several ways and compare the logits; about ten calls.

    No slot is active, before and after. Where the context is too short for it, nothing is taken for
    granted.
    """
    size = min(_READ, engine.shape.n_positions - _STEPS)
    if size < _FEWEST:
        return Identities(rows=False, cuts=False, steps=False)
    draw = np.random.Generator(np.random.Philox(0))
    ids: list[int] = draw.integers(0, engine.shape.vocab_size, size + _STEPS).tolist()
    text, following = ids[:size], ids[size:]
    read = engine.extend(0, text, [size - 1])
    stepped = np.concatenate([engine.decode([token_id]).copy() for token_id in following])  # [K, V]
    steps = None
    if engine.most_steps >= _STEPS:
        engine.rewind(0, size)
        steps = np.array_equal(engine.verify(0, following), stepped)
    engine.rewind(0, 0)
    engine.extend(0, text[: size // 2], [0])
    again = engine.extend(0, text[size // 2 :], [size - size // 2 - 1])
    # The logits of a step tell of the whole cache, which it reads.
    cuts = np.array_equal(again, read) and np.array_equal(engine.decode(following[:1]), stepped[:1])
    engine.rewind(0, 0)
    engine.extend(0, text, [0])
    engine.extend(1, text[::-1], [0])
    rows = np.array_equal(engine.decode(following[:1] * 2)[:1], stepped[:1])
    engine.free(1)
    engine.free(0)
    return Identities(rows, cuts, steps)
