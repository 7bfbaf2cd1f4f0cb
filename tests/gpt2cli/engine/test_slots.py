"""Claims about the batch size where nobody says one."""

import pathlib
from collections.abc import Mapping

import pytest

from gpt2cli.engine.devices import Device
from gpt2cli.engine.slots import choose_slots, find_free_bytes
from gpt2cli.model_folder import ModelShape

SHAPE = ModelShape(
    n_layer=12, n_head=12, head_dim=64, n_embd=768, n_positions=1024, vocab_size=50257
)
SLOT_BYTES = 2 * 12 * 768 * 1024 * 4  # keys and values of float32: 75 MB
PLENTY = 1 << 50
CPU = Device("cpu")


@pytest.mark.parametrize(
    ("cores", "slots"), [(1, 16), (2, 16), (3, 24), (4, 32), (5, 32), (64, 32)]
)
def test_the_batch_grows_with_the_cores_up_to_a_limit(cores: int, slots: int) -> None:
    """Eight records a core, 16 at least, 32 at most."""
    assert choose_slots(SHAPE, CPU, cores, find_free=lambda: PLENTY) == slots


@pytest.mark.parametrize(("fitting", "slots"), [(0.0, 1), (0.99, 1), (1.0, 1), (2.99, 2), (3.0, 3)])
def test_a_full_cache_takes_a_quarter_of_the_free_memory_at_most(
    fitting: float, slots: int
) -> None:
    """What fits is rounded down; one record always runs."""
    free = int(4 * fitting * SLOT_BYTES)
    assert choose_slots(SHAPE, CPU, 64, find_free=lambda: free) == slots


def test_the_hosts_memory_says_nothing_of_a_device() -> None:
    """There the largest batch is tried, whatever the host has."""
    assert choose_slots(SHAPE, Device("cuda"), 1, find_free=lambda: 0) == 32


def write_files(root: pathlib.Path, files: Mapping[str, str]) -> pathlib.Path:
    """Write what Linux would tell."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = "MemTotal: 9000 kB\nMemFree: 1000 kB\nMemAvailable: 8000 kB\nBuffers: 5 kB\n"


def test_what_the_page_cache_would_give_back_is_free(tmp_path: pathlib.Path) -> None:
    """A machine that has read many files has hardly any free page, and memory all the same."""
    root = write_files(tmp_path, {"proc/meminfo": MEMINFO})
    assert find_free_bytes(root) == 8000 * 1024


@pytest.mark.parametrize(
    ("limit", "free"),
    [("4096000\n", 4096000), ("max\n", 8192000), ("9223372036854771712\n", 8192000)],
)
@pytest.mark.parametrize("name", ["memory.max", "memory/memory.limit_in_bytes"])
def test_a_containers_limit_is_a_limit(
    tmp_path: pathlib.Path, name: str, limit: str, free: int
) -> None:
    """Of both versions of cgroups; where there is none, the machine's memory counts."""
    root = write_files(tmp_path, {"proc/meminfo": MEMINFO, f"sys/fs/cgroup/{name}": limit})
    assert find_free_bytes(root) == free


@pytest.mark.parametrize("meminfo", ["", "MemAvailable:\n", "MemAvailable: many kB\n"])
def test_where_linux_tells_nothing_the_free_pages_count(
    tmp_path: pathlib.Path, meminfo: str
) -> None:
    """Old kernels and other systems have no MemAvailable."""
    root = write_files(tmp_path, {"proc/meminfo": meminfo})
    assert find_free_bytes(root) > 1 << 20


def test_this_machine_has_some_memory() -> None:
    """The real files can be read."""
    assert 1 << 20 < find_free_bytes() < PLENTY
