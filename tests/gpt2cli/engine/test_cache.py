"""The cache's memory: how many slots it may have, how it grows, and that what is stored stays."""

from typing import Any

import numpy as np
import pytest

from gpt2cli.engine.cache import HostCache, choose_slots
from gpt2cli.engine.devices import Device
from gpt2cli.model_folder import ModelShape

SHAPE = ModelShape(n_layer=2, n_head=2, head_dim=3, n_embd=6, n_positions=200, vocab_size=5)
CPU = Device("cpu")


def fill(cache: HostCache) -> None:
    """Give every element of the cache its own value."""
    for number, array in enumerate(cache._arrays):
        array[...] = np.arange(array.size).reshape(array.shape) + 1000 * number


@pytest.mark.parametrize(
    ("length", "capacity"),
    [(0, 64), (64, 64), (65, 128), (129, 200), (200, 200)],
)
def test_capacity_grows_in_doubling_steps_up_to_n_positions(length: int, capacity: int) -> None:
    """64, 128, then the model's limit of 200."""
    cache = HostCache(SHAPE)
    cache.reserve(1, length)
    assert cache.capacity == capacity


def test_one_row_that_grows_long_does_not_grow_those_that_have_ended() -> None:
    """Of eight rows six have ended: the longer cache has two, with what was stored, and zeros."""
    cache = HostCache(SHAPE)
    cache.reserve(8, 64)
    fill(cache)
    before = [array.copy() for array in cache._arrays]
    cache.reserve(2, 64)
    assert cache.rows == 8  # as long as nothing has to be copied
    cache.reserve(2, 65)
    for old, new in zip(before, cache._arrays, strict=True):
        assert new.shape == (2, 2, 128, 3)
        assert np.array_equal(new[:, :, :64], old[:2])
        assert not new[:, :, 64:].any()


@pytest.mark.parametrize("end", [KeyboardInterrupt(), MemoryError()], ids=repr)
@pytest.mark.parametrize("array", range(4))
@pytest.mark.parametrize(("rows", "length"), [(3, 100), (5, 60), (1, 200)])
def test_growing_that_is_cut_short_is_ended_by_the_next_call(
    monkeypatch: pytest.MonkeyPatch, end: BaseException, array: int, rows: int, length: int
) -> None:
    """What is stored stays, what was bound is known to be invalid, and all arrays agree again."""
    cache = HostCache(SHAPE)
    cache.reserve(3, 60)
    fill(cache)
    stored = [each[:rows, :, :60].copy() for each in cache._arrays]
    version, made, zeros = cache.version, 0, np.zeros

    def make(*arguments: Any) -> Any:
        nonlocal made
        made += 1
        if made > array:
            raise end
        return zeros(*arguments)

    with monkeypatch.context() as patch, pytest.raises(type(end)):
        patch.setattr(np, "zeros", make)
        cache.reserve(rows, length)
    assert cache.version != version

    cache.reserve(1, 60)
    assert len({each.shape for each in cache._arrays}) == 1
    for each, before in zip(cache._arrays, stored, strict=True):
        assert each.shape[1:] == (SHAPE.n_head, cache.capacity, SHAPE.head_dim)
        assert (each[:1, :, :60] == before[:1]).all()
    cache.reserve(rows, length)
    assert cache._arrays[0].shape[0] >= rows and cache.capacity >= length


def test_a_cache_is_shrunk_when_it_is_four_times_too_long() -> None:
    """From 512 down to 256 it stays, at 128 it is cut, and the kept places with it."""
    cache = HostCache(ModelShape(1, 1, 1, 1, 1024, 5))
    cache.reserve(1, 512)
    fill(cache)
    cache.reserve(1, 129)
    assert cache.capacity == 512
    cache.reserve(1, 128)
    assert cache.capacity == 128
    assert cache._arrays[0].ravel().tolist() == list(range(128))


def test_the_version_changes_with_the_addresses() -> None:
    """Where memory was made anew what is bound is invalid; where not, it stays valid."""
    cache = HostCache(SHAPE)
    versions = []
    for rows, length in ((1, 1), (1, 64), (1, 65), (2, 65), (1, 1)):
        cache.reserve(rows, length)
        versions.append(cache.version)
    assert versions == [1, 1, 2, 3, 3]


# How many slots there are where nobody says.

GPT2 = ModelShape(
    n_layer=12, n_head=12, head_dim=64, n_embd=768, n_positions=1024, vocab_size=50257
)
SLOT_BYTES = 2 * 12 * 768 * 1024 * 4  # keys and values of float32: 75 MB


@pytest.mark.parametrize(("cores", "slots"), [(1, 16), (2, 16), (3, 24), (4, 32), (64, 32)])
def test_the_batch_grows_with_the_cores_up_to_a_limit(cores: int, slots: int) -> None:
    """Eight records a core, 16 at least, 32 at most."""
    assert choose_slots(GPT2, CPU, cores, find_free=lambda: 1 << 50) == slots


@pytest.mark.parametrize(("fitting", "slots"), [(0.0, 1), (0.99, 1), (2.99, 2), (3.0, 3)])
def test_a_full_cache_takes_a_quarter_of_the_free_memory_at_most(
    fitting: float, slots: int
) -> None:
    """What fits is rounded down; one record always runs."""
    free = int(4 * fitting * SLOT_BYTES)
    assert choose_slots(GPT2, CPU, 64, find_free=lambda: free) == slots


def test_the_hosts_memory_says_nothing_of_a_device() -> None:
    """There the largest batch is tried, whatever the host has."""
    assert choose_slots(GPT2, Device("cuda"), 1, find_free=lambda: 0) == 32
