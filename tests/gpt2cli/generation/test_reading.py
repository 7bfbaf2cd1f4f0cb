"""Claims about which ids are read together, and that a real engine keeps their bits."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.generation.reading import count_shared, find_calls, find_start, settle
from gpt2cli.model_folder import ModelFolder

FLAGS = st.lists(st.booleans(), min_size=1, max_size=24)


def flags(text: str) -> list[bool]:
    """Return the flags of r (read) and s (stepped)."""
    return [letter == "s" for letter in text]


@pytest.mark.parametrize(
    ("given", "settled"),
    [("", ""), ("r", "r"), ("rs", "rs"), ("rrsr", "rrss"), ("srs", "sss"), ("rsrrsrs", "rsrrsss")],
)
def test_a_single_id_after_a_stepped_one_is_stepped(given: str, settled: str) -> None:
    """At the beginning it may be read: attention over one place is that place."""
    assert settle(flags(given)) == flags(settled)


@pytest.mark.parametrize(
    ("ids", "stepped", "shared"),
    [("abc", "rrr", 3), ("abd", "rrr", 2), ("abc", "rrs", 2), ("abcd", "rrrs", 3), ("", "", 0)],
)
def test_ids_are_shared_while_both_were_computed_the_same_way(
    ids: str, stepped: str, shared: int
) -> None:
    """Beside abc, all read."""
    assert count_shared([*map(ord, ids)], flags(stepped), [*map(ord, "abc")], [False] * 3) == shared


@pytest.mark.parametrize(
    ("stepped", "shared", "with_cuts", "without"),
    [
        ("rrrr", 2, 2, 0),
        ("rrrr", 3, 2, 0),  # the last is not read alone
        ("rrrr", 4, 2, 0),
        ("rr", 1, 0, 0),
        ("r", 1, 0, 0),
        ("rrsrrr", 4, 4, 3),
        ("rrsrrr", 3, 3, 3),
        ("rrsrrsrr", 4, 3, 3),  # nor one before a stepped one
        ("rrss", 4, 3, 3),
        ("rrss", 2, 2, 2),
    ],
)
def test_what_is_computed_begins_where_it_may(
    stepped: str, shared: int, with_cuts: int, without: int
) -> None:
    """Where pieces change the bits, with what was read as a whole."""
    assert find_start(flags(stepped), shared, cuts=True) == with_cuts
    assert find_start(flags(stepped), shared, cuts=False) == without


@given(stepped=FLAGS, shared=st.integers(0, 24), cuts=st.booleans(), steps=st.integers(1, 8))
def test_calls_compute_each_id_as_its_flag_says(
    stepped: list[bool], shared: int, cuts: bool, steps: int
) -> None:
    """From the start to the end; what is read leaves no single one, but at the beginning."""
    settled = settle(stepped)
    start = find_start(settled, min(shared, len(settled)), cuts=cuts)
    calls = list(find_calls(settled, start, most_steps=steps))
    assert calls[0][0] == start and calls[-1][1] == len(settled)
    assert [end for _, end in calls[:-1]] == [begin for begin, _ in calls[1:]]
    for begin, end in calls:
        if settled[begin]:
            assert all(settled[begin:end]) and end - begin <= steps
        else:
            assert not any(settled[begin:end])
            assert end - begin > 1 or (begin, end) == (0, 1)


class TestBits:
    """Claims about the starter: neither logits nor cache depend on the pieces of a text."""

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, starter: ModelFolder) -> Engine:
        """Return a real engine."""
        return Engine(starter, Device("cpu"), threads=1)

    @staticmethod
    def read(engine: Engine, ids: Sequence[int], cuts: Sequence[int], then: int) -> bytes:
        """Read ids in pieces, then step some more; return the bytes of all logits."""
        while engine.lengths:
            engine.free(0)
        logits = []
        for begin, end in zip([0, *cuts], [*cuts, len(ids)], strict=True):
            logits = [engine.extend(0, ids[begin:end], [end - begin - 1])]
        logits += [engine.decode([token_id]).copy() for token_id in ids[:then]]
        return b"".join(each.tobytes() for each in logits[-then - 1 :])

    @pytest.mark.parametrize("length", [24, 129, 257])
    def test_pieces_do_not_change_them(self, engine: Engine, length: int) -> None:
        """Also where attention's last block would have a single query: 129 and 257."""
        draws = np.random.default_rng(length)
        ids = draws.integers(0, 4000, length).tolist()
        whole = self.read(engine, ids, [], then=2)
        for cuts in ([1], [2, 11], [length - 2], [length - 12, length - 9]):
            assert self.read(engine, ids, cuts, then=2) == whole

    def test_a_single_query_has_other_bits(self, engine: Engine) -> None:
        """Else none of this would be needed."""
        ids = [*range(300, 329)]
        assert self.read(engine, ids, [len(ids) - 1], then=0) != self.read(engine, ids, [], then=0)
