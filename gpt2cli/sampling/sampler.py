"""The sampler: processors, then greedy, or warpers and one draw; vectorised over rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpt2cli.errors import ModelError, PromptError
from gpt2cli.sampling.history import History
from gpt2cli.sampling.logprobs import BAD_LOGITS, find_logsumexps
from gpt2cli.sampling.processors import apply_masks, process
from gpt2cli.sampling.warpers import draw, find_best, warp

Logits = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Continuation:
    """A beam with one more token."""

    parent: int  # the index of the beam
    token_id: int
    total: float  # the sum of its log-probabilities


class Sampler:
    """Chooses what comes next; stateless, and changes nothing in a history."""

    def __init__(self, missing_ids: Iterable[range] = ()) -> None:
        """`missing_ids`: ids that can never be drawn since no text belongs to them."""
        self._missing = np.array([i for ids in missing_ids for i in ids], np.int64)

    def step(self, logits: Logits, histories: Sequence[History]) -> list[int]:
        """Return the next id of each sequence by its row of [n, V] logits.

        Raises:
            PromptError: if the options of one leave nothing to choose.
            ModelError: if the logits of one hold NaN or infinities.
        """
        chosen: list[int] = []
        processed: list[Logits] = []
        drawing: dict[Sequence[float], list[int]] = {}  # what the warpers go by -> rows
        for row, history in enumerate(histories):
            scores = self._process(logits[row], history)
            best = int(scores.argmax())  # the lower id of equals; a NaN if there is one
            if not np.isfinite(scores[best]):
                raise self.explain(logits[row])
            processed.append(scores)
            chosen.append(best)
            if history.warping is not None:
                drawing.setdefault(history.warping, []).append(row)
        for rows in drawing.values():
            group = np.stack([processed[row] for row in rows])  # [g, V]
            uniforms = np.array([histories[row].uniform() for row in rows])
            config = histories[rows[0]].config
            rolls = [histories[row].roll() for row in rows] if config.xtc_probability else ()
            ids = draw(warp(group, config, rolls), uniforms)
            for row, token_id in zip(rows, ids.tolist(), strict=True):
                chosen[row] = token_id
        return chosen

    def find_continuations(
        self, logits: Logits, beams: Sequence[History], totals: Sequence[float], *, count: int
    ) -> list[Continuation]:
        """Return the `count` best continuations of n beams by [n, V] logits, best first.

        As Hugging Face's `_beam_search` (transformers 5.24, generation/utils.py) without sampling:
        log-probabilities, to which the processors are applied, are added to the total of each beam.
        No warpers. Fewer where fewer are allowed; ties to the earlier beam, then to the lower id.

        Raises:
            ModelError: if the logits hold NaN or infinities.
        """
        logprobs = (logits - find_logsumexps(logits)[:, None]).astype(np.float32)  # [n, V]
        scores = np.stack([*map(self._process, logprobs, beams)])  # [n, V]
        ids = find_best(scores, min(count, scores.shape[1]))  # [n, c]
        sums = np.take_along_axis(scores, ids, axis=1) + np.array(totals, np.float64)[:, None]
        order = np.argsort(-sums, axis=None, kind="stable")[:count]  # of n · c
        return [
            Continuation(int(i) // ids.shape[1], int(ids.flat[i]), float(sums.flat[i]))
            for i in order
            if np.isfinite(sums.flat[i])
        ]

    def explain(self, logits: Logits) -> PromptError | ModelError:
        """Say why nothing can be chosen by [V] logits."""
        if np.isfinite(self._leave_out_missing(logits).max()):  # of NaN and others: NaN
            return PromptError(
                "every token is forbidden here",
                "relax {ban}, {no_repeat_ngram}, {min_new_tokens}, {choice}, {regex} or "
                "{json_schema}",
            )
        return ModelError(BAD_LOGITS)

    def _process(self, logits: Logits, history: History) -> Logits:
        """Apply the processors to [V] logits: minus infinity is for what cannot be."""
        return process(self._leave_out_missing(logits), history)

    def _leave_out_missing(self, logits: Logits) -> Logits:
        return apply_masks(logits, self._missing) if len(self._missing) else logits
