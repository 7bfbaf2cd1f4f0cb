"""Speculative decoding: when a draft is asked, for how much, and whether that pays.

A draft proposes ids, and the model verifies several of them in one call. The text is that of a run
without a draft, bit for bit: the logits at each position are those of single steps, and what is
drawn there is drawn as ever, with that position's own random number. A draft only decides how many
positions one call computes. So it may be wrong, or of another precision, and may rest at any time.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from gpt2cli.errors import Gpt2Error
from gpt2cli.generation.drafts import Draft
from gpt2cli.generation.interfaces import LogitsEngine
from gpt2cli.generation.sequence import TokenSequence

_FIRST_COUNT: Final = 4  # proposed ids, before anything is known
_KEPT: Final = 0.9  # of an average's weight, when the next measurement comes
_KEPT_LONGER: Final = 0.97  # of what calls have gained, which varies most
_PLAIN_STEPS: Final = 2  # measured before the first draft; the first one binds memory
_TRIAL: Final = 8  # verified calls, after which a draft that does not pay rests
_LOSS: Final = 1.03  # times as long as plain steps is borne, since measurements vary
_FIRST_REST: Final = 32  # tokens; each further rest is twice as long
_LONGEST_REST: Final = 1024
_PLAIN_EVERY: Final = 32  # calls: one plain step then tells what it costs now


@dataclass(slots=True)
class DraftCounts:
    """What drafting has done so far, for statistics; times in seconds."""

    calls: int = 0  # that verified something
    tokens: int = 0  # drawn by these calls
    proposed: int = 0
    accepted: int = 0
    draft_seconds: float = 0.0
    rested: int = 0  # tokens drawn by plain steps, since a draft did not pay


@dataclass(slots=True)
class _Average:
    """An average in which what was measured long ago counts for less."""

    kept: float = _KEPT
    total: float = 0.0
    weight: float = 0.0

    def add(self, value: float, weight: float = 1.0) -> None:
        self.total = self.kept * self.total + value
        self.weight = self.kept * self.weight + weight

    @property
    def value(self) -> float:
        return self.total / self.weight if self.weight else 0.0


@dataclass(slots=True)
class Drafting:
    """Asks a draft for as many ids as pay, by what it has measured, and lets it rest otherwise.

    `engine` is the loop's own. `open_draft` is called on a thread once the first token is there, so
    that this is not later; of a draft that cannot be opened `tell` says why there is none.
    """

    engine: LogitsEngine
    open_draft: Callable[[], Draft]
    fixed: int | None = None  # how many ids to propose, if the user says so
    tell: Callable[[str], object] = lambda text: None
    clock: Callable[[], float] = time.perf_counter
    counts: DraftCounts = field(default_factory=DraftCounts)
    _opening: Future[Draft] | None = None
    _asked: TokenSequence | None = None  # of whom the draft has read the prompt
    _plain: _Average = field(default_factory=_Average)  # seconds of a plain step
    _plain_steps: int = 0  # since the last call that verified
    _drafted: _Average = field(default_factory=_Average)  # seconds for each proposed id
    _verified: dict[int, _Average] = field(default_factory=dict)  # seconds of a call, by its ids
    _accepted: _Average = field(default_factory=_Average)  # share of the ids that were compared
    _gained: _Average = field(default_factory=lambda: _Average(_KEPT_LONGER))  # seconds for a token
    _trial: int = 0  # calls since the last rest
    _resting: int = 0  # tokens left
    _rest: int = _FIRST_REST
    _spent: float = 0.0  # seconds of the last proposal

    @property
    def _most(self) -> int:
        """The most ids that one call verifies, beside the last one that was drawn."""
        return self.engine.most_steps - 1

    def propose(self, sequence: TokenSequence) -> list[int]:
        """Return ids for the next call to verify; none: take a plain step."""
        draft = self._find_draft()
        most = min(self._most, sequence.room - 1)
        if draft is None or most < 1 or self._needs_plain_step():
            return []
        count = min(most, self.fixed or self._choose_count())
        started = self.clock()
        proposed = draft.propose(sequence, count)
        self._spent = self.clock() - started
        self.counts.draft_seconds += self._spent
        self.counts.proposed += len(proposed)
        return proposed

    def note_plain(self, seconds: float) -> None:
        """Take note of a plain step of one sequence."""
        if self._opening is not None and self._opening.done():  # else opening slows it down
            self._plain.add(seconds)
            self._plain_steps += 1

    def note_verified(
        self, sequence: TokenSequence, proposed: int, accepted: int, seconds: float
    ) -> None:
        """Take note of a call that verified `proposed` ids and drew `accepted` of them, and one."""
        self.counts.calls += 1
        self.counts.accepted += accepted
        self.counts.tokens += accepted + 1
        self._plain_steps = 0
        self._verified.setdefault(proposed, _Average()).add(seconds)
        self._accepted.add(accepted, min(accepted + 1, proposed))
        if self._asked is not sequence:  # the draft has read its prompt, which is no usual cost
            self._asked = sequence
            return
        self._drafted.add(self._spent, proposed)
        self._gained.add(seconds + self._spent, accepted + 1)
        self._trial += 1
        if self._trial >= _TRIAL:
            self._judge()

    def _judge(self) -> None:
        """Let the draft rest if plain steps are faster, longer each time."""
        if self._gained.value <= _LOSS * self._plain.value:
            self._rest = _FIRST_REST
            return
        self._resting, self._rest = self._rest, min(2 * self._rest, _LONGEST_REST)
        self._trial = 0
        self._gained = _Average(_KEPT_LONGER)

    def _needs_plain_step(self) -> bool:
        if self._resting:
            self._resting -= 1
            self.counts.rested += 1
            return True
        if self._plain.weight == 0:
            return True
        return self.counts.calls % _PLAIN_EVERY == 0 and self._plain_steps < _PLAIN_STEPS

    def _choose_count(self) -> int:
        """Return how many ids to propose so that the most tokens a second are to be expected."""
        if not self._verified:
            return _FIRST_COUNT
        share = min(self._accepted.value, 0.99)

        def rate(count: int) -> float:
            tokens = (1 - share ** (count + 1)) / (1 - share)
            nearest = min(self._verified, key=lambda known: abs(known - count))
            seconds = count * self._drafted.value + self._verified[nearest].value
            return tokens / max(seconds, 1e-9)

        return max(range(1, self._most + 1), key=rate)

    def _find_draft(self) -> Draft | None:
        """Return the draft once it is there."""
        if self._opening is None:
            executor = ThreadPoolExecutor(max_workers=1)
            self._opening = executor.submit(self.open_draft)
            executor.shutdown(wait=False)  # when it is done
        try:
            return self._opening.result() if self._opening.done() else None
        except Gpt2Error as error:
            self.tell(f"going on without a draft: {error}")
            self._opening = Future()  # never done
            return None
