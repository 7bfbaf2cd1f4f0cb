"""From a model's name to a model folder: alias, folder, cache, hub, export on first use."""

from gpt2cli.store.exports import export_to
from gpt2cli.store.hub import Hub
from gpt2cli.store.store import Listener, StoredModel, find_checkpoint, find_model

__all__ = ["Hub", "Listener", "StoredModel", "export_to", "find_checkpoint", "find_model"]
