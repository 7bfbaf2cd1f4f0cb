"""Claims about `gpt2 batch` with the starter: a record is the same in any batch."""

import pathlib
import random
from collections.abc import Sequence

import pytest

from tests.gpt2cli.batch.batches import Record, run, write
from tests.gpt2cli.runner import invoke

WORDS = ["The", "old", "man", "and", "a", "dog"] * 4


@pytest.fixture(scope="module")
def seeded() -> list[Record]:
    """Return records with seeds of their own, whose prompts and limits have many lengths."""
    prompts = [" ".join(WORDS[i % 5 : i % 5 + 1 + (3 * i) % 14]) for i in range(18)]
    return [
        {"id": i, "prompt": prompt, "seed": 50 + i, "max_new_tokens": 4 + (7 * i) % 17}
        for i, prompt in enumerate(prompts)
    ]


def run_shuffled(
    model: pathlib.Path, folder: pathlib.Path, records: Sequence[Record], *options: object
) -> dict[int, str]:
    """Return the completion of each id; each set of options has an order of its own."""
    shuffled = random.Random(str(options)).sample(records, len(records))
    file = write(folder / "shuffled.jsonl", shuffled)
    done = run(model, file, "-t", 1, "-k", 0, "--ignore-eos", *options)
    assert [record["id"] for record in done] == [record["id"] for record in shuffled]
    return {record["id"]: record["completion"] for record in done}


@pytest.fixture(scope="module")
def alone(
    starter_folder: pathlib.Path, tmp_path_factory: pytest.TempPathFactory, seeded: Sequence[Record]
) -> dict[int, str]:
    """Return what each seeded record gives, one at a time on one thread."""
    folder = tmp_path_factory.mktemp("alone")
    return run_shuffled(starter_folder, folder, seeded, "--batch-size", 1, "--threads", 1)


@pytest.mark.parametrize(("batch_size", "threads"), [(7, 1), (32, 2)])
def test_a_record_is_the_same_in_any_batch_in_any_order(
    starter_folder: pathlib.Path,
    tmp_path: pathlib.Path,
    seeded: Sequence[Record],
    alone: dict[int, str],
    batch_size: int,
    threads: int,
) -> None:
    """Sampled from the whole vocabulary at temperature 1."""
    options = ("--batch-size", batch_size, "--threads", threads)
    assert run_shuffled(starter_folder, tmp_path, seeded, *options) == alone


def test_generate_gives_a_record_that_has_the_runs_seed(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The record tells its own: the run's plus the index; and all samples are those of -N."""
    file = tmp_path / "lines"
    file.write_text("The old man\nThe old man\n")
    records = run(starter_folder, file, "--seed", 41, "-n", 9, "-N", 2)
    assert [(r["seed"], r["sample"]) for r in records] == [(41, 0), (41, 1), (42, 0), (42, 1)]
    options = ["-n", "9", "-N", "2", "-q", "--no-echo", "--seed", "42"]
    result = invoke("generate", "The old man", "-m", starter_folder, *options)
    assert result.stdout == "{completion}\n---\n".format(**records[2]) + "{completion}\n".format(
        **records[3]
    )
