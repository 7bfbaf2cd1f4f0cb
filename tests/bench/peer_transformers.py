"""Runs transformers (PyTorch, eager, SDPA attention) for the benchmark."""

import time
from collections.abc import Sequence
from typing import Any, Final

PACKAGES: Final = ("transformers", "torch")
BATCH_SIZES: Final = (8, 16, 32, 64)
_PAD: Final = 50256


class Model:
    """A loaded checkpoint."""

    def __init__(self, path: str, *, precision: str, threads: int) -> None:
        import torch
        from transformers import GPT2LMHeadModel

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self._torch = torch
        self._model: Any = GPT2LMHeadModel.from_pretrained(
            path, dtype=getattr(torch, precision), attn_implementation="sdpa"
        ).eval()

    def complete(self, ids: Sequence[int], count: int) -> list[int]:
        """Return so many greedy ids, by bare forwards, which are faster than generate."""
        made, cache = self._forward([ids])
        completion = [int(made)]
        while len(completion) < count:
            made, cache = self._step(made, cache)
            completion.append(int(made))
        return completion

    def time_decode(self, prompts: Sequence[Sequence[int]], steps: int) -> float:
        """Return the seconds of so many steps, as of `complete`."""
        ids, cache = self._forward(prompts)
        started = time.perf_counter()
        for _ in range(steps):
            ids, cache = self._step(ids, cache)
        return time.perf_counter() - started

    def time_prefill(self, ids: Sequence[int]) -> float:
        """Return the seconds to the logits after a prompt."""
        started = time.perf_counter()
        self._forward([ids])
        return time.perf_counter() - started

    def time_batch(self, prompts: Sequence[Sequence[int]], steps: int, *, size: int) -> float:
        """Return the seconds of completing all prompts, sorted by length and padded."""
        started = time.perf_counter()
        ordered = sorted(prompts, key=len)
        for first in range(0, len(ordered), size):
            self._generate(ordered[first : first + size], steps)
        return time.perf_counter() - started

    def _forward(self, prompts: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """Return the next ids [B, 1] and the cache after prompts of equal lengths."""
        out = self._model(self._torch.tensor(prompts), use_cache=True, logits_to_keep=1)
        return out.logits[:, -1].argmax(-1, keepdim=True), out.past_key_values

    def _step(self, ids: Any, cache: Any) -> tuple[Any, Any]:
        """Return the ids after these [B, 1], and the cache."""
        out = self._model(ids, past_key_values=cache, use_cache=True)
        return out.logits[:, -1].argmax(-1, keepdim=True), out.past_key_values

    def _generate(self, prompts: Sequence[Sequence[int]], count: int) -> None:
        longest = max(map(len, prompts))
        padded = [[_PAD] * (longest - len(ids)) + list(ids) for ids in prompts]
        mask = [[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompts]
        self._model.generate(
            input_ids=self._torch.tensor(padded),
            attention_mask=self._torch.tensor(mask),
            do_sample=False,
            max_new_tokens=count,
            eos_token_id=None,
            pad_token_id=_PAD,
        )
