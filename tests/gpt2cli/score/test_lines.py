"""Claims about `gpt2 score --lines`: the scores of each line alone, in order, and going on."""

import json
import pathlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from typer.testing import Result

from gpt2cli.resumable.input import InputReader, ItemSource
from gpt2cli.score.lines import LineItem, LineParser, LineScorer, ScoredLine
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.batch.feeding import fed, feeding
from tests.gpt2cli.runner import error_line, invoke
from tests.gpt2cli.scripted import Logits, ScriptedEngine, scatter
from tests.model_folders import ModelFolders

TEXTS: Final = ("zqz", "", "q", "z" * 70, " <|endoftext|>", "日本", "zq" * 9)
LINES: Final = "\n".join(TEXTS).encode()
ABOUT: Final = {"index", "file", "text"}


@pytest.fixture(scope="module")
def small(model_folders: ModelFolders) -> pathlib.Path:
    """Return the smallest model's folder: n_positions 33, each z is a token."""
    return model_folders()


def run(model: pathlib.Path, file: pathlib.Path, *options: object) -> Result:
    return invoke("score", "-m", model, "-q", "--lines", "-f", file, *map(str, options))


def make_file(folder: pathlib.Path, lines: bytes = LINES) -> pathlib.Path:
    file = folder / "lines"
    file.write_bytes(lines)
    return file


@pytest.mark.parametrize("options", [[], ["--top", "2", "--stride", "5", "--allow-special"]])
def test_each_line_has_the_record_of_its_text_alone(
    small: pathlib.Path, tmp_path: pathlib.Path, options: list[str]
) -> None:
    """Bit for bit: empty, long, special and short ones, which are scored side by side."""
    result = run(small, make_file(tmp_path), "--json", *options)
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert (result.exit_code, result.stderr) == (0, "")
    assert [(r["index"], r["text"]) for r in records] == [*enumerate(TEXTS)]
    for record in records:
        alone = json.loads(
            invoke("score", "-m", small, "--json", *options, record["text"], "--no-stdin").stdout
        )
        assert list(record) == ["index", "text", *(key for key in alone if key not in ABOUT)]
        assert all(record[key] == alone[key] for key in alone.keys() - ABOUT)


def test_a_line_of_text_has_the_sum_the_perplexity_and_the_number(
    small: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """As many as there are lines, an empty one has nothing to score; those of the records."""
    file = make_file(tmp_path)
    lines = run(small, file).stdout.split("\n")
    records = [json.loads(line) for line in run(small, file, "--json").stdout.splitlines()]
    expected = [
        f"{r['total_logprob']:.6f}\t{r['perplexity'] or '-':.6}\t{r['scored_tokens']}"
        for r in records
        if r["perplexity"]
    ]
    assert lines.pop() == ""
    assert lines.pop(1) == "0.000000\t-\t0"
    assert [line.split("\t")[::2] for line in lines] == [e.split("\t")[::2] for e in expected]


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_a_line_that_cannot_be_scored_is_told_and_the_others_are_scored(
    small: pathlib.Path, tmp_path: pathlib.Path, form: list[str]
) -> None:
    """In its record, or on stderr and with an empty line; the exit code is 1."""
    file = make_file(tmp_path, b"\xef\xbb\xbfz\n\xff\n" + b"z" * (1 << 20) + b"z\nq\r\n")
    result = invoke("score", "-m", small, "--lines", "-f", file, *form)
    lines = result.stdout.removesuffix("\n").split("\n")
    told = result.stderr.splitlines()
    assert result.exit_code == 1
    assert told[-1].startswith("gpt2: 4 records, 2 errors among them, 2 tokens in ")
    if form:
        records = [json.loads(line) for line in lines]
        assert [(r["text"], r["scored_tokens"]) for r in records] == [
            *(("z", 1), (None, 0), (None, 0), ("q", 1))
        ]
        assert [r["total_logprob"] is None for r in records] == [False, True, True, False]
        errors = [record.get("error") or "" for record in records]
    else:
        assert lines[1:3] == ["", ""]
        errors = ["", *(line.removeprefix("gpt2: record ")[3:] for line in told[:2]), ""]
    assert [bool(error) for error in errors] == [False, True, True, False]
    assert errors[1].startswith("the line is not valid UTF-8")
    assert errors[2].startswith("the record has 1048577 bytes")


def test_a_run_that_was_broken_off_ends_with_the_same_bytes(
    small: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Wherever it was; other options, and the journal of another command, are refused."""
    file, out = make_file(tmp_path, LINES + b"\n\xff"), tmp_path / "out"
    journal = tmp_path / "out.resume.json"
    assert run(small, file, "-o", out).exit_code == 1
    whole = out.read_bytes(), journal.read_bytes()
    for kept in (0, 1, 3, 8):
        out.write_bytes(b"".join(whole[0].splitlines(keepends=True)[:kept])[:-1])
        assert run(small, file, "-o", out, "--resume").exit_code == 1
        assert (out.read_bytes(), journal.read_bytes()) == whole
    other = run(small, file, "-o", out, "--resume", "--json")
    assert other.exit_code == 2
    assert error_line(other).startswith("--resume: the run was begun with json false, now it is")
    batch = invoke("batch", "-m", small, "-q", "-o", out, "--resume", file)
    assert batch.exit_code == 2
    assert "the run was begun with " in error_line(batch)
    assert (out.read_bytes(), journal.read_bytes()) == whole


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["z", "--lines"], "--lines: expected --file FILE or stdin, and no text argument"),
        (["--lines", "--resume"], "--resume: expected --output FILE, the file to continue"),
        (["z", "--resume"], "--resume: expected --lines together with it"),
        (["--lines", "-f", "a", "-f", "b"], "--file: expected one FILE with --lines, found 2"),
        (["--lines", "--top", "2"], "--top: expected --json together with it and --lines"),
        (["--lines", "--stdin"], "--stdin: expected no --lines together with it"),
        (["--lines", "-f", "a", "-o", "-", "--resume"], "--resume: - is not a file that can be"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_does_not_go_together_is_a_usage_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, options: list[str], told: str
) -> None:
    """Before a model is looked for."""
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        (tmp_path / name).write_text("z")
    result = invoke("score", "-m", "/missing", *options)
    assert result.exit_code == 2
    assert error_line(result).startswith(told)


def test_no_output_is_written_over_the_input(tmp_path: pathlib.Path) -> None:
    file = make_file(tmp_path)
    result = invoke("score", "-m", "/missing", "--lines", "-f", file, "-o", file)
    assert (result.exit_code, file.read_bytes()) == (2, LINES)
    assert error_line(result) == f"--output: {file} is the input"


class Watched(ScriptedEngine):
    """An engine that calls back before it reads."""

    before: Callable[[], Any] = staticmethod(lambda: None)

    def read_together(self, texts: Any) -> list[Logits]:
        self.before()
        return super().read_together(texts)

    def extend(self, slot: int, ids: Any, positions: Any) -> Logits:
        self.before()
        return super().extend(slot, ids, positions)


def make_engine() -> Watched:
    return Watched(scatter(97), n_positions=128, vocab_size=97, max_slots=1)


def make_items(descriptor: int, tokenizer: Tokenizer) -> ItemSource[LineItem]:
    return ItemSource(InputReader(descriptor), LineParser(tokenizer=tokenizer, allow_special=False))


def score(
    engine: Watched,
    items: ItemSource[LineItem],
    *,
    bos: int | None = 96,
    stopped: Callable[[], bool] = lambda: False,
) -> list[ScoredLine]:
    scorer = LineScorer(engine=engine, bos_token_id=bos, stride=64, top=0, keeps_tokens=False)
    done: list[ScoredLine] = []
    scorer.run(items, done.append, stopped)
    return done


@pytest.mark.parametrize(("bos", "calls"), [(96, {"read_together"}), (None, {"extend", "free"})])
def test_lines_come_in_their_order_whatever_their_lengths(
    ascii_tokenizer: Tokenizer, bos: int | None, calls: set[str]
) -> None:
    """More of them than are taken at once. A model without BOS has no score for first tokens."""
    lengths = np.random.default_rng(3).integers(1, 20, 150).tolist()
    engine = make_engine()
    with fed("".join("a" * length + "\n" for length in lengths).encode()) as descriptor:
        done = score(engine, make_items(descriptor, ascii_tokenizer), bos=bos)
    assert [line.item.index for line in done] == [*range(150)]
    expected = [length - (bos is None) for length in lengths]
    assert [line.totals.scored_tokens for line in done] == expected
    assert {call[0] for call in engine.calls} == calls
    assert engine.slots == []


def test_a_line_is_scored_before_the_next_one_comes(ascii_tokenizer: Tokenizer) -> None:
    """As from `tail -f`."""
    engine = make_engine()
    with feeding(b"a\n") as feed:
        items = make_items(feed.reader, ascii_tokenizer)
        pressed: list[bool] = []
        scorer = LineScorer(engine=engine, bos_token_id=96, stride=64, top=0, keeps_tokens=False)
        scorer.run(items, lambda line: pressed.append(True), lambda: bool(pressed))
    assert pressed == [True]


@pytest.mark.parametrize(("calls", "handed_on"), [(1, []), (2, [0]), (3, [0, 1, 2])])
def test_once_stopped_no_line_is_handed_on_in_part(
    ascii_tokenizer: Tokenizer, calls: int, handed_on: list[int]
) -> None:
    """The short ones take a call together, the long one two; what is whole before it stays."""
    engine, made = make_engine(), []
    engine.before = lambda: made.append(True)
    with fed(b"aa\n" + b"b" * 100 + b"\nc\n") as descriptor:
        items = make_items(descriptor, ascii_tokenizer)
        done = score(engine, items, stopped=lambda: len(made) >= calls)
    assert [line.item.index for line in done] == handed_on
    assert engine.slots == []
