"""The sampler: rows of any kind side by side, each as if it were alone."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from gpt2cli.errors import ModelError
from gpt2cli.sampling import Row, Sampler, SamplingConfig

GREEDY = SamplingConfig(temperature=0)
PLAIN = SamplingConfig(top_k=0)


def row(
    config: SamplingConfig = PLAIN, *, seed: int = 0, sample: int = 0, prompt: Sequence[int] = ()
) -> Row:
    """Return a new row."""
    return Row(config, seed=seed, sample=sample, prompt_ids=prompt)


def array(*logits: Sequence[float]) -> NDArray[np.float32]:
    """Return logits [n, V]."""
    return np.array(logits, np.float32)


def test_greedy_takes_the_best() -> None:
    """Each row its own."""
    assert Sampler().step(array([1, 3, 2], [5, 0, 4]), [row(GREEDY), row(GREEDY)]) == [1, 0]


def test_greedy_takes_the_lower_id_of_equals() -> None:
    """Ties are broken by id."""
    assert Sampler().step(array([1, 3, 3]), [row(GREEDY)]) == [1]


def test_greedy_draws_nothing() -> None:
    """A temperature of 1e-320 does not divide: the best logit wins though others are near."""
    config = SamplingConfig(temperature=1e-320)
    assert Sampler().step(array([1, 1 + 1e-6, 1]), [row(config)]) == [1]


@pytest.mark.parametrize(("penalty", "expected"), [(1.0, 1), (1.5, 2)], ids=["off", "on"])
def test_the_repetition_penalty_sees_the_prompt(penalty: float, expected: int) -> None:
    """Id 1 leads by 0.1 until it counts as seen."""
    config = SamplingConfig(temperature=0, repetition_penalty=penalty)
    assert Sampler().step(array([0, 1.1, 1]), [row(config, prompt=[1])]) == [expected]


def test_the_repetition_penalty_sees_the_completion() -> None:
    """Each chosen id counts from the next step on: the three ids come in turn."""
    config = SamplingConfig(temperature=0, repetition_penalty=2.0)
    sampler, one = Sampler(), row(config)
    assert [sampler.step(array([3, 2.9, 2.8]), [one])[0] for _ in range(3)] == [0, 1, 2]


def test_a_repeated_id_is_penalised_once() -> None:
    """Seen twice is seen: 4 / 1.5 stays above 2, though 4 / 1.5 / 1.5 would not."""
    config = SamplingConfig(temperature=0, repetition_penalty=1.5)
    assert Sampler().step(array([4, 2]), [row(config, prompt=[0, 0])]) == [0]


def test_missing_ids_are_never_chosen() -> None:
    """Ids without a token stay out, greedy or drawn, even with a penalty that would lift them."""
    sampler = Sampler([range(1, 3), range(4, 5)])
    logits = array([0, 9, 9, 1, 9])
    rewarding = SamplingConfig(temperature=0, repetition_penalty=1e-300)
    assert sampler.step(logits, [row(GREEDY)]) == [3]
    assert sampler.step(logits, [row(rewarding, prompt=[1, 2, 4])]) == [3]
    for config in (PLAIN, SamplingConfig(temperature=1e9, top_k=0), SamplingConfig(top_k=4)):
        drawn = {sampler.step(logits, [row(config, seed=seed)])[0] for seed in range(50)}
        assert drawn == {0, 3}


def test_the_logits_are_left_as_they_are() -> None:
    """Samples of one prompt share its logits."""
    logits = array([1, 2, 3])
    config = SamplingConfig(temperature=0.5, repetition_penalty=2.0)
    Sampler([range(1)]).step(logits, [row(config, prompt=[2])])
    assert logits.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("config", [GREEDY, PLAIN, SamplingConfig()], ids=["0", "1", "top-k"])
def test_bad_logits_are_a_model_error(bad: float, config: SamplingConfig) -> None:
    """NaN or infinity anywhere in a row is told, not drawn from."""
    with pytest.raises(ModelError, match="NaN or infinite"):
        Sampler().step(array([1, 2, 3], [1, bad, 3]), [row(config), row(config)])


def test_nothing_left_to_choose_is_an_error() -> None:
    """A row of minus infinities has no token."""
    with pytest.raises(ModelError):
        Sampler([range(2)]).step(array([1, 2]), [row()])


def test_draws_follow_the_distribution() -> None:
    """20,000 draws from six tokens: chi-squared below 30 (5 degrees: 1 in 67,000 is above)."""
    shares = np.array([0.4, 0.25, 0.15, 0.1, 0.07, 0.03])
    logits = np.broadcast_to(np.log(shares).astype(np.float32), (1000, 6))
    counts = np.zeros(6)
    for sample in range(20):
        rows = [row(seed=seed, sample=sample) for seed in range(1000)]
        counts += np.bincount(Sampler().step(logits, rows), minlength=6)
    expected = 20_000 * shares
    assert ((counts - expected) ** 2 / expected).sum() < 30


def test_draws_of_successive_steps_follow_the_distribution() -> None:
    """The same along one stream: 2,000 steps, chi-squared below 30."""
    shares = np.array([0.4, 0.25, 0.15, 0.1, 0.07, 0.03])
    logits, one = np.log(shares).astype(np.float32)[None], row(seed=5)
    counts = np.bincount([Sampler().step(logits, [one])[0] for _ in range(2000)], minlength=6)
    assert ((counts - 2000 * shares) ** 2 / (2000 * shares)).sum() < 30


def test_a_huge_temperature_draws_all_alike() -> None:
    """At 1e9 the likeliest of four is drawn about as often as the others: 250 ± 75 of 1,000."""
    config = SamplingConfig(temperature=1e9, top_k=0)
    rows = [row(config, seed=seed) for seed in range(1000)]
    logits = np.broadcast_to(np.array([0, 5, 10, 20], np.float32), (1000, 4))
    counts = np.bincount(Sampler().step(logits, rows), minlength=4)
    assert abs(counts - 250).max() < 75


def test_rows_of_several_kinds_keep_their_order() -> None:
    """Greedy, top-k 1 and penalised rows, mixed: each answer is at its row's place."""
    one = SamplingConfig(top_k=1)
    penalised = SamplingConfig(temperature=0, repetition_penalty=2.0)
    rows = [row(one), row(GREEDY), row(penalised, prompt=[2]), row(one), row(GREEDY)]
    logits = array([1, 0, 0], [0, 1, 0], [0, 0.6, 1], [0, 0, 1], [1, 0, 0])
    assert Sampler().step(logits, rows) == [0, 1, 1, 2, 0]


@pytest.mark.parametrize("vocab_size", [7, 1500])
def test_a_row_does_not_depend_on_its_neighbours(vocab_size: int) -> None:
    """Random rows of random kinds, five steps: together each gives what it gives alone."""
    draws = np.random.default_rng(178)
    sampler = Sampler([range(vocab_size - 2, vocab_size)])
    for _ in range(10):
        count = int(draws.integers(2, 9))
        configs = [
            SamplingConfig(
                temperature=draws.choice([0.0, 0.7, 1.0, 3.0]),
                top_k=int(draws.choice([0, 3, 40])),
                top_p=draws.choice([0.5, 0.9, 1.0]),
                min_p=draws.choice([0.0, 0.1]),
                repetition_penalty=draws.choice([1.0, 1.3]),
            )
            for _ in range(count)
        ]
        together = [row(c, seed=i % 3, sample=i, prompt=[i % 5]) for i, c in enumerate(configs)]
        alone = [row(c, seed=i % 3, sample=i, prompt=[i % 5]) for i, c in enumerate(configs)]
        for _ in range(5):
            logits = (draws.standard_normal((count, vocab_size)) * 2).astype(np.float32)
            found = sampler.step(logits, together)
            expected = [sampler.step(logits[i : i + 1], [alone[i]])[0] for i in range(count)]
            assert found == expected


def test_seed_and_sample_number_choose_the_stream() -> None:
    """Twenty steps from a flat distribution: equal keys give equal ids, other keys others."""

    def draw_twenty(seed: int, sample: int) -> list[int]:
        one = row(seed=seed, sample=sample)
        flat = np.zeros((1, 1000), np.float32)
        return [Sampler().step(flat, [one])[0] for _ in range(20)]

    assert draw_twenty(1, 0) == draw_twenty(1, 0)
    assert draw_twenty(1, 0) != draw_twenty(1, 1)
    assert draw_twenty(1, 0) != draw_twenty(2, 0)
