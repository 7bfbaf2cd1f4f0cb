"""Claims about which model runs for a name, and for none."""

import hashlib
import os
import pathlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from export.storage import Precision
from gpt2cli.errors import HubError, ModelError, UsageError
from gpt2cli.model_folder import read_model_folder
from gpt2cli.store.catalogue import list_cached
from gpt2cli.store.exports import export_once
from gpt2cli.store.hub import Hub
from gpt2cli.store.hub_files import find_damaged
from gpt2cli.store.memory import DefaultMemory, describe_way, recall_default, remember_default
from gpt2cli.store.store import Store
from gpt2cli.tokenizer import Tokenizer
from tests.checkpoints import CheckpointShape
from tests.gpt2cli.store.conftest import Told
from tests.hub_server import COMMIT, OTHER_COMMIT, HubServer, serve_hub
from tests.model_folders import ModelFolders

_SHAPE = CheckpointShape(n_layer=1, n_head=2, n_embd=32, n_positions=16, vocab_size=257)
_DEFAULT = "openai-community/gpt2"

pytestmark = pytest.mark.usefixtures("starter_checkpoint")


@pytest.fixture
def server(model_folders: ModelFolders, home: pathlib.Path) -> Iterator[HubServer]:
    """Serve a small checkpoint as the default model."""
    repository = shutil.copytree(model_folders.checkpoint(_SHAPE), home / "repository")
    (repository / "pytorch_model.bin").write_bytes(b"not wanted")
    with serve_hub({_DEFAULT: repository}) as running:
        yield running


@pytest.fixture
def hub(server: HubServer, home: pathlib.Path) -> Hub:
    return Hub(server.address, home / "hub")


@pytest.fixture
def store(hub: Hub, told: Told) -> Store:
    """Return a store that downloads from there."""
    return Store(listener=told, hub=hub)


@pytest.fixture
def no_hub(home: pathlib.Path) -> Hub:
    """Return a hub at a port where nobody listens."""
    return Hub("http://127.0.0.1:9", home / "hub")


def test_a_hub_model_is_downloaded_exported_and_known_by_its_commit(
    store: Store, server: HubServer
) -> None:
    """Only the files that a conversion reads are fetched."""
    model = store.find("gpt2")
    assert (model.name, model.revision) == (_DEFAULT, COMMIT)
    fetched = {r.rpartition("/")[2] for r in server.requests if "/resolve/" in r}
    assert fetched == {"config.json", "model.safetensors", "tokenizer.json"}


def test_the_second_time_the_network_is_not_asked(store: Store, server: HubServer) -> None:
    first = store.find("gpt2")
    server.requests.clear()
    second = store.find("124M")
    assert second == first
    assert server.requests == []


def test_a_checkpoint_in_the_hubs_cache_needs_no_network(
    store: Store, server: HubServer, home: pathlib.Path
) -> None:
    """What another tool downloaded is exported without asking."""
    store.find("gpt2")
    shutil.rmtree(home / "cache")
    server.requests.clear()
    model = replace(store, offline=True).find("gpt2")
    assert model.revision == COMMIT
    assert server.requests == []


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_the_environment_can_forbid_the_network(
    store: Store, server: HubServer, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """HF_HUB_OFFLINE=1 is offline, and so is the older name that huggingface_hub reads."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv(variable, "1")
    with pytest.raises(HubError, match=variable):
        store.find("gpt2")
    assert server.requests == []


@pytest.mark.parametrize(
    ("status", "code", "told_to_do"),
    [
        (401, "", "HF_TOKEN"),
        (403, "", "HF_TOKEN"),
        (403, "GatedRepo", "HF_TOKEN"),
        (404, "RepoNotFound", "check the name"),
        (404, "RevisionNotFound", "leave out revision"),
        (429, "", "wait some minutes"),
        (500, "", "try later"),
    ],
)
def test_a_refusal_of_the_hub_is_one_line_that_says_what_to_do(
    store: Store,
    server: HubServer,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    code: str,
    told_to_do: str,
) -> None:
    """Each kind has its own advice; the token that was sent never appears."""
    monkeypatch.setenv("HF_TOKEN", "hf_secretsecretsecretsecretsecret")
    server.refusal = (status, code)
    with pytest.raises(HubError, match=told_to_do) as caught:
        store.find("gpt2")
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert set(server.tokens) == {"Bearer hf_secretsecretsecretsecretsecret"}


def test_a_name_that_the_hub_cannot_have_is_one_line(store: Store) -> None:
    """It looks like an id; huggingface_hub knows that none is like it."""
    with pytest.raises(HubError, match=r"^a--b/c is not a hub id; expected owner/name"):
        store.find("a--b/c")


def test_what_answers_in_the_hubs_place_is_one_line_that_says_so(
    store: Store, server: HubServer
) -> None:
    """As the login page of a guest network: 200, and HTML."""
    server.page = b"<html>Welcome!</html>"
    with pytest.raises(HubError, match=r"did not come from the hub; check HF_ENDPOINT") as caught:
        store.find("gpt2")
    assert "\n" not in str(caught.value)


def test_a_hub_cache_that_cannot_be_written_is_one_line_that_says_what_to_set(
    server: HubServer, told: Told, home: pathlib.Path
) -> None:
    """A file where its folder should be; nothing else is tried in its place."""
    (home / "file").touch()
    with pytest.raises(HubError, match="set HF_HOME") as caught:
        Store(listener=told, hub=Hub(server.address, home / "file" / "hub")).find("gpt2")
    assert "\n" not in str(caught.value)


def test_a_download_cut_by_the_server_is_one_line_and_then_completed(
    store: Store, server: HubServer
) -> None:
    """A connection that closes early never becomes a model."""
    server.cut_after = 10_000
    with pytest.raises(HubError, match="could not be downloaded") as caught:
        store.find("gpt2")
    assert "\n" not in str(caught.value)
    server.cut_after = None
    assert store.find("gpt2").revision == COMMIT


def test_a_file_that_is_listed_but_missing_is_named(store: Store, server: HubServer) -> None:
    server.missing = {"model.safetensors"}
    with pytest.raises(HubError, match=r"model\.safetensors"):
        store.find("gpt2")


def test_a_hub_that_does_not_answer_is_given_up_soon(
    store: Store, server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first question has a time-out of its own."""
    monkeypatch.setattr("gpt2cli.store.hub._SILENCE_SECONDS", 0.2)
    server.answer_seconds = 60
    started = time.monotonic()
    with pytest.raises(HubError):
        store.find("gpt2")
    assert time.monotonic() - started < server.answer_seconds


def test_pull_takes_what_changed_on_the_branch_and_find_does_not(
    store: Store, server: HubServer
) -> None:
    """A model is brought up to date when that is asked for, not behind the user's back."""
    store.find("gpt2")
    config = server.repositories[_DEFAULT] / "config.json"
    config.write_text(config.read_text() + "\n")
    server.commit = OTHER_COMMIT
    assert store.find("gpt2").revision == COMMIT
    assert store.pull("gpt2").revision == OTHER_COMMIT
    assert store.find("gpt2").revision == OTHER_COMMIT


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["cut", "empty", "flipped bit"])
def test_pull_mends_a_download_that_was_damaged(
    store: Store, hub: Hub, server: HubServer, home: pathlib.Path, damage: str, name: str
) -> None:
    """What is not as the hub lists it is fetched anew, and nothing else is."""
    hub.download(_DEFAULT, "main", progress=False)
    [file] = (home / "hub").glob(f"*/snapshots/*/{name}")
    whole = file.read_bytes()
    damaged = {
        "cut": whole[: len(whole) // 2],
        "empty": b"",
        "flipped bit": whole[:-1] + bytes([whole[-1] ^ 1]),
    }
    file.resolve().write_bytes(damaged[damage])
    if damage != "flipped bit":  # which no conversion sees
        found = replace(store, offline=True).find_checkpoint("gpt2")
        with pytest.raises(ModelError, match=rf"damaged: {name}; `gpt2 models pull {_DEFAULT}`"):
            export_once(found, "fp32", note=print, stage=print)
    server.requests.clear()
    assert store.pull("gpt2").revision == COMMIT
    assert file.read_bytes() == whole
    assert {r.rpartition("/")[2] for r in server.requests} == {"main", name}


def test_what_repositories_share_is_told_from_damage_and_left_alone(
    store: Store, hub: Hub, home: pathlib.Path
) -> None:
    """As huggingface_hub keeps what it downloads by Xet: the blob is a link to a hash of that."""
    snapshot = hub.download(_DEFAULT, "main", progress=False)
    weights = snapshot / "model.safetensors"
    shared = home / "hub" / "blobs" / "ab" / ("ab" * 32)
    shared.parent.mkdir(parents=True)
    blob = weights.resolve().rename(shared)
    (snapshot / weights.readlink()).symlink_to(blob)
    assert find_damaged(snapshot) == []
    shared.write_bytes(b"damaged")
    assert find_damaged(snapshot) == ["model.safetensors"]
    store.pull("gpt2")
    assert find_damaged(snapshot) == []
    assert shared.read_bytes() == b"damaged"


def test_a_file_that_never_comes_as_the_hub_lists_it_is_told(
    store: Store, server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is fetched once more, and then refused by its name."""
    monkeypatch.setattr("tests.hub_server._lfs", lambda path: _describe_another(path))
    with pytest.raises(HubError, match=r"model\.safetensors of .* is not what the hub lists"):
        store.find("gpt2")


def _describe_another(path: pathlib.Path) -> dict[str, object] | None:
    if path.suffix != ".safetensors":
        return None
    return {"sha256": hashlib.sha256(b"").hexdigest(), "size": 0, "pointerSize": 134}


def test_a_repository_without_weights_is_refused_by_the_file_that_lacks(
    store: Store, server: HubServer
) -> None:
    """Nothing is downloaded of a repository that cannot be converted."""
    for name in ("model.safetensors", "pytorch_model.bin"):
        (server.repositories[_DEFAULT] / name).unlink()
    with pytest.raises(HubError, match=r"has no model\.safetensors"):
        store.find("gpt2")


def test_the_starter_runs_where_the_default_cannot_be_had(no_hub: Hub, told: Told) -> None:
    """No model named and no hub: the bundled one, one note with the reason, and no lie."""
    model = Store(listener=told, hub=no_hub).find(None)
    assert model.name == "starter"
    [why] = [note for note in told.notes if "starter model" in note]
    assert "could not be downloaded" in why


def test_a_failure_of_the_hub_is_remembered_for_a_while(
    store: Store, server: HubServer, told: Told
) -> None:
    """The second start does not wait for the hub, and gives the same reason."""
    server.refusal = (500, "")
    store.find(None)
    server.requests.clear()
    server.refusal = None
    model = store.find(None)
    assert model.name == "starter"
    assert server.requests == []
    assert sum("the hub answered 500" in note for note in told.notes) == 2


def test_the_starter_is_known_by_what_is_in_its_files(
    no_hub: Hub, told: Told, starter_checkpoint: pathlib.Path
) -> None:
    """Not by their dates, which every install sets anew, nor by its card."""
    source = Store(listener=told, hub=no_hub).find("starter").folder.source
    weights = (starter_checkpoint / "model.safetensors").read_bytes()
    assert source["sha256"]["model.safetensors"] == hashlib.sha256(weights).hexdigest()
    assert source.keys() == {"name", "sha256"}
    assert "README.md" not in source["sha256"]


def test_another_way_to_the_hub_is_tried_at_once(
    store: Store, told: Told, no_hub: Hub, home: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has just mended a proxy does not wait; no password of one is kept."""
    monkeypatch.setenv("https_proxy", "http://me:secret@127.0.0.1:9")
    remember_default(DefaultMemory(False, time.time(), "just now", describe_way()))
    assert Store(listener=told, hub=no_hub).find(None).name == "starter"
    assert not any(b"secret" in path.read_bytes() for path in (home / "state").rglob("*.json"))
    monkeypatch.delenv("https_proxy")
    assert store.find(None).name == _DEFAULT


def test_offline_is_a_reason_of_its_own(store: Store, told: Told) -> None:
    """Whatever the hub last said: it is not to be asked."""
    remember_default(DefaultMemory(hub_failed_at=time.time(), hub_failure="just now"))
    assert replace(store, offline=True).find(None).name == "starter"
    [why] = [note for note in told.notes if "starter model" in note]
    assert "offline mode is on" in why
    assert "just now" not in why


@pytest.mark.parametrize(
    ("seconds_ago", "name", "found"),
    [(0, None, "starter"), (3600, None, _DEFAULT), (0, "gpt2", _DEFAULT)],
)
def test_a_remembered_failure_is_of_the_default_and_gets_old(
    store: Store, seconds_ago: float, name: str | None, found: str
) -> None:
    """The hub is not asked again at once, unless for a model that somebody named."""
    failed_at = time.time() - seconds_ago
    remember_default(DefaultMemory(False, failed_at, "it failed", describe_way()))
    assert store.find(name).name == found


def test_once_the_default_has_run_it_is_never_replaced(
    store: Store, server: HubServer, home: pathlib.Path
) -> None:
    store.find(None)
    for folder in ("cache", "hub"):
        shutil.rmtree(home / folder)
    server.refusal = (500, "")
    with pytest.raises(HubError, match="answered 500"):
        store.find(None)


@pytest.mark.parametrize(
    "content",
    ['{"surprise": 1}', '{"has_run": true, "hub_failed_at": "x", "hub_failure": "", "way": ""}'],
    ids=["other", "text"],
)
def test_what_is_remembered_may_be_lost_or_damaged(home: pathlib.Path, content: str) -> None:
    remember_default(DefaultMemory(has_run=True))
    assert recall_default().has_run
    for file in (home / "state").rglob("*.json"):
        file.write_text(content)
    assert recall_default() == DefaultMemory()


def test_nothing_stands_in_for_a_revision_that_is_not_there(
    store: Store, server: HubServer
) -> None:
    """It was asked for, though the hub failed lately; and that it is missing says nothing of it."""
    remember_default(DefaultMemory(hub_failed_at=time.time(), hub_failure="just now"))
    server.refusal = (404, "RevisionNotFound")
    with pytest.raises(HubError, match="no revision typo"):
        replace(store, revision="typo").find(None)
    server.refusal = None
    remember_default(DefaultMemory())
    assert store.find(None).name == _DEFAULT


def test_a_download_without_a_tokenizer_is_completed(
    store: Store, server: HubServer, home: pathlib.Path
) -> None:
    store.find("gpt2")
    shutil.rmtree(home / "cache")
    for link in (home / "hub").rglob("tokenizer.json"):
        link.unlink()
    with pytest.raises(HubError, match=r"incomplete: missing tokenizer\.json"):
        replace(store, offline=True).find("gpt2")
    assert store.find("gpt2").name == _DEFAULT


def test_commits_of_several_revisions_are_known_side_by_side(
    store: Store, server: HubServer
) -> None:
    """Whatever characters they have."""
    for revision in ("main", "refs/pr/1", "v1.0"):
        replace(store, revision=revision).find("gpt2")
    server.requests.clear()
    for revision in ("main", "refs/pr/1", "v1.0"):
        assert replace(store, revision=revision).find("gpt2").revision == COMMIT
    assert server.requests == []


def test_an_export_is_found_by_its_commit_where_only_that_is_left(
    store: Store, server: HubServer, home: pathlib.Path
) -> None:
    """As a record names it; nothing is asked for."""
    expected = store.find("gpt2")
    shutil.rmtree(home / "hub")
    server.requests.clear()
    assert replace(store, revision=COMMIT).find("gpt2") == expected
    assert server.requests == []


def test_a_tokenizer_is_taken_of_whatever_precision_is_there(
    store: Store, model_folders: ModelFolders
) -> None:
    """What reads no weights does not ask how they are stored."""
    names = [str(model_folders(_SHAPE, precision=Precision.INT8))]
    for name in (str(model_folders.checkpoint(_SHAPE)), "gpt2"):
        replace(store, precision="int8").find(name)
        names.append(name)
    for name in names:
        with store.find_tokenizer(name) as found:
            assert found.folder.precision == "int8"


def test_for_a_tokenizer_no_weights_are_fetched_and_nothing_is_converted(
    store: Store, server: HubServer
) -> None:
    """Who wants the model later downloads what is still missing."""
    for offline in (False, True):
        with replace(store, offline=offline).find_tokenizer("gpt2") as found:
            assert (found.name, found.revision) == (_DEFAULT, COMMIT)
            assert Tokenizer(found.folder).encode_text("A") == [32]
    assert list_cached() == []
    fetched = {r.rpartition("/")[2] for r in server.requests if "/resolve/" in r}
    assert fetched == {"config.json", "tokenizer.json"}
    server.requests.clear()
    store.find("gpt2")
    assert {r.rpartition("/")[2] for r in server.requests} == {"main", "model.safetensors"}


def test_a_checkpoint_without_weights_has_a_tokenizer(
    model_folders: ModelFolders, told: Told, tmp_path: pathlib.Path
) -> None:
    """The same as a model folder of it has."""
    whole = model_folders.checkpoint(_SHAPE)
    bare = shutil.copytree(whole, tmp_path / "bare")
    (bare / "model.safetensors").unlink()
    with Store(listener=told).find_tokenizer(str(bare)) as found:
        alone = found.folder
        text = alone.tokenizer_file.read_text()
    made = read_model_folder(model_folders.convert(whole))
    assert text == made.tokenizer_file.read_text()
    assert (alone.shape, alone.missing_ids) == (made.shape, made.missing_ids)
    assert (alone.bos_token_id, alone.eos_token_ids) == (made.bos_token_id, made.eos_token_ids)


def test_after_the_defaults_tokenizer_alone_the_starter_may_still_stand_in(
    store: Store, server: HubServer
) -> None:
    """The default has not run yet."""
    with store.find_tokenizer(None) as found:
        assert found.name == _DEFAULT
    server.refusal = (500, "")
    assert store.find(None).name == "starter"


def test_a_model_folder_is_taken_as_it_is(model_folders: ModelFolders, told: Told) -> None:
    """Wherever it lies, and whatever auto would export: it has its precision already."""
    folder = model_folders(_SHAPE, precision=Precision.INT8)
    assert Store(auto_precision="fp16", listener=told).find(str(folder)).folder.path == folder
    assert told.notes == []


def test_a_model_folder_of_another_precision_is_refused_naming_both(
    model_folders: ModelFolders, told: Told
) -> None:
    with pytest.raises(UsageError, match=r"precision: expected fp32.*found int8"):
        Store(precision="int8", listener=told).find(str(model_folders(_SHAPE)))


def test_auto_is_what_the_caller_says_and_each_precision_has_a_folder(
    model_folders: ModelFolders, told: Told
) -> None:
    """The same checkpoint, once for each precision that was asked."""
    checkpoint = str(model_folders.checkpoint(_SHAPE))
    asked = [
        Store(precision=precision, auto_precision=auto, listener=told).find(checkpoint).folder
        for precision, auto in (("auto", "fp32"), ("auto", "int8"), ("int4", "fp32"))
    ]
    assert [folder.precision for folder in asked] == ["fp32", "int8", "int4"]
    assert len({folder.path for folder in asked}) == 3


@pytest.mark.parametrize("name", ["starter", "folder"])
def test_a_revision_is_refused_where_there_are_none(
    model_folders: ModelFolders, told: Told, name: str
) -> None:
    """Only hub models have revisions."""
    model = name if name == "starter" else str(model_folders.checkpoint(_SHAPE))
    with pytest.raises(UsageError, match="revision"):
        Store(revision="main", listener=told).find(model)


def test_an_empty_folder_is_an_error_that_lists_what_is_missing(
    tmp_path: pathlib.Path, told: Told
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError) as caught:
        Store(listener=told).find(str(tmp_path / "empty"))
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert name in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may read anything")
def test_a_folder_that_cannot_be_read_is_one_line(tmp_path: pathlib.Path, told: Told) -> None:
    folder = tmp_path / "secret"
    folder.mkdir(mode=0)
    with pytest.raises(ModelError, match="cannot be read"):
        Store(listener=told).find(str(folder))
