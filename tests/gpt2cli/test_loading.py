"""Claims about opening the engine where a device fails."""

import pathlib
from typing import Literal

import pytest

from export.storage import Precision
from gpt2cli.config import ModelConfig
from gpt2cli.engine.devices import Device, DeviceChoice
from gpt2cli.engine.engine import Engine
from gpt2cli.errors import DeviceError, DeviceFullError, ModelError, UsageError
from gpt2cli.loading import LoadedModel, choose_precision, load_model, open_engine, open_fitting
from gpt2cli.model_folder import ModelFolder, read_model_folder
from tests.gpt2cli.store.conftest import Told
from tests.model_folders import ModelFolders


class _Opener:
    """Opens engines on the CPU only, as a machine without CUDA libraries does."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.asked: list[Device] = []
        self._folder = folder

    def __call__(self, device: Device) -> Engine:
        self.asked.append(device)
        if device.kind == "cuda":
            raise DeviceError("device cuda:0: no cuBLAS")
        return Engine(read_model_folder(self._folder), device)


def test_a_device_that_nobody_named_falls_back_to_the_cpu_with_a_note(
    starter_folder: pathlib.Path,
) -> None:
    """A driver without CUDA libraries does not stop a plain start, and is not hidden."""
    opener, told = _Opener(starter_folder), Told()

    choice = DeviceChoice(Device("cuda"))
    engine, reason = open_engine(opener, choice, may_fall_back=True, listener=told)

    assert (engine.device, reason) == (Device("cpu"), "device cuda:0: no cuBLAS")
    assert opener.asked == [Device("cuda"), Device("cpu")]
    assert told.notes == ["running on the CPU, not on CUDA: device cuda:0: no cuBLAS"]


def test_a_device_that_was_named_is_never_replaced(starter_folder: pathlib.Path) -> None:
    """Device cuda runs there or fails."""
    opener, told = _Opener(starter_folder), Told()

    with pytest.raises(DeviceError, match="no cuBLAS"):
        open_engine(opener, DeviceChoice(Device("cuda")), may_fall_back=False, listener=told)
    assert opener.asked == [Device("cuda")]


def test_a_device_that_failed_before_is_told_and_not_tried(starter_folder: pathlib.Path) -> None:
    """The reason is known already."""
    opener, told = _Opener(starter_folder), Told()
    choice = DeviceChoice(Device("cpu"), "no cuBLAS", failed=True)

    engine, reason = open_engine(opener, choice, may_fall_back=True, listener=told)

    assert (engine.device, reason) == (Device("cpu"), "no cuBLAS")
    assert opener.asked == [Device("cpu")]
    assert told.notes == ["running on the CPU, not on CUDA: no cuBLAS"]


def test_a_machine_without_a_device_is_not_told_so(starter_folder: pathlib.Path) -> None:
    """Nobody expects it to have one."""
    opener, told = _Opener(starter_folder), Told()

    open_engine(opener, DeviceChoice(Device("cpu"), "no driver"), may_fall_back=True, listener=told)

    assert told.notes == []


class _Small:
    """Opens engines with no more slots than fit."""

    def __init__(self, folder: pathlib.Path, *, fitting: int) -> None:
        self.asked: list[int] = []
        self._folder = read_model_folder(folder)
        self._fitting = fitting

    def __call__(self, slots: int) -> Engine:
        self.asked.append(slots)
        if slots > self._fitting:
            raise DeviceFullError("full")
        return Engine(self._folder, Device("cpu"), max_slots=slots)


def test_slots_that_do_not_fit_are_halved_with_a_note(starter_folder: pathlib.Path) -> None:
    """As often as it takes: 32, 16, 8."""
    opener, told = _Small(starter_folder, fitting=9), Told()

    engine = open_fitting(opener, 32, fewest=1, listener=told)

    assert engine.max_slots == 8
    assert opener.asked == [32, 16, 8]
    assert told.notes == ["the memory of cpu holds 8 rows at once, not 32"]


def test_slots_that_fit_are_not_told(starter_folder: pathlib.Path) -> None:
    """No note."""
    told = Told()
    open_fitting(_Small(starter_folder, fitting=8), 8, fewest=1, listener=told)
    assert told.notes == []


class _Tiny(Engine):
    """An engine on a device, which is the CPU, whose memory holds three rows."""

    def __init__(
        self, folder: ModelFolder, device: Device, *, max_slots: int, threads: int
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


def test_fewer_slots_than_are_of_use_are_an_error(
    monkeypatch: pytest.MonkeyPatch, model_folders: ModelFolders
) -> None:
    """As for the beams of a search."""
    monkeypatch.setattr("gpt2cli.loading.Engine", _Tiny)
    with pytest.raises(DeviceFullError):
        load_folder(str(model_folders()), max_slots=16, min_slots=4)


@pytest.mark.parametrize(("fewest", "asked"), [(1, [5, 2, 1]), (3, [5, 3]), (5, [5])])
def test_no_fewer_slots_than_are_needed_are_tried(
    starter_folder: pathlib.Path, fewest: int, asked: list[int]
) -> None:
    """Beams need all of theirs."""
    opener = _Small(starter_folder, fitting=0)

    with pytest.raises(DeviceFullError):
        open_fitting(opener, 5, fewest=fewest, listener=Told())
    assert opener.asked == asked


def test_a_graph_that_a_device_runs_wrongly_is_refused_there(
    model_folders: ModelFolders,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
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


def test_a_loaded_model_has_all_that_runs_it(starter_folder: pathlib.Path) -> None:
    """Engine, tokenizer and sampler come from one folder."""
    model = load_model(
        ModelConfig(model=str(starter_folder), device="cpu", threads=1, offline=True),
        max_slots=3,
        listener=Told(),
    )

    assert (model.engine.max_slots, model.engine.threads) == (3, 1)
    assert model.stored.folder.path == starter_folder
    assert model.tokenizer.encode("Once upon") != []


@pytest.mark.parametrize(
    ("asked", "kind", "chosen"),
    [
        ("auto", "cpu", "fp32"),
        ("auto", "cuda", "fp16"),
        ("fp32", "cuda", "fp32"),
        ("fp16", "cuda", "fp16"),
        ("int8", "cpu", "int8"),
        ("int4", "cpu", "int4"),
    ],
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
