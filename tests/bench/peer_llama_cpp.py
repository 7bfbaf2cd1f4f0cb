"""Runs llama.cpp for the benchmark, by the C interface that llama-cpp-python gives.

Its Python class decodes one sequence alone; the rows of a batch take sequences of their own, and a
sequence that has ended gives its place to the next prompt, as llama.cpp's server does it.
"""

import os
import time
from collections.abc import Sequence
from typing import Any, Final

PACKAGES: Final = ("llama_cpp_python",)
BATCH_SIZES: Final = (16, 32)
NO_EXTRA_BUFFERS: Final = "GPT2_BENCH_NO_EXTRA_BUFFERS"  # in the environment, if they crash
_CONTEXT_STEP: Final = 256  # llama.cpp rounds the places of a sequence up to this
_MOST_AT_ONCE: Final = 2048  # tokens of one call


class Model:
    """A loaded gguf file."""

    def __init__(self, path: str, *, precision: str, threads: int) -> None:
        import ctypes

        import llama_cpp
        import numpy

        self._lib: Any = llama_cpp
        self._numpy = numpy
        self._threads = threads
        self._silence = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self._silence, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        settings = llama_cpp.llama_model_default_params()
        if hasattr(settings, "use_extra_bufts"):
            # Weights repacked for AMX kill the process on some machines that only claim to have it.
            settings.use_extra_bufts = NO_EXTRA_BUFFERS not in os.environ
        self._model = llama_cpp.llama_model_load_from_file(path.encode(), settings)
        vocabulary = llama_cpp.llama_model_get_vocab(self._model)
        self._vocab_size = llama_cpp.llama_vocab_n_tokens(vocabulary)

    def complete(self, ids: Sequence[int], count: int) -> list[int]:
        """Return so many greedy ids."""
        run = _Run(self, rows=1, length=len(ids) + count)
        made = run.feed({0: ids})
        while len(made) < count:
            made += run.feed({0: made[-1:]})
        run.close()
        return made

    def time_decode(self, prompts: Sequence[Sequence[int]], steps: int) -> float:
        """Return the seconds of so many steps."""
        run = _Run(self, rows=len(prompts), length=len(prompts[0]) + steps + 1)
        ids = run.feed(dict(enumerate(prompts)))
        started = time.perf_counter()
        for _ in range(steps):
            ids = run.feed({row: [token_id] for row, token_id in enumerate(ids)})
        seconds = time.perf_counter() - started
        run.close()
        return seconds

    def time_prefill(self, ids: Sequence[int]) -> float:
        """Return the seconds to the greedy id after a prompt."""
        run = _Run(self, rows=1, length=len(ids))
        started = time.perf_counter()
        run.feed({0: ids})
        seconds = time.perf_counter() - started
        run.close()
        return seconds

    def time_batch(self, prompts: Sequence[Sequence[int]], steps: int, *, size: int) -> float:
        """Return the seconds of completing all prompts, `size` at once."""
        started = time.perf_counter()
        run = _Run(self, rows=size, length=max(map(len, prompts)) + steps)
        waiting = list(reversed(prompts))
        left = dict.fromkeys(range(size), 0)  # tokens that each row still has to make
        last: dict[int, int] = {}
        while waiting or any(left.values()):
            fed: dict[int, Sequence[int]] = {}
            for row in left:
                if left[row]:
                    fed[row] = [last[row]]
                elif waiting:
                    run.forget(row)
                    fed[row], left[row] = waiting.pop(), steps
            for row, token_id in zip(fed, run.feed(fed), strict=True):
                last[row] = token_id
                left[row] -= 1
        run.close()
        return time.perf_counter() - started


class _Run:
    """A context with a number of sequences, its rows, of at most `length` tokens each."""

    def __init__(self, model: Model, *, rows: int, length: int) -> None:
        self._lib = model._lib
        self._numpy = model._numpy
        self._vocab_size = model._vocab_size
        settings = self._lib.llama_context_default_params()
        settings.n_ctx = rows * -(-length // _CONTEXT_STEP) * _CONTEXT_STEP
        settings.n_batch = settings.n_ubatch = _MOST_AT_ONCE
        settings.n_seq_max = rows
        settings.kv_unified = False  # faster for sequences that share nothing, as its header says
        settings.n_threads = settings.n_threads_batch = model._threads
        self._context = self._lib.llama_init_from_model(model._model, settings)
        self._memory = self._lib.llama_get_memory(self._context)
        self._batch = self._lib.llama_batch_init(_MOST_AT_ONCE, 0, 1)
        self._lengths = [0] * rows

    def feed(self, ids_of: dict[int, Sequence[int]]) -> list[int]:
        """Append ids to rows, and return the greedy id after each row, in the order given."""
        waiting = dict(ids_of)
        found: dict[int, int] = {}
        while waiting:
            asked = self._fill(waiting)
            code = self._lib.llama_decode(self._context, self._batch)
            if code:
                raise RuntimeError(f"llama_decode: {code}")
            for place, row in asked:
                address = self._lib.llama_get_logits_ith(self._context, place)
                logits = self._numpy.ctypeslib.as_array(address, shape=(self._vocab_size,))
                found[row] = int(logits.argmax())
        return [found[row] for row in ids_of]

    def _fill(self, waiting: dict[int, Sequence[int]]) -> list[tuple[int, int]]:
        """Put as many whole rows as fit into the batch; return the last place of each, and it."""
        batch, place, asked = self._batch, 0, []
        for row in list(waiting):
            if place + len(waiting[row]) > _MOST_AT_ONCE:
                break
            for token_id in waiting.pop(row):
                batch.token[place] = token_id
                batch.pos[place] = self._lengths[row]
                batch.n_seq_id[place] = 1
                batch.seq_id[place][0] = row
                batch.logits[place] = False
                self._lengths[row] += 1
                place += 1
            batch.logits[place - 1] = True
            asked.append((place - 1, row))
        batch.n_tokens = place
        return asked

    def forget(self, row: int) -> None:
        """Empty a row."""
        self._lib.llama_memory_seq_rm(self._memory, row, -1, -1)
        self._lengths[row] = 0

    def close(self) -> None:
        """Give the memory back."""
        self._lib.llama_batch_free(self._batch)
        self._lib.llama_free(self._context)
