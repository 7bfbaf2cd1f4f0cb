"""Claims about engines for folders of lower precision: the cache's dtype, and equal bits.

That the logits are right is the claim of tests/export/test_precision.py.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pytest

from export.storage import Precision
from gpt2cli.engine.cache import DeviceCache, HostCache
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.engine.session import cache_dtype, open_session
from gpt2cli.model_folder import ModelFolder, read_model_folder
from tests.model_folders import ODD_N_INNER, ODD_SHAPE, ModelFolders

CPU: Final = Device("cpu")
_LOWER: Final = (Precision.FP16, Precision.INT8, Precision.INT4)

lower = pytest.mark.parametrize("precision", _LOWER)


def read_odd(folders: ModelFolders, precision: Precision) -> ModelFolder:
    """Return a folder whose widths are multiples of nothing."""
    return read_model_folder(folders(ODD_SHAPE, precision=precision, n_inner=ODD_N_INNER))


def draw_ids(seed: int, length: int) -> list[int]:
    """Return seeded ids."""
    ids: list[int] = np.random.default_rng(seed).integers(0, 291, length).tolist()
    return ids


def decode_twice(engine: Engine, texts: Sequence[Sequence[int]]) -> list[bytes]:
    """Prefill texts one by one, decode two ids of each together, and free the slots: bytes."""
    for slot, text in enumerate(texts):
        engine.extend(slot, text[:-2], [0])
    found = [b""] * len(texts)
    for place in (-2, -1):
        logits = engine.decode([text[place] for text in texts])
        found = [before + row.tobytes() for before, row in zip(found, logits, strict=True)]
    while engine.lengths:
        engine.free(len(engine.lengths) - 1)
    return found


@pytest.mark.parametrize("precision", Precision)
def test_the_cache_has_the_dtype_of_the_graph(
    model_folders: ModelFolders, precision: Precision
) -> None:
    """Float16 in fp16, float32 in all others."""
    session = open_session(read_odd(model_folders, precision), CPU, 1)
    assert cache_dtype(session) == (np.float16 if precision == "fp16" else np.float32)


@lower
@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_is_the_same_alone_and_among_others(
    model_folders: ModelFolders, precision: Precision, threads: int
) -> None:
    """Texts of 3 to 34 ids, in batches of 2 to 16, bit for bit."""
    folder = read_odd(model_folders, precision)
    texts = [draw_ids(row, 3 + 9 * row % 32) for row in range(16)]
    alone_engine = Engine(folder, CPU, max_slots=1, threads=1)
    alone = [decode_twice(alone_engine, [text])[0] for text in texts]
    engine = Engine(folder, CPU, max_slots=16, threads=threads)
    for rows in (2, 3, 7, 8, 16):
        assert decode_twice(engine, texts[:rows]) == alone[:rows]


@lower
def test_both_kinds_of_cache_give_the_same_bits(
    model_folders: ModelFolders, precision: Precision
) -> None:
    """A fork and a move through either, whatever the dtype."""
    folder, found = read_odd(model_folders, precision), []
    element = cache_dtype(open_session(folder, CPU, 1))
    for cache in (
        HostCache(folder.shape, element=element),
        DeviceCache(folder.shape, CPU, rows=3, element=element),
    ):
        engine = Engine(folder, CPU, max_slots=3, threads=1, cache=cache)
        engine.extend(0, draw_ids(1, 9), [8])
        engine.extend(1, draw_ids(2, 4), [3])
        engine.fork(0, 2)
        engine.free(0)  # slot 2 moves into its place
        found.append(engine.decode([5, 6]).tobytes())
    assert found[0] == found[1]
