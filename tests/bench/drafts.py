"""Measures what a draft gives a single completion, in every round beside a plain run. JSON.

    python -m tests.bench.drafts WORK --output FILE

How often a draft is right depends on the model, and how long a step takes on its shape. So the
model is the starter, tiled to the shape of the 124M GPT-2: it computes what the starter computes,
since a LayerNorm over copies of a vector is that of the vector, and a weight of copies, divided by
their number, gives copies of its result. Six further layers add nothing. WORK keeps it.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
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
from gpt2cli.model_folder import read_model_folder
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.bench.measuring import describe_machine, write_json

_STARTER: Final = pathlib.Path(__file__).parents[2] / "gpt2cli" / "starter"
_COPIES: Final = 3  # 256 · 3 = 768, 4 · 3 = 12 heads
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


def write_tiled(folder: pathlib.Path) -> None:
    """Write the starter in the shape of the 124M GPT-2."""
    starter = load_file(_STARTER / "model.safetensors")
    tiled = {
        name.removeprefix("transformer."): _tile(name, array.astype(np.float32))
        for name, array in starter.items()
    }
    for name in ("ln_f.weight", "ln_f.bias"):  # logits add up over the copies
        tiled[name] /= _COPIES
    for name in [name for name in tiled if name.startswith("h.")]:
        layer, _, rest = name.removeprefix("h.").partition(".")
        further = np.zeros_like(tiled[name]) if "c_proj" in rest else tiled[name].copy()
        tiled[f"h.{int(layer) + 6}.{rest}"] = further
    config = json.loads((_STARTER / "config.json").read_bytes())
    config |= {"n_embd": 768, "n_head": 12, "n_layer": 12, "vocab_size": _VOCAB_SIZE}
    config |= {"n_positions": 1024, "n_ctx": 1024}
    folder.mkdir(parents=True)
    save_file(tiled, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_bytes((_STARTER / "tokenizer.json").read_bytes())


def _tile(name: str, array: Array) -> Array:
    """Return copies of a parameter of the starter beside, and below, each other."""
    if name.endswith("wte.weight"):
        padded = np.zeros((_VOCAB_SIZE, _COPIES * array.shape[1]), np.float32)
        padded[: len(array)] = np.tile(array, (1, _COPIES))
        return padded
    if name.endswith("wpe.weight"):
        return np.tile(array, (2, _COPIES))
    parts = np.split(array, 3, axis=-1) if "c_attn" in name else [array]  # q, k and v
    if array.ndim == 1:
        return np.concatenate([np.tile(part, _COPIES) for part in parts])
    return np.concatenate([np.tile(part, (_COPIES, _COPIES)) / _COPIES for part in parts], axis=1)


class Bench:
    """The model with and without the graph that verifies, and its drafts, all loaded."""

    def __init__(self, work: pathlib.Path, precision: str) -> None:
        """Export what is not there yet."""
        folder = read_model_folder(_export(work, precision))
        self._shape = folder.shape
        self._tokenizer = Tokenizer(folder)
        self._sampler = Sampler(folder.missing_ids)
        self._plain = Engine(folder, Device("cpu"), max_slots=1)
        self._verifying = Engine(
            folder, Device("cpu"), max_slots=1, verifying=True, alternating=True
        )
        self.drafts: dict[str, Callable[[], Draft]] = {"lookup": LookupDraft}
        if precision == "fp32":
            small = read_model_folder(_export(work, "int8"))
            engine = Engine(small, Device("cpu"), max_slots=1, alternating=True)
            self.drafts["int8"] = lambda: ModelDraft("int8", engine, self._sampler)

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


def _export(work: pathlib.Path, precision: str) -> pathlib.Path:
    checkpoint, folder = work / "tiled", work / precision
    if not checkpoint.exists():
        write_tiled(checkpoint)
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
    ratio = statistics.median(row["ratio"] for row in rows)
    print(f"{name}, {draft}: {ratio} times", rows, file=sys.stderr)
    return {"ratio": ratio, "rounds": rows}


def main() -> None:
    """Measure and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=pathlib.Path, metavar="WORK")
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "int8", "int4"))
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    options = parser.parse_args()
    bench = Bench(options.work, options.precision)
    bench.complete(_SAMPLINGS["greedy"], 0, None)  # warm
    found: dict[str, Any] = {
        "conditions": describe_machine() | {"precision": options.precision, "tokens": _TOKENS}
    }
    for draft in bench.drafts:
        found[draft] = {name: measure(bench, name, draft, options.rounds) for name in _SAMPLINGS}
    write_json(options.output, found)


if __name__ == "__main__":
    main()
