"""The engine against the NumPy oracle, the stored vectors of transformers, and itself.

Against the oracle logits may differ by 5e-5; where the same numbers are computed in another place
of the cache, or beside other rows, they must be the same bits.
"""

import itertools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from export.checkpoint import open_checkpoint
from export.config import read_config
from export.reference import Reference
from export.storage import Precision
from export.weights import expected_weights
from gpt2cli.engine.cache import DeviceCache, HostCache
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.errors import DeviceFullError
from gpt2cli.model_folder import ModelFolder, read_model_folder
from tests.array_weights import ArrayWeights
from tests.checkpoints import CheckpointShape
from tests.model_folders import ODD_N_INNER, ODD_SHAPE, SMALL_SHAPE, ModelFolders
from tests.vectors.cases import FEW_CASES, LogitsCase, load_stored

TOLERANCE = 5e-5
CPU = Device("cpu")
LIMIT = SMALL_SHAPE.n_positions
LONG_SHAPE = CheckpointShape(
    n_layer=2, n_head=2, n_embd=32, n_positions=300, vocab_size=289, seed=7
)
STARTER = pathlib.Path(__file__).parents[3] / "gpt2cli" / "starter"

LogitsOf = Callable[[Sequence[int]], NDArray[np.float64]]  # ids -> logits after the last, [V]


def make_oracle(checkpoint: pathlib.Path) -> Reference:
    config = read_config(checkpoint)
    with open_checkpoint(checkpoint) as weights:
        arrays = {name: weights.read(name) for name in expected_weights(config)}
    return Reference(config, ArrayWeights(arrays))


@pytest.fixture(scope="module")
def oracle(model_folders: ModelFolders) -> LogitsOf:
    """Return a function to the small model's logits, computed anew for every sequence."""
    reference = make_oracle(model_folders.checkpoint())

    def logits_of(ids: Sequence[int]) -> NDArray[np.float64]:
        row: NDArray[np.float64] = reference.logits(ids, [len(ids) - 1])[0]
        return row

    return logits_of


@pytest.fixture
def engine(small: ModelFolder) -> Engine:
    """Return an engine with three slots for the small model."""
    return Engine(small, CPU, max_slots=3, threads=1)


def ids_of(seed: int, length: int, vocab_size: int = SMALL_SHAPE.vocab_size) -> list[int]:
    ids: list[int] = np.random.default_rng(seed).integers(0, vocab_size, length).tolist()
    return ids


def assert_near(found: NDArray[Any], expected: NDArray[Any]) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("case", FEW_CASES, ids=lambda case: case.name)
def test_a_prefill_gives_the_logits_of_transformers(
    model_folders: ModelFolders, case: LogitsCase
) -> None:
    """All positions of the model in one call, asked at several: the stored vectors."""
    path = model_folders(
        case.shape, config=case.config, tied=case.tied, n_inner=case.n_inner, tokenizer="bytes"
    )
    stored = load_stored(case)
    engine = Engine(read_model_folder(path), CPU, threads=1)
    found = engine.extend(0, stored.ids.tolist(), stored.positions.tolist())
    assert found.dtype == np.float32 and found.shape == (
        len(stored.positions),
        case.shape.vocab_size,
    )
    assert_near(found[:, stored.vocabulary_ids], stored.logits)


def test_logits_come_in_the_order_asked_for(engine: Engine, oracle: LogitsOf) -> None:
    ids = ids_of(2, LIMIT)
    for start, stop in itertools.pairwise([0, 1, 2, 3, 31, LIMIT]):
        found = engine.extend(0, ids[start:stop], [stop - start - 1, 0])
        assert_near(found, np.stack([oracle(ids[:stop]), oracle(ids[: start + 1])]))
    assert engine.lengths == (LIMIT,)


def test_on_the_cpu_there_can_be_more_slots_than_usual(engine: Engine) -> None:
    """A fourth beside the usual three computes the same, opened or forked."""
    ids = ids_of(19, 5)
    first = engine.extend(0, ids, [4])
    for slot in range(1, 4):
        assert (engine.extend(slot, ids, [4]) == first).all()
    engine.free(3)
    engine.fork(0, 3)
    assert engine.lengths == (5, 5, 5, 5)
    decoded = engine.decode([1, 1, 1, 1])
    assert (decoded == decoded[0]).all()


def test_a_full_slot_takes_no_more(engine: Engine) -> None:
    """One token beyond n_positions is a fault of the caller, by extend and by decode."""
    engine.extend(0, ids_of(19, LIMIT), [0])
    with pytest.raises(AssertionError):
        engine.extend(0, [1], [0])
    with pytest.raises(AssertionError):
        engine.decode([1])


class Twins:
    """Two engines that are told the same and must answer with the same bits."""

    def __init__(self, first: Engine, second: Engine) -> None:
        self._engines = (first, second)

    def extend(self, slot: int, ids: Sequence[int]) -> NDArray[np.float32]:
        """Extend a slot of both; the logits after the last id."""
        return self._same(lambda engine: engine.extend(slot, ids, [len(ids) - 1])[0])

    def decode(self, ids: Sequence[int]) -> NDArray[np.float32]:
        return self._same(lambda engine: engine.decode(ids).copy())

    def copy(self, slot: int, target: int, length: int) -> None:
        """Save a part of a slot, and let another one, or the same, begin with it."""
        for engine in self._engines:
            saved = engine.save(slot, length)
            assert saved is not None and saved.length == length
            engine.load(saved, target, length)
            engine.drop(saved)

    def tell(self, call: str, *arguments: int) -> None:
        """Fork, rewind or free on both."""
        for engine in self._engines:
            getattr(engine, call)(*arguments)

    def _same(self, ask: Callable[[Engine], NDArray[np.float32]]) -> NDArray[np.float32]:
        first, second = map(ask, self._engines)
        assert np.array_equal(first, second)
        return first


@pytest.fixture(params=[1, 2], ids=["1-thread", "2-threads"])
def twins(request: pytest.FixtureRequest, model_folders: ModelFolders) -> tuple[Twins, HostCache]:
    """Return engines for 300 positions: one with a growing cache, one with the device's kind."""
    folder = read_model_folder(model_folders(LONG_SHAPE))
    growing, fixed = HostCache(folder.shape), DeviceCache(folder.shape, CPU, rows=8)
    engines = [Engine(folder, CPU, threads=request.param, cache=c) for c in (growing, fixed)]
    return Twins(*engines), growing


def test_growing_and_shrinking_change_no_bit(twins: tuple[Twins, HostCache]) -> None:
    """Slots that cross 64, 128 and 256 up to 300; when the long one is gone the cache is cut."""
    both, cache = twins
    capacities = []
    for number, length in enumerate((62, 60, 129, 40)):
        both.extend(0, ids_of(number, length))
        if number == 0:
            both.extend(1, ids_of(9, 3))
        for step in range(2):
            both.decode(ids_of(20 + step, 2))
            capacities.append(cache.capacity)
    both.tell("free", 0)
    both.decode([3])
    assert [*capacities, cache.capacity] == [64, 64, 128, 128, 256, 300, 300, 300, 64]


def test_more_rows_change_no_bit(twins: tuple[Twins, HostCache]) -> None:
    """New slots make the cache grow from one to eight rows; older ones keep their content."""
    both, cache = twins
    rows = []
    for slot in range(8):
        both.extend(slot, ids_of(slot, 1 + 9 * slot))
        both.decode(ids_of(30 + slot, slot + 1))
        rows.append(cache.rows)
    assert rows == [1, 2, 4, 4, 8, 8, 8, 8]


@pytest.mark.parametrize("end", [KeyboardInterrupt(), MemoryError()], ids=repr)
@pytest.mark.parametrize("made", range(4))
def test_growing_that_is_cut_short_is_ended_by_the_next_call(
    model_folders: ModelFolders, monkeypatch: pytest.MonkeyPatch, end: BaseException, made: int
) -> None:
    """Wherever among the layers; a full memory is told as a device's is. No bit changes."""
    folder = read_model_folder(model_folders(LONG_SHAPE))
    whole, cut = (Engine(folder, CPU, threads=1) for _ in range(2))
    both = Twins(whole, cut)
    for slot in range(3):
        both.extend(slot, ids_of(slot, 60 + slot))
    more, room = ids_of(9, 30), iter([np.zeros] * made)

    def make(*arguments: Any) -> Any:
        if (zeros := next(room, None)) is None:
            raise end
        return zeros(*arguments)

    told = DeviceFullError if isinstance(end, MemoryError) else type(end)
    with monkeypatch.context() as patch, pytest.raises(told):
        patch.setattr(np, "zeros", make)
        cut.extend(0, more, [29])
    both.decode([1, 2, 3])
    both.extend(0, more)
    both.decode([1, 2, 3])


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_calls_gives_right_logits(
    small: ModelFolder, oracle: LogitsOf, seed: int
) -> None:
    """Random calls: both kinds of cache give the same bits, and each row is the oracle's."""
    draw = np.random.default_rng(seed)
    caches = (HostCache(small.shape), DeviceCache(small.shape, CPU, rows=8))
    both = Twins(*(Engine(small, CPU, max_slots=4, threads=1, cache=cache) for cache in caches))
    rows: list[list[int]] = []
    for _ in range(60):
        call = str(draw.choice(["extend", "decode", "decode", "fork", "copy", "rewind", "free"]))
        slot = int(draw.integers(0, len(rows))) if rows else 0
        target = int(draw.integers(0, min(len(rows) + 1, 4)))
        if call == "extend" or not rows:
            known = rows[target] if target < len(rows) else []
            ids = ids_of(int(draw.integers(1000)), int(draw.integers(1, 12)))[: LIMIT - len(known)]
            if ids:
                rows[target : target + 1] = [known + ids]
                assert_near(both.extend(target, ids), oracle(rows[target]))
        elif call == "decode" and all(len(row) < LIMIT for row in rows):
            ids = ids_of(int(draw.integers(1000)), len(rows))
            rows = [[*row, token_id] for row, token_id in zip(rows, ids, strict=True)]
            assert_near(both.decode(ids), np.stack([oracle(row) for row in rows]))
        elif call == "fork" and slot != target:
            length = int(draw.integers(0, len(rows[slot]) + 1))
            both.tell(call, slot, target, length)
            rows[target : target + 1] = [rows[slot][:length]]
        elif call == "copy":
            length = int(draw.integers(0, len(rows[slot]) + 1))
            both.copy(slot, target, length)
            rows[target : target + 1] = [rows[slot][:length]]
        elif call == "rewind":
            rows[slot] = rows[slot][: int(draw.integers(0, len(rows[slot]) + 1))]
            both.tell(call, slot, len(rows[slot]))
        elif call == "free":
            both.tell("free", slot)
            rows[slot] = rows[-1]
            rows.pop()


# A row's bits depend on no other row: of float32 in three widths, of the others in an odd one.

PROMPT_LENGTHS = (1, 2, 5, 17, 26, 30)
_FOLDERS: Mapping[str, Callable[[ModelFolders], pathlib.Path]] = {
    "starter": lambda folders: folders.convert(STARTER),
    "long": lambda folders: folders(LONG_SHAPE),
    "wide": lambda folders: folders(CheckpointShape(2, 3, 144, 100, 1001, seed=3)),
    **{
        precision.value: lambda folders, precision=precision: folders(  # type: ignore[misc]
            ODD_SHAPE, precision=precision, n_inner=ODD_N_INNER
        )
        for precision in (Precision.FP16, Precision.INT8, Precision.INT4)
    },
}


def decode_rows(engine: Engine, rows: Sequence[Sequence[int]]) -> list[bytes]:
    """Prefill rows one by one, decode the last three ids together, free the slots: all bytes."""
    found = [engine.extend(slot, ids[:-3], [0]).tobytes() for slot, ids in enumerate(rows)]
    for index in (-3, -2, -1):
        logits = engine.decode([ids[index] for ids in rows])
        found = [before + row.tobytes() for before, row in zip(found, logits, strict=True)]
    while engine.lengths:
        engine.free(len(engine.lengths) - 1)
    return found


@pytest.mark.parametrize("name", _FOLDERS)
def test_a_row_is_the_same_alone_and_among_others(model_folders: ModelFolders, name: str) -> None:
    """Rows of several lengths in batches of 2 to 16, and each alone, bit for bit."""
    folder = read_model_folder(_FOLDERS[name](model_folders))
    lengths = [PROMPT_LENGTHS[row % len(PROMPT_LENGTHS)] for row in range(16)]
    rows = [ids_of(row, n + 3, folder.shape.vocab_size) for row, n in enumerate(lengths)]
    alone_engine = Engine(folder, CPU, max_slots=1, threads=1)
    alone = [decode_rows(alone_engine, [row])[0] for row in rows]
    for threads in (1, 2):
        engine = Engine(folder, CPU, max_slots=16, threads=threads)
        for count in (2, 3, 7, 8, 16):
            assert decode_rows(engine, rows[:count]) == alone[:count]


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.INT8], ids=str)
@pytest.mark.parametrize("length", [31, 32, 33, 34, 65, 129])
def test_what_is_read_has_the_same_bits_in_any_pieces(
    model_folders: ModelFolders, length: int, precision: Precision
) -> None:
    """Against pieces of two and three ids; attention takes 32 here at a time."""
    folder = read_model_folder(model_folders(LONG_SHAPE, precision=precision))
    engine = Engine(folder, CPU, max_slots=1, threads=1)
    ids = ids_of(21, 4 + length, LONG_SHAPE.vocab_size)
    ends = [*range(2, len(ids) - 1, 2), len(ids)]
    for start, end in itertools.pairwise([0, *ends]):
        expected = engine.extend(0, ids[start:end], [end - start - 1])
    for start in (0, 4):
        engine.rewind(0, start)
        found = engine.extend(0, ids[start:], [0, length + 3 - start])
        np.testing.assert_array_equal(found[1:], expected)
