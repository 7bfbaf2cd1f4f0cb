"""The sampler: rows of any kind side by side, each as if it were alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gpt2cli.config import SamplingConfig
from gpt2cli.errors import ModelError, PromptError
from gpt2cli.sampling import Row, Sampler

GREEDY = SamplingConfig(temperature=0)
PLAIN = SamplingConfig(top_k=0)
EVERY_KIND = [GREEDY, PLAIN, SamplingConfig(), SamplingConfig(top_k=0, typical_p=0.5)]


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


@pytest.mark.parametrize("config", EVERY_KIND)
def test_one_token_left_is_chosen(config: SamplingConfig) -> None:
    """However unlikely, and whatever the warpers."""
    one = row(config)
    one.forbidden = [np.array([0, 1]), np.array([3])]
    assert Sampler().step(array([9, 9, -9, 9]), [one]) == [2]


@pytest.mark.parametrize("config", EVERY_KIND)
def test_a_row_whose_every_token_is_forbidden_is_told_so(config: SamplingConfig) -> None:
    """It is not the model's fault: no rows have changed, so the others can be tried again."""
    rows = [row(config), row(config, seed=1)]
    rows[1].forbidden = [np.array([0, 1])]
    sampler = Sampler([range(2, 3)])
    logits = array([1, 2, 3], [1, 2, 3])
    with pytest.raises(PromptError, match=r"^every token is forbidden here; ask less of ban, "):
        sampler.step(logits, rows)
    assert [dict(r.counts) for r in rows] == [{}, {}]
    assert sampler.step(logits[:1], rows[:1]) == sampler.step(logits[:1], [row(config)])
    rows[1].forbidden = ()
    assert sampler.step(logits[1:], rows[1:]) == sampler.step(logits[1:], [row(config, seed=1)])


@pytest.mark.parametrize("bad", [[np.nan, 1], [np.inf, 1], [-np.inf, -np.inf]])
def test_bad_logits_are_the_models_fault_though_all_is_forbidden(bad: list[float]) -> None:
    """The weights are what has to be told."""
    one = row()
    one.forbidden = [np.array([0, 1])]
    with pytest.raises(ModelError):
        Sampler().step(array(bad), [one])


def test_ngrams_come_once() -> None:
    """Greedy on logits that never change; after 0 have come 0, 1 and 2: there is no other."""
    config = SamplingConfig(temperature=0, no_repeat_ngram=2)
    sampler, one = Sampler(), row(config, prompt=[0])
    assert [sampler.step(array([3, 2, 1]), [one])[0] for _ in range(5)] == [0, 1, 0, 2, 0]
    with pytest.raises(PromptError):
        sampler.step(array([3, 2, 1]), [one])


def test_the_penalties_of_the_completion_do_not_see_the_prompt() -> None:
    """0 leads by 0.1; the prompt has it often, which counts for nothing until it is drawn."""
    for name in ("presence_penalty", "frequency_penalty"):
        config = SamplingConfig(temperature=0, **{name: 0.2})  # type: ignore[arg-type]
        sampler, one = Sampler(), row(config, prompt=[0] * 9)
        chosen = [sampler.step(array([1.1, 1.0]), [one])[0] for _ in range(4)]
        assert chosen == [0, 1, 0, 0 if name == "presence_penalty" else 1]


def test_a_bias_comes_before_the_repetition_penalty() -> None:
    """-1 + 3 is 2, halved 1; the other way -1 would become -2 and then 1: of the rest 1.5 wins."""
    config = SamplingConfig(temperature=0, repetition_penalty=2.0)
    biased = Row(config, seed=0, sample=0, prompt_ids=[0], biases=[(0, 3.0)])
    assert Sampler().step(array([-1, 0.99]), [biased]) == [0]
    biased = Row(config, seed=0, sample=0, prompt_ids=[0], biases=[(0, 3.0)])
    assert Sampler().step(array([-1, 1.01]), [biased]) == [1]


def test_the_repetition_penalty_comes_before_the_penalties_of_the_completion() -> None:
    """4 / 2 - 1 is 1, not (4 - 1) / 2, as in vLLM."""
    config = SamplingConfig(temperature=0, repetition_penalty=2.0, presence_penalty=1.0)
    for other, expected in ((0.99, 0), (1.01, 1)):
        one = row(config)
        one.append(0)
        assert Sampler().step(array([4, other]), [one]) == [expected]


def test_what_is_forbidden_stays_so_whatever_would_lift_it() -> None:
    """A bias of 100 and penalties that reward."""
    config = SamplingConfig(
        temperature=0, repetition_penalty=0.01, presence_penalty=-2, frequency_penalty=-2
    )
    lifted = Row(config, seed=0, sample=0, prompt_ids=[0], biases=[(0, 100.0)])
    lifted.append(0)
    lifted.forbidden = [np.array([0])]
    assert Sampler().step(array([50, -50]), [lifted]) == [1]


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


def draw_config(draws: np.random.Generator) -> SamplingConfig:
    """Return a random configuration."""
    choices: dict[str, list[Any]] = {
        "temperature": [0.0, 0.7, 1.0, 3.0],
        "top_k": [0, 3, 40],
        "top_p": [0.5, 0.9, 1.0],
        "min_p": [0.0, 0.1],
        "typical_p": [0.5, 0.9, 1.0],
        "repetition_penalty": [1.0, 1.3],
        "presence_penalty": [0.0, 1.0],
        "frequency_penalty": [0.0, -0.5],
        "no_repeat_ngram": [0, 3],
    }
    return SamplingConfig(**{n: v[draws.integers(len(v))] for n, v in choices.items()})


@pytest.mark.parametrize("vocab_size", [7, 1500])
def test_a_row_does_not_depend_on_its_neighbours(vocab_size: int) -> None:
    """Random rows of random kinds, five steps: together each gives what it gives alone."""
    draws = np.random.default_rng(178)
    sampler = Sampler([range(vocab_size - 2, vocab_size)])
    for _ in range(20):
        count = int(draws.integers(2, 9))
        configs = [draw_config(draws) for _ in range(count)]
        biases = [[(i, 3.0)] if i % 2 else [] for i in range(count)]
        together, alone = (
            [
                Row(c, seed=i % 3, sample=i, prompt_ids=[i % 5], biases=biases[i % 7])
                for i, c in enumerate(configs)
            ]
            for _ in range(2)
        )
        for _ in range(5):
            forbidden = [np.flatnonzero(draws.random(vocab_size) < 0.1) for _ in range(count)]
            for i in range(0, count, 3):
                together[i].forbidden = alone[i].forbidden = [forbidden[i]]
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
