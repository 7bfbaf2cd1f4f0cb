"""Claims about a killed run that is gone on with: its bytes are those of a run in one go.

Every state that a kill can leave is built from the files of a whole run.
"""

import dataclasses
import io
from collections.abc import Iterator

import pytest

from gpt2cli.batch import resume_output, start_output
from tests.gpt2cli.batch.feeding import fed
from tests.gpt2cli.batch.jobs import HEADER, RECORDS, RESULTS, Job
from tests.gpt2cli.batch.parsing import make_source


def states(output: bytes, journal: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield what a kill at every byte leaves of output and journal, in the order of the writes."""
    header, *digests = journal.splitlines(keepends=True)
    lines = io.BytesIO(output)
    done_output, done_journal = b"", b""
    for line, results in zip([header, *digests], [0, *RESULTS], strict=True):
        yield from ((done_output, done_journal + line[:end]) for end in range(len(line)))
        done_journal += line
        written = b"".join(lines.readline() for _ in range(results))
        yield from ((done_output + written[:end], done_journal) for end in range(len(written)))
        done_output += written
    yield done_output, done_journal


@pytest.mark.parametrize("as_text", [False, True], ids=["jsonl", "text"])
def test_a_run_killed_at_any_byte_ends_with_the_bytes_of_one_in_one_go(
    job: Job, as_text: bool
) -> None:
    """In the header, a digest, a result; between samples; at the first record and the last."""
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
    assert count > sum(map(len, whole)) - len(whole)


def test_a_run_killed_before_it_emptied_an_older_file_disowns_it(job: Job) -> None:
    """The journal's header is written first; an unfinished one too means that nothing was done."""
    job.run(resume=False)
    whole = job.files
    header = whole[1][: whole[1].index(b"\n") + 1]
    for journal in (b"", header[:5], header[:-1], header):
        job.leave(b"of an older run\n" * 999, journal)
        job.run(resume=True)
        assert job.files == whole


def test_only_what_is_missing_is_made_again(job: Job) -> None:
    """Killed within the second of three samples, the record begins anew, and none before it."""
    job.run(resume=False)
    output, journal = job.files
    lines = output.splitlines(keepends=True)
    digests = journal.splitlines(keepends=True)
    job.leave(b"".join(lines[:2]) + lines[2][:9], b"".join(digests[:3]))
    made, _ = job.run(resume=True)
    assert made == sum(RESULTS) - 1
    assert job.files == (output, journal)


def test_a_complete_run_is_left_as_it_is(job: Job) -> None:
    """Nothing is made or changed."""
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


def test_where_nothing_was_begun_a_resumed_run_begins(job: Job) -> None:
    """So that the same command can be given again and again."""
    job.run(resume=True)
    resumed = job.files
    job.run(resume=False)
    assert job.files == resumed


def test_a_lost_output_is_made_again(job: Job) -> None:
    """The journal alone says that nothing of it is there."""
    job.run(resume=False)
    whole = job.files
    job.output.unlink()
    job.run(resume=True)
    assert job.files == whole
