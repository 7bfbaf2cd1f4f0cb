"""Makes sure that ONNX Runtime is there whole, before anything here uses it."""

from typing import Final

from gpt2cli.errors import PackageError, lacks_memory

ONE_RUNTIME_PIP: Final = (
    "pip uninstall -y onnxruntime onnxruntime-gpu && pip install onnxruntime-gpu"
)


def require_runtime() -> None:
    """Check that ONNX Runtime can be imported.

    Raises:
        PackageError: if it is not installed, or damaged: of two packages that share a folder,
            `pip uninstall` of one takes files of the other away, and an empty module remains.
        ImportError: if memory does not hold it.
    """
    try:
        import onnxruntime

        whole = hasattr(onnxruntime, "InferenceSession")
        reason = "it is installed in part"
    except (ImportError, OSError) as error:
        if lacks_memory(error):
            raise
        whole, reason = False, str(error)
    if not whole:
        raise PackageError(f"ONNX Runtime cannot be used ({reason}); run: {ONE_RUNTIME_PIP}")
