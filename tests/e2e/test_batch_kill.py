"""`gpt2 batch -o FILE`: killed, interrupted, out of space, and gone on with to the same bytes."""

import pathlib
import random
import subprocess
import time
from dataclasses import dataclass
from typing import Final

import pytest

from tests.e2e.program import HANGS_AFTER, Finished, Program, finish, press_ctrl_c, send

_OPTIONS: Final = ("-m", "starter", "--jsonl", "--seed", "5", "--batch-size", "3", "-q")
_RECORDS: Final = b"".join(
    b"{bad\n" if number % 6 == 5 else b'{"prompt": "The", "samples": %d}\n' % (1 + number % 3)
    for number in range(24)
)
_MOST_RECORDS: Final = _RECORDS[: _RECORDS.rindex(b'{"prompt"')]


@dataclass(frozen=True)
class Batch:
    """A batch of some seconds into a file."""

    program: Program
    file: pathlib.Path
    out: pathlib.Path
    form: str = "jsonl"

    @property
    def arguments(self) -> tuple[str, ...]:
        """The command's, beside the input."""
        return ("batch", *_OPTIONS, "-n", "20", "--format", self.form, "-o", str(self.out))

    @property
    def files(self) -> tuple[bytes, bytes]:
        """What the output and its journal hold."""
        return self.out.read_bytes(), self.journal.read_bytes()

    @property
    def journal(self) -> pathlib.Path:
        """The journal beside the output."""
        return self.out.with_name(f"{self.out.name}.resume.json")

    def run(self, *options: str) -> Finished:
        """Run it to its end, which tells of errors."""
        done = self.program.run(*self.arguments, *options, str(self.file))
        assert (done.code, done.out) == (1, b"")
        return done

    def strike(self, process: "subprocess.Popen[bytes]", size: int) -> None:
        """Wait until the output has this size, or the program has ended."""
        deadline = time.monotonic() + HANGS_AFTER
        while process.poll() is None and (not self.out.exists() or self.out.stat().st_size < size):
            assert time.monotonic() < deadline
            time.sleep(0.001)


@pytest.fixture(scope="module")
def batches(program: Program, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Batch]:
    """Return a batch in each format, with the output of a whole run."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "records").write_bytes(_RECORDS)
    whole = {
        form: Batch(program, folder / "records", folder / form, form) for form in ("jsonl", "text")
    }
    for batch in whole.values():
        batch.run()
    return whole


@pytest.mark.parametrize(("form", "source"), [("jsonl", "pipe"), ("text", "file")])
def test_killed_twice_it_ends_with_the_bytes_of_a_run_in_one_go(
    batches: dict[str, Batch], tmp_path: pathlib.Path, form: str, source: str
) -> None:
    """At moments of no plan, from FILE and from a pipe, whose last record has not come yet."""
    whole = batches[form]
    batch = Batch(whole.program, whole.file, tmp_path / "out", form)
    size = whole.out.stat().st_size
    for moment in sorted(random.Random(form + source).sample(range(size // 2), 2)):
        options = ["--resume", *([str(whole.file)] if source == "file" else [])]
        with batch.program.start(*batch.arguments, *options, stdin=b"") as process:
            if source == "pipe":
                send(process, _MOST_RECORDS)
            batch.strike(process, moment)
            process.kill()
            assert process.wait() == -9 or source == "file"
    batch.run("--resume")
    assert batch.files == whole.files


def test_interrupted_it_keeps_what_was_done_and_goes_on(
    batches: dict[str, Batch], tmp_path: pathlib.Path
) -> None:
    """Ctrl-C leaves whole lines, the first of a whole run; the next run adds the others."""
    whole = batches["jsonl"]
    batch = Batch(whole.program, whole.file, tmp_path / "out")
    with batch.program.start(*batch.arguments, stdin=b"") as process:
        send(process, _MOST_RECORDS)
        batch.strike(process, whole.out.stat().st_size // 3)
        press_ctrl_c(process)
        assert finish(process) == Finished(130, b"", "")
    left = batch.out.read_bytes()
    assert left.endswith(b"\n")
    assert b"interrupted" not in left
    assert whole.out.read_bytes().startswith(left)
    assert len(left) < whole.out.stat().st_size
    batch.run("--resume")
    assert batch.files == whole.files


def test_out_of_space_it_ends_with_one_line_and_goes_on(
    batches: dict[str, Batch], tmp_path: pathlib.Path
) -> None:
    """A limit on the size of files cuts a write in two, as a full disk does."""
    whole = batches["jsonl"]
    batch = Batch(whole.program, whole.file, tmp_path / "out")
    command = f'ulimit -f 8; "$GPT2" {" ".join(batch.arguments)} {batch.file}'
    done = batch.program.run_shell(command)
    told = "gpt2: error: cannot write the result: File too large; --resume continues from here\n"
    assert done == Finished(1, b"", told)
    assert batch.out.stat().st_size % 512 == 0
    batch.run("--resume")
    assert batch.files == whole.files


def test_two_that_write_the_same_file_do_not_meet(
    batches: dict[str, Batch], tmp_path: pathlib.Path
) -> None:
    """The second is refused, with or without --resume, and the first ends as if alone."""
    whole = batches["jsonl"]
    batch = Batch(whole.program, whole.file, tmp_path / "out")
    with batch.program.start(*batch.arguments, stdin=b"") as first:
        half = _RECORDS.index(b"\n", len(_RECORDS) // 2) + 1
        send(first, _RECORDS[:half])
        batch.strike(first, 1)
        for options in [], ["--resume"]:
            second = batch.program.run(*batch.arguments, *options, str(batch.file))
            told = f"gpt2: error: another process is writing {batch.out}\n"
            assert second == Finished(1, b"", told)
        finish(first, _RECORDS[half:])
        assert first.returncode == 1
    assert batch.files == whole.files
