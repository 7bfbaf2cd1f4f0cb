"""A sample that is forked: either part goes on as if there were no other."""

from typing import Any

import pytest

from gpt2cli.config import GenerationConfig, SamplingConfig
from gpt2cli.generation import Request, prepare
from gpt2cli.generation.sample import Sample
from gpt2cli.model_folder import ModelShape
from gpt2cli.sampling import TokenLogprob
from gpt2cli.tokenizer import Tokenizer

SHAPE = ModelShape(1, 1, 8, 8, 32, 257)


def make_sample(tokenizer: Tokenizer) -> Sample:
    """Return a sample with everything on that looks back."""
    request = Request(
        prompt="ab",
        sampling=SamplingConfig(no_repeat_ngram=2, ban=("xyz", "ay"), frequency_penalty=1.0),
        generation=GenerationConfig(max_new_tokens=9, min_new_tokens=2, stop=("bxb", "é!")),
        seed=0,
        logprobs=0,
    )
    return Sample(tokenizer, prepare(request, tokenizer, SHAPE), 0, SHAPE.n_positions)


def take(sample: Sample, tokenizer: Tokenizer, text: bytes) -> str:
    """Feed a sample with tokens of one byte each; returns the text that is certain."""
    made = ""
    for byte in text:
        if not sample.finished:
            [token_id] = [i for i in range(256) if tokenizer.token_bytes(i) == bytes([byte])]
            sample.row.append(token_id)
            made += sample.take(token_id, TokenLogprob(token_id, -1.0))
    return made


def describe(sample: Sample) -> tuple[Any, ...]:
    """Return all that decides how a sample goes on, and how it ends."""
    row = sample.row
    forbidden = sorted({int(i) for ids in row.find_forbidden() for i in ids})
    end = sample.chunk(sample.interrupt())
    return tuple(sample.window), row.seen, dict(row.counts), row.uniform(), forbidden, end


@pytest.mark.parametrize("before", [b"", b"abx", "ab\xe9".encode()[:-1]], ids=repr)
@pytest.mark.parametrize("first", [b"", b"bxb", "\xe9!".encode()[1:], b"yz", b"bz"], ids=repr)
@pytest.mark.parametrize("second", [b"", b"a", b"b", b"bx", b"xyza"], ids=repr)
def test_each_part_of_a_fork_goes_on_by_itself(
    byte_tokenizer: Tokenizer, before: bytes, first: bytes, second: bytes
) -> None:
    """As a sample that was never forked: in a stop sequence, a character, a ban, an n-gram."""
    one = make_sample(byte_tokenizer)
    begun = take(one, byte_tokenizer, before)
    other = one.fork()
    for sample, text in ((one, first), (other, second)):
        plain = make_sample(byte_tokenizer)
        assert begun + take(sample, byte_tokenizer, text) == take(
            plain, byte_tokenizer, before + text
        )
        assert describe(sample) == describe(plain)
