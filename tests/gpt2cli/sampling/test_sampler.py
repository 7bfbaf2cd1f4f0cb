"""The sampler: rows of any kind side by side, each as if it were alone."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gpt2cli.config import SamplingConfig
from gpt2cli.errors import ModelError, PromptError
from gpt2cli.sampling.history import BannedTexts, History
from gpt2cli.sampling.sampler import Continuation, Sampler
from gpt2cli.sampling.vocabulary import Vocabulary

GREEDY = SamplingConfig(temperature=0)
PLAIN = SamplingConfig(top_k=0)
EVERY_KIND = [
    *(GREEDY, PLAIN, SamplingConfig(), SamplingConfig(top_k=0, typical_p=0.5)),
    SamplingConfig(top_n_sigma=1.5, xtc_probability=0.5, xtc_threshold=0.05),
]
LETTERS = Vocabulary([b"a", b"b", b"c", b"d"])


def make(
    config: SamplingConfig = PLAIN,
    *,
    seed: int = 0,
    sample: int = 0,
    prompt: Sequence[int] = (),
    biases: Sequence[tuple[int, float]] = (),
    banned: Sequence[int] = (),
    drawn: Sequence[int] = (),
) -> History:
    """Return a history after these ids; `banned`: ids that may not follow."""
    bans = BannedTexts([LETTERS.pieces[i] for i in banned], LETTERS) if banned else None
    history = History(config, seed=seed, sample=sample, prompt_ids=prompt, biases=biases, bans=bans)
    for token_id in drawn:
        history.append(token_id)
    return history


def array(*logits: Sequence[float]) -> NDArray[np.float32]:
    return np.array(logits, np.float32)


def draw(sampler: Sampler, logits: NDArray[np.float32], histories: Sequence[History]) -> list[int]:
    """Return the next ids, of which the histories take note."""
    ids = sampler.step(logits, histories)
    for history, token_id in zip(histories, ids, strict=True):
        history.append(token_id)
    return ids


def draw_often(
    config: SamplingConfig, logits: Sequence[float], times: int, **more: Any
) -> list[int]:
    """Return what is drawn in turn by logits that do not change."""
    history = make(config, **more)
    return [draw(Sampler(), array(logits), [history])[0] for _ in range(times)]


def test_greedy_takes_the_best_and_the_lower_id_of_equals() -> None:
    """Each row its own; a temperature of 1e-320 does not divide."""
    config = SamplingConfig(temperature=1e-320)
    logits = array([1, 3, 2], [5, 0, 5], [1, 1 + 1e-6, 1])
    assert Sampler().step(logits, [make(GREEDY), make(GREEDY), make(config)]) == [1, 0, 1]


def test_the_repetition_penalty_sees_prompt_and_completion() -> None:
    """Each id once, however often it was seen: 4 / 1.5 stays above 2."""
    config = SamplingConfig(temperature=0, repetition_penalty=1.5)
    assert draw_often(config, [0, 1.1, 1], 1, prompt=[1]) == [2]
    assert draw_often(config, [3, 2.9, 2.8], 3) == [0, 1, 2]
    assert draw_often(config, [4, 2], 2, prompt=[0, 0]) == [0, 0]


@pytest.mark.parametrize(("name", "last"), [("presence_penalty", 0), ("frequency_penalty", 1)])
def test_the_penalties_of_the_completion_do_not_see_the_prompt(name: str, last: int) -> None:
    """0 leads by 0.1; the prompt has it often, which counts for nothing until it is drawn."""
    config = SamplingConfig(temperature=0, **{name: 0.2})  # type: ignore[arg-type]
    assert draw_often(config, [1.1, 1.0], 4, prompt=[0] * 9) == [0, 1, 0, last]


@pytest.mark.parametrize("name", ["repetition_penalty", "presence_penalty", "frequency_penalty"])
def test_the_penalties_look_back_as_far_as_they_are_told(name: str) -> None:
    """Over two ids: the best three come in turn. Over none: nothing happens."""
    for last, expected in ((2, [0, 1, 2, 0, 1]), (0, [0] * 5), (-1, [0, 1, 2, 3, 0])):
        penalty = {name: 2.0, "repeat_last_n": last}
        config = SamplingConfig(temperature=0, **penalty)  # type: ignore[arg-type]
        assert draw_often(config, [1.3, 1.2, 1.1, 1.0], 5) == expected
    prompted = SamplingConfig(temperature=0, repetition_penalty=2.0, repeat_last_n=1)
    assert draw_often(prompted, [1.2, 1.1], 2, prompt=[1, 0]) == [1, 0]


def test_xtc_is_at_work_as_often_as_it_should_be() -> None:
    """The better of two goes in a quarter of the steps: the numbers are not those of the draws."""
    config = SamplingConfig(xtc_probability=0.25, xtc_threshold=0.1)
    drawn = draw_often(config, [math.log(0.8), math.log(0.2)], 4000)
    # 0.25 + 0.75 · 0.2 = 0.4, with a standard deviation of 0.0077.
    assert sum(drawn) / 4000 == pytest.approx(0.4, abs=0.03)


@pytest.mark.parametrize(("other", "expected"), [(0.99, 0), (1.01, 1)])
def test_processors_come_in_their_order(other: float, expected: int) -> None:
    """A bias before the repetition penalty: (-1 + 3) / 2; and that before the others: 4 / 2 - 1."""
    config = SamplingConfig(temperature=0, repetition_penalty=2.0)
    biased = make(config, prompt=[0], biases=[(0, 3.0)])
    assert Sampler().step(array([-1, other]), [biased]) == [expected]
    config = SamplingConfig(temperature=0, repetition_penalty=2.0, presence_penalty=1.0)
    assert Sampler().step(array([4, other]), [make(config, drawn=[0])]) == [expected]


def test_what_is_masked_stays_so_whatever_would_lift_it() -> None:
    config = SamplingConfig(
        temperature=0, repetition_penalty=0.01, presence_penalty=-2, frequency_penalty=-2
    )
    lifted = make(config, prompt=[0], biases=[(0, 100.0)], banned=[0], drawn=[0])
    assert Sampler().step(array([50, -50]), [lifted]) == [1]


def test_missing_ids_are_never_chosen() -> None:
    """Ids without a token stay out, greedy or drawn, even with a penalty that would lift them."""
    sampler = Sampler([range(1, 3), range(4, 5)])
    logits = array([0, 9, 9, 1, 9])
    rewarding = SamplingConfig(temperature=0, repetition_penalty=1e-300)
    assert sampler.step(logits, [make(GREEDY)]) == [3]
    assert sampler.step(logits, [make(rewarding, prompt=[1, 2, 4])]) == [3]
    for config in (PLAIN, SamplingConfig(temperature=1e9, top_k=0), SamplingConfig(top_k=4)):
        drawn = {sampler.step(logits, [make(config, seed=seed)])[0] for seed in range(50)}
        assert drawn == {0, 3}


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("config", [GREEDY, PLAIN, SamplingConfig()], ids=["0", "1", "top-k"])
def test_bad_logits_are_a_model_error(bad: float, config: SamplingConfig) -> None:
    """NaN or infinity anywhere in a row is told, not drawn from."""
    with pytest.raises(ModelError, match="NaN or infinite"):
        Sampler().step(array([1, 2, 3], [1, bad, 3]), [make(config), make(config)])


@pytest.mark.parametrize("bad", [[np.nan, 1], [np.inf, 1], [-np.inf, -np.inf]])
def test_bad_logits_are_the_models_fault_though_all_is_masked(bad: list[float]) -> None:
    with pytest.raises(ModelError):
        Sampler().step(array(bad), [make(banned=[0, 1])])


@pytest.mark.parametrize("config", EVERY_KIND)
def test_one_token_left_is_chosen(config: SamplingConfig) -> None:
    assert Sampler().step(array([9, 9, -9, 9]), [make(config, banned=[0, 1, 3])]) == [2]


@pytest.mark.parametrize("config", EVERY_KIND)
def test_a_sequence_whose_every_token_is_masked_is_told_so(config: SamplingConfig) -> None:
    """It is not the model's fault; the others can be tried again."""
    histories = [make(config), make(config, seed=1, banned=[0, 1])]
    sampler = Sampler([range(2, 3)])
    logits = array([1, 2, 3], [1, 2, 3])
    with pytest.raises(PromptError, match=r"^every token is forbidden here; relax ban, "):
        sampler.step(logits, histories)
    assert sampler.step(logits[:1], histories[:1]) == sampler.step(logits[:1], [make(config)])


def test_draws_of_seeds_and_samples_follow_the_distribution() -> None:
    """The first step of 2,000 sequences: chi-squared below 30 (5 degrees: p = 1.5e-5)."""
    shares = np.array([0.4, 0.25, 0.15, 0.1, 0.07, 0.03])
    logits = np.broadcast_to(np.log(shares).astype(np.float32), (2000, 6))
    histories = [make(seed=i // 4, sample=i % 4) for i in range(2000)]
    counts = np.bincount(Sampler().step(logits, histories), minlength=6)
    assert ((counts - 2000 * shares) ** 2 / (2000 * shares)).sum() < 30


def test_seed_and_sample_number_choose_the_numbers() -> None:
    """Twenty steps from a flat distribution: equal keys give equal ids, other keys others."""
    flat = [0.0] * 1000
    once, again, sample, seed = (
        draw_often(PLAIN, flat, 20, seed=s, sample=n) for s, n in ((1, 0), (1, 0), (1, 1), (2, 0))
    )
    assert once == again
    assert once != sample != seed != once


def draw_config(draws: np.random.Generator) -> SamplingConfig:
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
        count = int(draws.integers(1, 9))
        configs = [draw_config(draws) for _ in range(count)]
        together, alone = (
            [make(config, seed=seed, prompt=[1, 2]) for seed, config in enumerate(configs)]
            for _ in range(2)
        )
        for _ in range(5):
            logits = (draws.standard_normal((count, vocab_size)) * 2).astype(np.float32)
            found = draw(sampler, logits, together)
            expected = [draw(sampler, logits[i : i + 1], [alone[i]])[0] for i in range(count)]
            assert found == expected


# The step of a beam search

FIRST = np.log(np.array([0.5, 0.3, 0.2], np.float32))
SECOND = np.log(np.array([0.1, 0.8, 0.1], np.float32))


def find(
    logits: NDArray[np.float32],
    *beams: History,
    totals: Sequence[float] = (0.0, 0.0),
    count: int = 9,
    missing: Sequence[range] = (),
) -> list[Continuation]:
    return Sampler(missing).find_continuations(logits, beams, totals[: len(beams)], count=count)


def pairs(found: list[Continuation]) -> list[tuple[int, int]]:
    return [(one.parent, one.token_id) for one in found]


def test_the_best_of_all_beams_come_first() -> None:
    """By the sum of the log-probabilities: 0.6·0.5, 0.4·0.8, 0.6·0.3, 0.6·0.2 and the rest."""
    totals = [math.log(0.6), math.log(0.4)]
    logits = np.stack([FIRST, SECOND + np.float32(50)])  # logits need not be normalised
    found = find(logits, make(), make(), totals=totals, count=4)
    assert pairs(found) == [(1, 1), (0, 0), (0, 1), (0, 2)]
    assert [math.exp(one.total) for one in found] == pytest.approx(
        [0.32, 0.3, 0.18, 0.12], rel=1e-4
    )


def test_of_equals_the_earlier_beam_and_the_lower_id_come_first() -> None:
    found = find(np.zeros((2, 3), np.float32), make(), make(), count=5)
    assert pairs(found) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]


def test_a_missing_id_keeps_its_share() -> None:
    """It is not found, but log-probabilities are of the model's own distribution."""
    found = find(FIRST[None], make(), missing=[range(1)])
    assert pairs(found) == [(0, 1), (0, 2)]
    assert found[0].total == pytest.approx(math.log(0.3))


def test_processors_work_on_log_probabilities_and_warpers_do_nothing() -> None:
    """All are negative, so a penalty of 2 doubles one: 0.5² is 0.25, less than 0.3."""
    config = SamplingConfig(repetition_penalty=2.0, temperature=0.1, top_k=1, top_p=0.1, min_p=0.9)
    found = find(FIRST[None], make(config, prompt=[0]), totals=[-7.0])
    assert pairs(found) == [(0, 1), (0, 0), (0, 2)]
    assert found[1].total == pytest.approx(-7 + 2 * math.log(0.5))


def test_what_is_masked_for_one_beam_is_not_for_another() -> None:
    """Each has its own text; where all is masked nothing is found."""
    logits = np.stack([FIRST, FIRST])
    found = find(logits, make(banned=[0, 2]), make())
    assert pairs(found) == [(1, 0), (0, 1), (1, 1), (1, 2)]
    assert find(FIRST[None], make(banned=[0, 1, 2])) == []


def test_beams_do_not_go_on_by_logits_that_are_no_numbers() -> None:
    with pytest.raises(ModelError, match="NaN or infinite"):
        find(array([0, math.nan, 1]), make())
