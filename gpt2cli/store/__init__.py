"""From a model's name to a model folder: alias, folder, cache, hub, export on first use."""

from gpt2cli.store.catalogue import (
    CachedModel,
    describe_model,
    find_cached,
    find_described,
    find_fault,
    list_cached,
    remove_cached,
    summarise_folder,
)
from gpt2cli.store.exports import export_to
from gpt2cli.store.hub import Hub
from gpt2cli.store.store import (
    ANY,
    Listener,
    StoredModel,
    find_checkpoint,
    find_model,
    pull_model,
)

__all__ = [
    "ANY",
    "CachedModel",
    "Hub",
    "Listener",
    "StoredModel",
    "describe_model",
    "export_to",
    "find_cached",
    "find_checkpoint",
    "find_described",
    "find_fault",
    "find_model",
    "list_cached",
    "pull_model",
    "remove_cached",
    "summarise_folder",
]
