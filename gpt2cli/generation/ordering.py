"""Puts the chunks of samples that run side by side into the order of the samples."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gpt2cli.generation.requests import Chunk


def in_sample_order(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield one request's chunks sample by sample: the first at once, later ones when it is done.

    Nothing is lost or joined; what must wait is kept in memory.
    """
    waiting: dict[int, list[Chunk]] = defaultdict(list)
    current = 0
    for chunk in chunks:
        waiting[chunk.sample].append(chunk)
        while ready := waiting.pop(current, None):
            yield from ready
            if ready[-1].finish is None:
                break
            current += 1
