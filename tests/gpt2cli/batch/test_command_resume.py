"""Claims about `gpt2 batch --resume`, in this process: what goes on, and what is refused."""

import json
import pathlib
import shutil
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import Result

from tests.gpt2cli.runner import error_line, invoke
from tests.model_folders import ModelFolders

RECORDS = b'{"prompt": "z", "samples": 2}\n{bad\n{"prompt": "zz"}\n{"prompt": "zzz", "seed": 5}\n'


@dataclass(frozen=True)
class Batch:
    """A run that writes to `out`, and can be broken off."""

    model: pathlib.Path
    file: pathlib.Path
    out: pathlib.Path

    @property
    def journal(self) -> pathlib.Path:
        return self.out.with_name("out.resume.json")

    @property
    def files(self) -> tuple[bytes, bytes]:
        return self.out.read_bytes(), self.journal.read_bytes()

    def run(
        self,
        *options: str,
        file: pathlib.Path | None = None,
        model: pathlib.Path | str | None = None,
    ) -> Result:
        """Run it in silence; options that are given again count."""
        same = ("-n", "6", "--ignore-eos", "-q", "--jsonl", "-o", self.out)
        return invoke("batch", file or self.file, "-m", model or self.model, *same, *options)

    def break_off(self) -> tuple[bytes, bytes]:
        """Leave the first two records and a half of the third; returns what is left."""
        output, journal = self.files
        self.out.write_bytes(b"".join(output.splitlines(keepends=True)[:4])[:-20])
        self.journal.write_bytes(b"".join(journal.splitlines(keepends=True)[:5]))
        return self.files


@pytest.fixture
def batch(model_folders: ModelFolders, tmp_path: pathlib.Path) -> Batch:
    """Return a batch on the smallest model that has not run yet."""
    file = tmp_path / "records"
    file.write_bytes(RECORDS)
    return Batch(model_folders(), file, tmp_path / "out")


@pytest.fixture
def broken(batch: Batch) -> Batch:
    """Return a batch that was broken off in its third record."""
    assert batch.run("--seed", "3").exit_code == 1
    batch.break_off()
    return batch


@pytest.mark.parametrize(
    "options", [[], ["--ban", r"\n", "--logit-bias", "z=1", "--logprobs", "1"]], ids=" ".join
)
def test_it_ends_with_the_bytes_of_a_run_in_one_go(batch: Batch, options: list[str]) -> None:
    """The seed that was random goes on too, at another speed; 1 tells of the error before."""
    assert batch.run(*options).exit_code == 1
    whole = batch.files
    batch.break_off()
    assert batch.run(*options, "--resume", "--batch-size", "3", "--threads", "2").exit_code == 1
    assert batch.files == whole


def test_the_same_records_may_come_from_elsewhere(broken: Batch, tmp_path: pathlib.Path) -> None:
    """Under a name that means JSON, which --jsonl meant before; but not as lines of text."""
    copy = tmp_path / "copy.jsonl"
    shutil.copy(broken.file, copy)
    same = ("-m", broken.model, "-n", "6", "--ignore-eos", "-q", "-o", broken.out, "--resume")
    as_text = invoke("batch", broken.file, *same)
    assert "begun with jsonl true, now it is false" in error_line(as_text)
    assert invoke("batch", "--file", copy, *same).exit_code == 1
    resumed = broken.files
    broken.run("--seed", "3")
    assert broken.files == resumed


@pytest.mark.parametrize("form", ["jsonl", "text"])
def test_an_error_that_arose_in_the_run_counts_when_it_is_gone_on_with(
    batch: Batch, form: str
) -> None:
    """As one of the input does, wherever the run was killed: here no token is left to draw."""
    batch.file.write_bytes(b'{"prompt": "z", "regex": "b", "ban": "b"}\n{"prompt": "zz"}\n')
    options = ("--format", form, "--seed", "3")
    assert batch.run(*options).exit_code == 1
    output, journal = batch.files
    header, failed, done = journal.splitlines(keepends=True)
    first = output[: output.index(b"\n") + 1]
    for left in (
        (output, journal),
        (output[:-1], journal),
        (first, header + failed + done[:5]),
        (first, header + failed),
        (first[:-1], header + failed),
        (b"", header + failed),
        (b"", header + failed[:4]),
    ):
        batch.out.write_bytes(left[0])
        batch.journal.write_bytes(left[1])
        assert batch.run(*options, "--resume").exit_code == 1, left
        assert batch.files == (output, journal), left


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["-t", "0.5"], "temperature 1.0, now it is 0.5"),
        (["--beams", "2"], "beams 1, now it is 2"),
        (["--logprobs", "1"], "logprobs null, now it is 1"),
        (["--logit-bias", "z=2"], 'logit_bias [], now it is [["z", 2.0]];'),
        (["-s", "a", "-s", r"\n"], r'stop [], now it is ["a", "\n"];'),
        (["--format", "text"], 'format "jsonl", now it is "text"'),
        (["--null"], "null false, now it is true"),
        (["--seed", "4"], "seed 3, now it is 4"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_other_options_are_refused_with_both_values(
    broken: Batch, options: list[str], told: str
) -> None:
    before = broken.files
    result = broken.run("--resume", *options)
    assert result.exit_code == 2
    assert error_line(result).startswith(f"--resume: the run was begun with {told}")
    assert broken.files == before


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("generation_config.json", {"top_k": 3}, "generation_config top_k null, now it is 3"),
        ("export.json", {"source": {"path": "/b"}}, "source "),
    ],
)
def test_another_model_of_the_same_name_is_refused(
    batch: Batch, tmp_path: pathlib.Path, name: str, change: dict[str, Any], told: str
) -> None:
    """Of a checkpoint whose files were changed, or with other settings of its own."""
    model = pathlib.Path(shutil.copytree(batch.model, tmp_path / "model"))
    batch.run(model=model)
    before, file = batch.break_off(), model / name
    file.write_text(json.dumps((json.loads(file.read_text()) if file.exists() else {}) | change))
    result = batch.run("--resume", model=model)
    assert result.exit_code == 2
    assert error_line(result).startswith(f"--resume: the run was begun with {told}")
    assert batch.files == before


def test_a_file_without_a_journal_and_a_damaged_one_are_refused(broken: Batch) -> None:
    """Before a model is looked for."""
    broken.journal.write_bytes(b"{}\n")
    damaged = broken.run("--resume", model="no/such")
    assert damaged.exit_code == 1
    assert "out.resume.json is damaged" in error_line(damaged)
    broken.journal.unlink()
    alone = broken.run("--resume", model="no/such")
    assert alone.exit_code == 1
    assert "has no out.resume.json beside it" in error_line(alone)
