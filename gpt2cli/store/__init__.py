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
from gpt2cli.store.listener import Listener
from gpt2cli.store.store import (
    StoredModel,
    find_checkpoint,
    find_model,
    find_tokenizer,
    pull_model,
)

__all__ = [
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
    "find_tokenizer",
    "list_cached",
    "pull_model",
    "remove_cached",
    "summarise_folder",
]
