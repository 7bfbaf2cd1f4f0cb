"""Runs the graph: session, execution provider, IO binding and the slots of the KV cache."""

from gpt2cli.engine.devices import AUTO, Device, choose_device
from gpt2cli.engine.engine import Engine

__all__ = ["AUTO", "Device", "Engine", "choose_device"]
