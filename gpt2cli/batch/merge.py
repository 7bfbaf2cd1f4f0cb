"""Puts the outputs of all shards of one input together, in its order; refuses what does not fit.

What a run was, which records it wrote and whether it came to its end, its journal tells.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from gpt2cli.batch.config import InputOutput
from gpt2cli.config import ReportConfig
from gpt2cli.errors import ExitCode, OutputError, UsageError
from gpt2cli.resumable.entries import (
    LONGEST_ENTRY,
    LONGEST_RESULT,
    Ending,
    Entry,
    damaged,
    parse_header,
    read_line,
)
from gpt2cli.resumable.header import Header, find_difference
from gpt2cli.resumable.input import digest
from gpt2cli.resumable.journal import journal_path
from gpt2cli.resumable.shards import GROUP, Shard
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.result import open_result, refuse_overwriting

_LONGEST_ENDING: Final = 1 << 10  # bytes
# Where a model's files lie, and when they were copied there, may differ between machines: the
# fingerprint says whether it is the same.
_MAY_DIFFER: Final = ("shard", "source")


def run_merge(files: Sequence[Path], io: InputOutput, report: ReportConfig) -> int:
    """Write the results of all shards in the order of the input; return the exit code of one run.

    Raises:
        UsageError: if the files are not all shards of one run, each once.
        OutputError: if one is damaged or not complete, or the result cannot be written.
    """
    _check_output(io.output, files)
    outputs = [_read_output(path) for path in files]
    shards = _arrange(outputs)
    records = shards[0].ending.records
    results = errors = 0
    with Notes(quiet=report.quiet) as notes:
        with open_result(io.output) as merged:
            for start in range(0, records, GROUP):
                shard = shards[start // GROUP % len(shards)]
                for line, failed in shard.read(range(start, min(start + GROUP, records))):
                    merged.write_bytes(line)
                    results += 1
                    errors += failed
            for shard in shards:
                shard.check_end()
        told = f", {errors} errors among them" if errors else ""
        notes.note(f"{results} results of {records} records from {len(shards)} shards{told}")
    return ExitCode.FAILED if errors else ExitCode.DONE


@dataclass(slots=True)
class ShardOutput:
    """The output of a shard that has run to its end, read group by group.

    Its files are open only meanwhile: there may be more shards than a process may have files.
    """

    path: Path
    shard: Shard
    header: Header
    ending: Ending
    journal_end: int  # where the journal's next line begins
    output_end: int = field(default=0)

    def read(self, numbers: Sequence[int]) -> Iterator[tuple[bytes, bool]]:
        """Yield the results of these records, the next ones, and whether each is an error.

        Raises:
            OutputError: if one is missing, or is not what the run wrote.
        """
        with self.path.open("rb") as output, journal_path(self.path).open("rb") as journal:
            output.seek(self.output_end)
            journal.seek(self.journal_end)
            for number in numbers:
                yield from self._read_record(number, output, journal)
            self.output_end, self.journal_end = output.tell(), journal.tell()

    def check_end(self) -> None:
        """Check that there is nothing more.

        Raises:
            OutputError: if there is.
        """
        with journal_path(self.path).open("rb") as journal:
            journal.seek(self.journal_end)
            if read_line(journal) != self.ending:
                raise damaged(journal.name)
        if self.path.stat().st_size != self.output_end:
            raise OutputError(f"{self.path} has more than its run wrote", "run it anew")

    def _read_record(
        self, number: int, output: BinaryIO, journal: BinaryIO
    ) -> Iterator[tuple[bytes, bool]]:
        samples = 0
        start = journal.tell()
        while isinstance(entry := read_line(journal), Entry) and entry.number == number:
            line = output.readline(LONGEST_RESULT)
            if entry.sample != samples:
                raise damaged(journal.name)
            if digest(line) != entry.result:
                fault = f"{self.path} has another result of record {number} than its run wrote"
                raise OutputError(fault, "run the shard again with {resume}")
            yield line, entry.failed
            samples += 1
            start = journal.tell()
        journal.seek(start)  # the entry is another record's
        if not samples:
            raise damaged(journal.name)


def _check_output(output: Path | None, files: Sequence[Path]) -> None:
    for path in (output, output and journal_path(output)):
        refuse_overwriting(path, [*files, *map(journal_path, files)], stdin=None)
    if output is not None and journal_path(output).exists():
        raise OutputError(
            f"{journal_path(output)} is the journal of a run that wrote {output}",
            "remove it, or choose another {output}",
        )


def _read_output(path: Path) -> ShardOutput:
    journal = journal_path(path)
    try:
        with path.open("rb"), journal.open("rb") as file:
            header = parse_header(file.readline(LONGEST_ENTRY), journal)
            start = file.tell()
            ending = _read_ending(file)
    except FileNotFoundError as error:
        beside = "" if error.filename == str(path) else f", which {path} was written with"
        raise UsageError(f"there is no {error.filename}{beside}", option="merge") from error
    except OSError as error:
        raise OutputError(f"cannot read {error.filename}: {error.strerror}") from error
    shard = None if header is None else header["options"].get("shard")
    if header is None or shard is None:
        raise UsageError(option="merge", expected="outputs of {shard} runs", found=path)
    if ending is None:
        fault = f"{path}, shard {shard}, was not run to its end"
        raise OutputError(fault, "run it again with {resume}")
    return ShardOutput(path, Shard.parse(shard), header, ending, start)


def _read_ending(journal: BinaryIO) -> Ending | None:
    """Return the ending of a journal; None if it has none."""
    journal.seek(max(0, journal.seek(0, os.SEEK_END) - _LONGEST_ENDING))
    last = journal.read().removesuffix(b"\n").rpartition(b"\n")[2]
    journal.seek(-len(last) - 1, os.SEEK_END)
    found = read_line(journal) if last.startswith(b"{") else None
    return found if isinstance(found, Ending) else None


def _arrange(outputs: Sequence[ShardOutput]) -> Sequence[ShardOutput]:
    """Return the outputs in the order of their shards.

    Raises:
        UsageError: if they are not all shards of one run, each once.
    """
    first = outputs[0]
    found: dict[int, ShardOutput] = {}
    for output in outputs:
        if difference := _find_difference(first, output):
            name, one, other = difference
            fault = f"{first.path} was written with {name} {one}, {output.path} with {other}"
            raise UsageError(fault, option="merge")
        twin = found.setdefault(output.shard.number, output)
        if twin is not output:
            fault = f"{twin.path} and {output.path} are both shard {output.shard}"
            raise UsageError(fault, option="merge")
    count = first.shard.count
    missing = next((number for number in range(1, count + 1) if number not in found), None)
    if missing is not None:
        raise UsageError(f"shard {Shard(missing, count)} is missing", option="merge")
    return [found[number] for number in range(1, count + 1)]


def _find_difference(one: ShardOutput, other: ShardOutput) -> tuple[str, str, str] | None:
    if one.shard.count != other.shard.count:
        return "shard", str(one.shard), str(other.shard)
    difference = find_difference(one.header, other.header, without=_MAY_DIFFER)
    if difference is None and one.ending != other.ending:
        return "an input of", _tell_input(one.ending), _tell_input(other.ending)
    return difference


def _tell_input(ending: Ending) -> str:
    return f"{ending.records} records ({ending.input})"
