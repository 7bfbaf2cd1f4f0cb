"""Compares top-p as OpenAI's code has it with ours, over a story of the starter.

    python -m tests.bench.top_p

OpenAI's is `top_p_logits` of openai/gpt-2 `src/sample.py` @ 9b63575, in NumPy.
"""

import argparse
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from typer.testing import CliRunner

from export.checkpoint import open_checkpoint
from export.config import read_config
from export.reference import Reference
from export.tokenizer import read_tokenizer
from gpt2cli.app import app
from gpt2cli.store.names import STARTER_FOLDER

Probabilities = NDArray[np.float64]

_STORY: Final = (
    *("generate", "-m", "starter", "Once", "--seed", "6", "-n", "400", "--ignore-eos"),
    *("-t", "1", "-k", "0", "-q"),
)
_TOKENS: Final = 400
_THEIRS: Final = (0.95, 0.9, 0.8, 0.5)
_LOWEST: Final = 0.3


def main() -> None:
    """Print how far ours is from OpenAI's at the same p, and at which p it is nearest."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows = compute_probabilities()
    for theirs in _THEIRS:
        wanted = [keep_as_openai(row, theirs) for row in rows]
        apart = {
            float(p): find_distance([keep_as_here(row, p) for row in rows], wanted)
            for p in np.round(np.arange(_LOWEST, theirs + 0.005, 0.01), 2)
        }
        nearest = min(apart, key=lambda p: apart[p])
        print(f"{theirs}: {apart[theirs]:.3f} apart; nearest {nearest}: {apart[nearest]:.3f}")


def compute_probabilities() -> list[Probabilities]:
    """Return the starter's distribution [V] after each token of its story."""
    text = CliRunner().invoke(app, _STORY).stdout
    ids = read_tokenizer(STARTER_FOLDER).encode(text).ids[:_TOKENS]
    with open_checkpoint(STARTER_FOLDER) as weights:
        logits: Any = Reference(read_config(STARTER_FOLDER), weights).logits(ids, range(len(ids)))
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))  # [S, V]
    return list(powers / powers.sum(axis=-1, keepdims=True))


def keep_as_openai(row: Probabilities, p: float) -> Probabilities:
    """Keep the tokens whose probabilities stay within p together, and the likeliest."""
    ranked = np.sort(row)[::-1]
    last = max(int((np.cumsum(ranked) <= p).sum()) - 1, 0)
    return _keep(row, ranked[last])


def keep_as_here(row: Probabilities, p: float) -> Probabilities:
    """Keep the fewest tokens that reach p together."""
    ranked = np.sort(row)[::-1]
    last = int((np.cumsum(ranked) - ranked < p).sum()) - 1
    return _keep(row, ranked[last])


def _keep(row: Probabilities, lowest: float) -> Probabilities:
    kept = np.where(row >= lowest, row, 0)
    return kept / kept.sum()


def find_distance(found: list[Probabilities], wanted: list[Probabilities]) -> float:
    """Return the mean of half the sums of absolute differences."""
    pairs = zip(found, wanted, strict=True)
    return float(np.mean([np.abs(one - other).sum() / 2 for one, other in pairs]))


if __name__ == "__main__":
    main()
