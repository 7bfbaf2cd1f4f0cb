"""Reads how much memory of a CUDA device is in use, by the driver's own library."""

import ctypes
from typing import Any, Final

_DRIVER: Final = "libcuda.so.1"


class DeviceMemory:
    """Asks one device; a driver that cannot be asked tells None."""

    def __init__(self, index: int) -> None:
        self._driver: Any = None
        try:
            driver = ctypes.CDLL(_DRIVER)
        except OSError:
            return
        device, self._context = ctypes.c_int(), ctypes.c_void_p()
        failed = (
            driver.cuInit(0)
            or driver.cuDeviceGet(ctypes.byref(device), index)
            # The context that CUDA's runtime uses too: it costs no memory of its own.
            or driver.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), device)
        )
        if not failed:
            self._driver = driver

    def read_used(self) -> int | None:
        """Return the bytes in use, by whomever."""
        if self._driver is None:
            return None
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        before = ctypes.c_void_p()
        self._driver.cuCtxPushCurrent_v2(self._context)
        failed = self._driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        self._driver.cuCtxPopCurrent_v2(ctypes.byref(before))
        return None if failed else total.value - free.value
