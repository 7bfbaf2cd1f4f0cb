"""Whether CUDA runs here: one step of a tiny graph, and where that fails the reason in words."""

from typing import Final

import numpy as np

from gpt2cli.engine.captured import captured
from gpt2cli.engine.cuda_libraries import explain_no_provider, list_providers
from gpt2cli.engine.devices import Device
from gpt2cli.engine.failures import failures_told, refuse
from gpt2cli.engine.session import open_on
from gpt2cli.engine.tiny_graphs import PRODUCT

_SQUARE: Final = np.array([[1, 2], [3, 4]], np.float32)


def try_cuda(device: Device) -> None:
    """Multiply two matrices on a CUDA device.

    Raises:
        DeviceError: if it cannot be done, with the reason and what mends it.
    """
    if device.provider not in list_providers():
        raise refuse(device, *explain_no_provider())
    with failures_told(device), captured():
        [product] = open_on(PRODUCT, device).run(None, {"x": _SQUARE})
    if not np.array_equal(product, _SQUARE @ _SQUARE):
        raise refuse(device, "it multiplies wrongly", "")
