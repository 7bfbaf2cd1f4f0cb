"""Token healing: what is taken off a prompt, and what may be drawn in its stead."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from gpt2cli.config import SamplingConfig
from gpt2cli.errors import ModelError
from gpt2cli.sampling.healing import Healing, count_healed
from gpt2cli.sampling.history import BannedTexts, History
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.sampling.vocabulary import Vocabulary

PIECES = [b"", b" ", b"g", b"o", b"v", b"go", b"govern", b" gov", b"ov", b"over", b"vet"]
NONE, SPACE, G, O, V, GO, GOVERN, _GOV, OV, OVER, VET = range(len(PIECES))  # noqa: E741
VOCABULARY = Vocabulary(PIECES)


def log(shares: Mapping[int, float] | None = None) -> NDArray[np.float32]:
    """Return logits [V] of these probabilities; the other ids share what is left."""
    shares = shares or {}
    rest = (1 - sum(shares.values())) / (len(PIECES) - len(shares))
    return np.log([shares.get(i, rest) for i in range(len(PIECES))]).astype(np.float32)


@pytest.mark.parametrize(
    ("ids", "count"),
    [
        ([O, SPACE], 1),  # " gov" begins with a space
        ([SPACE, G, O, V], 3),  # with three of them; " gov" is no longer one
        ([O, GO], 1),
        ([SPACE, O, V], 2),  # "over": a longer one before which nothing begins
        ([SPACE, GOVERN], 0),  # no longer token: nothing would change
        ([NONE], 0),  # BOS, or a special token, has no bytes
        ([G, NONE, O], 1),
        ([], 0),
    ],
    ids=str,
)
def test_as_many_tokens_are_taken_off_as_one_longer_token_covers(
    ids: Sequence[int], count: int
) -> None:
    assert count_healed(ids, VOCABULARY) == count


def test_what_is_drawn_covers_the_bytes_or_is_the_prompts_own_token() -> None:
    """Once a cover is drawn, all may follow."""
    history = History(SamplingConfig(), seed=0, healing=Healing([G, O, V], VOCABULARY))
    assert drawable(history) == {G, GOVERN}
    history.append(G)
    assert drawable(history) == {O, OV, OVER}
    cut = history.fork()
    cut.append(OVER)
    assert cut.healing is None
    history.append(O)
    assert drawable(history) == {V, VET}
    history.append(V)
    assert history.healing is None


def drawable(history: History) -> set[int]:
    assert history.healing is not None
    return set(np.flatnonzero(np.isfinite(history.healing.process(log()))).tolist())


def test_a_path_is_as_likely_as_all_of_it() -> None:
    """By hand: of "g" 0.4, then 0.3 that covers "ov", or "o" 0.5 and then 0.4 that covers "v".

    0.4 × (0.3 + 0.5 × 0.4) = 0.2 beside "govern", 0.1.
    """
    healing = Healing([G, O, V], VOCABULARY)
    assert list(healing.path) == [G, O]
    after_g = log({OV: 0.2, OVER: 0.1, O: 0.5})
    after_o = log({V: 0.3, VET: 0.1})
    healing.look_ahead(np.stack([after_g, after_o]))
    shares = np.exp(healing.process(log({G: 0.4, GOVERN: 0.1})).astype(np.float64))
    assert shares[GOVERN] == pytest.approx(0.1)
    assert shares[G] == pytest.approx(0.2, rel=1e-5)
    healing.append(G)
    assert np.exp(float(healing.process(after_g)[O])) == pytest.approx(0.5 * 0.4, rel=1e-5)


def test_bad_logits_ahead_are_the_models_error() -> None:
    with pytest.raises(ModelError, match="NaN"):
        Healing([G, O], VOCABULARY).look_ahead(np.full((1, len(PIECES)), np.nan, np.float32))


@pytest.mark.parametrize(
    ("ban", "expected"),
    [(b"go", GOVERN), (b"ver", G), (b"vern", G), (b"gov", GOVERN), (b" go", GOVERN)],
    ids=str,
)
def test_a_banned_text_may_stay_in_the_prompt_but_not_go_beyond(ban: bytes, expected: int) -> None:
    """The prompt ends in " g" "o" "v", and "govern" is the likeliest."""
    history = History(
        SamplingConfig(temperature=0),
        seed=0,
        prompt_ids=[SPACE],
        bans=BannedTexts([ban], VOCABULARY),
        healing=Healing([G, O, V], VOCABULARY),
    )
    logits = log()
    logits[GOVERN] = 1
    assert Sampler().step(logits[None], [history]) == [expected]


def test_the_prompts_own_token_may_repeat_an_ngram() -> None:
    """Of "go" "v" "go" "v" the last is the prompt's, not a repetition of the completion's."""
    config = SamplingConfig(temperature=0, no_repeat_ngram=2)
    healing = Healing([V], VOCABULARY)
    history = History(config, seed=0, prompt_ids=[GO, V, GO], healing=healing)
    logits = log()
    logits[V] = 1
    assert Sampler().step(logits[None], [history]) == [V]
