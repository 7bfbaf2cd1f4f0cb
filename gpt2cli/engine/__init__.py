"""Runs the graph: session, execution provider, IO binding and the slots of the KV cache."""

from gpt2cli.engine.runtime import require_runtime

require_runtime()  # before the modules below, which are useless without it

from gpt2cli.engine.cuda import try_cuda  # noqa: E402
from gpt2cli.engine.cuda_libraries import (  # noqa: E402
    MissingLibrary,
    find_cuda_version,
    list_providers,
    preload_libraries,
)
from gpt2cli.engine.devices import (  # noqa: E402
    AUTO,
    CUDA_PIP,
    Device,
    Driver,
    ask_driver,
    count_cores,
    require_device,
)
from gpt2cli.engine.engine import Engine  # noqa: E402
from gpt2cli.engine.profile import NodeRun, profile_step  # noqa: E402
from gpt2cli.engine.session import RUNTIME_VERSION  # noqa: E402
from gpt2cli.engine.slots import choose_slots  # noqa: E402
from gpt2cli.errors import DeviceFullError  # noqa: E402

__all__ = [
    "AUTO",
    "CUDA_PIP",
    "RUNTIME_VERSION",
    "Device",
    "DeviceFullError",
    "Driver",
    "Engine",
    "MissingLibrary",
    "NodeRun",
    "ask_driver",
    "choose_slots",
    "count_cores",
    "find_cuda_version",
    "list_providers",
    "preload_libraries",
    "profile_step",
    "require_device",
    "try_cuda",
]
