"""The chunks of a run, put together by sample."""

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias

from gpt2cli.generation.interfaces import Chunk, Finish

Key: TypeAlias = tuple[int, int]  # index, sample
Joined: TypeAlias = dict[Key, tuple[str, Finish]]


def join(chunks: Iterable[Chunk]) -> Joined:
    """Join the chunks of each sample; asserts that each finishes once, with its last chunk."""
    texts: dict[Key, str] = defaultdict(str)
    joined: Joined = {}
    for chunk in chunks:
        key = (chunk.index, chunk.sample)
        assert key not in joined
        assert chunk.text or chunk.finish
        texts[key] += chunk.text
        if chunk.finish is not None:
            joined[key] = texts[key], chunk.finish
    assert texts.keys() == joined.keys()
    return joined
