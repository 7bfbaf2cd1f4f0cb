"""Owns what every program of the benchmark does: prompts as ids, drawn once, and how much of what.

The workers read it from a file, in whichever environment they run, so it imports nothing else.
"""

import json
import pathlib
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

START_PROMPT: Final = "Once upon a time, in a small village by the sea,"
_IDS: Final = 50_000  # all of them ordinary tokens
_DECODE_ROWS: Final = 8
_DECODE_PROMPT: Final = 64
_BATCH_ROWS: Final = 64
_BATCH_LENGTHS: Final = (8, 128)  # the shortest prompt of the batch and the longest one
_CHECKED_PROMPTS: Final = 4


@dataclass(frozen=True, slots=True)
class Workload:
    """All prompts are ids. The completions have just the lengths told: nothing ends earlier."""

    start_prompt: Sequence[int]  # of the first token after the process has begun
    decode_prompts: Sequence[Sequence[int]]  # 8 of equal lengths
    decode_steps: int
    prefill_prompts: Sequence[Sequence[int]]
    batch_prompts: Sequence[Sequence[int]]  # 64 of mixed lengths, in no order
    batch_steps: int
    checked_prompts: Sequence[Sequence[int]]  # whose greedy completions must agree
    checked_steps: int
    memory_steps: int = 100  # tokens that are made before the peak of one completion is read
    prefill_repeats: int = 3

    def shortened(self) -> "Workload":
        """Return a fraction of it: enough to try whether all works, too little to measure."""
        return replace(
            self,
            decode_steps=8,
            batch_prompts=self.batch_prompts[:8],
            batch_steps=8,
            checked_prompts=self.checked_prompts[:1],
            checked_steps=16,
            memory_steps=8,
            prefill_repeats=1,
        )

    def save(self, path: pathlib.Path) -> None:
        """Write it for the workers."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


def draw_workload(start_prompt: Sequence[int], *, seed: int = 0) -> Workload:
    """Draw the prompts."""
    draw = random.Random(seed)

    def ids(count: int) -> list[int]:
        return [draw.randrange(_IDS) for _ in range(count)]

    shortest, longest = _BATCH_LENGTHS
    spread = (longest - shortest) / (_BATCH_ROWS - 1)
    lengths = [round(shortest + spread * place) for place in range(_BATCH_ROWS)]
    draw.shuffle(lengths)
    return Workload(
        start_prompt=start_prompt,
        decode_prompts=[ids(_DECODE_PROMPT) for _ in range(_DECODE_ROWS)],
        decode_steps=64,
        prefill_prompts=[ids(128), ids(900)],
        batch_prompts=[ids(length) for length in lengths],
        batch_steps=64,
        checked_prompts=[ids(16) for _ in range(_CHECKED_PROMPTS)],
        checked_steps=64,
    )


def read_workload(path: pathlib.Path) -> Workload:
    """Read what `Workload.save` wrote."""
    return Workload(**json.loads(path.read_text(encoding="utf-8")))
