"""What a sample may not draw next: by its text and by its length."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.config import GenerationConfig, SamplingConfig
from gpt2cli.generation import PreparedRequest, Request, generate, prepare
from gpt2cli.generation.forbidden import ForbiddenIds
from gpt2cli.model_folder import ModelShape
from gpt2cli.sampling import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.scripted import ScriptedEngine, scatter

SIZE = 97
EOS = 96


def prepared_for(
    tokenizer: Tokenizer, prompt: str, *, ban: tuple[str, ...] = (), seed: int = 0, **limits: int
) -> PreparedRequest:
    """Return a request that draws from all printable ASCII."""
    asked = Request(
        prompt=prompt,
        sampling=SamplingConfig(top_k=0, temperature=0.3, ban=ban),
        generation=GenerationConfig(**limits),  # type: ignore[arg-type]
        seed=seed,
    )
    return prepare(asked, tokenizer, ModelShape(1, 1, 8, 8, 64, SIZE))


def found(forbidden: ForbiddenIds) -> set[str]:
    """Return the characters that are forbidden, EOS as such."""
    ids = {token_id for some in forbidden.find() for token_id in some.tolist()}
    return {"EOS" if token_id == EOS else chr(token_id + 32) for token_id in ids}


def test_nothing_is_forbidden_if_nothing_is_asked(ascii_tokenizer: Tokenizer) -> None:
    """Nor is there anything to do at a step."""
    forbidden = ForbiddenIds(ascii_tokenizer, prepared_for(ascii_tokenizer, "a"))
    assert not forbidden.find()
    forbidden.append(1)
    assert not forbidden.find()


def test_eos_is_forbidden_before_enough_is_drawn(ascii_tokenizer: Tokenizer) -> None:
    """Two tokens: at the third it may come. The prompt does not count."""
    forbidden = ForbiddenIds(ascii_tokenizer, prepared_for(ascii_tokenizer, "aa", min_new_tokens=2))
    for expected in ({"EOS"}, {"EOS"}, set()):
        assert found(forbidden) == expected
        forbidden.append(1)


def test_an_ignored_eos_counts_as_drawn(ascii_tokenizer: Tokenizer) -> None:
    """It is a token like the others then, once it may come."""
    asked = prepared_for(ascii_tokenizer, "a", min_new_tokens=2, ignore_eos=True)
    forbidden = ForbiddenIds(ascii_tokenizer, asked)
    for expected in ({"EOS"}, {"EOS"}, set()):
        assert found(forbidden) == expected
        forbidden.append(EOS)


def test_a_ban_sees_the_end_of_the_prompt(ascii_tokenizer: Tokenizer) -> None:
    """`ca` of the prompt must not become `cat`; the ban of one letter holds always."""
    asked = prepared_for(ascii_tokenizer, "a ca", ban=("cat", "z", "taca!"))
    forbidden = ForbiddenIds(ascii_tokenizer, asked)
    assert found(forbidden) == {"z", "t"}
    forbidden.append(ord("c") - 32)
    assert found(forbidden) == {"z"}


def test_special_tokens_do_not_cut_a_banned_text(ascii_tokenizer: Tokenizer) -> None:
    """They are not printed: what is before and after them stands side by side."""
    forbidden = ForbiddenIds(ascii_tokenizer, prepared_for(ascii_tokenizer, "x", ban=("ab",)))
    for token_id in (ord("a") - 32, EOS, EOS):
        forbidden.append(token_id)
        assert found(forbidden) == {"b"}


def test_bans_and_eos_are_forbidden_together(ascii_tokenizer: Tokenizer) -> None:
    """Both in the same step."""
    asked = prepared_for(ascii_tokenizer, "a", ban=("b", "ab"), min_new_tokens=1)
    assert found(ForbiddenIds(ascii_tokenizer, asked)) == {"EOS", "b"}


@pytest.mark.parametrize("ban", [(" ",), ("a", "b", "c"), ("ab", "ba", "aa")], ids=str)
@given(seed=st.integers(0, 2**32), prompt=st.text("abc", max_size=3))
def test_a_completion_never_holds_what_is_banned(
    ascii_tokenizer: Tokenizer, ban: tuple[str, ...], seed: int, prompt: str
) -> None:
    """Through the whole loop, on logits that want it most of the time, across the prompt's end."""
    often = [ord(letter) - 32 for letter in "abc "]
    asked = prepared_for(ascii_tokenizer, prompt, ban=ban, seed=seed, max_new_tokens=20)
    engine = ScriptedEngine(
        scatter(SIZE, often=often), n_positions=64, vocab_size=SIZE, max_slots=1
    )
    chunks = generate(engine, ascii_tokenizer, Sampler(), [asked])
    completion = "".join(chunk.text for chunk in chunks)
    for text in ban:
        assert text not in completion
        assert text not in prompt[-len(text) + 1 or len(prompt) :] + completion


def test_real_tokens_never_spell_what_is_banned(gpt2_tokenizer: Tokenizer) -> None:
    """Of GPT-2's own vocabulary: 300 tokens at random among those that are not forbidden."""
    size = 50257
    bans = ("e", " th", "ing", "é")
    asked = Request(
        prompt="caf\u00c3",  # its last byte but one begins `é`
        sampling=SamplingConfig(ban=bans),
        generation=GenerationConfig(),
        seed=0,
    )
    ready = prepare(asked, gpt2_tokenizer, ModelShape(1, 1, 8, 8, 64, size))
    forbidden = ForbiddenIds(gpt2_tokenizer, ready)
    draws = np.random.default_rng(178)
    spelt = b""
    for _ in range(300):
        allowed = np.ones(size, bool)
        for ids in forbidden.find():
            allowed[ids] = False
        token_id = int(draws.choice(np.flatnonzero(allowed)))
        forbidden.append(token_id)
        spelt += gpt2_tokenizer.token_bytes(token_id)
    for text in bans:
        assert text.encode() not in spelt
    assert len(spelt) > 300
