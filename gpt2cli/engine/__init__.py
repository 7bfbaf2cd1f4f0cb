"""Runs the graph: session, execution provider, IO binding and the slots of the KV cache."""

from gpt2cli.engine.devices import AUTO, Device, choose_device, count_cores
from gpt2cli.engine.engine import Engine
from gpt2cli.engine.slots import choose_slots

__all__ = ["AUTO", "Device", "Engine", "choose_device", "choose_slots", "count_cores"]
