"""Requests, their limits, and what `prepare` refuses."""

from dataclasses import replace

import pytest

from gpt2cli.config import LARGEST_SEED, GenerationConfig, Overflow, SamplingConfig
from gpt2cli.errors import PromptError, UsageError
from gpt2cli.generation import Request, prepare, seed_of
from gpt2cli.model_folder import ModelShape
from gpt2cli.tokenizer import Tokenizer

LIMIT = 8
SHAPE = ModelShape(1, 1, 8, 8, LIMIT, 97)


def request(prompt: str = "a", *, seed: int = 0, samples: int = 1, **limits: object) -> Request:
    """Return a request with these limits."""
    return Request(
        prompt=prompt,
        sampling=SamplingConfig(),
        generation=GenerationConfig(**limits),  # type: ignore[arg-type]
        seed=seed,
        samples=samples,
    )


def test_a_prepared_request_has_the_prompts_ids(ascii_tokenizer: Tokenizer) -> None:
    """`AB` is 33 and 34 of the printable characters."""
    asked = request("AB")
    prepared = prepare(asked, ascii_tokenizer, SHAPE)
    assert prepared.prompt_ids == (33, 34)
    assert prepared.request is asked


def test_an_empty_prompt_has_one_token(ascii_tokenizer: Tokenizer) -> None:
    """It is BOS, and it counts."""
    assert prepare(request(""), ascii_tokenizer, SHAPE).prompt_ids == (96,)


@pytest.mark.parametrize(("allowed", "length"), [(False, 13), (True, 1)])
def test_special_tokens_are_read_where_the_request_allows(
    byte_tokenizer: Tokenizer, allowed: bool, length: int
) -> None:
    """<|endoftext|> is 13 characters or one token."""
    asked = Request(
        prompt="<|endoftext|>",
        sampling=SamplingConfig(),
        generation=GenerationConfig(),
        seed=0,
        allow_special=allowed,
    )
    shape = ModelShape(1, 1, 8, 8, 20, 257)
    assert len(prepare(asked, byte_tokenizer, shape).prompt_ids) == length


@pytest.mark.parametrize("length", [1, LIMIT - 1, LIMIT])
def test_a_prompt_up_to_the_limit_is_accepted(ascii_tokenizer: Tokenizer, length: int) -> None:
    """Exactly n_positions tokens are allowed by `stop`, whatever may follow."""
    prepare(request("a" * length, max_new_tokens=5), ascii_tokenizer, SHAPE)


def test_a_longer_prompt_is_an_error_that_names_the_way_out(ascii_tokenizer: Tokenizer) -> None:
    """Nine tokens of eight: both numbers and overflow slide (gpt-2#145)."""
    with pytest.raises(PromptError) as caught:
        prepare(request("a" * 9), ascii_tokenizer, SHAPE)
    assert str(caught.value) == (
        "the prompt has 9 tokens, the model takes 8; shorten it, "
        "or use overflow slide to keep its end"
    )


def test_slide_accepts_any_prompt(ascii_tokenizer: Tokenizer) -> None:
    """A hundred tokens are all kept in the request; the sample takes their end."""
    asked = request("a" * 100, overflow=Overflow.SLIDE)
    assert len(prepare(asked, ascii_tokenizer, SHAPE).prompt_ids) == 100


@pytest.mark.parametrize(("length", "new"), [(8, 0), (3, 5), (1, 7)])
def test_error_accepts_what_fits(ascii_tokenizer: Tokenizer, length: int, new: int) -> None:
    """Prompt and completion of exactly n_positions fit."""
    asked = request("a" * length, max_new_tokens=new, overflow=Overflow.ERROR)
    prepare(asked, ascii_tokenizer, SHAPE)


@pytest.mark.parametrize(("length", "new"), [(9, 0), (3, 6), (8, 1)])
def test_error_refuses_what_cannot_fit(ascii_tokenizer: Tokenizer, length: int, new: int) -> None:
    """One token more is refused up front with all three numbers."""
    asked = request("a" * length, max_new_tokens=new, overflow=Overflow.ERROR)
    with pytest.raises(PromptError) as caught:
        prepare(asked, ascii_tokenizer, SHAPE)
    assert str(caught.value) == (
        f"the prompt's {length} tokens and {new} new ones exceed the model's 8; "
        "shorten the prompt, or lower max_new_tokens"
    )


def test_a_negative_limit_is_a_usage_error() -> None:
    """The option, its range and the value are named."""
    with pytest.raises(
        UsageError, match=r"^max_new_tokens: expected a whole number 0 or more, found -1$"
    ):
        GenerationConfig(max_new_tokens=-1)


def test_a_negative_minimum_is_a_usage_error() -> None:
    """As that of the limit."""
    with pytest.raises(
        UsageError, match=r"^min_new_tokens: expected a whole number 0 or more, found -1$"
    ):
        GenerationConfig(min_new_tokens=-1)


@pytest.mark.parametrize("least", [0, 1, 5])
def test_a_minimum_up_to_the_limit_is_allowed(least: int) -> None:
    """Exactly so many tokens can be asked for."""
    assert GenerationConfig(min_new_tokens=least, max_new_tokens=5).min_new_tokens == least


@pytest.mark.parametrize(("least", "limits"), [(6, {"max_new_tokens": 5}), (257, {})])
def test_a_minimum_above_the_limit_is_a_usage_error_that_names_both(
    least: int, limits: dict[str, int]
) -> None:
    """Also where nobody set the limit."""
    most = limits.get("max_new_tokens", 256)
    with pytest.raises(UsageError) as caught:
        GenerationConfig(min_new_tokens=least, **limits)  # type: ignore[arg-type]
    expected = f"at most max_new_tokens, {most}"
    assert str(caught.value) == f"min_new_tokens: expected {expected}, found {least}"


def test_a_prepared_request_has_its_options_ids(ascii_tokenizer: Tokenizer) -> None:
    """Biases by id, bans by what they forbid."""
    asked = replace(request(), sampling=SamplingConfig(logit_bias=(("A", 1),), ban=("B",)))
    prepared = prepare(asked, ascii_tokenizer, SHAPE)
    assert prepared.biases == ((33, 1),)
    assert prepared.bans is not None
    assert [ids.tolist() for ids in prepared.bans.find_forbidden(b"")] == [[34]]


def test_a_bias_that_the_vocabulary_lacks_is_a_usage_error(ascii_tokenizer: Tokenizer) -> None:
    """It is known only now."""
    asked = replace(request(), sampling=SamplingConfig(logit_bias=(("AB", 1.0),)))
    with pytest.raises(UsageError, match=r"found 'AB', which has 2: 'A' 33, 'B' 34$"):
        prepare(asked, ascii_tokenizer, SHAPE)


def test_an_empty_stop_is_a_usage_error() -> None:
    """It would match everywhere."""
    with pytest.raises(UsageError, match=r"^stop: expected some text, found an empty one$"):
        GenerationConfig(stop=("a", ""))


@pytest.mark.parametrize("seed", [0, LARGEST_SEED])
def test_both_ends_of_the_seeds_are_allowed(seed: int) -> None:
    """0 and 2^53−1 are seeds."""
    assert request(seed=seed).seed == seed


@pytest.mark.parametrize("seed", [-1, 2**53])
def test_a_seed_out_of_range_is_a_usage_error(seed: int) -> None:
    """What JSON tools would not keep is refused."""
    with pytest.raises(UsageError) as caught:
        request(seed=seed)
    assert str(caught.value) == f"seed: expected a whole number 0 to 2^53-1, found {seed}"


def test_no_samples_are_a_usage_error() -> None:
    """At least one is made."""
    with pytest.raises(UsageError, match=r"^samples: expected a whole number 1 or more, found 0$"):
        request(samples=0)


def test_the_seed_of_a_request_is_the_runs_seed_plus_its_index() -> None:
    """So that the run's seed alone names the first."""
    assert [seed_of(7, index) for index in (0, 1, 5)] == [7, 8, 12]


def test_the_seed_of_a_request_wraps_at_the_largest() -> None:
    """After 2^53−1 comes 0: every index has a valid seed."""
    assert [seed_of(2**53 - 1, index) for index in (0, 1, 2)] == [2**53 - 1, 0, 1]
