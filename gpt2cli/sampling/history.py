"""What sampling knows about a sequence: its options, its ids so far, and what may not follow."""

import copy
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gpt2cli.config import SamplingConfig
from gpt2cli.sampling.constraints import Constraint
from gpt2cli.sampling.healing import Healing
from gpt2cli.sampling.random import uniform
from gpt2cli.sampling.repeats import Breakers, Repeats
from gpt2cli.sampling.vocabulary import Ids, Vocabulary, unite
from gpt2cli.sampling.warpers import find_warping

LogitsMask = Ids | NDArray[np.bool_]  # some ids, or a mask over all: [V]


class BannedTexts:
    """Texts that are never to appear, whatever the tokens that spell them: it works on bytes.

    A text that stands in the prompt already may stay there; what the completion adds to the
    prompt's end counts.
    """

    def __init__(self, texts: Iterable[bytes], vocabulary: Vocabulary) -> None:
        """Look up what each of `texts`, none of them empty, means for the tokens."""
        texts = tuple(texts)
        self._texts = texts
        self._pieces = vocabulary.pieces
        whole: list[Ids] = []
        after: dict[bytes, list[Ids]] = {}  # a beginning -> ids that complete a text after it
        longest = 0
        for text in texts:
            whole.append(vocabulary.holding(text))
            longest = max(longest, len(text))
            for cut in range(max(1, len(text) - vocabulary.longest), len(text)):
                ids = vocabulary.beginning_with(text[cut:])
                if len(ids):
                    after.setdefault(text[:cut], []).append(ids)
        self._whole = unite(whole)
        self._after = {beginning: unite(ids) for beginning, ids in after.items()}
        self._lengths = sorted({len(beginning) for beginning in self._after})
        self._reach = max(1, longest - 1)

    def extend(self, tail: bytes, ids: Iterable[int]) -> bytes:
        """Return the end of a text after these ids: as much of it as a ban can reach back."""
        return (tail + b"".join(self._pieces[i] for i in ids))[-self._reach :]

    def find_mask(self, tail: bytes) -> Sequence[Ids]:
        """Return the ids that would complete a text: just those, in one array or more.

        `tail`: what `extend` returned for the ids so far.
        """
        ends = (tail[-length:] for length in self._lengths)
        found = [self._after[end] for end in ends if end in self._after]
        return [self._whole, *found] if len(self._whole) else found

    def find_healed_mask(self, tail: bytes, healing: Healing) -> Ids:
        """Return the ids that cover the rest of a prompt and complete a text after it."""
        masked = np.intersect1d(unite(self.find_mask(tail)), healing.covers)
        given = len(tail) + len(healing.rest)
        banned = [i for i in masked.tolist() if self._adds_text(tail + self._pieces[i], given)]
        return np.array(banned, np.int64)

    def _adds_text(self, text: bytes, given: int) -> bool:
        """Tell whether one of the banned texts ends after the first `given` bytes."""
        return any(text.find(ban, max(0, given - len(ban) + 1)) >= 0 for ban in self._texts)


class NGrams:
    """The n-grams of a text so far, by what they begin with.

    Hugging Face's NoRepeatNGramLogitsProcessor, in a time that does not grow with the text.
    """

    def __init__(self, size: int, ids: Iterable[int]) -> None:
        """Begin with a text of `ids`; `size`: of the n-grams, 1 or more."""
        self._size = size
        self._ids: list[int] = []
        self._followers: dict[tuple[int, ...], list[int]] = {}  # of the first n - 1 ids
        for token_id in ids:
            self.append(token_id)

    def fork(self) -> "NGrams":
        """Return an independent copy."""
        ngrams = copy.copy(self)
        ngrams._ids = list(self._ids)
        ngrams._followers = {beginning: list(ids) for beginning, ids in self._followers.items()}
        return ngrams

    def append(self, token_id: int) -> None:
        """Accept the next id."""
        if len(self._ids) >= self._size - 1:
            self._followers.setdefault(self._beginning(), []).append(token_id)
        self._ids.append(token_id)

    def find_mask(self) -> Ids:
        """Return the ids that would repeat an earlier n-gram."""
        if len(self._ids) < self._size:
            return np.empty(0, np.int64)
        return np.array(self._followers.get(self._beginning(), ()), np.int64)

    def _beginning(self) -> tuple[int, ...]:
        """Return the last n - 1 ids."""
        return tuple(self._ids[len(self._ids) - self._size + 1 :])


class History:
    """One sequence as the sampler sees it. The sampler changes nothing in it; `append` does."""

    def __init__(
        self,
        config: SamplingConfig,
        *,
        seed: int,
        sample: int = 0,
        prompt_ids: Sequence[int] = (),
        biases: Sequence[tuple[int, float]] = (),
        bans: BannedTexts | None = None,
        breakers: Breakers | None = None,
        constraint: Constraint | None = None,
        healing: Healing | None = None,
        eos_ids: Iterable[int] = (),
        stop_ids: Iterable[int] = (),
        ignore_eos: bool = False,
        min_new_tokens: int = 0,
    ) -> None:
        """`biases`: what `config.logit_bias` comes to: different ids, each with its own.

        `breakers`: with DRY only. `eos_ids`: masked before `min_new_tokens`, and with a constraint
        until that is met, or always if they are ignored. `stop_ids`: masked before that number.
        """
        self.config = config
        # Here once, and not at each step; None: nothing is drawn, the best id is taken.
        self.warping = find_warping(config) if config.draws else None
        self.biases = _as_arrays(biases) if biases else None
        self._seed = seed
        self._sample = sample
        self._drawn = 0
        last = config.repeat_last_n
        # The ids that the penalties look at, and whether each was drawn; None: they look at all.
        self._recent = None if last < 0 else deque(((i, False) for i in prompt_ids), maxlen=last)
        self._seen = dict.fromkeys(prompt_ids)  # the ids of prompt and completion, in order
        self._counts: dict[int, int] = {}  # how often each id is in the completion
        size = config.no_repeat_ngram
        self._ngrams = NGrams(size, prompt_ids) if size else None
        self.breakers = breakers
        self._repeats = None if breakers is None else Repeats(breakers, prompt_ids)
        self._bans = bans
        self._tail = b"" if bans is None else bans.extend(b"", prompt_ids)
        self._constraint = None if constraint is None else constraint.fork()
        # What must be drawn before the completion begins; None: nothing, or no more.
        self.healing = None if healing is None else healing.fork()
        self._eos_ids = np.array(sorted(eos_ids), np.int64)
        self._stop_ids = np.array(sorted(stop_ids), np.int64)
        self._ignore_eos = ignore_eos
        self._min_new_tokens = min_new_tokens

    def fork(self) -> "History":
        """Return an independent copy."""
        history = copy.copy(self)
        history._recent = copy.copy(self._recent)
        history._seen = dict(self._seen)
        history._counts = dict(self._counts)
        history._ngrams = self._ngrams and self._ngrams.fork()
        history._repeats = self._repeats and self._repeats.fork()
        history._constraint = self._constraint and self._constraint.fork()
        history.healing = self.healing and self.healing.fork()
        return history

    @property
    def complete(self) -> bool:
        """Whether a constraint is met and nothing may follow."""
        return self._constraint is not None and self._constraint.complete

    @property
    def seen(self) -> Collection[int]:
        """The different ids of prompt and completion, as far as the penalties look back."""
        return self._seen if self._recent is None else {token_id for token_id, _ in self._recent}

    @property
    def counts(self) -> Mapping[int, int]:
        """How often each id is in the completion, as far as the penalties look back."""
        if self._recent is None:
            return self._counts
        return Counter(token_id for token_id, drawn in self._recent if drawn)

    def find_repeats(self) -> Mapping[int, int]:
        """Return the ids that would go on with a repetition, and how long it is."""
        if self._repeats is None:
            return {}
        return self._repeats.find(self.config.dry_allowed_length, self.config.repeat_last_n)

    def uniform(self) -> float:
        """Return the next step's random number."""
        return uniform(self._seed, self._sample, self._drawn)

    def roll(self) -> float:
        """Return the next step's other random number, which says whether XTC is at work."""
        return uniform(self._seed, self._sample, self._drawn, 1)

    def append(self, token_id: int) -> None:
        """Take note of a drawn id.

        Raises:
            PromptError: if a constraint cannot be followed any further.
        """
        if self._recent is None:
            self._seen[token_id] = None
            self._counts[token_id] = self._counts.get(token_id, 0) + 1
        else:
            self._recent.append((token_id, True))
        self._drawn += 1
        if self._ngrams is not None:
            self._ngrams.append(token_id)
        if self._repeats is not None:
            self._repeats.append(token_id)
        if self._bans is not None:
            self._tail = self._bans.extend(self._tail, [token_id])
        if self._constraint is not None:
            self._constraint.append(token_id)
        if self.healing is not None:
            self.healing.append(token_id)
            self.healing = self.healing if self.healing.is_open else None

    def find_masks(self) -> Sequence[LogitsMask]:
        """Return what may not be drawn next; nothing where everything may.

        Raises:
            PromptError: if a constraint cannot be followed any further.
        """
        masks: list[LogitsMask] = []
        if self._ngrams is not None:
            repeating = self._ngrams.find_mask()
            # What a prompt has may stay there, also if it is drawn again.
            masks.append(repeating[repeating != self.healing.own_id] if self.healing else repeating)
        if self._bans is not None and self.healing is not None:
            masks.append(self._bans.find_healed_mask(self._tail, self.healing))
        elif self._bans is not None:
            masks += self._bans.find_mask(self._tail)
        if self._constraint is not None:
            mask = self._constraint.find_mask()  # [V]
            mask[self._eos_ids] = self._ignore_eos or not self._constraint.satisfied
            masks.append(mask)
        if self._drawn < self._min_new_tokens:
            masks += [self._eos_ids, self._stop_ids]
        return masks


def _as_arrays(biases: Sequence[tuple[int, float]]) -> tuple[Ids, NDArray[np.float32]]:
    ids, values = zip(*biases, strict=True)
    return np.array(ids, np.int64), np.array(values, np.float32)
