"""Claims about the journal: what it refuses to go on with, and how both files are written."""

import dataclasses
import errno
import io
import json
import os
import pathlib
import stat
import sys
from collections.abc import Callable
from typing import Any

import pytest

from gpt2cli.errors import OutputError, UsageError
from gpt2cli.resumable.input import Line
from gpt2cli.resumable.journal import Journal, start_output
from tests.gpt2cli.batch.jobs import HEADER, RECORDS, RESULTS, Job

FAILED = Line(2, 0, "aaaabbbbccccdddd", "0123456789\n", "no text")
DONE = Line(2, 0, "aaaabbbbccccdddd", "x\n", None)
# The digest is that of `echo 0123456789 | sha256sum`.
ENTRY = b'[2, 0, "aaaabbbbccccdddd", "c67c199595622dfb", true]\n'


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (RECORDS.replace(b'"b"', b'"B"', 1), "record 2 of the input is not the same as before"),
        (b"{}\n" + RECORDS, "record 0 of the input is not the same as before"),
        (
            RECORDS[: RECORDS.rindex(b"\n")],
            "the input has 5 records, fewer than the earlier run had started",
        ),
        (b"", "the input has 0 records, fewer than the earlier run had started"),
    ],
    ids=["changed", "inserted", "shortened", "empty"],
)
def test_another_input_is_refused(job: Job, records: bytes, error: str) -> None:
    job.run(resume=False)
    whole = job.files
    with pytest.raises(OutputError, match=f"^resume: {error}"):
        dataclasses.replace(job, records=records).run(resume=True)
    assert job.files == whole


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"options": {**HEADER["options"], "top_k": 6}}, "top_k 5, now it is 6;"),
        ({"options": {**HEADER["options"], "new": 1}}, "new null, now it is 1;"),
        ({"options": {"top_k": 5}}, r'stop ["é", "\n"], now it is null;'),
        ({"seed": 8}, "seed 7, now it is 8;"),
        ({"revision": "abc"}, 'revision null, now it is "abc";'),
        ({"source": {"path": "/a"}}, "source files config.json [1, 2], now it is null;"),
        ({"generation_config": {}}, "generation_config temperature 0.7, now it is null;"),
        ({"versions": {**HEADER["versions"], "gpt2": "2"}}, 'gpt2 "0.1.0", now it is "2";'),
    ],
    ids=lambda value: value.split()[0] if isinstance(value, str) else "",
)
def test_another_run_is_refused_with_both_values(
    job: Job, change: dict[str, Any], told: str
) -> None:
    """Whatever is another one; the files stay as they are."""
    job.run(resume=False)
    whole = job.files
    with pytest.raises(UsageError) as error:
        job.run(resume=True, header=HEADER | change)
    assert str(error.value).startswith(f"resume: the run was begun with {told}")
    assert job.files == whole


def test_a_version_with_other_options_is_told_by_its_version(job: Job) -> None:
    """Not by what it happens to lack."""
    job.run(resume=False)
    header = json.loads(job.journal.read_bytes().splitlines()[0])
    del header["device"], header["options"]["top_k"]
    header["versions"]["gpt2"] = "0.0.1"
    job.journal.write_text(json.dumps(header) + "\n")
    with pytest.raises(UsageError, match=r'gpt2 "0\.0\.1", now it is "0\.1\.0"'):
        job.run(resume=True)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"no JSON",
        b"[]",
        b"{}",
        b'{"options": 3, "versions": {}, "seed": 1}',
        b'{"options": {}, "versions": {}, "seed": "1"}',
        b'{"options": {}, "versions": {}, "seed": true}',
        b"[" * 100_000,
    ],
    ids=lambda line: repr(line[:20]),
)
def test_a_damaged_header_is_refused(job: Job, line: bytes) -> None:
    job.leave(b"results\n", line + b"\n")
    with pytest.raises(OutputError, match=r"out\.resume\.json is damaged; remove it"):
        job.run(resume=True)
    assert job.files == (b"results\n", line + b"\n")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'[2, 0, "0123456789abcdef", "0123456789abcdef"]',
        b'[2, 0, "0123456789abcdef", "0123456789abcdef", 0]',
    ],
    ids=lambda line: repr(line[:50]),
)
def test_a_damaged_entry_is_refused(job: Job, line: bytes) -> None:
    job.run(resume=False)
    output, journal = job.files
    lines = journal.splitlines()
    lines[5] = line
    damaged = b"\n".join(lines) + b"\n"
    job.leave(output, damaged)
    with pytest.raises(OutputError, match=r"out\.resume\.json is damaged; remove it"):
        job.run(resume=True)
    assert job.files == (output, damaged)


@pytest.mark.parametrize(("line", "message"), [(3, "is damaged"), (5, "record 2 of the input")])
def test_an_entry_that_is_missing_is_refused(job: Job, line: int, message: str) -> None:
    """Of a sample, or of a record; the files stay as they are."""
    job.run(resume=False)
    output, journal = job.files
    lines = journal.splitlines(keepends=True)
    assert json.loads(lines[line])[:2] == ([1, 1] if line == 3 else [2, 0])
    damaged = b"".join(lines[:line] + lines[line + 1 :])
    job.leave(output, damaged)
    with pytest.raises(OutputError, match="is damaged"):
        job.run(resume=True)
    assert job.files == (output, damaged)


def test_a_file_without_a_journal_is_refused(job: Job) -> None:
    job.output.write_bytes(b"precious\n")
    with pytest.raises(OutputError, match=r"out has no out\.resume\.json beside it"):
        job.run(resume=True)
    assert job.output.read_bytes() == b"precious\n"
    assert not job.journal.exists()


# Writing


class NarrowFile(io.RawIOBase):
    """A file on a disk with `room` bytes, of which a write takes `most` at once."""

    def __init__(self, room: int, most: int) -> None:
        self.written = b""
        self._room = room
        self._most = most

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Write a part; fail if there is no room at all."""
        taken = bytes(data)[: min(self._room - len(self.written), self._most)]
        if not taken:
            raise OSError(28, "No space left on device")
        self.written += taken
        return len(taken)


def test_a_write_that_takes_a_part_is_gone_on_with() -> None:
    """As on a disk that is nearly full, or in one interrupted by a signal."""
    output, journal = NarrowFile(100, 3), NarrowFile(100, 1)
    opened = Journal(output, journal)  # type: ignore[arg-type]  # as a file without a buffer
    opened.write(FAILED)
    assert (output.written, journal.written) == (b"0123456789\n", ENTRY)


@pytest.mark.parametrize(("room", "journal_room"), [(4, 100), (0, 100), (100, 2), (100, 0)])
def test_a_full_disk_is_an_error_that_tells_how_to_go_on(room: int, journal_room: int) -> None:
    """Wherever it is met; a part that was written does no harm."""
    opened = Journal(NarrowFile(room, 9), NarrowFile(journal_room, 9))  # type: ignore[arg-type]
    with pytest.raises(OutputError) as error:
        opened.write(FAILED)
    assert str(error.value) == (
        "cannot write the result: No space left on device; resume continues from here"
    )


def test_what_is_written_goes_to_both_files_at_once(job: Job) -> None:
    """Nothing waits in a buffer that a kill would lose."""
    with start_output(job.output, HEADER) as opened:
        header = job.journal.read_bytes()
        assert json.loads(header) == HEADER
        assert job.files == (b"", header)
        opened.write(FAILED)
        assert job.files == (b"0123456789\n", header + ENTRY)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the files and folders that are flushed to disk from now on."""
    found: list[str] = []

    def sync(descriptor: int) -> None:
        found.append(pathlib.Path(f"/proc/self/fd/{descriptor}").readlink().name)

    monkeypatch.setattr(os, "fsync", sync)
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names by /proc")
class TestFlushing:
    """Claims about what is flushed to disk, and when."""

    def test_the_journal_disowns_an_older_output_before_that_is_emptied(
        self, job: Job, steps: list[str]
    ) -> None:
        """A power cut between the two leaves no results of another run under this one's journal."""
        with start_output(job.output, HEADER):
            assert steps == ["out.resume.json", job.output.parent.name]
            steps.clear()
        assert steps == ["out.resume.json", "out"]

    @pytest.mark.parametrize(
        ("took", "flushed"),
        [(0.0, [1.0, 2.0, 3.0, 4.0, 5.0]), (0.01, [1.0, 2.5, 4.0]), (0.04, [1.0, 3.5])],
    )
    def test_both_files_are_flushed_each_second_and_seldom_on_a_slow_disk(
        self, job: Job, took: float, flushed: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two percent of the time at most, here with a result every half second."""
        now = 0.0
        synced: list[float] = []

        def sync(descriptor: int) -> None:
            nonlocal now
            synced.append(now)
            now += took / 2

        monkeypatch.setattr(os, "fsync", sync)
        with (
            job.output.open("wb", buffering=0) as output,
            job.journal.open("wb", buffering=0) as journal,
        ):
            opened = Journal(output, journal, clock=lambda: now)
            for step in range(11):
                now = step / 2
                opened.write(DONE)
        assert synced[::2] == flushed

    def test_a_disk_that_fails_at_the_end_is_an_error(
        self, job: Job, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Unless there was another one before, which is told then."""

        def fail(descriptor: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        for error, told in (("", "Input/output error"), ("another", "another")):
            with monkeypatch.context() as patch, pytest.raises(OutputError, match=told):  # noqa: SIM117
                with start_output(job.output, HEADER):
                    patch.setattr(os, "fsync", fail)
                    if error:
                        raise OutputError(error)


def test_an_output_that_cannot_be_written_leaves_no_journal(tmp_path: pathlib.Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(OutputError, match=r"cannot write .*/out: Is a directory"):
        start_output(tmp_path / "out", HEADER)
    with pytest.raises(OutputError, match=r"cannot write .*/none/out: No such file"):
        start_output(tmp_path / "none" / "out", HEADER)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.skipif(sys.platform == "win32", reason="modes and locks of POSIX")
class TestOnPosix:
    """Claims about modes, links and locks."""

    def test_a_new_file_has_the_mode_of_new_files(self, job: Job) -> None:
        """An old one keeps its own."""
        before = os.umask(0o027)
        try:
            job.run(resume=False)
        finally:
            os.umask(before)
        assert stat.S_IMODE(job.output.stat().st_mode) == 0o640
        job.output.chmod(0o600)
        job.run(resume=False)
        assert stat.S_IMODE(job.output.stat().st_mode) == 0o600

    def test_a_link_is_followed(self, job: Job) -> None:
        """And stays a link; the journal stands beside it."""
        target = job.output.with_name("target")
        job.output.symlink_to(target)
        job.run(resume=False)
        assert job.output.is_symlink()
        assert target.read_bytes().count(b"\n") == sum(RESULTS)

    @pytest.mark.parametrize("resume", [False, True])
    def test_a_file_that_another_run_writes_is_refused(self, job: Job, resume: bool) -> None:
        """Untouched; when the other one has ended, even by a kill, it is free."""
        with start_output(job.output, HEADER) as opened:
            opened.write(DONE)
            before = job.files
            with pytest.raises(OutputError, match=r"another process is writing .*/out$"):
                job.run(resume=resume)
            assert job.files == before
        job.run(resume=False)

    @pytest.mark.parametrize("link", [os.symlink, os.link])
    def test_a_file_that_another_run_writes_by_another_name_is_refused(
        self, job: Job, link: Callable[[pathlib.Path, pathlib.Path], None]
    ) -> None:
        """By a link of either kind: the file is taken, not its name."""
        with start_output(job.output, HEADER) as opened:
            opened.write(DONE)
            other = job.output.with_name("other")
            link(job.output, other)
            with pytest.raises(OutputError, match=r"another process is writing .*/other$"):
                dataclasses.replace(job, output=other).run(resume=False)
            assert job.output.read_bytes() == b"x\n"
