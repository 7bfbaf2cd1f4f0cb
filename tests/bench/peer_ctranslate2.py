"""Runs CTranslate2 for the benchmark."""

import json
import pathlib
import time
from collections.abc import Sequence
from typing import Any, Final

PACKAGES: Final = ("ctranslate2",)
# Of prompts of different lengths it reads only what the shortest has in one go, the rest token by
# token: small batches of like lengths may be faster.
BATCH_SIZES: Final = (4, 8, 16, 32)


class Model:
    """A loaded model of `convert_ctranslate2`."""

    def __init__(self, path: str, *, precision: str, threads: int) -> None:
        import ctranslate2

        self._generator: Any = ctranslate2.Generator(
            path, compute_type=precision, inter_threads=1, intra_threads=threads
        )
        vocabulary = pathlib.Path(path, "vocabulary.json").read_text(encoding="utf-8")
        self._tokens: list[str] = json.loads(vocabulary)

    def complete(self, ids: Sequence[int], count: int) -> list[int]:
        """Return so many greedy ids."""
        return self._generate([ids], count)[0].sequences_ids[0]

    def time_decode(self, prompts: Sequence[Sequence[int]], steps: int) -> float:
        """Return the seconds of so many steps: of a completion, less one that ends at the prompt.

        Its interface gives no single steps.
        """
        return self._time(prompts, steps + 1) - self._time(prompts, 1)

    def time_prefill(self, ids: Sequence[int]) -> float:
        """Return the seconds to the first token after a prompt."""
        return self._time([ids], 1)

    def time_batch(self, prompts: Sequence[Sequence[int]], steps: int, *, size: int) -> float:
        """Return the seconds of completing all prompts; it sorts them by length itself."""
        return self._time(prompts, steps, size=size)

    def _time(self, prompts: Sequence[Sequence[int]], count: int, *, size: int = 0) -> float:
        started = time.perf_counter()
        self._generate(prompts, count, size=size)
        return time.perf_counter() - started

    def _generate(self, prompts: Sequence[Sequence[int]], count: int, *, size: int = 0) -> Any:
        """Complete prompts, `size` at once (0: all)."""
        return self._generator.generate_batch(
            [[self._tokens[token_id] for token_id in ids] for ids in prompts],
            max_batch_size=size,
            max_length=count,
            min_length=count,  # nothing ends earlier
            sampling_topk=1,
            include_prompt_in_result=False,
        )
