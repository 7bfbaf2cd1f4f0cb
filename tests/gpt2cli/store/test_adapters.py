"""Claims about adapters: where they come from, and which export is of which."""

import pathlib
import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gpt2cli.errors import HubError, ModelError, UsageError
from gpt2cli.store.catalogue import list_cached
from gpt2cli.store.hub import Hub
from gpt2cli.store.store import Store
from tests.checkpoints import write_tokenizer
from tests.gpt2cli.store.conftest import Told
from tests.hub_server import COMMIT, HubServer, serve_hub
from tests.vectors.adapter_cases import (
    ADAPTERS,
    BASE_NAME,
    LARGER_VOCABULARY,
    copy_adapter,
    write_base,
)

_BASE = f"somebody/{BASE_NAME}"
_ADAPTER = "somebody/poet"


@pytest.fixture
def server(home: pathlib.Path) -> Iterator[HubServer]:
    """Serve the base of the stored adapters, and one of these with more than is wanted."""
    base = write_base(home / "repositories")
    adapter = shutil.copytree(ADAPTERS / "rslora", home / "repositories" / "poet")
    (adapter / "training_args.bin").write_bytes(b"not wanted")
    (adapter / "README.md").write_bytes(b"not wanted")
    with serve_hub({_BASE: base, _ADAPTER: adapter}) as running:
        yield running


@pytest.fixture
def store(server: HubServer, home: pathlib.Path, told: Told) -> Store:
    """Return a store that downloads from there, and merges that adapter."""
    hub = Hub(server.address, home / "hub")
    return Store(listener=told, hub=hub, adapters=(_ADAPTER,))


def test_an_adapter_of_the_hub_is_known_by_its_commit(store: Store, server: HubServer) -> None:
    """Only the files that a conversion reads are fetched."""
    (merged,) = store.find(_BASE).folder.adapters
    assert (merged.name, merged.revision) == (_ADAPTER, COMMIT)
    fetched = {r.rpartition("/")[2] for r in server.requests if f"/{_ADAPTER}/resolve/" in r}
    assert fetched == {"adapter_config.json", "adapter_model.safetensors"}


def test_the_second_time_neither_network_nor_download_is_needed(
    store: Store, server: HubServer, home: pathlib.Path
) -> None:
    """The export is enough, as for a model."""
    first = store.find(_BASE)
    server.requests.clear()
    shutil.rmtree(home / "hub")
    assert replace(store, offline=True).find(_BASE) == first
    assert server.requests == []


def test_pull_brings_the_newest_adapter(
    store: Store, server: HubServer, home: pathlib.Path
) -> None:
    """Like the newest model; what is found afterwards is that one."""
    old = store.find(_BASE)
    server.commit = "f" * 40
    new = store.pull(_BASE)
    assert new.folder.adapters[0].revision == server.commit != old.folder.adapters[0].revision
    server.requests.clear()
    assert store.find(_BASE) == new
    assert server.requests == []


def test_offline_an_adapter_that_is_not_here_is_told(store: Store, told: Told) -> None:
    """By its own name, also where the model is here."""
    replace(store, adapters=()).find(_BASE)
    with pytest.raises(HubError, match=f"{_ADAPTER} is not on this machine"):
        replace(store, offline=True).find(_BASE)


@pytest.mark.parametrize(
    ("lost", "told_so"),
    [
        ("adapter_config.json", "has no adapter_config.json; expected an adapter that peft made"),
        ("adapter_model.safetensors", "has no adapter_model.safetensors; expected an adapter"),
    ],
)
def test_a_repository_that_is_no_adapter_is_told(
    store: Store, server: HubServer, lost: str, told_so: str
) -> None:
    """What it lacks."""
    (server.repositories[_ADAPTER] / lost).unlink()
    with pytest.raises(HubError, match=f"{_ADAPTER} {told_so}"):
        store.find(_BASE)


def test_an_adapter_given_as_the_model_is_told(store: Store) -> None:
    """With what to do."""
    with pytest.raises(HubError, match=f"{_ADAPTER} is an adapter, not a model; name the model"):
        store.find(_ADAPTER)


def test_a_damaged_download_is_told_with_what_repairs_it(store: Store, home: pathlib.Path) -> None:
    """A bit of an adapter that has flipped on the disk."""
    replace(store, adapters=()).find(_BASE)
    store.find_checkpoint(_BASE)
    (path,) = (home / "hub").rglob("adapter_model.safetensors")
    path.resolve().write_bytes(b"\xff" * path.stat().st_size)
    repair = f"`gpt2 models pull MODEL adapter {_ADAPTER}` repairs it"
    with pytest.raises(ModelError, match=f"{_ADAPTER} is damaged: .*; {repair}"):
        store.find(_BASE)
    store.pull(_BASE)


def test_each_set_of_adapters_is_an_export_of_its_own(home: pathlib.Path, told: Told) -> None:
    """None, one, two, and two in another order; each is found again."""
    base = str(write_base(home))
    plain, rslora = (str(ADAPTERS / name) for name in ("plain", "rslora"))
    sets = [(), (plain,), (plain, rslora), (rslora, plain)]
    stores = [Store(listener=told, adapters=adapters) for adapters in sets]
    folders = [store.find(base).folder.path for store in stores]
    assert len(set(folders)) == len(list_cached()) == len(sets)
    assert [store.find(base).folder.path for store in stores] == folders


def test_an_adapter_that_has_changed_is_merged_again(home: pathlib.Path, told: Told) -> None:
    """In place of what was merged before."""
    base = str(write_base(home))
    adapter = copy_adapter("plain", home / "adapter")
    store = Store(listener=told, adapters=(str(adapter),))
    before = store.find(base).folder
    shutil.copytree(ADAPTERS / "patterns", adapter, dirs_exist_ok=True)
    after = store.find(base).folder
    assert before.path == after.path
    assert before.source != after.source


def test_a_model_folder_takes_no_adapter(store: Store, home: pathlib.Path, told: Told) -> None:
    """Its weights are written; the error says what to do."""
    folder = Store(listener=told).find(str(write_base(home))).folder.path
    told_so = "nothing can be merged into a model folder, found somebody/poet; name its checkpoint"
    with pytest.raises(UsageError, match=told_so):
        store.find(str(folder))


def test_no_other_model_stands_in_for_the_one_of_an_adapter(home: pathlib.Path, told: Told) -> None:
    """The starter is not what an adapter was made for."""
    hub = Hub("http://127.0.0.1:9", home / "hub")
    with pytest.raises(HubError):
        Store(listener=told, hub=hub, adapters=(str(ADAPTERS / "plain"),)).find(None)


@pytest.mark.parametrize(
    ("name", "told_so"),
    [
        ("nowhere", "adapter 'nowhere': there is no such folder, and it is not a hub id"),
        (str(ADAPTERS / "plain" / "adapter_config.json"), "is a file; expected its folder"),
    ],
)
def test_a_name_that_means_no_adapter_is_told(
    home: pathlib.Path, told: Told, name: str, told_so: str
) -> None:
    """Before the model is looked for."""
    with pytest.raises(ModelError, match=told_so):
        Store(listener=told, adapters=(name,)).find(str(write_base(home)))


def test_the_tokenizer_alone_is_that_of_the_adapter(home: pathlib.Path, told: Told) -> None:
    """With the vocabulary that it makes; nothing is exported."""
    base = write_base(home)
    adapter = copy_adapter("saved-resized", home / "adapter")
    write_tokenizer(adapter, LARGER_VOCABULARY, kind="ascii")
    with Store(listener=told, adapters=(str(adapter),)).find_tokenizer(str(base)) as stored:
        assert stored.folder.shape.vocab_size == LARGER_VOCABULARY
        assert stored.folder.missing_ids == (range(97, 101),)
    assert list_cached() == []
