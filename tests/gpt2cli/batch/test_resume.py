"""Claims about a killed run that is gone on with: its bytes are those of a run in one go.

Every state that a kill can leave is built from the files of a whole run.
"""

import dataclasses
import os
import tracemalloc
from collections.abc import Iterator

import pytest

from gpt2cli.errors import OutputError
from gpt2cli.resumable.journal import resume_output, start_output
from tests.gpt2cli.batch.feeding import fed
from tests.gpt2cli.batch.jobs import HEADER, RECORDS, RESULTS, Job
from tests.gpt2cli.batch.parsing import make_source


@pytest.fixture(autouse=True)
def no_flushing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flush nothing to disk, which takes most of the time of a thousand short runs."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def states(output: bytes, journal: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield what a kill within any line leaves of output and journal, in the writes' order."""
    header, *entries = journal.splitlines(keepends=True)
    results = output.splitlines(keepends=True)
    done_output, done_journal = b"", b""
    for line, result in zip([header, *entries], [b"", *results], strict=True):
        yield from ((done_output, done_journal + part) for part in _parts(line))
        done_journal += line
        yield from ((done_output + part, done_journal) for part in _parts(result))
        done_output += result
    yield done_output, done_journal


def _parts(line: bytes) -> list[bytes]:
    """Return nothing of a line, its first byte, a half, and all but its end."""
    return [line[:end] for end in sorted({0, 1, len(line) // 2, len(line) - 1}) if end < len(line)]


@pytest.mark.parametrize("as_text", [False, True], ids=["jsonl", "text"])
def test_a_run_killed_anywhere_ends_with_the_bytes_of_one_in_one_go(
    job: Job, as_text: bool
) -> None:
    """In the header, an entry, a result; between samples; at the first record and the last."""
    job = dataclasses.replace(job, as_text=as_text)
    job.run(resume=False)
    whole = job.files
    assert whole[0].count(b"\n") == sum(RESULTS)
    count = 0
    for left in states(*whole):
        job.leave(*left)
        job.run(resume=True)
        assert job.files == whole, left
        count += 1
    assert count > 5 * sum(RESULTS)


def test_a_run_killed_before_it_emptied_an_older_file_disowns_it(job: Job) -> None:
    """The journal's header is written first; an unfinished one too means that nothing was done."""
    job.run(resume=False)
    whole = job.files
    header = whole[1][: whole[1].index(b"\n") + 1]
    for journal in (b"", header[:5], header[:-1], header):
        job.leave(b"of an older run\n" * 999, journal)
        job.run(resume=True)
        assert job.files == whole


@pytest.mark.parametrize("as_text", [False, True], ids=["jsonl", "text"])
def test_after_a_power_cut_what_is_torn_or_missing_is_made_again(job: Job, as_text: bool) -> None:
    """Either file may have lost its end, whatever the other one has, or end with zeros."""
    job = dataclasses.replace(job, as_text=as_text)
    job.run(resume=False)
    output, journal = whole = job.files
    header = journal.index(b"\n") + 1
    for end in range(header, len(journal) + 1, len(journal) // 5):
        for kept in range(0, len(output) + 1, len(output) // 4):
            zeros = bytes(len(output) - kept), bytes(len(journal) - end)
            for tails in ((b"", b""), zeros, (zeros[0] + b"\n", b""), (b"", zeros[1] + b"\n")):
                job.leave(output[:kept] + tails[0], journal[:end] + tails[1])
                job.run(resume=True)
                assert job.files == whole, (end, kept, tails)


def test_a_hole_of_gigabytes_at_the_journals_end_is_not_read(job: Job) -> None:
    """A disk that was full, or a tool that copies badly, may leave one."""
    job.run(resume=False)
    whole = job.files
    os.truncate(job.journal, 1 << 40)
    tracemalloc.start()
    try:
        job.run(resume=True)
        assert tracemalloc.get_traced_memory()[1] < 1 << 26
    finally:
        tracemalloc.stop()
    assert job.files == whole


@pytest.mark.parametrize("as_text", [False, True], ids=["jsonl", "text"])
def test_a_line_that_was_deleted_is_made_again(job: Job, as_text: bool) -> None:
    job = dataclasses.replace(job, as_text=as_text)
    job.run(resume=False)
    output, journal = whole = job.files
    lines = output.splitlines(keepends=True)
    for number in range(len(lines)):
        job.leave(b"".join(lines[:number] + lines[number + 1 :]), journal)
        job.run(resume=True)
        assert job.files == whole, number


@pytest.mark.parametrize("as_text", [False, True], ids=["jsonl", "text"])
@pytest.mark.parametrize("change", ["inserted", "spoiled", "doubled"])
def test_a_line_that_is_not_the_runs_is_refused_by_its_number(
    job: Job, change: str, as_text: bool
) -> None:
    """The files stay as they are; once it has been removed the run ends with the right bytes."""
    job = dataclasses.replace(job, as_text=as_text)
    job.run(resume=False)
    output, journal = whole = job.files
    lines = output.splitlines(keepends=True)
    for number in range(1, 4):  # from 0, which is an empty line of text
        foreign = lines[number] if change == "doubled" else b"x" + lines[number][1:]
        rest = lines[number + (change == "spoiled") :]
        job.leave(b"".join([*lines[:number], foreign, *rest]), journal)
        before = job.files
        told = number + 1 + (change == "doubled")
        with pytest.raises(OutputError, match=rf"^resume: line {told} of .*/out is not what "):
            job.run(resume=True)
        assert job.files == before
        left = before[0].splitlines(keepends=True)
        job.leave(b"".join(left[: told - 1] + left[told:]), journal)
        job.run(resume=True)
        assert job.files == whole


def test_only_what_is_missing_is_made_again(job: Job) -> None:
    """Killed within the second of three samples, the record begins anew, and none before it."""
    job.run(resume=False)
    output, journal = job.files
    lines = output.splitlines(keepends=True)
    entries = journal.splitlines(keepends=True)
    job.leave(b"".join(lines[:2]) + lines[2][:9], b"".join(entries[:4]))
    made, _ = job.run(resume=True)
    assert made == sum(RESULTS) - 1
    assert job.files == (output, journal)


def test_a_complete_run_is_left_as_it_is(job: Job) -> None:
    job.run(resume=False)
    whole = job.files
    assert job.run(resume=True) == (0, 0)
    assert job.files == whole


def test_an_input_that_has_grown_goes_on(job: Job) -> None:
    """The records that were done are the same; the new ones follow."""
    records = RECORDS + b"\n"
    end = records.index(b'{"prompt": ""')
    dataclasses.replace(job, records=records[:end]).run(resume=False)
    made, _ = dataclasses.replace(job, records=records).run(resume=True)
    assert made == 3
    grown = job.files
    job.run(resume=False)
    assert job.files == grown


def test_what_was_done_is_counted_with_its_errors(job: Job) -> None:
    """For the exit code and the summary of the run that goes on."""
    job.run(resume=False)
    with fed(RECORDS) as descriptor:
        items = make_source(descriptor, job.tokenizer)
        with resume_output(job.output, HEADER, items) as opened:
            assert (opened.done, opened.errors) == (6, 2)
    with start_output(job.output, HEADER) as opened:
        assert (opened.done, opened.errors) == (0, 0)


def test_where_nothing_was_begun_or_all_was_lost_a_resumed_run_begins(job: Job) -> None:
    """So that the same command can be given again and again."""
    job.run(resume=True)
    resumed = job.files
    job.output.unlink()
    job.run(resume=True)
    assert job.files == resumed
    job.run(resume=False)
    assert job.files == resumed
