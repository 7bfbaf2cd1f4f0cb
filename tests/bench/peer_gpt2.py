"""Runs our own model folders for the benchmark, by the loop that every command uses."""

import time
from collections.abc import Sequence
from typing import Final

import numpy as np

from gpt2cli.config import GenerationConfig, ModelConfig, SamplingConfig
from gpt2cli.generation.interfaces import Counts
from gpt2cli.generation.loop import generate
from gpt2cli.generation.requests import PreparedRequest, Request
from gpt2cli.loading import load_model

PACKAGES: Final = ("onnxruntime-gpu", "onnxruntime", "numpy")
BATCH_SIZES: Final = (0,)  # as many slots as `gpt2 batch` itself would take


class Model:
    """A loaded model folder."""

    def __init__(self, path: str, *, precision: str, threads: int) -> None:
        self._loaded = load_model(
            ModelConfig(
                model=path, precision=precision, device="cpu", threads=threads, offline=True
            ),
            max_slots=None,
            listener=_Silence(),
        )

    def complete(self, ids: Sequence[int], count: int) -> list[int]:
        """Return so many greedy ids."""
        return [token_id for token_id, _ in self.explain(ids, count)]

    def explain(self, ids: Sequence[int], count: int) -> list[tuple[int, float]]:
        """Return so many greedy ids, each with how far its logit is above the next best one."""
        engine = self._loaded.engine
        logits = engine.extend(0, ids, [len(ids) - 1])
        found = []
        for _ in range(count):
            second, best = np.partition(logits[0], -2)[-2:].tolist()
            found.append((int(logits[0].argmax()), best - second))
            logits = engine.decode([found[-1][0]])
        engine.free(0)
        return found

    def time_decode(self, prompts: Sequence[Sequence[int]], steps: int) -> float:
        """Return the seconds of so many steps: all that the loop does but the prefill."""
        counts = Counts()
        seconds = self._run(prompts, steps + 1, counts)  # the prefill gives the first one
        return seconds - counts.prefill_seconds

    def time_prefill(self, ids: Sequence[int]) -> float:
        """Return the seconds to the logits after a prompt."""
        engine = self._loaded.engine
        started = time.perf_counter()
        engine.extend(0, ids, [len(ids) - 1])
        seconds = time.perf_counter() - started
        engine.free(0)
        return seconds

    def time_batch(self, prompts: Sequence[Sequence[int]], steps: int, *, size: int) -> float:
        """Return the seconds of completing all prompts; the number of slots is our own choice."""
        return self._run(prompts, steps, Counts())

    def _run(self, prompts: Sequence[Sequence[int]], count: int, counts: Counts) -> float:
        prepared = [
            PreparedRequest(
                Request(
                    prompt="",
                    sampling=SamplingConfig(temperature=0),
                    generation=GenerationConfig(max_new_tokens=count, ignore_eos=True),
                    seed=0,
                    index=index,
                ),
                tuple(ids),
            )
            for index, ids in enumerate(prompts)
        ]
        model = self._loaded
        started = time.perf_counter()
        for _ in generate(model.engine, model.tokenizer, model.sampler, prepared, counts=counts):
            pass
        return time.perf_counter() - started


class _Silence:
    """Listens to the store and says nothing."""

    watched = False

    def note(self, text: str) -> None:
        """Take a sentence."""

    def stage(self, text: str) -> None:
        """Take what goes on now."""

    def pause(self) -> None:
        """Make way."""
