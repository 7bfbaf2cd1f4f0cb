"""Chunks of samples that ran side by side, put into the order of the samples."""

from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.generation.interfaces import Chunk, Finish, FinishReason, in_sample_order

END = Finish(reason=FinishReason.STOP, stop_sequence=None, prompt_tokens=1, completion_tokens=1)


def chunk(sample: int, text: str, *, last: bool = False) -> Chunk:
    """Return a chunk of a sample."""
    return Chunk(0, sample, text, END if last else None)


def test_the_first_sample_is_passed_on_at_once() -> None:
    """Its chunks do not wait for its end."""
    made = iter([chunk(0, "a"), chunk(1, "b"), chunk(0, "c")])
    ordered = in_sample_order(made)
    assert next(ordered).text == "a"
    assert next(ordered).text == "c"


def test_later_samples_wait_for_those_before() -> None:
    """Sample 1 ends first and comes second; what it had is not joined."""
    made = [chunk(1, "x"), chunk(0, "a"), chunk(1, "y", last=True), chunk(0, "b", last=True)]
    assert [c.text for c in in_sample_order(made)] == ["a", "b", "x", "y"]


def test_a_sample_streams_once_those_before_are_done() -> None:
    """What waited is given, and then each chunk as it comes."""
    made = iter([chunk(1, "x"), chunk(0, "a", last=True), chunk(1, "y"), chunk(1, "z", last=True)])
    ordered = in_sample_order(made)
    assert [next(ordered).text for _ in range(3)] == ["a", "x", "y"]


@given(st.permutations([0, 0, 1, 1, 1, 2, 3, 3]))
def test_nothing_is_lost_in_any_order(order: list[int]) -> None:
    """Any interleaving comes out sample by sample, each in its own order."""
    left = {sample: order.count(sample) for sample in order}
    made = []
    for place, sample in enumerate(order):
        left[sample] -= 1
        made.append(chunk(sample, str(place), last=not left[sample]))
    expected = sorted(made, key=lambda c: c.sample)
    assert list(in_sample_order(made)) == expected


def test_no_chunks_give_none() -> None:
    """Nothing in, nothing out."""
    assert list(in_sample_order([])) == []
