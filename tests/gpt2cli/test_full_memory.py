"""Claims about a device whose memory is full: what the commands write, tell and return."""

import itertools
import pathlib
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.errors import DeviceFullError
from gpt2cli.model_folder import ModelFolder
from tests.gpt2cli.runner import error_line, invoke

OPTIONS = ("--seed", "3", "-n", "20", "--ignore-eos")


class FullEngine(Engine):
    """The engine on a device, which is the CPU: it holds 8 rows, and runs so many decode steps."""

    steps = 30

    def __init__(
        self, folder: ModelFolder, device: Device, *, max_slots: int, threads: int, **others: bool
    ) -> None:
        if max_slots > 8:
            raise DeviceFullError("full, making room for the KV cache")
        super().__init__(folder, device, max_slots=max_slots, threads=threads)
        self._steps = itertools.count()

    def decode(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Append an id to every slot, while there is memory."""
        if next(self._steps) >= self.steps:
            raise DeviceFullError("full, at a step")
        return super().decode(ids)


@pytest.fixture
def prompts(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "prompts"
    path.write_text("Once upon\nThe old man\nOnce upon\nShe\n\nIt was\n")
    return path


def test_a_batch_that_runs_out_keeps_its_records_and_can_be_resumed(
    starter_folder: pathlib.Path,
    prompts: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With fewer rows it ends in the bytes of a run in one go; two records take 19 steps."""
    whole, out = tmp_path / "whole", tmp_path / "out"
    options = ("batch", prompts, "-m", starter_folder, *OPTIONS)
    assert invoke(*options, "-o", whole).exit_code == 0
    with monkeypatch.context() as patch:
        patch.setattr("gpt2cli.loading.Engine", FullEngine)
        result = invoke(*options, "-o", out, "--batch-size", "2")
    assert (result.exit_code, error_line(result)) == (1, "full, at a step")
    kept = out.read_bytes()
    assert len(kept.splitlines()) == 2
    assert invoke(*options, "-o", out, "--batch-size", "1", "--resume").exit_code == 0
    assert out.read_bytes() == whole.read_bytes()
    assert whole.read_bytes().startswith(kept)


@pytest.mark.parametrize(
    "command", [("generate", "a", "--beams", "9"), ("bench", "--batch-size", "9")], ids=" ".join
)
def test_where_fewer_rows_are_of_no_use_they_are_not_loaded(
    starter_folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """A search needs all its beams; a measure is of the rows that were asked for."""
    monkeypatch.setattr("gpt2cli.loading.Engine", FullEngine)
    result = invoke(*command, "-m", starter_folder)
    assert result.exit_code == 1
    assert error_line(result) == "full, making room for the KV cache"
