"""The cache's memory: how many slots it may have, and how it grows."""

import pytest

from gpt2cli.engine.cache import DeviceCache, HostCache, choose_slots
from gpt2cli.engine.devices import Device
from gpt2cli.model_folder import ModelShape

SHAPE = ModelShape(n_layer=2, n_head=2, head_dim=3, n_embd=6, n_positions=300, vocab_size=5)


@pytest.mark.parametrize(
    "steps",  # rows and length that are asked for, rows and capacity that there are
    [
        # 64, 128 and 256 places, then the model's 300.
        [(1, 0, 1, 64), (1, 64, 1, 64), (1, 65, 1, 128), (1, 129, 1, 256), (1, 257, 1, 300)],
        # Rows that have ended are freed as soon as something has to be copied anyway.
        [(5, 64, 8, 64), (2, 64, 8, 64), (2, 65, 2, 128)],
        # What is four times too long is shrunk.
        [(1, 300, 1, 300), (1, 129, 1, 300), (1, 64, 1, 64)],
    ],
)
def test_a_cache_has_the_rows_and_places_that_are_asked_for(
    steps: list[tuple[int, int, int, int]],
) -> None:
    """Its version changes with its memory: what is bound then is invalid, and only then."""
    cache = HostCache(SHAPE)
    for rows, length, *found in steps:
        before, version = [cache.rows, cache.capacity], cache.version
        cache.reserve(rows, length)
        assert [cache.rows, cache.capacity] == found
        assert (cache.version == version) == (found == before)


@pytest.mark.parametrize(
    ("slots", "lengths", "saved"),
    [(1, (100, 200, 1), "yyn"), (15, (300, 1), "yn"), (16, (300, 300, 1), "yyn")],
)
def test_what_is_saved_takes_an_eighth_of_all_slots_at_most(
    slots: int, lengths: tuple[int, ...], saved: str
) -> None:
    """Or as much as one slot; what is dropped makes room again."""
    cache = HostCache(SHAPE, slots=slots)
    cache.reserve(1, 300)
    kept = [cache.save_row(0, length) for length in lengths]
    assert "".join("n" if each is None else "y" for each in kept) == saved
    sizes = [each.size for each in kept if each is not None]
    assert sizes == [4 * 2 * 2 * 6 * n for n, y in zip(lengths, saved, strict=True) if y == "y"]
    for each in kept:
        if each is not None:
            cache.drop(each)
    assert cache.save_row(0, 300) is not None


@pytest.mark.parametrize(("rows", "spare"), [(7, 0), (8, 1), (31, 3)])
def test_a_device_has_a_spare_row_for_every_eight(rows: int, spare: int) -> None:
    """They are whole, and used one after the other."""
    cache = DeviceCache(SHAPE, Device("cpu"), rows=rows)
    kept = [cache.save_row(0, 1) for _ in range(spare + 1)]
    assert [each and each.size for each in kept] == [4 * 2 * 2 * 6 * 300] * spare + [None]
    for each in kept:
        if each is not None:
            cache.drop(each)
            assert cache.save_row(1, 300) is not None


# How many slots there are where nobody says.

GPT2 = ModelShape(
    n_layer=12, n_head=12, head_dim=64, n_embd=768, n_positions=1024, vocab_size=50257
)
SLOT_BYTES = 2 * 12 * 768 * 1024 * 4  # keys and values of float32: 75 MB


@pytest.mark.parametrize(
    ("cores", "fitting", "slots"),
    [
        *((1, 99, 16), (2, 99, 16), (3, 99, 24), (4, 99, 32), (64, 99, 32)),
        *((64, 0, 1), (64, 0.99, 1), (64, 2.99, 2), (64, 3, 3)),
    ],
)
def test_the_batch_grows_with_the_cores_and_the_free_memory(
    cores: int, fitting: float, slots: int
) -> None:
    """Eight records a core, 16 to 32; full, they take a quarter of the memory; one always runs."""
    free = int(4 * fitting * SLOT_BYTES)
    assert choose_slots(GPT2, Device("cpu"), cores, find_free=lambda: free) == slots


def test_the_hosts_memory_says_nothing_of_a_device() -> None:
    """There the largest batch is tried, whatever the host has."""
    assert choose_slots(GPT2, Device("cuda"), 1, find_free=lambda: 0) == 32
