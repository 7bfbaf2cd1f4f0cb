"""A beam search: the likeliest completions of one request, found side by side.

As Hugging Face's `_beam_search` (transformers 5.24, generation/utils.py) with `do_sample=False` and
`early_stopping=False`. A stop sequence ends a completion as EOS does.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpt2cli.errors import Gpt2Error, PromptError
from gpt2cli.generation.interfaces import Chunk, FinishReason
from gpt2cli.generation.requests import PreparedRequest
from gpt2cli.generation.sequence import TokenSequence
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer

Logits = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Beam:
    """An unfinished completion: its text, and the sum of its log-probabilities."""

    sequence: TokenSequence
    text: str = ""
    total: float = 0.0


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A completion that has ended, and its score."""

    beam: Beam
    score: float


class BeamSearch:
    """The search of one request: decides which beam continues which; the loop moves slots."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        prepared: PreparedRequest,
        limit: int,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with the prompt as the only beam; `limit` is the model's `n_positions`."""
        request = prepared.request
        self.index = request.index
        self._config = request.search
        self._wanted = request.samples
        ends = 0 if request.generation.ignore_eos else len(tokenizer.eos_token_ids)
        # Even if every beam ends with every EOS id, as many others are left to continue.
        self._candidates = max(2, 1 + ends) * request.search.beams
        self._length = 0  # tokens of each beam
        # Those that go on, best first.
        self._beams = [Beam(TokenSequence(tokenizer, prepared, 0, limit, clock=clock))]
        self.hypotheses: list[Hypothesis] = []  # found so far, best first, as many as beams at most
        if self._beams[0].sequence.finished:  # the limits allow no token
            self._end_all()

    @property
    def beams(self) -> int:
        """How many slots it may need."""
        return self._config.beams

    @property
    def ended(self) -> bool:
        """Whether the search is over."""
        return not self._beams

    @property
    def sequences(self) -> Sequence[TokenSequence]:
        """The completions that go on, one for each slot; none when the search is over."""
        return [beam.sequence for beam in self._beams]

    def step(self, sampler: Sampler, logits: Logits) -> list[int]:
        """Go on by a token; `logits` [n, V] are those after each of `sequences`.

        Returns for each of the new `sequences` the index of the one that it continues.

        Raises:
            ModelError: if the logits hold NaN or infinities.
        """
        histories = [beam.sequence.history for beam in self._beams]
        totals = [beam.total for beam in self._beams]
        found = sampler.find_continuations(logits, histories, totals, count=self._candidates)
        if not found and not self.hypotheses:
            self._fail(sampler.explain(logits[0]))
        self._length += 1
        going_on: list[tuple[Beam, int]] = []
        for rank, continuation in enumerate(found):
            in_front = rank < self._config.beams  # the others are there to go on only
            if not in_front and len(going_on) == self._config.beams:
                break
            parent = self._beams[continuation.parent]
            sequence = parent.sequence.fork()
            text = sequence.take(continuation.token_id, logits[continuation.parent])
            beam = Beam(sequence, parent.text + text, continuation.total)
            if not sequence.finished:
                going_on.append((beam, continuation.parent))
            elif in_front:
                self._add(beam)
        self._beams = [beam for beam, _ in going_on]
        if self._is_over():
            self._beams = []
        return [index for _, index in going_on][: len(self._beams)]

    def finish(self) -> Iterator[Chunk]:
        """Yield the best completions, each whole; an error for each that there is not."""
        yield from self._show_found()
        for number in range(len(self.hypotheses), self._wanted):
            sequence = self.hypotheses[0].beam.sequence.fork()
            found = len(self.hypotheses)
            fault = f"the options allow {found} completions here, not {self._wanted}"
            sequence.fail(PromptError(fault, "lower {samples}"))
            yield replace(sequence.chunk(""), sample=number)

    def interrupt(self) -> Iterator[Chunk]:
        """Yield the best that there is by now, ended or not."""
        if not self._length:  # it has not begun
            self._beams[0].sequence.interrupt()
            self._end_all()
        for beam in self._beams:
            self._add(replace(beam, text=beam.text + beam.sequence.interrupt()))
        for chunk in self._show_found():
            if chunk.finish is not None:
                yield replace(chunk, finish=replace(chunk.finish, reason=FinishReason.INTERRUPTED))

    def _show_found(self) -> Iterator[Chunk]:
        for number, hypothesis in enumerate(self.hypotheses[: self._wanted]):
            yield replace(hypothesis.beam.sequence.chunk(hypothesis.beam.text), sample=number)

    def _fail(self, error: Gpt2Error) -> None:
        """End with the error as each of the completions."""
        self._beams[0].sequence.fail(error)
        self._end_all()

    def _end_all(self) -> None:
        """Let each completion end as the first beam has."""
        self.hypotheses = [Hypothesis(self._beams[0], 0.0)] * self._wanted
        self._beams = []

    def _add(self, beam: Beam) -> None:
        """Keep a completion if it is among the best: as many as beams, the first of equals."""
        ranked = sorted(
            [*self.hypotheses, Hypothesis(beam, self._rate(beam))], key=lambda h: -h.score
        )
        self.hypotheses = ranked[: self._config.beams]

    def _is_over(self) -> bool:
        """Tell whether no beam is likely to become better than the completions found."""
        if len(self.hypotheses) < self._config.beams or not self._beams:
            return not self._beams
        return self._rate(self._beams[0]) <= self.hypotheses[-1].score

    def _rate(self, beam: Beam) -> float:
        """Return the score of a beam; EOS counts as one of its tokens."""
        return beam.total / self._length**self._config.length_penalty
