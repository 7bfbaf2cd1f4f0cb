"""Claims about a device whose memory is full: what the commands write, tell and return."""

import pathlib
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from gpt2cli.engine import Device, Engine
from gpt2cli.errors import DeviceFullError
from gpt2cli.model_folder import ModelFolder
from tests.gpt2cli.commands.runner import error_line, invoke


class FullEngine(Engine):
    """The engine on a device, which is the CPU: its cache holds `slots` rows, a step `rows`."""

    slots = 8
    rows = 2

    def __init__(
        self, folder: ModelFolder, device: Device, *, max_slots: int, threads: int
    ) -> None:
        if max_slots > self.slots:
            raise DeviceFullError("full, making room for the KV cache")
        super().__init__(folder, device, max_slots=max_slots, threads=threads)

    @property
    def most_slots(self) -> int:
        """As many as there are, as on any device."""
        return self.max_slots

    def decode(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Append an id to every slot, if they fit."""
        if len(ids) > self.rows:
            raise DeviceFullError(f"full, at a step of {len(ids)} rows")
        return super().decode(ids)


@pytest.fixture
def prompts(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a file of six prompts."""
    path = tmp_path / "prompts"
    path.write_text("Once upon\nThe old man\nOnce upon\nShe\n\nIt was\n")
    return path


def use_full_engine(monkeypatch: pytest.MonkeyPatch, *, rows: int) -> None:
    """Let a model be loaded into such an engine."""
    monkeypatch.setattr(FullEngine, "rows", rows)
    monkeypatch.setattr("gpt2cli.loading.Engine", FullEngine)


OPTIONS = ("--seed", "3", "-n", "20", "--ignore-eos")


def test_a_batch_goes_on_with_fewer_rows_and_tells_it(
    starter_folder: pathlib.Path, prompts: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 64 rows 8 are loaded, and 2 can run: the records are those of a run where all fits."""
    options = ("-m", starter_folder, *OPTIONS, "--batch-size", "64")
    expected = invoke("batch", prompts, *options).stdout
    use_full_engine(monkeypatch, rows=2)
    result = invoke("batch", prompts, *options, "--stats")
    assert (result.exit_code, result.stdout) == (0, expected)
    told = result.stderr.splitlines()
    assert told[:2] == [
        "gpt2: the memory of cpu holds 8 rows at once, not 64",
        "gpt2: the memory of cpu holds 2 rows at once, not 8",
    ]
    assert told[2].startswith("gpt2: 6 records, 120 tokens in ")
    assert told[3] == "batch size 2"


def test_quiet_hides_it(
    starter_folder: pathlib.Path, prompts: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As every note."""
    use_full_engine(monkeypatch, rows=2)
    result = invoke("batch", prompts, "-m", starter_folder, *OPTIONS, "-q", "--batch-size", "64")
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_row_that_does_not_fit_alone_ends_a_batch(
    starter_folder: pathlib.Path, prompts: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line with the reason, and exit code 1."""
    use_full_engine(monkeypatch, rows=0)
    result = invoke("batch", prompts, "-m", starter_folder, *OPTIONS, "--batch-size", "8")
    assert result.exit_code == 1
    assert error_line(result) == "full, at a step of 1 rows"


def test_a_record_with_more_beams_than_are_left_is_an_error(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the run began there was room for them; the other records are whole."""
    path = tmp_path / "in.jsonl"
    path.write_text('{"prompt": "a", "samples": 4}\n{"prompt": "b", "beams": 3}\n{"prompt": "c"}\n')
    use_full_engine(monkeypatch, rows=2)
    result = invoke("batch", path, "-m", starter_folder, *OPTIONS, "--batch-size", "4")
    lines = result.stdout.splitlines()
    assert (result.exit_code, len(lines)) == (1, 6)
    assert [place for place, line in enumerate(lines) if '"error": "' in line] == [4]
    assert "beams: expected at most 2" in lines[4]


@pytest.mark.parametrize("json", [[], ["--json"]], ids=["text", "json"])
def test_samples_are_streamed_once_and_in_order(
    starter_folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, json: list[str]
) -> None:
    """Five samples, two at once; the note comes after the last line."""
    options = ("-m", str(starter_folder), *OPTIONS, "-N", "5", *json)
    expected = invoke("generate", "Once upon", *options).stdout
    use_full_engine(monkeypatch, rows=2)
    result = invoke("generate", "Once upon", *options)
    assert (result.exit_code, result.stdout) == (0, expected)
    assert result.stderr == "gpt2: the memory of cpu holds 2 rows at once, not 5\n"


@pytest.mark.parametrize("rows", [2, 3])
def test_beams_are_run_all_or_not_at_all(
    starter_folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Three beams do not go on with two rows."""
    use_full_engine(monkeypatch, rows=rows)
    result = invoke("generate", "Once upon", "-m", starter_folder, "-n", "9", "--beams", "3")
    assert result.exit_code == (1 if rows < 3 else 0)
    assert result.stderr == ("gpt2: error: full, at a step of 3 rows\n" if rows < 3 else "")


@pytest.mark.parametrize(
    "command", [("generate", "a", "--beams", "9"), ("bench", "--batch-size", "9")], ids=" ".join
)
def test_where_fewer_rows_are_of_no_use_they_are_not_loaded(
    starter_folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """A search needs all its beams; a measure is of the rows that were asked for."""
    use_full_engine(monkeypatch, rows=2)
    result = invoke(*command, "-m", starter_folder)
    assert result.exit_code == 1
    assert error_line(result) == "full, making room for the KV cache"
