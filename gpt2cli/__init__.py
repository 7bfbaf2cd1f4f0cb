"""GPT-2 text generation on the command line and in Python, on ONNX Runtime."""

import os

# Before they are imported: from 1.29 on ONNX Runtime's packages report to Microsoft what they run,
# and keep a database for that; huggingface_hub asks its hub for a list of coding agents, and names
# the one it runs under in every request.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

TYPE_CHECKING = False  # without importing typing, which the program's start would wait for
if TYPE_CHECKING:
    from gpt2cli.errors import Gpt2Error, UsageError
    from gpt2cli.library.model import Model, load
    from gpt2cli.library.results import Completion, Score

__all__ = ["Completion", "Gpt2Error", "Model", "Score", "UsageError", "load"]

_PLACES = {
    "Completion": "gpt2cli.library.results",
    "Gpt2Error": "gpt2cli.errors",
    "Model": "gpt2cli.library.model",
    "Score": "gpt2cli.library.results",
    "UsageError": "gpt2cli.errors",
    "load": "gpt2cli.library.model",
}


def __getattr__(name: str) -> object:
    """Import what Python programs use when they first use it."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(_PLACES[name])
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
