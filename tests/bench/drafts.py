"""Measures what a draft gives a single completion, in every round beside a plain run. JSON.

    python -m tests.bench.drafts WORK --output FILE [--llama-cpp] [--shape 1.4B]

How often a draft is right depends on the model, and how long a step takes on its shape. So the
model is the starter, tiled to the shape of the 124M GPT-2, or nearly that of the 1558M one: it
computes what the starter computes, since a LayerNorm over copies of a vector is that of the vector,
and a weight of copies, divided by their number, gives copies of its result. Further layers add
nothing. WORK keeps it. With `--llama-cpp` that decodes as many tokens in float32 in each round, of
random weights, on which its time does not depend.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from export.convert import convert
from export.storage import Precision
from gpt2cli.config import GenerationConfig, SamplingConfig
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.generation.drafting import Drafting
from gpt2cli.generation.drafts import Draft, LookupDraft, ModelDraft
from gpt2cli.generation.loop import generate
from gpt2cli.generation.requests import Request, prepare
from gpt2cli.machine import count_cores
from gpt2cli.model_folder import read_model_folder
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.bench.checkpoint import convert as convert_for
from tests.bench.checkpoint import make_checkpoint
from tests.bench.measuring import describe_machine, write_json
from tests.bench.peer_llama_cpp import Model
from tests.bench.variants import Variant

_STARTER: Final = pathlib.Path(__file__).parents[2] / "gpt2cli" / "starter"
_VOCAB_SIZE: Final = 50257
_PROMPT: Final = "Once upon a time"
_TOKENS: Final = 256
_SAMPLINGS: Final = {
    "greedy": SamplingConfig(temperature=0),
    "temperature 0.7, top-k 40": SamplingConfig(temperature=0.7),
    "temperature 1, top-k 40": SamplingConfig(),
    "temperature 1": SamplingConfig(top_k=0),
}

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Shape:
    """How often the starter (256 wide, 4 heads, 6 layers) stands beside itself, and how deep."""

    copies: int
    n_layer: int


_SMALL: Final = "124M"
_SHAPES: Final = {
    _SMALL: Shape(3, 12),
    "1.4B": Shape(6, 48),  # 1536 wide; the 1558M GPT-2 is 1600 wide
}


def write_tiled(folder: pathlib.Path, shape: Shape) -> None:
    """Write the starter in another shape."""
    starter = load_file(_STARTER / "model.safetensors")
    config = json.loads((_STARTER / "config.json").read_bytes())
    tiled = {
        name.removeprefix("transformer."): _tile(name, array.astype(np.float32), shape.copies)
        for name, array in starter.items()
    }
    for name in ("ln_f.weight", "ln_f.bias"):  # logits add up over the copies
        tiled[name] /= shape.copies
    of_layers = {name: array for name, array in tiled.items() if name.startswith("h.")}
    for first in range(config["n_layer"], shape.n_layer, config["n_layer"]):
        for name, array in of_layers.items():
            layer, _, rest = name.removeprefix("h.").partition(".")
            further = np.zeros_like(array) if "c_proj" in rest else array
            tiled[f"h.{first + int(layer)}.{rest}"] = further.copy()
    config |= {key: config[key] * shape.copies for key in ("n_embd", "n_head")}
    config |= {"n_layer": shape.n_layer, "vocab_size": _VOCAB_SIZE}
    config |= {"n_positions": 1024, "n_ctx": 1024}
    folder.mkdir(parents=True)
    save_file(tiled, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_bytes((_STARTER / "tokenizer.json").read_bytes())


def _tile(name: str, array: Array, copies: int) -> Array:
    """Return copies of a parameter of the starter beside, and below, each other."""
    if name.endswith("wte.weight"):
        padded = np.zeros((_VOCAB_SIZE, copies * array.shape[1]), np.float32)
        padded[: len(array)] = np.tile(array, (1, copies))
        return padded
    if name.endswith("wpe.weight"):
        return np.tile(array, (2, copies))
    parts = np.split(array, 3, axis=-1) if "c_attn" in name else [array]  # q, k and v
    if array.ndim == 1:
        return np.concatenate([np.tile(part, copies) for part in parts])
    return np.concatenate([np.tile(part, (copies, copies)) / copies for part in parts], axis=1)


class Bench:
    """The model with and without the graph that verifies, and its drafts, all loaded."""

    def __init__(self, work: pathlib.Path, shape: str, precision: str, *, llama_cpp: bool) -> None:
        """Export what is not there yet."""
        folder = read_model_folder(_export(work, shape, precision))
        self._shape = folder.shape
        self._tokenizer = Tokenizer(folder)
        self._sampler = Sampler(folder.missing_ids)
        self._verifying = Engine(
            folder, Device("cpu"), max_slots=1, verifying=True, alternating=True
        )
        # There may be no room for the large one twice.
        self._plain = (
            Engine(folder, Device("cpu"), max_slots=1) if shape == _SMALL else self._verifying
        )
        self.drafts: dict[str, Callable[[], Draft]] = {"lookup": LookupDraft}
        if precision == "fp32":
            self._add_draft(work, shape, "int8")
        if shape != _SMALL:
            self._add_draft(work, _SMALL, f"{_SMALL} in int8")
        self._peer = _load_llama_cpp(work) if llama_cpp else None

    def _add_draft(self, work: pathlib.Path, shape: str, name: str) -> None:
        folder = read_model_folder(_export(work, shape, "int8"))
        engine = Engine(folder, Device("cpu"), max_slots=1, alternating=True)
        self.drafts[name] = lambda: ModelDraft(name, engine, self._sampler)

    def time_llama_cpp(self) -> float | None:
        """Return the seconds in which llama.cpp makes as many tokens after the first one."""
        if self._peer is None:
            return None
        ids = self._tokenizer.encode(_PROMPT, allow_special=False)
        return self._peer.time_decode([ids], _TOKENS - 1)

    def complete(
        self, sampling: SamplingConfig, seed: int, draft: str | None
    ) -> tuple[str, float, Drafting | None]:
        """Return the text, the seconds after its first token, and what drafted."""
        engine = self._plain if draft is None else self._verifying
        drafting = None if draft is None else Drafting(engine, self.drafts[draft])
        request = Request(
            prompt=_PROMPT,
            sampling=sampling,
            generation=GenerationConfig(max_new_tokens=_TOKENS, ignore_eos=True),
            seed=seed,
        )
        prepared = [prepare(request, self._tokenizer, self._shape)]
        text, started = "", 0.0
        for chunk in generate(engine, self._tokenizer, self._sampler, prepared, drafting=drafting):
            started = started or time.perf_counter()
            text += chunk.text
        return text, time.perf_counter() - started, drafting


def _load_llama_cpp(work: pathlib.Path) -> Model:
    variant = Variant("llama_cpp", "F32", "fp32")
    path = convert_for(variant, make_checkpoint(work), sys.executable)
    return Model(str(path), precision=variant.precision, threads=count_cores())


def _export(work: pathlib.Path, shape: str, precision: str) -> pathlib.Path:
    checkpoint, folder = work / f"tiled-{shape}", work / f"{shape}-{precision}"
    if not checkpoint.exists():
        write_tiled(checkpoint, _SHAPES[shape])
    convert(checkpoint, folder, precision=Precision(precision), force=True)
    return folder


def measure(bench: Bench, name: str, draft: str, rounds: int) -> dict[str, Any]:
    """Return rates and ratios of rounds, a seed each, a plain run and a drafted one in turn."""
    rows: list[dict[str, Any]] = []
    for seed in range(rounds):
        text, plain, _ = bench.complete(_SAMPLINGS[name], seed, None)
        drafted, seconds, drafting = bench.complete(_SAMPLINGS[name], seed, draft)
        assert drafted == text, f"another text: {name}, {draft}, seed {seed}"
        assert drafting is not None
        done = drafting.counts
        peer = bench.time_llama_cpp()
        rows.append(
            {
                "plain tokens/s": round((_TOKENS - 1) / plain, 1),
                "tokens/s": round((_TOKENS - 1) / seconds, 1),
                "ratio": round(plain / seconds, 3),
                "tokens a call": round(done.tokens / max(1, done.calls), 2),
                "accepted": round(done.accepted / max(1, done.proposed), 3),
                "rested": done.rested,
            }
        )
        if peer is not None:
            rows[-1]["llama.cpp tokens/s"] = round((_TOKENS - 1) / peer, 1)
            rows[-1]["beside llama.cpp"] = round(peer / seconds, 3)
    found: dict[str, Any] = {
        key: statistics.median(row[key] for row in rows)
        for key in ("ratio", "beside llama.cpp")
        if key in rows[0]
    }
    print(f"{name}, {draft}: {found}", rows, file=sys.stderr)
    return {**found, "rounds": rows}


def main() -> None:
    """Measure and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=pathlib.Path, metavar="WORK")
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "int8", "int4"))
    parser.add_argument("--shape", default=_SMALL, choices=_SHAPES)
    parser.add_argument("--sampling", action="append", choices=_SAMPLINGS, help="default: all")
    parser.add_argument("--llama-cpp", action="store_true", help="needs the extra `bench`")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    bench = Bench(options.work, options.shape, options.precision, llama_cpp=options.llama_cpp)
    bench.complete(_SAMPLINGS["greedy"], 0, None)  # warm
    found: dict[str, Any] = {
        "conditions": describe_machine()
        | {"shape": options.shape, "precision": options.precision, "tokens": _TOKENS}
    }
    for draft in bench.drafts:
        found[draft] = {
            name: measure(bench, name, draft, options.rounds)
            for name in options.sampling or _SAMPLINGS
        }
        write_json(options.output, found)


if __name__ == "__main__":
    main()
