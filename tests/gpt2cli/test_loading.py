"""Claims about opening the engine where a device fails."""

import pathlib
from typing import Literal

import pytest

from export.precision import Precision
from gpt2cli.engine import Device, Engine
from gpt2cli.errors import DeviceError, UsageError
from gpt2cli.loading import LoadedModel, choose_precision, load_model, open_engine
from gpt2cli.model_folder import read_model_folder
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
            raise DeviceError("--device cuda:0: no cuBLAS")
        return Engine(read_model_folder(self._folder), device)


def test_a_device_that_nobody_named_falls_back_to_the_cpu_with_a_note(
    starter_folder: pathlib.Path,
) -> None:
    """A driver without CUDA libraries does not stop a plain start, and is not hidden."""
    opener, told = _Opener(starter_folder), Told()

    engine = open_engine(opener, Device("cuda"), may_fall_back=True, listener=told)

    assert engine.device == Device("cpu")
    assert opener.asked == [Device("cuda"), Device("cpu")]
    assert told.notes == ["running on the CPU, because of --device cuda:0: no cuBLAS"]


def test_a_device_that_was_named_is_never_replaced(starter_folder: pathlib.Path) -> None:
    """--device cuda runs there or fails."""
    opener, told = _Opener(starter_folder), Told()

    with pytest.raises(DeviceError, match="no cuBLAS"):
        open_engine(opener, Device("cuda"), may_fall_back=False, listener=told)
    assert opener.asked == [Device("cuda")]


def test_a_loaded_model_has_all_that_runs_it(starter_folder: pathlib.Path) -> None:
    """Engine, tokenizer and sampler come from one folder."""
    model = load_model(
        str(starter_folder),
        revision=None,
        precision="auto",
        device="cpu",
        threads=1,
        offline=True,
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
    with pytest.raises(UsageError, match=r"fp16: expected a CUDA device.*use int8 or fp32"):
        load_folder("starter", precision="fp16")


def test_an_fp16_folder_runs_on_the_cpu_with_a_note(model_folders: ModelFolders) -> None:
    """Nobody asked for that precision; the folder has no other."""
    told = Told()

    model = load_folder(str(model_folders(precision=Precision.FP16)), listener=told)

    assert model.stored.folder.precision == "fp16"
    assert len(told.notes) == 1 and "is fp16: the CPU computes it in fp32" in told.notes[0]


def load_folder(name: str, *, precision: str = "auto", listener: Told | None = None) -> LoadedModel:
    """Load a model on the CPU."""
    return load_model(
        name,
        revision=None,
        precision=precision,
        device="cpu",
        threads=1,
        offline=True,
        max_slots=1,
        listener=listener or Told(),
    )
