"""Which ids are read together and which are stepped, and what of them may be used again.

To read is to compute many ids of one slot in a call; to step is to compute one. What an id leaves
in the KV cache, and the logits after it, depend on the ids up to it and on which of these were
read, on nothing else: a text may be read in any pieces if none but the first is a single id, since
attention multiplies one query by another kernel than several (ONNX Runtime 1.31.1, CPU).

The flags of a window tell for each id whether it is stepped. Those of a prompt are read, drawn ones
stepped, and they stay so when they become a part of the next prompt.
"""

from collections.abc import Iterator, Sequence
from itertools import compress, count, groupby
from operator import ne


def settle(stepped: Sequence[bool]) -> list[bool]:
    """Return the flags with those of single ids between stepped ones, which cannot be read."""
    settled: list[bool] = []
    for flag, run in groupby(stepped):
        length = len(list(run))
        is_single = length == 1 and bool(settled)
        settled += [flag or is_single] * length
    return settled


def count_equal(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many items both begin with."""
    differing = compress(count(), map(ne, first, second))
    return next(differing, min(len(first), len(second)))


def count_shared(
    ids: Sequence[int], stepped: Sequence[bool], others: Sequence[int], their: Sequence[bool]
) -> int:
    """Return how many ids both windows begin with, computed the same way."""
    shared = count_equal(ids, others)
    is_same = stepped[:shared] == their[:shared]
    return shared if is_same else count_equal(stepped, their)


def find_start(stepped: Sequence[bool], shared: int, *, cuts: bool) -> int:
    """Return how many ids of a window stay, if a slot holds its first `shared` ones.

    At least one is computed, since the logits after the last are wanted; and of those that are read
    together at least two. Without `cuts`, where the pieces change the bits, it is all or none.
    """
    start = min(shared, len(stepped) - 1)
    if start == 0 or stepped[start - 1] or stepped[start]:
        return start
    if not cuts:
        return max((place + 1 for place in range(start) if stepped[place]), default=0)
    is_single = start + 1 == len(stepped) or stepped[start + 1]
    return start - 1 if is_single else start


def find_calls(
    stepped: Sequence[bool], start: int, *, most_steps: int
) -> Iterator[tuple[int, int]]:
    """Yield where each call that computes the ids from `start` on begins and ends."""
    for flag, run in groupby(range(start, len(stepped)), key=lambda place: stepped[place]):
        places = list(run)
        end = places[-1] + 1
        size = most_steps if flag else len(places)
        yield from ((first, min(first + size, end)) for first in places[::size])
