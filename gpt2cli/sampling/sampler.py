"""The sampler: processors, then greedy, or warpers and one draw; vectorised over rows.

Processors come in Hugging Face's order: logit bias → repetition penalty → frequency and presence
penalty, which are vLLM's and follow there too → what is forbidden. In what order things are
forbidden makes no difference: n-grams, banned texts, an early end of text.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpt2cli.errors import ModelError, PromptError
from gpt2cli.sampling.logprobs import BAD_LOGITS
from gpt2cli.sampling.processors import (
    add_bias,
    forbid,
    penalise_occurrences,
    penalise_repetition,
)
from gpt2cli.sampling.row import Row
from gpt2cli.sampling.warpers import draw, warp

Logits = NDArray[np.float32]


class Sampler:
    """Chooses the next id of each row; stateless, all history is in the rows."""

    def __init__(self, missing_ids: Iterable[range] = ()) -> None:
        """`missing_ids`: ids that can never be drawn since no text belongs to them."""
        self._missing = np.array([i for ids in missing_ids for i in ids], np.int64)

    def step(self, logits: Logits, rows: Sequence[Row]) -> list[int]:
        """Return one id per row of [n, V] logits and append it to the row.

        If it raises, no row has changed: each may be tried again by itself.

        Raises:
            PromptError: if the options of a row forbid every id.
            ModelError: if the logits of a row hold NaN or leave nothing to choose.
        """
        processed = self.process(logits, rows)
        # The lower id of equals; a NaN if there is one.
        chosen = [int(scores.argmax()) for scores in processed]
        for place, scores in enumerate(processed):
            if not np.isfinite(scores[chosen[place]]):
                raise explain(self._leave_out_missing(logits[place]))
        drawing = [place for place, row in enumerate(rows) if row.config.draws]
        for warping in dict.fromkeys(rows[place].warping for place in drawing):
            places = [place for place in drawing if rows[place].warping == warping]
            group = np.stack([processed[place] for place in places])  # [g, V]
            for place, token_id in zip(
                places, _draw(group, [rows[i] for i in places]), strict=True
            ):
                chosen[place] = token_id
        for row, token_id in zip(rows, chosen, strict=True):
            row.append(token_id)
        return chosen

    def process(self, logits: Logits, rows: Sequence[Row]) -> list[Logits]:
        """Apply the processors to [n, V] logits: n of [V], minus infinity for what cannot be."""
        return [
            process(self._leave_out_missing(scores), row)
            for scores, row in zip(logits, rows, strict=True)
        ]

    def _leave_out_missing(self, logits: Logits) -> Logits:
        return forbid(logits, self._missing) if len(self._missing) else logits


def process(logits: Logits, row: Row) -> Logits:
    """Apply the processors to [V] logits; returns them themselves where none is on."""
    config = row.config
    if row.biases is not None:
        logits = add_bias(logits, *row.biases)
    if config.repetition_penalty != 1:
        logits = penalise_repetition(logits, row.seen, config.repetition_penalty)
    if (config.frequency_penalty or config.presence_penalty) and row.counts:
        logits = penalise_occurrences(
            logits,
            row.counts,
            frequency=config.frequency_penalty,
            presence=config.presence_penalty,
        )
    forbidden = row.find_forbidden()
    return forbid(logits, *forbidden) if forbidden else logits


def _draw(group: Logits, rows: Sequence[Row]) -> list[int]:
    """Draw for rows of one warping: [g, V] -> [g]."""
    uniforms = np.array([row.uniform() for row in rows])
    return [int(i) for i in draw(warp(group, rows[0].config), uniforms)]


def explain(logits: Logits) -> PromptError | ModelError:
    """Say why nothing can be chosen; `logits` [V] are from before the processors."""
    if np.isfinite(logits.max()):  # of NaN and others: NaN
        return PromptError(
            "every token is forbidden here",
            "ask less of {ban}, {no_repeat_ngram}, {min_new_tokens}, {choice}, {regex} or "
            "{json_schema}",
        )
    return ModelError(BAD_LOGITS)
