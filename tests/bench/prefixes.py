"""Measures what prompts that begin alike save in a batch, and what others pay for it. JSON.

    python -m tests.bench.prefixes FOLDER... --output FILE

FOLDERs are model folders of the 124M shape; FILE keeps what it has of other runs. Rounds are
interleaved: each runs the same prompts with and without sharing, in both orders, and a ratio is
taken within its round. A rate counts all tokens of the prompts, and all time until each has its
first token: copying is in it. The seconds of the processor tell more where others use it too; then
give `--threads 1`, since threads that wait for others spin.
"""

import argparse
import json
import pathlib
import random
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpt2cli.config import GenerationConfig, SamplingConfig
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.generation.interfaces import Counts
from gpt2cli.generation.loop import generate
from gpt2cli.generation.requests import PreparedRequest, Request
from gpt2cli.machine import count_cores
from gpt2cli.model_folder import read_model_folder
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.bench.measuring import describe_machine, emptied, write_json

_PROMPTS: Final = 64
_COMMON, _OWN = 300, 20  # tokens that all prompts begin with, and those after them
_ORDINARY: Final = (8, 128)  # the shortest and the longest of prompts that share nothing
_SLOTS: Final = 16
_READS: Final = 3
_COPIES: Final = 20
_IDS: Final = 50_000
_SHARED: Final = "shared"
_WHOLE: Final = "read whole"


class Unshared(Engine):
    """An engine that is told that its bits depend on the pieces of a text: nothing is shared."""

    keeps_cuts = False


def draw_prompts(*, common: bool) -> list[list[int]]:
    """Return prompts that begin alike, or prompts of mixed lengths that share nothing."""
    draw = random.Random(0)
    shared = [draw.randrange(_IDS) for _ in range(_COMMON)] if common else []
    lengths = [_OWN] * _PROMPTS if common else [draw.randint(*_ORDINARY) for _ in range(_PROMPTS)]
    return [shared + [draw.randrange(_IDS) for _ in range(length)] for length in lengths]


def time_prompts(
    engine: Engine, tokenizer: Tokenizer, prompts: Sequence[Sequence[int]]
) -> tuple[float, float, Counts]:
    """Return the tokens of all prompts per second, also of the processor, and what was counted."""
    prepared = [
        PreparedRequest(
            Request(
                prompt="",
                sampling=SamplingConfig(temperature=0),
                generation=GenerationConfig(max_new_tokens=1, ignore_eos=True),
                seed=0,
                index=index,
            ),
            tuple(ids),
        )
        for index, ids in enumerate(prompts)
    ]
    counts = Counts()
    tokens, started, used = sum(map(len, prompts)), time.perf_counter(), time.process_time()
    for _ in generate(engine, tokenizer, Sampler(), prepared, counts=counts):
        pass
    used = time.process_time() - used
    return tokens / (time.perf_counter() - started), tokens / used, counts


def time_copies(engine: Engine) -> dict[str, float]:
    """Return milliseconds that it takes to read 300 tokens, to copy, to keep and to load them."""
    ids = draw_prompts(common=True)[0][:_COMMON]
    steps = {"read": 0.0, "copy": 0.0, "keep": 0.0, "load": 0.0}
    with emptied(engine):
        found: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(_COPIES):
            times = [time.perf_counter()]
            if len(found["read"]) < _READS:
                engine.extend(0, ids, [_COMMON - 1])
                found["read"].append(time.perf_counter() - times[0])
                times[0] = time.perf_counter()
            engine.fork(0, 1, _COMMON)
            times.append(time.perf_counter())
            saved = engine.save(0, _COMMON)
            assert saved is not None
            times.append(time.perf_counter())
            engine.load(saved, 1, _COMMON)
            times.append(time.perf_counter())
            engine.drop(saved)
            for name, begun, ended in zip(("copy", "keep", "load"), times, times[1:], strict=False):
                found[name].append(ended - begun)
            if len(found["read"]) < _READS:
                engine.rewind(0, 0)
    return {name: round(1000 * statistics.median(each), 3) for name, each in found.items()}


def compare(
    engines: Mapping[str, Engine], tokenizer: Tokenizer, *, common: bool, rounds: int
) -> Mapping[str, Any]:
    """Return the rates of interleaved rounds, the ratios within them, and what was counted."""
    prompts = draw_prompts(common=common)
    for engine in engines.values():
        time_prompts(engine, tokenizer, prompts[:2])  # warm
    rates: dict[str, list[float]] = {name: [] for name in engines}
    of_processor: dict[str, list[float]] = {name: [] for name in engines}
    counted = Counts()
    for number in range(rounds):
        for name in sorted(engines, reverse=number % 2 == 1):
            rate, other, counts = time_prompts(engines[name], tokenizer, prompts)
            rates[name].append(round(rate, 1))
            of_processor[name].append(round(other, 1))
            counted = counts if name == _SHARED else counted
    return {
        "tokens/s": rates,
        "ratios": find_ratios(rates),
        "tokens/s of the processor": of_processor,
        "its ratios": find_ratios(of_processor),
        "tokens read": counted.prefill_tokens,
        "tokens shared": counted.shared_tokens,
        "MB kept": round(counted.kept_bytes / 2**20, 1),
    }


def find_ratios(rates: Mapping[str, Sequence[float]]) -> list[float]:
    """Return the gain in each round."""
    return [round(a / b, 3) for a, b in zip(rates[_SHARED], rates[_WHOLE], strict=True)]


def measure(folder: pathlib.Path, *, rounds: int, threads: int) -> dict[str, Any]:
    """Return what sharing gives, and the cost of copies."""
    model = read_model_folder(folder)
    tokenizer = Tokenizer(model)
    kinds = {_SHARED: Engine, _WHOLE: Unshared}
    engines = {
        name: kind(model, Device("cpu"), max_slots=_SLOTS, threads=threads)
        for name, kind in kinds.items()
    }
    found: dict[str, Any] = {
        "conditions": describe_machine() | {"slots": _SLOTS, "threads": threads}
    }
    # Prompts that share nothing are fewer tokens, and their ratio is to be known better.
    for kind, common, count in (
        ("begin alike", True, rounds),
        ("share nothing", False, 2 * rounds),
    ):
        found[kind] = compare(engines, tokenizer, common=common, rounds=count)
        print(model.precision, kind, found[kind], file=sys.stderr)
    return found | {"ms for 300 tokens": time_copies(engines[_SHARED])}


def main() -> None:
    """Measure and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--threads", type=int, default=count_cores(), metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    options = parser.parse_args()
    found = json.loads(options.output.read_bytes()) if options.output.exists() else {}
    for folder in options.folders:
        name = f"{read_model_folder(folder).precision}, {options.threads} threads"
        found[name] = measure(folder, rounds=options.rounds, threads=options.threads)
    write_json(options.output, found)


if __name__ == "__main__":
    main()
