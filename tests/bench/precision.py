"""Compares ways to store the weights: quality, bit-identity in a batch, speed. Gives JSON.

    python -m tests.bench.precision CHECKPOINT STARTER TEXT --output FILE [--only NAME]

CHECKPOINT has the 124M shape, and a few channels whose weights are much larger than the others', as
GPT-2's own; STARTER is the small trained model, TEXT what its perplexity is of.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from export.checkpoint import open_checkpoint
from export.config import read_config
from export.convert import convert
from export.model_writing import DATA_FILE, write_model
from export.storage import FLOAT32, STORAGES, BlockFormat, Precision, Storage
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.model_folder import read_model_folder
from gpt2cli.scoring import Totals, choose_stride, score
from gpt2cli.tokenizer import Tokenizer
from tests.bench.measuring import describe_machine, emptied, prefill, time_decode, write_json

_CPU: Final = Device("cpu")
FP32: Final = "fp32"  # what the others are compared with
_SIZES: Final = (16, 32, 64, 128)
_LEVELS: Final = (4, 1)  # 0, unset, runs what 1 runs on the CPU
_POSITIONS: Final = 2000
_ROW_LENGTHS: Final = tuple(1 + 7 * row % 64 for row in range(32))  # ragged: 1 to 64
_BATCHES: Final = (2, 3, 7, 8, 16, 32)
_STEPS: Final = 4
_DECODE_ROWS: Final = (1, 8)
_DECODE_START: Final = 64
_DECODE_STEPS: Final = 12
_ROUNDS: Final = 5


@dataclass(frozen=True)
class Variant:
    """One way to store the weights, and its name in the table."""

    name: str
    storage: Storage


def list_variants() -> Iterator[Variant]:
    """Yield fp32 first, then 8 and 4 bits by block size and level, and what is not of one size."""
    yield Variant(FP32, STORAGES[Precision.FP32])
    for bits in (8, 4):
        for level in _LEVELS:
            for size in _SIZES:
                matrices, vocabulary = (BlockFormat(b, size, level) for b in (bits, 8))
                name = f"{bits} bits, {size} a block, level {level}"
                yield Variant(name, Storage(FLOAT32, matrices, vocabulary))
    yield Variant("4 bits, 32 a block, wte 8 bits, 64 a block, level 4", STORAGES[Precision.INT4])
    for size in _SIZES:
        every = BlockFormat(4, size)
        name = f"4 bits, wte too, {size} a block, level 4"
        yield Variant(name, Storage(FLOAT32, every, every))


def build(checkpoint: pathlib.Path, template: pathlib.Path, variant: Variant) -> pathlib.Path:
    """Return a model folder beside `template`, the fp32 one, whose graph is the variant's."""
    folder = template.parent / variant.name.replace(" ", "")
    folder.mkdir()
    for path in template.iterdir():
        if not path.name.startswith("model"):  # graphs and weights are the variant's own
            (folder / path.name).symlink_to(path)
    manifest = json.loads((template / "export.json").read_bytes()) | {"files": {}}
    (folder / "export.json").unlink()
    (folder / "export.json").write_text(json.dumps(manifest))
    with open_checkpoint(checkpoint) as weights:
        write_model(folder, read_config(checkpoint), weights, variant.storage)
    return folder


def build_all(
    checkpoint: pathlib.Path, work: pathlib.Path, names: Sequence[str]
) -> dict[str, pathlib.Path]:
    """Return the model folders of the variants of these names."""
    work.mkdir()
    convert(checkpoint, work / "template")
    chosen = [variant for variant in list_variants() if variant.name in names]
    return {variant.name: build(checkpoint, work / "template", variant) for variant in chosen}


def open_engine(folder: pathlib.Path, *, threads: int | None = None) -> Engine:
    """Return an engine with as many slots as any measurement needs."""
    return Engine(read_model_folder(folder), _CPU, max_slots=max(_BATCHES), threads=threads)


def find_perplexity(folder: pathlib.Path, text: str) -> float:
    """Return the perplexity of a text, every token scored once, by `gpt2 score`'s windows."""
    engine, tokenizer = open_engine(folder), Tokenizer(read_model_folder(folder))
    stride = choose_stride(None, engine.shape.n_positions)
    totals = Totals()
    ids, bos = tokenizer.encode(text), tokenizer.bos_token_id
    for scores in score(engine, ids, bos_token_id=bos, stride=stride):
        totals.add(scores)
    assert totals.perplexity is not None
    return totals.perplexity


def find_best(engine: Engine, ids: Sequence[int]) -> list[int]:
    """Return the likeliest id after each of the ids, which are fed a whole context at a time."""
    limit, best = engine.shape.n_positions, []
    for start in range(0, len(ids), limit):
        window = ids[start : start + limit]
        for first in range(0, len(window), limit // 4):
            part = window[first : first + limit // 4]
            best += engine.extend(0, part, range(len(part))).argmax(axis=-1).tolist()
        engine.free(0)
    return best


def find_agreement(folder: pathlib.Path, ids: Sequence[int], best: Sequence[int]) -> float:
    """Return the share of positions whose likeliest id is that of fp32."""
    found = find_best(open_engine(folder), ids)
    return statistics.mean(a == b for a, b in zip(found, best, strict=True))


def decode_rows(engine: Engine, rows: Sequence[int]) -> list[bytes]:
    """Prefill ragged rows one by one, decode them together -> each row's logits as bytes."""
    draws = [np.random.Generator(np.random.Philox(key=row)) for row in rows]
    texts = [d.integers(0, engine.shape.vocab_size, 64 + _STEPS).tolist() for d in draws]
    found: list[list[bytes]] = [[] for _ in rows]
    with emptied(engine):
        prefill(engine, [text[: _ROW_LENGTHS[r]] for r, text in zip(rows, texts, strict=True)])
        for step in range(_STEPS):
            places = [_ROW_LENGTHS[row] + step for row in rows]
            ids = [text[place] for text, place in zip(texts, places, strict=True)]
            for steps, logits in zip(found, engine.decode(ids), strict=True):
                steps.append(logits.tobytes())
    return [b"".join(steps) for steps in found]


def find_changed_batch(folder: pathlib.Path) -> int | None:
    """Return the smallest batch in which any row's logits are not those it has alone.

    With one thread and with two, which are held against the rows alone with one.
    """
    engines = [open_engine(folder, threads=threads) for threads in (1, 2)]
    alone: list[bytes] = []
    for batch in (1, *_BATCHES):
        alone += [decode_rows(engines[0], [row])[0] for row in range(len(alone), batch)]
        if any(decode_rows(engine, range(batch)) != alone for engine in engines):
            return batch
    return None


def measure_speed(folders: Mapping[str, pathlib.Path]) -> dict[str, dict[str, Any]]:
    """Return decode rates by variant: the medians of interleaved rounds, and every round."""
    engines = {name: open_engine(folder) for name, folder in folders.items()}
    rounds: dict[str, dict[str, list[float]]] = {name: {} for name in engines}
    for _ in range(_ROUNDS):
        for name, engine in engines.items():
            for rows in _DECODE_ROWS:
                texts = [list(range(_DECODE_START))] * rows
                rate = round(time_decode(engine, texts, _DECODE_STEPS), 1)
                rounds[name].setdefault(f"decode B={rows}", []).append(rate)
    return {
        name: {key: {"median": statistics.median(v), "rounds": v} for key, v in rates.items()}
        for name, rates in rounds.items()
    }


def measure_quality(
    folders: Mapping[str, pathlib.Path], starters: Mapping[str, pathlib.Path], text: str
) -> dict[str, dict[str, Any]]:
    """Return, by variant, perplexity, agreement with fp32, size, and what a batch changes."""
    tokenizer = Tokenizer(read_model_folder(starters[FP32]))
    draw = np.random.Generator(np.random.Philox(0))
    vocab_size = read_model_folder(folders[FP32]).shape.vocab_size
    random_ids = draw.integers(0, vocab_size, _POSITIONS).tolist()
    text_ids = tokenizer.encode(text)[:_POSITIONS]
    best_random = find_best(open_engine(folders[FP32]), random_ids)
    best_text = find_best(open_engine(starters[FP32]), text_ids)
    found: dict[str, dict[str, Any]] = {}
    for name, folder in folders.items():
        found[name] = {
            "starter: perplexity": round(find_perplexity(starters[name], text), 4),
            "starter: best id as fp32": find_agreement(starters[name], text_ids, best_text),
            "124M: best id as fp32": find_agreement(folder, random_ids, best_random),
            "124M: smallest batch that changes a row": find_changed_batch(folder),
            "124M: data bytes": (folder / DATA_FILE).stat().st_size,
        }
        print(name, found[name], file=sys.stderr)
    return found


def main() -> None:
    """Build every variant of both checkpoints, measure, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("checkpoint", "starter", "text"):
        parser.add_argument(name, type=pathlib.Path, metavar=name.upper())
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--only", action="append", help="a variant; FILE keeps those of others")
    options = parser.parse_args()
    every = [variant.name for variant in list_variants()]
    names = [FP32, *options.only] if options.only else every
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        folders = build_all(options.checkpoint, work / "large", names)
        starters = build_all(options.starter, work / "starter", names)
        quality = measure_quality(folders, starters, options.text.read_text(encoding="utf-8"))
        speed = measure_speed(folders)
    conditions = describe_machine() | {
        **{"positions compared": _POSITIONS, "rows": list(_ROW_LENGTHS)},
        "decode": f"from {_DECODE_START} tokens on, {_DECODE_STEPS} steps, {_ROUNDS} rounds",
        "unit": "tokens/s of all rows",
    }
    found = {name: quality[name] | speed[name] | {"conditions": conditions} for name in folders}
    before = json.loads(options.output.read_bytes())["variants"] if options.only else {}
    variants = {name: (before | found)[name] for name in every if name in before | found}
    write_json(options.output, {"variants": variants})


if __name__ == "__main__":
    main()
