"""Texts of options as ids of the vocabulary."""

import pytest

from gpt2cli.config import SamplingConfig
from gpt2cli.errors import UsageError, shorten
from gpt2cli.generation.vocabulary import find_bans, find_biases
from gpt2cli.tokenizer import Tokenizer

SIZE = 50257


def biases_of(
    tokenizer: Tokenizer,
    *biases: tuple[str, float],
    vocab_size: int = SIZE,
    allow_special: bool = False,
) -> dict[int, float]:
    """Return what some biases come to."""
    config = SamplingConfig(logit_bias=biases)
    return dict(find_biases(config, tokenizer, vocab_size=vocab_size, allow_special=allow_special))


def test_a_text_of_one_token_is_its_id(gpt2_tokenizer: Tokenizer) -> None:
    """As it stands: with a space it is another token."""
    named = [("the", 1.0), (" the", 2.0), ("\n", 3.0)]
    assert biases_of(gpt2_tokenizer, *named) == {1169: 1.0, 262: 2.0, 198: 3.0}


def test_a_whole_number_is_an_id(gpt2_tokenizer: Tokenizer) -> None:
    """Not the text of the number, which is a token too; with a sign or a space it is a text."""
    assert biases_of(gpt2_tokenizer, ("0", 1.0), ("50256", 2.0)) == {0: 1.0, 50256: 2.0}
    assert biases_of(gpt2_tokenizer, (" 5", 1.0)) == {642: 1.0}


def test_of_an_id_named_twice_the_last_counts(gpt2_tokenizer: Tokenizer) -> None:
    """However it is named."""
    assert biases_of(gpt2_tokenizer, (" the", 1.0), ("262", -2.0)) == {262: -2.0}
    assert biases_of(gpt2_tokenizer, ("262", 1.0), (" the", -2.0), (" the", 3.0)) == {262: 3.0}


def test_a_text_of_several_tokens_is_an_error_that_lists_them(gpt2_tokenizer: Tokenizer) -> None:
    """With their ids, one of which may have been meant."""
    with pytest.raises(UsageError) as caught:
        biases_of(gpt2_tokenizer, (" the", 1.0), ("unbelievable\n", 1.0))
    assert str(caught.value) == (
        "logit_bias: expected an id or a text of one token, found 'unbelievable\\n', which has "
        "5: 'un' 403, 'bel' 6667, 'iev' 11203, 'able' 540, '\\n' 198"
    )


def test_a_text_that_no_token_spells_is_an_error(ascii_tokenizer: Tokenizer) -> None:
    """A vocabulary of ASCII has nothing for an é."""
    with pytest.raises(UsageError, match="logit_bias: the model has no token for 'é'"):
        biases_of(ascii_tokenizer, ("é", 1.0), vocab_size=97)


def test_a_long_text_does_not_fill_the_screen(gpt2_tokenizer: Tokenizer) -> None:
    """Text and list are cut."""
    with pytest.raises(UsageError) as caught:
        biases_of(gpt2_tokenizer, ("x y " * 10_000, 1.0))
    assert len(str(caught.value)) < 700
    assert str(caught.value).endswith("…")


@pytest.mark.parametrize("token", ["97", "50257", "9" * 30, "9" * 5000], ids=lambda t: t[:9])
def test_an_id_beyond_the_vocabulary_is_an_error_that_names_its_end(
    ascii_tokenizer: Tokenizer, token: str
) -> None:
    """However long."""
    with pytest.raises(UsageError) as caught:
        biases_of(ascii_tokenizer, (token, 1.0), vocab_size=97)
    assert str(caught.value) == f"logit_bias: expected an id 0 to 96, found {shorten(token)}"


@pytest.mark.parametrize(("allowed", "count"), [(True, 1), (False, 13)])
def test_special_tokens_are_read_where_the_request_allows(
    ascii_tokenizer: Tokenizer, allowed: bool, count: int
) -> None:
    """Else <|endoftext|> is thirteen characters, and its id has to be given."""
    named = ("<|endoftext|>", -1.0)
    if allowed:
        assert biases_of(ascii_tokenizer, named, vocab_size=97, allow_special=True) == {96: -1.0}
        return
    with pytest.raises(UsageError, match=f"which has {count}: '<' 28, "):
        biases_of(ascii_tokenizer, named, vocab_size=97)


def test_a_token_that_the_model_lacks_is_an_error(gpt2_tokenizer: Tokenizer) -> None:
    """Nor has a model the text of a tokenizer that is larger than it."""
    with pytest.raises(UsageError, match=r"^logit_bias: expected an id 0 to 99, found 262$"):
        biases_of(gpt2_tokenizer, ("262", 1.0), vocab_size=100)


def test_bans_are_of_the_whole_vocabulary(gpt2_tokenizer: Tokenizer) -> None:
    """All tokens of GPT-2 that hold these bytes, wherever in them."""
    banned = find_bans(SamplingConfig(ban=("queue",)), gpt2_tokenizer, vocab_size=SIZE)
    assert banned is not None
    [ids] = banned.find_forbidden(b"")
    held = {i for i in range(SIZE) if b"queue" in gpt2_tokenizer.token_bytes(i)}
    assert held == set(ids.tolist()) != set()


def test_without_bans_there_is_nothing(gpt2_tokenizer: Tokenizer) -> None:
    """The vocabulary is not even read."""
    assert find_bans(SamplingConfig(), gpt2_tokenizer, vocab_size=SIZE) is None


def test_records_that_ban_the_same_share_what_it_means(gpt2_tokenizer: Tokenizer) -> None:
    """It takes a while to find."""
    first, again, other = (
        find_bans(SamplingConfig(top_k=k, ban=(text,)), gpt2_tokenizer, vocab_size=SIZE)
        for k, text in ((1, "a"), (2, "a"), (1, "b"))
    )
    assert first is again is not other
