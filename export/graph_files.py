"""The graph files of a model folder, and which of them a provider runs; they share the weights."""

from pathlib import Path
from typing import Final

from export.attention import AttentionForm, can_be_grouped
from export.config import GPT2Config
from export.graph_runner import CPU_PROVIDER
from export.storage import Storage

MODEL_FILE: Final = "model.onnx"  # for every provider
CPU_MODEL_FILE: Final = "model_cpu.onnx"  # the form that the CPU computes faster, where it can


def forms_of(config: GPT2Config, storage: Storage) -> dict[str, AttentionForm]:
    """Return the form of attention of each graph file that the model is to have."""
    forms = {MODEL_FILE: AttentionForm.MASKED}
    if can_be_grouped(config, storage):
        forms[CPU_MODEL_FILE] = AttentionForm.GROUPED
    return forms


def find_graphs(folder: Path) -> list[Path]:
    """Return all graph files of a model folder."""
    names = (MODEL_FILE, CPU_MODEL_FILE)
    return [folder / name for name in names if (folder / name).is_file()]


def find_graph_for(folder: Path, provider: str) -> Path:
    """Return the graph file that the engine runs by `provider`."""
    return find_graphs(folder)[-1] if provider == CPU_PROVIDER else folder / MODEL_FILE
