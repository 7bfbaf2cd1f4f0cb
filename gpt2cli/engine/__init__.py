"""Runs the graph: session, execution provider, IO binding and the slots of the KV cache."""

from gpt2cli.errors import PackageError, lacks_memory
from gpt2cli.machine import ONE_RUNTIME_PIP


def _require_runtime() -> None:
    """Check that ONNX Runtime can be imported, before a module here needs it.

    It may be damaged: of two packages that share a folder, `pip uninstall` of one takes files of
    the other away, and an empty module remains.
    """
    try:
        import onnxruntime

        reason = "" if hasattr(onnxruntime, "InferenceSession") else "it is installed in part"
    except (ImportError, OSError) as error:
        if lacks_memory(error):
            raise
        reason = str(error)
    if reason:
        raise PackageError(f"ONNX Runtime cannot be used ({reason}); run: {ONE_RUNTIME_PIP}")


_require_runtime()
