"""Whether this machine computes the same bits however a text is computed.

Kernels differ between processors and versions of ONNX Runtime, so what is built on an identity asks
whether it was found here, by a few calls on the model itself. Measured so far on AVX-512: all of
them hold, in fp32, int8 and int4.
"""

from typing import Final

import numpy as np

from gpt2cli.engine.engine import Engine, Identities, Logits

_READ: Final = 129  # ids, more than attention takes at once; fewer where the context is short
_READ_TOGETHER: Final = 40
_FEWEST: Final = 4
_MOST_STEPS: Final = 8  # fewer where the context is short


def find_identities(engine: Engine) -> Identities:
    """Compute a short text in several ways and compare the logits; about twenty calls.

    For another number of steps there may be another kernel, so each of them is tried.
    No slot is active, before and after. Where the context is too short for it, nothing is taken for
    granted.
    """
    most = min(_MOST_STEPS, engine.shape.n_positions // 2)
    size = min(_READ, engine.shape.n_positions - most)
    if size < _FEWEST:
        return Identities(rows=False, cuts=False, steps=False, together=False)
    draw = np.random.Generator(np.random.Philox(0))
    ids: list[int] = draw.integers(0, engine.shape.vocab_size, size + most).tolist()
    text, following = ids[:size], ids[size:][: engine.most_steps]
    read = engine.extend(0, text, [size - 1])
    stepped = np.concatenate([engine.decode([token_id]).copy() for token_id in following])  # [K, V]
    steps = None
    if engine.most_steps > 1:
        counts = range(2, len(following) + 1)
        steps = all(_verify(engine, size, following[:count], stepped) for count in counts)
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
    return Identities(rows, cuts, steps, _reads_together(engine, text[:_READ_TOGETHER]))


def _verify(engine: Engine, start: int, ids: list[int], stepped: Logits) -> bool:
    """Tell whether ids from `start` on have the logits [K, V] in one call that they had stepped."""
    engine.rewind(0, start)
    return np.array_equal(engine.verify(0, ids), stepped[: len(ids)])


def _reads_together(engine: Engine, ids: list[int]) -> bool:
    """Tell whether texts of several lengths have the logits together that they have alone."""
    texts = [ids[:1], ids, ids[: len(ids) // 2]]
    for text, together in zip(texts, engine.read_together(texts), strict=True):
        alone = engine.extend(0, text, range(len(text)))
        engine.free(0)
        if not np.array_equal(alone, together):
            return False
    return True
