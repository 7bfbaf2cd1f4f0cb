"""DRY: what would go on with a repetition, however long, is made less likely the longer it is.

By p-e-w (oobabooga/text-generation-webui, pull request 5677), as in llama.cpp's
llama_sampler_dry_apply. One difference: sequence breakers are found however they are split into
tokens, not only as the tokenizer splits them.
"""

from collections.abc import Iterable, Mapping
from copy import copy

from gpt2cli.sampling.vocabulary import Vocabulary, unite


class Breakers:
    """Texts that no repetition reaches across: it works on bytes."""

    def __init__(self, texts: Iterable[bytes], vocabulary: Vocabulary) -> None:
        """`texts`: none of them empty."""
        self._texts = list(texts)
        self._pieces = vocabulary.pieces
        self._reach = max(map(len, self._texts), default=1) - 1
        self.ids = unite(map(vocabulary.holding, self._texts))  # that hold one: never penalised

    def extend(self, tail: bytes, token_id: int) -> tuple[bytes, bool]:
        """Return the end of a text after an id, and whether a breaker ends in that one's bytes.

        `tail`: what this returned for the ids so far.
        """
        text = tail + self._pieces[token_id]
        ends = any(text.find(one, max(0, len(tail) - len(one) + 1)) >= 0 for one in self._texts)
        return text[max(0, len(text) - self._reach) :], ends


class Repeats:
    """Where the end of a text stood before, and what followed there."""

    def __init__(self, breakers: Breakers, ids: Iterable[int]) -> None:
        """Begin with a text of `ids`."""
        self._breakers = breakers
        self._ids: list[int] = []
        self._places: dict[int, list[int]] = {}  # of each id
        self._lengths: dict[int, int] = {}  # place -> how many ids up to it are as the last ones
        self._unbroken = 0  # how many of the last ids come after the last breaker
        self._tail = b""
        for token_id in ids:
            self.append(token_id)

    def fork(self) -> "Repeats":
        """Return an independent copy."""
        repeats = copy(self)
        repeats._ids = list(self._ids)
        repeats._places = {token_id: list(places) for token_id, places in self._places.items()}
        return repeats

    def append(self, token_id: int) -> None:
        """Accept the next id."""
        places = self._places.setdefault(token_id, [])
        self._lengths = {place: self._lengths.get(place - 1, 0) + 1 for place in places}
        places.append(len(self._ids))
        self._ids.append(token_id)
        self._tail, ends = self._breakers.extend(self._tail, token_id)
        self._unbroken = 0 if ends else self._unbroken + 1

    def find(self, least: int, last: int) -> Mapping[int, int]:
        """Return the ids that followed `least` or more ids as the last ones, each with how many.

        `least`: 1 or more; `last`: how many of the last ids are looked at, -1: all.
        """
        size = len(self._ids)
        begin = 0 if last < 0 else max(0, size - last)
        longest: dict[int, int] = {}
        for place, length in self._lengths.items():
            length = min(length, self._unbroken, place + 1 - begin)
            if length >= least:
                follower = self._ids[place + 1]
                longest[follower] = max(length, longest.get(follower, 0))
        return longest
