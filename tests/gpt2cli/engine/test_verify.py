"""Several single steps in one call, and what the machine is found to keep: the same bits."""

from collections.abc import Container

import numpy as np
import pytest

from export.storage import Precision
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine, Identities, Logits
from gpt2cli.engine.identities import find_identities
from gpt2cli.model_folder import ModelFolder, read_model_folder
from tests.checkpoints import CheckpointShape
from tests.model_folders import ModelFolders

CPU = Device("cpu")
LIMIT = 80  # beyond the cache's first capacity of 64 positions
SHAPE = CheckpointShape(n_layer=2, n_head=2, n_embd=32, n_positions=LIMIT, vocab_size=289, seed=3)


@pytest.fixture(params=[Precision.FP32, Precision.INT8, Precision.INT4])
def folder(model_folders: ModelFolders, request: pytest.FixtureRequest) -> ModelFolder:
    return read_model_folder(model_folders(SHAPE, precision=request.param))


@pytest.mark.parametrize("start", [1, 37, 61, LIMIT - 8])
def test_steps_in_one_call_have_the_bits_of_single_ones(folder: ModelFolder, start: int) -> None:
    """Logits and cache, for one to eight steps, by the graph that other runs use as well.

    The next step's logits tell of the cache. Some begin where it grows, or end at the limit.
    """
    plain = Engine(folder, CPU, threads=1)
    engine = Engine(folder, CPU, threads=1, verifying=True)
    ids: list[int] = np.random.default_rng(start).integers(0, 289, LIMIT).tolist()
    first, second = (each.extend(0, ids[:start], [start - 1]) for each in (plain, engine))
    assert np.array_equal(first, second)
    stepped = np.stack([plain.decode([token_id])[0].copy() for token_id in ids[start : start + 8]])
    for count in range(1, engine.most_steps + 1):
        engine.rewind(0, start)
        assert np.array_equal(engine.verify(0, ids[start : start + count]), stepped[:count])
        assert engine.lengths == (start + count,)
        if count < 8:
            assert np.array_equal(engine.decode([ids[start + count]])[0], stepped[count])


def test_steps_are_those_of_their_slot(folder: ModelFolder) -> None:
    """The second of two slots; the first one is not touched."""
    engine = Engine(folder, CPU, threads=1, verifying=True)
    texts = [list(range(9)), list(range(20, 31))]
    for slot, text in enumerate(texts):
        engine.extend(slot, text, [0])
    together = engine.decode([5, 7]).copy()
    engine.rewind(1, 11)
    assert np.array_equal(engine.verify(1, [7, 6])[0], together[1])
    engine.rewind(0, 9)
    engine.rewind(1, 12)
    assert np.array_equal(engine.decode([5, 6])[0], together[0])


@pytest.mark.parametrize(
    "lengths", [[1, 1], [2, 1], [LIMIT - 1, 1, 33, 32, 2], [33, 7, 33], [64, 65, 40]], ids=str
)
def test_texts_that_are_read_together_have_the_bits_of_each_alone(
    folder: ModelFolder, lengths: list[int]
) -> None:
    """Whatever stands beside them; 33 and 65 end with a block of attention that has one id.

    What the cache held before is forgotten, and no slot stays open.
    """
    engine = Engine(folder, CPU, threads=2)
    texts = [np.random.default_rng(n).integers(0, 289, n).tolist() for n in lengths]
    alone = []
    for text in texts:
        alone.append(engine.extend(0, text, range(len(text))))
        engine.free(0)
    together = engine.read_together(texts)
    assert [len(logits) for logits in together] == lengths
    assert all(map(np.array_equal, together, alone))
    assert engine.lengths == ()


def test_all_identities_are_found(folder: ModelFolder) -> None:
    """They hold on every processor that was tried; slots are closed afterwards."""
    engine = Engine(folder, CPU, threads=1, verifying=True)
    assert find_identities(engine) == Identities(rows=True, cuts=True, steps=True, together=True)
    assert engine.lengths == ()


def test_without_a_graph_that_verifies_steps_are_unknown(folder: ModelFolder) -> None:
    """Nobody asked; rows and cuts are found all the same."""
    found = find_identities(Engine(folder, CPU, threads=1))
    assert found == Identities(rows=True, cuts=True, steps=None, together=True)


_WAYS = ("rows", "cuts", "steps", "together")


class _Differing(Engine):
    """An engine that computes other bits in one way."""

    way = ""
    counts: Container[int] = range(9)  # of steps, where those differ

    def extend(self, slot: int, ids: list[int], positions: list[int]) -> Logits:  # type: ignore[override]
        logits = super().extend(slot, ids, positions)
        return (
            np.nextafter(logits, 9)
            if self.way == "cuts" and self.lengths[slot] > len(ids)
            else logits
        )

    def decode(self, ids: list[int]) -> Logits:  # type: ignore[override]
        logits = super().decode(ids)
        return np.nextafter(logits, 9) if self.way == "rows" and len(ids) > 1 else logits

    def read_together(self, texts: list[list[int]]) -> list[Logits]:  # type: ignore[override]
        *others, last = super().read_together(texts)
        return [*others, np.nextafter(last, 9) if self.way == "together" else last]

    def verify(self, slot: int, ids: list[int]) -> Logits:  # type: ignore[override]
        logits = super().verify(slot, ids)
        differs = self.way == "steps" and len(ids) in self.counts
        return np.nextafter(logits, 9) if differs else logits


@pytest.mark.parametrize("way", _WAYS)
def test_one_bit_is_a_difference(model_folders: ModelFolders, way: str) -> None:
    """The last one of the logits."""
    engine = _Differing(read_model_folder(model_folders(SHAPE)), CPU, threads=1, verifying=True)
    engine.way = way
    found = find_identities(engine)
    assert found == Identities(**{name: name != way for name in _WAYS})


@pytest.mark.parametrize("count", [2, 3, 7, 8])
def test_each_number_of_steps_is_looked_at(model_folders: ModelFolders, count: int) -> None:
    """Kernels differ by how many rows they multiply."""
    engine = _Differing(read_model_folder(model_folders(SHAPE)), CPU, threads=1, verifying=True)
    engine.way, engine.counts = "steps", (count,)
    assert find_identities(engine).steps is False


def test_a_context_too_short_to_look_keeps_nothing(model_folders: ModelFolders) -> None:
    """There is nothing to gain either."""
    shape = CheckpointShape(n_layer=1, n_head=2, n_embd=32, n_positions=6, vocab_size=289)
    engine = Engine(read_model_folder(model_folders(shape)), CPU, threads=1, verifying=True)
    assert find_identities(engine) == Identities(
        rows=False, cuts=False, steps=False, together=False
    )
