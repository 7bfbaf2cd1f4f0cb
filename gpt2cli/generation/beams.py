"""A beam search: one request's completions, searched for side by side.

As Hugging Face's `_beam_search` (transformers 5.24, generation/utils.py) with `do_sample=False` and
`early_stopping=False`. A stop sequence ends a completion as EOS does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpt2cli.errors import Gpt2Error, PromptError
from gpt2cli.generation.requests import Chunk, FinishReason, PreparedRequest
from gpt2cli.generation.sample import Sample
from gpt2cli.sampling import (
    Continuation,
    Sampler,
    explain,
    find_continuations,
    find_logprobs,
    rate,
)
from gpt2cli.tokenizer import Tokenizer

Logits = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Beam:
    """A completion as far as it has come: its text, and the sum of its log-probabilities."""

    sample: Sample
    text: str = ""
    total: float = 0.0


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A completion that has ended, and what it is worth."""

    beam: Beam
    score: float


class BeamSearch:
    """The search of one request: it says what continues what, its owner moves the slots."""

    def __init__(self, tokenizer: Tokenizer, prepared: PreparedRequest, limit: int) -> None:
        """Begin with the prompt as the only beam; `limit` is the model's `n_positions`."""
        request = prepared.request
        self._config = request.search
        self._wanted = request.samples
        ends = 0 if request.generation.ignore_eos else len(tokenizer.eos_token_ids)
        # Even if all beams end in each way that they can, there are as many others to go on with.
        self._candidates = max(2, 1 + ends) * request.search.beams
        self._length = 0  # tokens of each beam
        # Those that go on, best first.
        self._beams = [Beam(Sample(tokenizer, prepared, 0, limit))]
        self._hypotheses: list[Hypothesis] = []  # best first, as many as beams at most
        if self._beams[0].sample.finished:  # nothing is to be drawn at all
            self._end_all()

    @property
    def slots(self) -> int:
        """How many slots it may come to need."""
        return self._config.beams

    @property
    def ended(self) -> bool:
        """Whether the search is over."""
        return not self._beams

    @property
    def samples(self) -> Sequence[Sample]:
        """The completions that go on, one for each slot; none when the search is over."""
        return [beam.sample for beam in self._beams]

    @property
    def hypotheses(self) -> Sequence[Hypothesis]:
        """The completions found so far, best first."""
        return self._hypotheses

    def step(self, sampler: Sampler, logits: Logits) -> list[int]:
        """Go on by a token; `logits` [n, V] are those after each of `samples`.

        Returns for each of the new `samples` the place of the one that it continues.

        Raises:
            ModelError: if the logits hold NaN or infinities.
        """
        rows = [beam.sample.row for beam in self._beams]
        totals = [beam.total for beam in self._beams]
        found = find_continuations(sampler, logits, rows, totals, count=self._candidates)
        if not found and not self._hypotheses:
            self.fail(explain(logits[0]))
        self._length += 1
        going_on: list[tuple[Beam, int]] = []
        for rank, continuation in enumerate(found):
            in_front = rank < self._config.beams  # the others are there to go on only
            if not in_front and len(going_on) == self._config.beams:
                break
            beam = self._grow(continuation, logits)
            if not beam.sample.finished:
                going_on.append((beam, continuation.parent))
            elif in_front:
                self._add(beam)
        self._beams = [beam for beam, _ in going_on]
        if self._is_over():
            self._beams = []
        return [parent for _, parent in going_on][: len(self._beams)]

    def fail(self, error: Gpt2Error) -> None:
        """End with the error as each of the completions."""
        self._beams[0].sample.fail(error)
        self._end_all()

    def finish(self) -> Iterator[Chunk]:
        """Yield the best completions, each whole; an error for each that there is not."""
        yield from self._show_found()
        for number in range(len(self._hypotheses), self._wanted):
            sample = self._hypotheses[0].beam.sample.fork()
            found = len(self._hypotheses)
            fault = f"the options allow {found} completions here, not {self._wanted}"
            sample.fail(PromptError(fault, "lower {samples}"))
            yield replace(sample.chunk(""), sample=number)

    def interrupt(self) -> Iterator[Chunk]:
        """Yield the best that there is by now, ended or not."""
        for beam in self._beams:
            text = beam.text + beam.sample.interrupt()
            self._add(replace(beam, text=text))
        for chunk in self._show_found():
            if chunk.finish is not None:
                yield replace(chunk, finish=replace(chunk.finish, reason=FinishReason.INTERRUPTED))

    def _show_found(self) -> Iterator[Chunk]:
        for number, hypothesis in enumerate(self._hypotheses[: self._wanted]):
            chunk = hypothesis.beam.sample.chunk(hypothesis.beam.text)
            yield replace(chunk, sample=number)

    def _end_all(self) -> None:
        """Let each completion end as the first beam has."""
        self._hypotheses = [Hypothesis(self._beams[0], 0.0)] * self._wanted
        self._beams = []

    def _grow(self, continuation: Continuation, logits: Logits) -> Beam:
        parent, token_id = continuation.parent, continuation.token_id
        before = self._beams[parent]
        sample = before.sample.fork()
        sample.row.append(token_id)
        top = sample.wanted_logprobs
        logprob = None
        if top is not None:
            [logprob] = find_logprobs(logits[parent : parent + 1], [token_id], [top])
        return Beam(sample, before.text + sample.take(token_id, logprob), continuation.total)

    def _add(self, beam: Beam) -> None:
        """Keep a completion if it is among the best: as many as beams, the first of equals."""
        score = rate(self._config, beam.total, self._length)
        ranked = sorted([*self._hypotheses, Hypothesis(beam, score)], key=lambda h: -h.score)
        self._hypotheses = ranked[: self._config.beams]

    def _is_over(self) -> bool:
        """Tell whether no beam will become better than what is found, as far as one can guess."""
        if len(self._hypotheses) < self._config.beams or not self._beams:
            return not self._beams
        best = rate(self._config, self._beams[0].total, self._length)
        return best <= self._hypotheses[-1].score
