"""The sampler: processors, then greedy, or warpers and one draw; vectorised over rows."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpt2cli.errors import ModelError
from gpt2cli.sampling.config import SamplingConfig
from gpt2cli.sampling.processors import forbid, penalise_repetition
from gpt2cli.sampling.stream import RandomStream
from gpt2cli.sampling.warpers import draw, warp

Logits = NDArray[np.float32]


class Row:
    """One sample's side of sampling: its options, its random stream and the ids so far."""

    def __init__(
        self, config: SamplingConfig, *, seed: int, sample: int, prompt_ids: Sequence[int]
    ) -> None:
        self.config = config
        self._stream = RandomStream(seed, sample)
        self._step = 0
        self._seen = dict.fromkeys(prompt_ids)  # an ordered set

    @property
    def seen(self) -> Sequence[int]:
        """The different ids of prompt and completion."""
        return tuple(self._seen)

    def uniform(self) -> float:
        """Return this step's random number."""
        return self._stream.uniform(self._step)

    def append(self, token_id: int) -> None:
        """Take note of the chosen id; the next step begins."""
        self._seen[token_id] = None
        self._step += 1


class Sampler:
    """Chooses the next id of each row; stateless, all history is in the rows."""

    def __init__(self, missing_ids: Iterable[range] = ()) -> None:
        """`missing_ids`: ids that can never be drawn since no text belongs to them."""
        self._missing = np.array([i for ids in missing_ids for i in ids], np.int64)

    def step(self, logits: Logits, rows: Sequence[Row]) -> list[int]:
        """Return one id per row of [n, V] logits and append it to the row.

        Raises:
            ModelError: if the logits of a row hold NaN or leave nothing to choose.
        """
        processed = [self._process(logits[i], row) for i, row in enumerate(rows)]  # [V] each
        chosen = [0] * len(rows)
        for config in dict.fromkeys(row.config for row in rows):  # rows of one kind together
            places = [i for i, row in enumerate(rows) if row.config == config]
            group = np.stack([processed[i] for i in places])  # [g, V]
            for place, token_id in zip(places, _choose(group, rows, places), strict=True):
                chosen[place] = token_id
        for row, token_id in zip(rows, chosen, strict=True):
            row.append(token_id)
        return chosen

    def _process(self, logits: Logits, row: Row) -> Logits:
        """Apply the processors to one row; returns the row itself where none is on."""
        if len(self._missing):
            logits = forbid(logits, self._missing)
        if row.config.repetition_penalty != 1:
            logits = penalise_repetition(logits, row.seen, row.config.repetition_penalty)
        return logits


def _choose(group: Logits, rows: Sequence[Row], places: Sequence[int]) -> list[int]:
    """Choose for rows of one SamplingConfig: [g, V] -> [g]."""
    config = rows[places[0]].config
    best = group.argmax(axis=1)  # the lower id of equals; a NaN if there is one
    if not np.isfinite(group[np.arange(len(group)), best]).all():
        raise ModelError("the model computed logits that are NaN or infinite: its weights are bad")
    if config.greedy:
        return [int(i) for i in best]
    uniforms = np.array([rows[place].uniform() for place in places])
    return [int(i) for i in draw(warp(group, config), uniforms)]
