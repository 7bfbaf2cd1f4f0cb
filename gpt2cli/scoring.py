"""Scores texts: the log-probability of each token, and the perplexity.

Long texts are cut into windows as in Hugging Face's guide to perplexity (transformers
`docs/source/en/perplexity.md`): a window has `n_positions` tokens, begins `stride` tokens after the
one before, and only its new tokens are scored.
"""

import math
from array import array
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Protocol

from gpt2cli.errors import UsageError
from gpt2cli.generation.interfaces import Logits, LogitsEngine
from gpt2cli.sampling.logprobs import Alternative, TokenLogprob, find_logprobs

# Positions whose logits are made at once: 13 MB of a GPT-2, twice that in float64. 124M on two
# cores scores 1,023 tokens in 3.0 s with 16, 1.9 s with 64 and 1.8 s with 256.
_CHUNK: Final = 64
# Texts that are read in one call have at most so many ids each, and so many in all. 64 sentences of
# 16 tokens on two cores, 124M in fp32 (int8): 1.3 to 1.7 (1.5) times as fast as one by one with 64
# in all, 1.5 to 1.8 (1.7) with 128, 1.4 to 1.7 (1.7) with 256. The logits of 128 take 26 MB.
_LONGEST_TOGETHER: Final = 64
_MOST_TOGETHER: Final = 128
_COMPANY: Final = 2  # texts that make a group worth a call of its own


@dataclass(slots=True)
class Totals:
    """The sums of a text's scores so far."""

    scored_tokens: int = 0
    total_logprob: float = 0.0

    def add(self, scores: Sequence[TokenLogprob]) -> None:
        """Count these scores in."""
        logprobs = [score.logprob for score in scores if score.logprob is not None]
        self.scored_tokens += len(logprobs)
        self.total_logprob += sum(logprobs)

    @property
    def perplexity(self) -> float | None:
        """The perplexity: infinite where no float holds it, None where no token has a score."""
        if not self.scored_tokens:
            return None
        try:
            return math.exp(-self.total_logprob / self.scored_tokens)
        except OverflowError:
            return math.inf


class CompactScores:
    """Scores of a whole text in twelve bytes for each token and alternative; objects take hundreds.

    A record has the totals before the tokens, so all scores are kept until the end.
    """

    def __init__(self) -> None:
        self._ids = array("I")  # of a token, then of its alternatives
        self._logprobs = array("d")  # NaN: none
        self._sizes = array("I")  # how many of these belong to each token

    def add(self, score: TokenLogprob) -> None:
        """Keep one more."""
        self._sizes.append(1 + len(score.alternatives))
        self._ids.append(score.token_id)
        self._logprobs.append(math.nan if score.logprob is None else score.logprob)
        for other in score.alternatives:
            self._ids.append(other.token_id)
            self._logprobs.append(other.logprob)

    def __iter__(self) -> Iterator[TokenLogprob]:
        index = 0
        for size in self._sizes:
            alternatives = [
                Alternative(self._ids[i], self._logprobs[i]) for i in range(index + 1, index + size)
            ]
            logprob = self._logprobs[index]
            yield TokenLogprob(
                self._ids[index], None if math.isnan(logprob) else logprob, tuple(alternatives)
            )
            index += size


def choose_stride(asked: int | None, n_positions: int) -> int:
    """Return the stride for a model; half of its context where none is asked for.

    Raises:
        UsageError: if it is as long as a window: a window's first token would have no context.
    """
    stride = max(1, n_positions // 2) if asked is None else asked
    if stride >= n_positions:
        expected = f"1 to {n_positions - 1}, less than the model's context"
        raise UsageError(option="stride", expected=expected, found=stride)
    return stride


def _find_windows(length: int, *, size: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Yield where a sequence's windows begin, where their scored tokens begin, and where they end.

    Its first token is context alone. 1 ≤ stride < size.
    """
    begin, scored = 0, 1
    while scored < length:
        end = min(begin + size, length)
        yield begin, scored, end
        begin, scored = begin + stride, end


def score(
    engine: LogitsEngine,
    ids: Sequence[int],
    *,
    bos_token_id: int | None,
    stride: int,
    top: int = 0,
    slot: int = 0,
) -> Generator[list[TokenLogprob], None, None]:
    """Yield the scores of a text's tokens, in order, some at a time.

    `slot`: the engine's next free one. The text stands after BOS; if the model has none, its first
    token has no score. The logits of 64 positions at most are in memory at once. Closing the
    iterator stops all work.

    Raises:
        ModelError: if the logits hold NaN or infinities.
    """
    sequence = array("I", ids if bos_token_id is None else chain([bos_token_id], ids))
    if bos_token_id is None and ids:
        yield [TokenLogprob(ids[0], None)]
    for window in _find_windows(len(sequence), size=engine.shape.n_positions, stride=stride):
        yield from _score_window(engine, sequence, window, top, slot)


def _score_window(
    engine: LogitsEngine,
    sequence: Sequence[int],
    window: tuple[int, int, int],
    top: int,
    slot: int,
) -> Iterator[list[TokenLogprob]]:
    """Feed a window piece by piece, the first one with all of the context."""
    fed, scored, end = window
    try:
        for first in range(scored, end, _CHUNK):
            targets = list(sequence[first : min(first + _CHUNK, end)])  # K of them
            # The token before a target is the last that is fed for it; the window's last never is.
            piece = sequence[fed : first + len(targets) - 1]
            positions = range(len(piece) - len(targets), len(piece))
            logits = engine.extend(slot, piece, positions)  # [K, V]
            fed += len(piece)
            yield find_logprobs(logits, targets, top)
    finally:
        engine.free(slot)


class JoiningEngine(LogitsEngine, Protocol):
    """An engine that may read several texts in one call."""

    @property
    def reads_together(self) -> bool:
        """Whether each then has the bits that it has by itself."""
        ...

    def read_together(self, texts: Sequence[Sequence[int]]) -> list[Logits]:
        """Return the logits after every id of each text, [K, V]; no slot is active."""
        ...


def find_groups(engine: JoiningEngine, lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the indices of texts to score in one call; `lengths` are their numbers of ids.

    Texts of similar lengths are together, since all are read to the length of the longest. A long
    one, which keeps the cores busy by itself, is alone.
    """
    longest = min(_LONGEST_TOGETHER, engine.shape.n_positions - 1) if engine.reads_together else 0
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        length = lengths[index]
        if group and (length > longest or (len(group) + 1) * length > _MOST_TOGETHER):
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def score_each(
    engine: JoiningEngine,
    texts: Sequence[Sequence[int]],
    *,
    bos_token_id: int | None,
    stride: int,
    top: int = 0,
) -> Iterator[tuple[int, Generator[list[TokenLogprob], None, None]]]:
    """Yield the index of each text, and its scores as `score` yields them; short texts come first.

    Those of a group are computed in one call. No slot is active, before and after, as long as the
    scores of a text are taken, or closed, before the next text is.

    Raises:
        ModelError: if the logits hold NaN or infinities.
    """
    bos = bos_token_id
    for group in find_groups(engine, [len(ids) for ids in texts]):
        some = [index for index in group if len(texts[index])]
        if bos is None or len(some) < _COMPANY:
            for index in group:
                ids = texts[index]
                yield index, score(engine, ids, bos_token_id=bos, stride=stride, top=top)
            continue
        yield from ((index, _give([])) for index in group if not len(texts[index]))
        read = engine.read_together([[bos, *texts[index][:-1]] for index in some])
        for index, logits in zip(some, read, strict=True):
            yield index, _give([find_logprobs(logits, texts[index], top)])


def _give(parts: list[list[TokenLogprob]]) -> Generator[list[TokenLogprob], None, None]:
    yield from parts
