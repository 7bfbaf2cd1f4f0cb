"""Logits warpers: distributions by hand, and by a plain scalar oracle.

The oracle is written from Hugging Face's definitions (transformers 5.24, logits_process.py:
TemperatureLogitsWarper, TopK…, TopP…, MinP… and TypicalLogitsWarper).
"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpt2cli.config import SamplingConfig
from gpt2cli.sampling.warpers import Candidates, draw, find_warping, warp
from tests.gpt2cli.sampling import llama_cpp

OFF = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "typical_p": 1.0}


def config(**options: float) -> SamplingConfig:
    return SamplingConfig(**(OFF | options))  # type: ignore[arg-type]


def logits_of(*shares: float) -> NDArray[np.float32]:
    """Return one row of logits [1, V] whose softmax has these shares."""
    return np.log(np.array([shares]) / sum(shares)).astype(np.float32)


def shares_of(candidates: Candidates, vocab_size: int) -> list[float]:
    """Return the distribution of the first row over all ids: [V]."""
    ids = np.arange(vocab_size) if candidates.ids is None else candidates.ids[0]
    shares = np.zeros(vocab_size)
    np.add.at(shares, ids, candidates.weights[0])
    return list(shares / shares.sum())


def warped(shares: list[float], **options: float) -> list[float]:
    return shares_of(warp(logits_of(*shares), config(**options)), len(shares))


@pytest.mark.parametrize("temperature", [1e9, 1.7976931348623157e308])
def test_a_huge_temperature_is_uniform(temperature: float) -> None:
    assert warped([0.001, 0.999], temperature=temperature) == pytest.approx([0.5, 0.5], rel=1e-6)


def test_the_smallest_temperature_that_draws_takes_the_best() -> None:
    """At 1e-5 neighbours 0.1 apart in logits have no share left, and nothing overflows."""
    assert warped([0.5, 0.45, 0.05], temperature=1e-5) == [1, 0, 0]


def test_top_k_keeps_exactly_k_of_equals() -> None:
    assert warped([0.2, 0.3, 0.2, 0.3], top_k=3) == pytest.approx(
        [0.2 / 0.8, 0.3 / 0.8, 0, 0.3 / 0.8], rel=1e-6
    )
    assert warped([0.25] * 4, top_k=2) == pytest.approx([0.5, 0.5, 0, 0])


def test_many_equals_are_kept_in_the_order_of_their_ids() -> None:
    """Of three scores in turn k = 1,500 keeps the 1,000 best and the 500 first of the next."""
    logits = np.tile(np.array([0, 1, 2], np.float32), 1000)[None]
    candidates = warp(logits, config(top_k=1500))
    assert candidates.ids is not None
    assert candidates.ids[0].tolist() == [*range(2, 3000, 3), *range(1, 1500, 3)]


@pytest.mark.parametrize(("shares", "top_k"), [((0.5, 0.25, 0.25), 0), ((0.4, 0.4, 0.2), 2)])
def test_top_p_ends_where_it_is_reached_exactly(shares: tuple[float, ...], top_k: int) -> None:
    """At p = 0.5 the first is enough, of all and of the two best (powers of two: no rounding)."""
    logits = np.log(np.array([shares])).astype(np.float32)
    candidates = warp(logits, config(top_p=0.5, top_k=top_k))
    assert shares_of(candidates, 3) == [1, 0, 0]


def test_top_p_zero_keeps_the_best() -> None:
    """One token always stays; of equals the lower id."""
    assert warped([0.2, 0.4, 0.4], top_p=0.0) == [0, 1, 0]


def test_min_p_one_keeps_the_best_and_its_equals() -> None:
    """Hugging Face removes what is below the limit, not what is at it."""
    assert warped([0.4, 0.2, 0.4], min_p=1.0) == pytest.approx([0.5, 0, 0.5])


def test_typical_p_keeps_equals_together() -> None:
    """Of four equals all stay however small p is, as in Hugging Face."""
    assert warped([0.25] * 4, typical_p=1e-9) == pytest.approx([0.25] * 4)
    assert warped([0.4, 0.2, 0.2, 0.2], typical_p=0.1) == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3])


@pytest.mark.parametrize("typical_p", [5e-324, 1 - 2**-53])
def test_both_ends_of_typical_p_keep_something(typical_p: float) -> None:
    """The least p the most typical token, the greatest all that has a share worth a number."""
    for shares in ([1.0], [0.6, 0.3, 0.1], [1.0, 1e-30], [0.1] * 10):
        found = warped(shares, typical_p=typical_p)
        assert sum(found) == pytest.approx(1)
        if typical_p > 0.5:
            assert found == pytest.approx([share / sum(shares) for share in shares], rel=1e-5)


def test_forbidden_ids_have_no_share() -> None:
    """Minus infinity stays out, also where top-k asks for more than is left."""
    logits = np.array([[-np.inf, 0, -np.inf, 0]], np.float32)
    for options in ({}, {"top_k": 3}, {"top_p": 0.99}, {"min_p": 0.01}, {"typical_p": 0.9}):
        assert shares_of(warp(logits, config(**options)), 4) == [0, 0.5, 0, 0.5]


def test_logits_far_from_zero_are_as_good() -> None:
    """A shift of 1e4 or of the largest float changes nothing and overflows nowhere."""
    for shift in (1e4, -1e4):
        logits = np.array([[shift, shift + 1]], np.float32)
        shares = shares_of(warp(logits, config()), 2)
        assert shares == pytest.approx([1 / (1 + math.e), math.e / (1 + math.e)])
    largest = float(np.finfo(np.float32).max)
    assert shares_of(warp(np.array([[-largest, largest]], np.float32), config()), 2) == [0, 1]


def softmax(scores: list[float]) -> list[float]:
    best = max(scores)
    weights = [math.exp(score - best) for score in scores]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def warp_plainly(logits: list[float], options: SamplingConfig) -> list[float]:
    """Apply the definitions one after the other, as Hugging Face does, to a list."""
    scores = [logit / options.temperature for logit in logits]
    best_first = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    if options.top_k:
        for i in best_first[options.top_k :]:
            scores[i] = -math.inf
    if options.top_p < 1:
        shares, before = softmax(scores), 0.0
        for place, i in enumerate(best_first):
            if place and before >= options.top_p:
                scores[i] = -math.inf
            before += shares[i]
    if options.min_p:
        shares = softmax(scores)
        limit = options.min_p * max(shares)
        scores = [
            s if share >= limit else -math.inf for s, share in zip(scores, shares, strict=True)
        ]
    return softmax(keep_typical_plainly(scores, options.typical_p))


def keep_typical_plainly(scores: list[float], typical_p: float) -> list[float]:
    """Leave of some scores those nearest to the entropy until their share reaches typical-p."""
    shares = softmax(scores)
    entropy = -math.fsum(share * math.log(share) for share in shares if share)
    distances = [abs(-math.log(share) - entropy) if share else math.inf for share in shares]
    border, mass = math.inf, 0.0
    for i in sorted(range(len(scores)), key=distances.__getitem__):
        mass += shares[i]
        if mass >= typical_p:
            border = distances[i]
            break
    return [
        s if typical_p == 1 or d <= border else -math.inf
        for s, d in zip(scores, distances, strict=True)
    ]


@pytest.mark.parametrize(("vocab_size", "times"), [(5, 150), (300, 150), (5000, 30)])
def test_all_combinations_follow_the_definitions(vocab_size: int, times: int) -> None:
    """Random logits and options: the distribution is that of the plain oracle."""
    draws = np.random.default_rng(178)
    for _ in range(times):
        logits = (draws.standard_normal(vocab_size) * draws.choice([0.3, 3])).astype(np.float32)
        options = config(
            temperature=draws.choice([0.3, 1.0, 2.5]),
            top_k=int(draws.choice([0, 1, 3, 40, vocab_size])),
            top_p=draws.choice([0.05, 0.5, 0.95, 1.0]),
            min_p=draws.choice([0.0, 0.02, 0.5]),
            typical_p=draws.choice([0.1, 0.6, 0.95, 1.0]),
        )
        found = shares_of(warp(logits[None], options), vocab_size)
        expected = warp_plainly([float(logit) for logit in logits], options)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9, err_msg=str(options))


@pytest.mark.parametrize("kept", [1, 1024, 1025, 19_999])
def test_top_p_of_a_flat_distribution_keeps_its_share(kept: int) -> None:
    """Of 20,000 equal tokens exactly the first so many, however far they have to be sorted."""
    candidates = warp(np.zeros((1, 20_000), np.float32), config(top_p=(kept - 0.5) / 20_000))
    shares = np.array(shares_of(candidates, 20_000))
    assert (shares[:kept] > 0).all() and not shares[kept:].any()


@pytest.mark.parametrize(
    ("uniform", "expected"), [(0.0, 7), (0.2499, 7), (0.25, 9), (0.9999999999999999, 9)]
)
def test_draw_inverts_the_cumulative_weights(uniform: float, expected: int) -> None:
    """Weights 1, 0, 3: below a quarter the first id, from there the last, never the middle one."""
    candidates = Candidates(np.array([[7, 8, 9]]), np.array([[1.0, 0.0, 3.0]]))
    assert draw(candidates, np.array([uniform])) == [expected]


@given(weights=st.lists(st.floats(0, 1), max_size=8), place=st.integers(0, 8))
def test_draw_never_falls_off_the_end(weights: list[float], place: int) -> None:
    """The largest number below 1 takes a candidate with weight, whatever the sum rounds to."""
    weights = [*weights[:place], 1.0, *weights[place:]]  # the best one always has weight 1
    ids = np.arange(len(weights))[None]
    [chosen] = draw(Candidates(ids, np.array([weights])), np.array([1 - 2**-53]))
    assert weights[chosen] > 0


def test_rows_are_warped_together_whatever_their_processors() -> None:
    processed = SamplingConfig(repetition_penalty=2.0, no_repeat_ngram=2, ban=("b",))
    assert find_warping(processed) == find_warping(SamplingConfig())
    others: list[dict[str, Any]] = [
        *({"temperature": 0.5}, {"top_k": 1}, {"top_p": 0.5}, {"min_p": 0.5}, {"typical_p": 0.5})
    ]
    assert len({find_warping(SamplingConfig(**options)) for options in others}) == len(others)


# llama.cpp's warpers


@given(
    st.lists(st.integers(-60, 60), min_size=1, max_size=12, unique=True),
    st.floats(0.01, 4),
    st.booleans(),
    st.floats(0.1, 3),
)
def test_top_n_sigma_is_that_of_llama_cpp(
    eighths: list[int], n: float, masked: bool, temperature: float
) -> None:
    """At any temperature; what is masked counts for nothing."""
    row = [eighth / 8 for eighth in eighths] + [-math.inf] * masked
    expected = [logit != -math.inf for logit in llama_cpp.keep_top_n_sigma(row, n)]
    options = config(top_n_sigma=n, temperature=temperature)
    found = warp(np.array([row], np.float32), options).weights[0] > 0
    assert list(found) == expected


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=8, unique=True),
    st.floats(0, 0.5),
    st.sampled_from([0, 5]),
    st.floats(0.01, 1),
)
def test_xtc_excludes_what_it_does_in_llama_cpp(
    counts: list[int], threshold: float, top_k: int, probability: float
) -> None:
    """Of what the others left, and only where its random number is below its probability."""
    shares = [count / sum(counts) for count in counts]
    if top_k:
        floor = sorted(shares, reverse=True)[:top_k][-1]
        shares = [share if share >= floor else 0 for share in shares]
        shares = [share / sum(shares) for share in shares]
    options = config(xtc_probability=probability, xtc_threshold=threshold, top_k=top_k)
    if any(abs(share - threshold) < 1e-6 for share in shares):  # float32 may be on either side
        return
    for roll, expected in (
        (math.nextafter(probability, 0), llama_cpp.exclude_top(shares, threshold)),
        (probability, shares),
    ):
        total = sum(expected)
        found = shares_of(warp(logits_of(*counts), options, [roll]), len(counts))
        assert found == pytest.approx([share / total for share in expected], abs=1e-6)


def test_xtc_keeps_the_last_of_equals() -> None:
    """And alone what is alone above its threshold."""
    for shares, expected in (([0.4, 0.3, 0.3], [0, 0, 1]), ([0.7, 0.15, 0.15], [0.7, 0.15, 0.15])):
        for more in ({}, {"top_k": 3}):
            both = config(xtc_probability=1, xtc_threshold=0.2, **more)
            found = shares_of(warp(logits_of(*shares), both, [0.0]), 3)
            assert found == pytest.approx(expected, abs=1e-6)
