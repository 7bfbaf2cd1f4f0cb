"""One sequence: what it makes of each drawn id, and that a fork goes on by itself."""

from typing import Any

import numpy as np
import pytest

from gpt2cli.config import GenerationConfig, SamplingConfig
from gpt2cli.generation.interfaces import Finish, FinishReason
from gpt2cli.generation.requests import PreparedRequest, Request, prepare
from gpt2cli.generation.sequence import TokenSequence
from gpt2cli.model_folder import ModelShape
from gpt2cli.tokenizer import Tokenizer

EOS = 96
SHAPE = ModelShape(1, 1, 8, 8, 32, 257)
LOGITS = np.zeros(257, np.float32)
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def make(
    tokenizer: Tokenizer, prompt_ids: tuple[int, ...] = (1,), *, limit: int = 16, **limits: Any
) -> TokenSequence:
    """Return a sequence whose prompt and completion may have `limit` tokens."""
    generation = GenerationConfig(**limits)
    request = Request(prompt="", sampling=SamplingConfig(), generation=generation, seed=0, index=3)
    return TokenSequence(tokenizer, PreparedRequest(request, prompt_ids), 2, limit)


def take(sequence: TokenSequence, text: str) -> list[str]:
    """Feed the ids of printable ASCII, `|` for EOS; the texts that are certain after each."""
    ids = [EOS if character == "|" else ord(character) - 32 for character in text]
    return [sequence.take(token_id, LOGITS) for token_id in ids]


def finish_of(sequence: TokenSequence) -> Finish:
    finish = sequence.chunk("").finish
    assert finish is not None
    return finish


STOP, LENGTH, CONTEXT = FinishReason.STOP, FinishReason.LENGTH, FinishReason.CONTEXT
NONE: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("limits", "drawn", "certain", "reason", "stop", "tokens"),
    [
        (NONE, "a|", ["a", ""], STOP, None, 1),
        ({"ignore_eos": True, "max_new_tokens": 2}, "|a", ["", "a"], LENGTH, None, 2),
        ({"stop": ("ab",)}, "xab", ["x", "", ""], STOP, "ab", 3),
        ({"stop": ("ab",)}, "a|", ["", "a"], STOP, None, 1),  # what was held is given
        ({"stop": ("ab",), "max_new_tokens": 2}, "xa", ["x", "a"], LENGTH, None, 2),
        ({"stop": ("ab",), "max_new_tokens": 2}, "ab", ["", ""], STOP, "ab", 2),
        # As in vLLM: of two required tokens none completes a stop sequence, but one may begin it.
        ({"stop": ("b",), "min_new_tokens": 2}, "abb", ["a", "b", ""], STOP, "b", 3),
        ({"stop": ("bc",), "min_new_tokens": 2}, "abc", ["a", "", ""], STOP, "bc", 3),
        ({"stop": ("a",), "min_new_tokens": 1, "max_new_tokens": 1}, "a", ["a"], LENGTH, None, 1),
        ({"limit": 3, "min_new_tokens": 3}, "ab", ["a", "b"], CONTEXT, None, 2),
        ({"max_new_tokens": 0}, "", [], LENGTH, None, 0),
        ({"stop": ("ab",), "include_stop": True}, "xab", ["x", "", "ab"], STOP, "ab", 3),
        ({"stop_token": (66,)}, "ab", ["a", ""], STOP, None, 1),  # 66: b
        ({"stop_token": (66,), "ignore_eos": True}, "a|b", ["a", "", ""], STOP, None, 2),
        ({"stop_token": (66,), "include_stop": True}, "ab", ["a", "b"], STOP, None, 1),
        ({"include_stop": True}, "a|", ["a", ""], STOP, None, 1),  # the model's own end has no text
        ({"limit": 1}, "", [], CONTEXT, None, 0),
        ({"limit": 1, "max_new_tokens": 0}, "", [], LENGTH, None, 0),
    ],
)
def test_text_is_given_as_soon_as_it_is_certain_and_ends_where_it_must(
    ascii_tokenizer: Tokenizer,
    limits: dict[str, Any],
    drawn: str,
    certain: list[str],
    reason: FinishReason,
    stop: str | None,
    tokens: int,
) -> None:
    """EOS is neither printed nor counted, unless it is ignored; a stop sequence is not printed."""
    sequence = make(ascii_tokenizer, **limits)
    assert take(sequence, drawn) == certain
    finish = finish_of(sequence)
    assert (finish.reason, finish.stop_sequence) == (reason, stop)
    assert (finish.prompt_tokens, finish.completion_tokens) == (1, tokens)


@pytest.mark.parametrize(("stops", "shown"), [((), REPLACEMENT), ((REPLACEMENT,), "")])
def test_an_unfinished_character_is_given_at_the_end(
    byte_tokenizer: Tokenizer, stops: tuple[str, ...], shown: str
) -> None:
    """One byte of two is U+FFFD, as in the whole decode; that too can complete a stop."""
    sequence = make(byte_tokenizer, max_new_tokens=1, stop=stops)
    assert sequence.take(byte_tokenizer.encode("é")[0], LOGITS) == shown
    assert finish_of(sequence).reason is (STOP if stops else LENGTH)


# Forks


def make_remembering(tokenizer: Tokenizer) -> TokenSequence:
    """Return a sequence with everything on that looks back."""
    request = Request(
        prompt="ab",
        sampling=SamplingConfig(no_repeat_ngram=2, ban=("xyz", "ay"), frequency_penalty=1.0),
        generation=GenerationConfig(max_new_tokens=9, min_new_tokens=2, stop=("bxb", "é!")),
        seed=0,
        logprobs=0,
    )
    return TokenSequence(tokenizer, prepare(request, tokenizer, SHAPE), 0, SHAPE.n_positions)


def take_bytes(sequence: TokenSequence, tokenizer: Tokenizer, text: bytes) -> str:
    """Feed a sequence with tokens of one byte each; returns the text that is certain."""
    made = ""
    for byte in text:
        if not sequence.finished:
            [token_id] = [i for i in range(256) if tokenizer.token_bytes(i) == bytes([byte])]
            made += sequence.take(token_id, LOGITS)
    return made


def describe(sequence: TokenSequence) -> tuple[Any, ...]:
    """Return all that decides how a sequence goes on, and how it ends."""
    history = sequence.history
    masked = sorted({int(i) for ids in history.find_masks() for i in ids})
    end = sequence.chunk(sequence.interrupt())
    told = list(history.seen), dict(history.counts), history.uniform(), masked
    return tuple(sequence.window), *told, end


@pytest.mark.parametrize("before", [b"", b"abx", "ab\xe9".encode()[:-1]], ids=repr)
@pytest.mark.parametrize("first", [b"", b"bxb", "\xe9!".encode()[1:], b"yz", b"bz"], ids=repr)
@pytest.mark.parametrize("second", [b"", b"b", b"bx", b"xyza"], ids=repr)
def test_each_part_of_a_fork_goes_on_by_itself(
    byte_tokenizer: Tokenizer, before: bytes, first: bytes, second: bytes
) -> None:
    """As if it was never forked: in a stop sequence, a character, a ban, an n-gram."""
    one = make_remembering(byte_tokenizer)
    begun = take_bytes(one, byte_tokenizer, before)
    other = one.fork()
    for sequence, text in ((one, first), (other, second)):
        plain = make_remembering(byte_tokenizer)
        expected = take_bytes(plain, byte_tokenizer, before + text)
        assert begun + take_bytes(sequence, byte_tokenizer, text) == expected
        assert describe(sequence) == describe(plain)
