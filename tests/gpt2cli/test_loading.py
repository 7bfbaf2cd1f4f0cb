"""Claims about opening the engine where a device fails."""

from typing import Literal

import pytest

from export.storage import Precision
from gpt2cli.config import ModelConfig
from gpt2cli.engine.devices import Device, DeviceChoice
from gpt2cli.engine.engine import Engine
from gpt2cli.errors import DeviceError, DeviceFullError, ModelError, UsageError
from gpt2cli.loading import LoadedModel, choose_precision, load_model, open_engine, open_fitting
from gpt2cli.model_folder import ModelFolder
from tests.gpt2cli.store.conftest import Told
from tests.model_folders import ModelFolders

_CUDA, _CPU = Device("cuda"), Device("cpu")


@pytest.mark.parametrize(
    ("choice", "tried", "reason", "noted"),
    [
        (DeviceChoice(_CUDA), [_CUDA, _CPU], "device cuda:0: no cuBLAS", True),
        (DeviceChoice(_CPU, "no cuBLAS", failed=True), [_CPU], "no cuBLAS", True),
        (DeviceChoice(_CPU, "no driver"), [_CPU], "no driver", False),
    ],
    ids=["fails now", "failed before", "has none"],
)
def test_a_device_that_nobody_named_falls_back_to_the_cpu_with_a_note(
    choice: DeviceChoice, tried: list[Device], reason: str, noted: bool
) -> None:
    """With the reason, but on a machine that has no device: nobody expects it there."""
    asked, told = list[Device](), Told()
    _, why = open_engine(
        lambda device: _open(device, asked), choice, may_fall_back=True, listener=told
    )
    assert (asked, why) == (tried, reason)
    assert told.notes == ([f"running on the CPU, not on CUDA: {reason}"] if noted else [])


def test_a_device_that_was_named_is_never_replaced() -> None:
    asked, choice = list[Device](), DeviceChoice(_CUDA)
    with pytest.raises(DeviceError, match="no cuBLAS"):
        open_engine(
            lambda device: _open(device, asked), choice, may_fall_back=False, listener=Told()
        )
    assert asked == [_CUDA]


def _open(device: Device, asked: list[Device]) -> None:
    """Open nothing, as a machine without CUDA libraries does it."""
    asked.append(device)
    if device.kind == "cuda":
        raise DeviceError("device cuda:0: no cuBLAS")


class _Tiny(Engine):
    """An engine on a device, which is the CPU, whose memory holds three rows."""

    def __init__(
        self, folder: ModelFolder, device: Device, *, max_slots: int, threads: int, **others: bool
    ) -> None:
        if max_slots > 3:
            raise DeviceFullError("full")
        super().__init__(folder, device, max_slots=max_slots, threads=threads)


@pytest.mark.parametrize("wanted", [None, 16])
def test_a_batch_size_is_halved_whoever_chose_it(
    monkeypatch: pytest.MonkeyPatch, model_folders: ModelFolders, wanted: int | None
) -> None:
    """The user as well as nobody; one note with both numbers."""
    monkeypatch.setattr("gpt2cli.loading.Engine", _Tiny)
    monkeypatch.setattr("gpt2cli.loading.choose_slots", lambda shape, device, cores: 16)
    told = Told()
    model = load_folder(str(model_folders()), max_slots=wanted, listener=told)
    assert model.engine.max_slots == 2
    assert told.notes == ["the memory of cpu holds 2 rows at once, not 16"]


@pytest.mark.parametrize(("fewest", "asked"), [(1, [5, 2, 1]), (3, [5, 3]), (5, [5])])
def test_slots_are_halved_down_to_the_fewest(fewest: int, asked: list[int]) -> None:
    tried = list[int]()

    def refuse(slots: int) -> Engine:
        tried.append(slots)
        raise DeviceFullError("full")

    with pytest.raises(DeviceFullError):
        open_fitting(refuse, 5, fewest=fewest, listener=Told())
    assert tried == asked


def test_a_graph_that_a_device_runs_wrongly_is_refused_there(
    model_folders: ModelFolders, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is checked before its memory is taken; `auto` then runs on the CPU, with a note."""
    checked: list[str] = []

    def check(folder: ModelFolder, provider: str) -> None:
        checked.append(provider)
        if provider == Device("cuda").provider:
            print("EP Error")
            raise ModelError("the exported graph is wrong")

    monkeypatch.setattr("gpt2cli.loading.check_again", check)
    monkeypatch.setattr(
        "gpt2cli.loading.find_device", lambda asked, attempt: DeviceChoice(Device("cuda", 0))
    )
    folder, told = str(model_folders()), Told()
    with pytest.raises(DeviceError, match="device cuda:0: the exported graph is wrong; use"):
        load_folder(folder, device="cuda")
    model = load_folder(folder, device="auto", listener=told)
    assert model.engine.device == Device("cpu")
    assert len(told.notes) == 1 and "the exported graph is wrong" in told.notes[0]
    assert checked == ["CUDAExecutionProvider"] * 2 + ["CPUExecutionProvider"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("asked", "kind", "chosen"),
    [("auto", "cpu", "fp32"), ("auto", "cuda", "fp16"), ("fp32", "cuda", "fp32")],
)
def test_the_device_decides_what_auto_exports(
    asked: str, kind: Literal["cpu", "cuda"], chosen: str
) -> None:
    """Fp32 on the CPU, fp16 on CUDA; what was asked stays."""
    assert choose_precision(asked, Device(kind)) == chosen


def test_fp16_on_the_cpu_is_refused() -> None:
    """It would compute in float32 with more memory; the error says what to take."""
    with pytest.raises(UsageError, match=r"precision: fp16 is for CUDA.*use int8 or fp32"):
        load_folder("starter", precision="fp16")


def test_an_fp16_folder_runs_on_the_cpu_with_a_note(model_folders: ModelFolders) -> None:
    """Nobody asked for that precision; the folder has no other."""
    told = Told()
    model = load_folder(str(model_folders(precision=Precision.FP16)), listener=told)
    assert model.stored.folder.precision == "fp16"
    assert len(told.notes) == 1 and "is fp16: the CPU computes it in fp32" in told.notes[0]


def load_folder(
    name: str,
    *,
    precision: str = "auto",
    device: str = "cpu",
    max_slots: int | None = 1,
    min_slots: int = 1,
    listener: Told | None = None,
) -> LoadedModel:
    """Load a model, with one slot if nothing else is said."""
    return load_model(
        ModelConfig(model=name, precision=precision, device=device, threads=1, offline=True),
        max_slots=max_slots,
        min_slots=min_slots,
        listener=listener or Told(),
    )
