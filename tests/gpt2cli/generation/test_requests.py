"""Requests: what their options come to in a vocabulary, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpt2cli.config import Overflow, SamplingConfig
from gpt2cli.errors import PromptError, UsageError, shorten
from gpt2cli.generation.requests import find_bans, find_biases, prepare
from gpt2cli.model_folder import ModelShape
from gpt2cli.sampling.history import History
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.generation.runs import make_request

LIMIT = 8
SHAPE = ModelShape(1, 1, 8, 8, LIMIT, 97)
SIZE = 50257


@pytest.mark.parametrize(
    ("length", "new", "overflow", "told"),
    [
        # (gpt-2#145)
        (
            9,
            5,
            Overflow.STOP,
            "the prompt has 9 tokens, the model takes 8; shorten it, "
            "or use overflow slide to keep its end",
        ),
        *(
            (
                length,
                new,
                Overflow.ERROR,
                f"the prompt's {length} tokens and {new} new ones exceed the model's 8; "
                "shorten the prompt, or lower max_new_tokens",
            )
            for length, new in ((9, 0), (3, 6))
        ),
    ],
)
def test_what_cannot_fit_is_refused_with_all_numbers_and_the_way_out(
    ascii_tokenizer: Tokenizer, length: int, new: int, overflow: Overflow, told: str
) -> None:
    """Up front; one token less is accepted."""
    limits: dict[str, Any] = {"max_new_tokens": new, "overflow": overflow}
    with pytest.raises(PromptError) as caught:
        prepare(make_request("a" * length, **limits), ascii_tokenizer, SHAPE)
    assert str(caught.value) == told
    prepare(make_request("a" * (length - 1), **limits), ascii_tokenizer, SHAPE)


def test_a_stop_token_is_an_id_of_the_model(ascii_tokenizer: Tokenizer) -> None:
    prepare(make_request(stop_token=(0, 96)), ascii_tokenizer, SHAPE)
    with pytest.raises(UsageError, match="stop_token: expected an id 0 to 96, found 97"):
        prepare(make_request(stop_token=(5, 97)), ascii_tokenizer, SHAPE)


def test_a_prepared_request_has_its_options_ids(ascii_tokenizer: Tokenizer) -> None:
    asked = replace(make_request(), sampling=SamplingConfig(logit_bias=(("A", 1),), ban=("B",)))
    prepared = prepare(asked, ascii_tokenizer, SHAPE)
    assert prepared.biases == ((33, 1),)
    assert prepared.bans is not None
    assert [ids.tolist() for ids in prepared.bans.find_mask(b"")] == [[34]]


# Texts of options as ids of the vocabulary


def biases_of(
    tokenizer: Tokenizer,
    *biases: tuple[str, float],
    vocab_size: int = SIZE,
    allow_special: bool = False,
) -> dict[int, float]:
    config = SamplingConfig(logit_bias=biases)
    return dict(find_biases(config, tokenizer, vocab_size=vocab_size, allow_special=allow_special))


def test_a_text_of_one_token_is_its_id_and_a_whole_number_is_one(gpt2_tokenizer: Tokenizer) -> None:
    """As it stands: with a space or a sign a number is a text. Of an id named twice the last."""
    named = [("the", 1.0), (" the", 2.0), ("\n", 3.0), ("0", 4.0), (" 5", 5.0), ("262", 6.0)]
    assert biases_of(gpt2_tokenizer, *named) == {1169: 1.0, 262: 6.0, 198: 3.0, 0: 4.0, 642: 5.0}


def test_a_text_of_several_tokens_is_an_error_that_lists_them(gpt2_tokenizer: Tokenizer) -> None:
    """With their ids, one of which may have been meant; a long text does not fill the screen."""
    with pytest.raises(UsageError) as caught:
        biases_of(gpt2_tokenizer, (" the", 1.0), ("unbelievable\n", 1.0))
    assert str(caught.value) == (
        "logit_bias: expected an id or a text of one token, found 'unbelievable\\n', which has "
        "5: 'un' 403, 'bel' 6667, 'iev' 11203, 'able' 540, '\\n' 198"
    )
    with pytest.raises(UsageError, match=r"…$") as caught:
        biases_of(gpt2_tokenizer, ("x y " * 10_000, 1.0))
    assert len(str(caught.value)) < 700


def test_a_text_that_no_token_spells_is_an_error(ascii_tokenizer: Tokenizer) -> None:
    """A vocabulary of ASCII has nothing for an é."""
    with pytest.raises(UsageError, match="logit_bias: the model has no token for 'é'"):
        biases_of(ascii_tokenizer, ("é", 1.0), vocab_size=97)


@pytest.mark.parametrize("token", ["97", "9" * 5000], ids=lambda t: t[:9])
def test_an_id_beyond_the_vocabulary_is_an_error_that_names_its_end(
    ascii_tokenizer: Tokenizer, token: str
) -> None:
    with pytest.raises(UsageError) as caught:
        biases_of(ascii_tokenizer, (token, 1.0), vocab_size=97)
    assert str(caught.value) == f"logit_bias: expected an id 0 to 96, found {shorten(token)}"


def test_a_special_token_has_a_bias_by_its_name_where_the_request_allows(
    ascii_tokenizer: Tokenizer,
) -> None:
    """Else <|endoftext|> is thirteen characters, and its id has to be given."""
    named = ("<|endoftext|>", -1.0)
    assert biases_of(ascii_tokenizer, named, vocab_size=97, allow_special=True) == {96: -1.0}
    with pytest.raises(UsageError, match="which has 13: '<' 28, "):
        biases_of(ascii_tokenizer, named, vocab_size=97)


def test_records_that_ban_the_same_share_what_it_means(gpt2_tokenizer: Tokenizer) -> None:
    """It takes a while to find."""
    first, again, other = (
        find_bans(SamplingConfig(top_k=k, ban=(text,)), gpt2_tokenizer, vocab_size=SIZE)
        for k, text in ((1, "a"), (2, "a"), (1, "b"))
    )
    assert first is again is not other


def test_real_tokens_never_spell_what_is_banned(gpt2_tokenizer: Tokenizer) -> None:
    """Of GPT-2's own vocabulary: 300 tokens at random among those that are not masked."""
    config = SamplingConfig(ban=("e", " th", "ing", "é"))
    history = History(
        config,
        seed=0,
        prompt_ids=gpt2_tokenizer.encode("caf\u00c3"),  # its last byte but one begins `é`
        bans=find_bans(config, gpt2_tokenizer, vocab_size=SIZE),
    )
    draws = np.random.default_rng(178)
    spelt = b""
    for _ in range(300):
        allowed = np.ones(SIZE, bool)
        for mask in history.find_masks():
            allowed[mask] = False
        token_id = int(draws.choice(np.flatnonzero(allowed)))
        history.append(token_id)
        spelt += gpt2_tokenizer.token_bytes(token_id)
    assert [text for text in config.ban if text.encode() in spelt] == []
    assert len(spelt) > 300
