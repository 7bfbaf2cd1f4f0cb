"""Claims about `gpt2 batch --shard` and `--merge`: all shards together are one run, or refused."""

import json
import pathlib
import shutil
from dataclasses import dataclass
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import Result

from gpt2cli.resumable.shards import GROUP, Shard
from tests.gpt2cli.runner import error_line, invoke
from tests.model_folders import ModelFolders

_COUNT: Final = 3
# Groups of 32: the first shard has two, the last one's is not full. Errors, samples, blank lines.
_LINES: Final = (
    b'{"prompt": "z"}',
    b'{"prompt": "z", "samples": 2}',
    b"{bad",
    b'{"prompt": "zz"}',
    b"",
)
_RECORDS: Final = b"\n".join(_LINES[n % 5] for n in range(155))


@dataclass(frozen=True)
class Shards:
    """Runs over one input, each into a file of its own."""

    model: pathlib.Path
    folder: pathlib.Path

    @property
    def outputs(self) -> list[pathlib.Path]:
        """Where the shards are written, in their order."""
        return [self.folder / f"part{number}" for number in range(1, _COUNT + 1)]

    @property
    def whole(self) -> pathlib.Path:
        """Where a run in one go is written."""
        return self.folder / "whole"

    def run(self, out: pathlib.Path, *options: str, records: bytes = _RECORDS) -> Result:
        """Run in silence; options that are given again count."""
        (self.folder / "in").write_bytes(records)
        same = ("-m", self.model, "--jsonl", "-n", "2", "--seed", "3", "-q", "-o", out)
        return invoke("batch", self.folder / "in", *same, *options)

    def run_shard(self, number: int, *options: str, records: bytes = _RECORDS) -> Result:
        shard = ("--shard", f"{number}/{_COUNT}")
        return self.run(self.outputs[number - 1], *shard, *options, records=records)

    def merge(self, *files: pathlib.Path) -> Result:
        return invoke("batch", "--merge", *files, "-o", self.folder / "merged")


@pytest.fixture(scope="module")
def done(model_folders: ModelFolders, tmp_path_factory: pytest.TempPathFactory) -> Shards:
    """Return shards that have all run, and the run in one go; no test may change them."""
    shards = Shards(model_folders(), tmp_path_factory.mktemp("shards"))
    assert shards.run(shards.whole).exit_code == 1
    assert [shards.run_shard(number).exit_code for number in (1, 2, 3)] == [1, 1, 1]
    return shards


@pytest.fixture
def shards(done: Shards, tmp_path: pathlib.Path) -> Shards:
    """Return a copy of those shards."""
    return Shards(done.model, pathlib.Path(shutil.copytree(done.folder, tmp_path / "copy")))


@given(count=st.integers(1, 9), records=st.integers(0, 1000))
def test_each_record_belongs_to_one_shard_which_numbers_it_as_the_whole_input(
    count: int, records: int
) -> None:
    for number in range(1, count + 1):
        shard = Shard(number, count)
        held = [index for index in range(records) if shard.holds(index)]
        assert held == [shard.index_of(position) for position in range(len(held))]
    held_by = [sum(Shard(n + 1, count).holds(i) for n in range(count)) for i in range(records)]
    assert held_by == [1] * records


def test_the_bytes_of_all_shards_are_those_of_one_run(shards: Shards) -> None:
    """In whatever order they are named: errors, samples, blank lines; the exit code is its too."""
    result = shards.merge(*reversed(shards.outputs))
    assert (result.exit_code, result.stdout) == (1, "")
    assert (shards.folder / "merged").read_bytes() == shards.whole.read_bytes()
    lines = [json.loads(line) for line in shards.whole.read_bytes().splitlines()]
    assert len(lines) > 3 * GROUP  # else it would be one group
    errors = sum("error" in line for line in lines)
    told = f"gpt2: {len(lines)} results of 124 records from 3 shards, {errors} errors among them\n"
    assert result.stderr == told


def test_completions_as_text_are_merged_too(shards: Shards) -> None:
    for number in (1, 2, 3):
        shards.run_shard(number, "--format", "text")
    shards.run(shards.whole, "--format", "text")
    shards.merge(*shards.outputs)
    assert (shards.folder / "merged").read_bytes() == shards.whole.read_bytes()


@pytest.mark.parametrize("lines", [0, 20, 999], ids=["begun", "some", "all"])
def test_a_shard_that_was_killed_is_refused_until_it_was_gone_on_with(
    shards: Shards, lines: int
) -> None:
    """Wherever it was: then its files are those of a run in one go, and the merged ones too."""
    out, journal = shards.outputs[0], shards.folder / "part1.resume.json"
    before = out.read_bytes(), journal.read_bytes()
    header, *entries, ending = before[1].splitlines(keepends=True)
    assert ending.startswith(b'{"records": 124, ')
    out.write_bytes(b"".join(before[0].splitlines(keepends=True)[:lines]))
    journal.write_bytes(b"".join([header, *entries[:lines], entries[-1][:9]]))
    told = error_line(shards.merge(*shards.outputs))
    assert told == f"{out}, shard 1/3, was not run to its end; run it again with --resume"
    assert shards.run_shard(1, "--resume").exit_code == 1
    assert (out.read_bytes(), journal.read_bytes()) == before
    shards.merge(*shards.outputs)
    assert (shards.folder / "merged").read_bytes() == shards.whole.read_bytes()


def test_a_shard_is_not_gone_on_with_as_another_one(shards: Shards) -> None:
    result = shards.run(shards.outputs[0], "--shard", "2/3", "--resume")
    told = 'begun with shard "1/3", now it is "2/3"'
    assert told in error_line(result)


def test_gaps_and_doubles_are_refused(shards: Shards) -> None:
    one, two, three = shards.outputs
    copy = pathlib.Path(shutil.copy(two, shards.folder / "copy"))
    shutil.copy(shards.folder / "part2.resume.json", shards.folder / "copy.resume.json")
    for files, told in (
        ([one, three], "shard 2/3 is missing"),
        ([one, two, three, copy], f"{two} and {copy} are both shard 2/3"),
        ([one, one], f"{one} and {one} are both shard 1/3"),
        ([shards.whole, one], f"expected outputs of --shard runs, found {shards.whole}"),
        ([shards.folder / "no"], f"there is no {shards.folder / 'no'}"),
    ):
        result = shards.merge(*files)
        assert (result.exit_code, error_line(result)) == (2, f"--merge: {told}")
        assert not (shards.folder / "merged").exists()


@pytest.mark.parametrize(
    ("options", "records", "told"),
    [
        (["-n", "3"], _RECORDS, "max_new_tokens 2, {} with 3"),
        (["--seed", "4"], _RECORDS, "seed 3, {} with 4"),
        (["--shard", "2/4"], _RECORDS, "shard 1/3, {} with 2/4"),
        ([], _RECORDS.replace(b"bad", b"odd"), "an input of 124 records ("),
        ([], b'{"prompt": "z"}', "an input of 124 records ("),
    ],
    ids=["options", "seed", "count", "input", "length"],
)
def test_shards_of_different_runs_are_refused(
    shards: Shards, options: list[str], records: bytes, told: str
) -> None:
    one, two, _ = shards.outputs
    shards.run_shard(2, *options, records=records)
    result = shards.merge(*shards.outputs)
    assert result.exit_code == 2
    written = f"--merge: {one} was written with {told.format(two)}"
    assert error_line(result).startswith(written)


def test_shards_of_different_weights_are_refused_wherever_they_lie(
    shards: Shards, model_folders: ModelFolders
) -> None:
    """A copy of the model with other dates is the same one."""
    journal = shards.folder / "part2.resume.json"
    line, *rest = journal.read_bytes().splitlines(keepends=True)
    header = json.loads(line)
    for changed, code in (({"source": {"path": "/other"}}, 1), ({"fingerprint": "0"}, 2)):
        journal.write_bytes(b"".join([json.dumps(header | changed).encode(), b"\n", *rest]))
        result = shards.merge(*shards.outputs)
        assert result.exit_code == code
    assert "was written with fingerprint " in result.stderr


@pytest.mark.parametrize("change", ["changed", "removed", "doubled", "added"])
def test_a_result_that_the_run_did_not_write_is_refused(shards: Shards, change: str) -> None:
    """And nothing is left under the name of the merged file."""
    out = shards.outputs[1]
    first, second, *rest = out.read_bytes().splitlines(keepends=True)
    lines = {
        "changed": [first, second.replace(b"z", b"y"), *rest],
        "removed": [first, *rest],
        "doubled": [first, first, second, *rest],
        "added": [first, second, *rest, first],
    }
    out.write_bytes(b"".join(lines[change]))
    result = shards.merge(*shards.outputs)
    assert result.exit_code == 1
    assert error_line(result).startswith(f"{out} has ")
    assert not (shards.folder / "merged").exists()


@pytest.mark.parametrize("place", [1, -2])
@pytest.mark.parametrize("change", ["removed", "doubled"])
def test_a_journal_that_lacks_an_entry_or_has_one_twice_is_refused(
    shards: Shards, place: int, change: str
) -> None:
    journal = shards.folder / "part2.resume.json"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[place : place + 1] = [] if change == "removed" else [lines[place]] * 2
    journal.write_bytes(b"".join(lines))
    result = shards.merge(*shards.outputs)
    assert result.exit_code == 1
    assert error_line(result).startswith(str(shards.outputs[1]))  # or that with .resume.json
    assert not (shards.folder / "merged").exists()


def test_shards_may_be_empty(shards: Shards) -> None:
    """Where the input has fewer groups than there are shards."""
    for number in (1, 2, 3):
        assert shards.run_shard(number, records=_LINES[0]).exit_code == 0
    shards.run(shards.whole, records=_LINES[0])
    assert shards.merge(*shards.outputs).exit_code == 0
    assert (shards.folder / "merged").read_bytes() == shards.whole.read_bytes()


def test_the_merged_file_is_never_an_input_or_the_output_of_a_run(shards: Shards) -> None:
    for output, told in (
        ("part1", "--output: {} is the input"),
        ("whole", "{}.resume.json is the journal of a run that wrote {}; remove it, or choose"),
    ):
        path = shards.folder / output
        before = path.read_bytes()
        result = invoke("batch", "--merge", *shards.outputs, "-o", path)
        assert error_line(result).startswith(told.format(path, path))
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--shard", "1/2"], "--shard: expected --seed too, the same for every shard"),
        (["--shard", "0/2", "--seed", "1"], "--shard: expected I/N, as 2/8, with I from 1 to N"),
        (["--shard", "3/2", "--seed", "1"], "--shard: expected I/N"),
        (["--shard", "two", "--seed", "1"], "--shard: expected I/N"),
        (["--merge", "x", "-n", "3"], "--merge: expected no --max-new-tokens together with it"),
        (["--merge"], "--merge: expected the FILEs that the shards were written to"),
        (["x", "y"], "expected one FILE of prompts, found 2"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_line(options: list[str], told: str) -> None:
    result = invoke("batch", *options)
    assert result.exit_code == 2
    assert error_line(result).startswith(told)
