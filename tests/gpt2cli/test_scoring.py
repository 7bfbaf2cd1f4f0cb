"""Log-probabilities and perplexity: against a float64 NumPy loop, against hand values, and rules.

The loop is written from Hugging Face's guide to perplexity (transformers
`docs/source/en/perplexity.md`) on the NumPy oracle, which has no cache; it shares no code with the
module.
"""

import itertools
import math
import tracemalloc
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from export.checkpoint import open_checkpoint
from export.config import read_config
from export.reference import Reference
from export.weights import expected_weights
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.errors import UsageError
from gpt2cli.model_folder import read_model_folder
from gpt2cli.sampling.logprobs import Alternative, TokenLogprob
from gpt2cli.scoring import (
    CompactScores,
    Totals,
    choose_stride,
    find_groups,
    score,
    score_each,
)
from tests.array_weights import ArrayWeights
from tests.checkpoints import CheckpointShape
from tests.gpt2cli.scripted import ScriptedEngine, scatter
from tests.model_folders import ModelFolders

CONTEXT = 1024
SHAPE = CheckpointShape(
    n_layer=2, n_head=2, n_embd=32, n_positions=CONTEXT, vocab_size=289, seed=11
)
BOS = 288
MOST_ASKED = 64  # logits of so many places at once

Logits = NDArray[np.float32]
LogitsAfter = Callable[[Sequence[int]], NDArray[np.float64]]  # [S] ids -> [S, V]


@pytest.fixture(scope="module")
def engine(model_folders: ModelFolders) -> Engine:
    return Engine(read_model_folder(model_folders(SHAPE)), Device("cpu"), max_slots=1)


@pytest.fixture(scope="module")
def oracle(model_folders: ModelFolders) -> LogitsAfter:
    """Return a function to the oracle's logits after each token; it remembers windows."""
    checkpoint = model_folders.checkpoint(SHAPE)
    config = read_config(checkpoint)
    with open_checkpoint(checkpoint) as weights:
        arrays = {name: weights.read(name) for name in expected_weights(config)}
    reference = Reference(config, ArrayWeights(arrays))
    known: dict[tuple[int, ...], NDArray[np.float64]] = {}

    def logits_after(ids: Sequence[int]) -> NDArray[np.float64]:
        key = tuple(ids)
        if key not in known:
            known[key] = reference.logits(ids, range(len(ids)))
        return known[key]

    return logits_after


def loop(logits_after: LogitsAfter, ids: Sequence[int], *, size: int, stride: int) -> list[float]:
    """Return the log-probabilities of all ids after the first, as the guide's loop scores them."""
    logprobs: list[float] = []
    previous_end = 0
    for begin in range(0, len(ids), stride):
        end = min(begin + size, len(ids))
        new = end - previous_end
        window = list(ids[begin:end])
        logits = logits_after(window)
        for place in range(1, len(window)):
            if place >= len(window) - new:  # the others' labels are -100 there
                row = logits[place - 1]
                total = math.fsum(np.exp(row - row.max()))
                logprobs.append(float(row[window[place]] - row.max() - math.log(total)))
        previous_end = end
        if end == len(ids):
            break
    return logprobs


def score_all(
    engine: Engine | ScriptedEngine, ids: Sequence[int], *, stride: int, bos: int | None = BOS
) -> list[TokenLogprob]:
    return list(itertools.chain.from_iterable(score(engine, ids, bos_token_id=bos, stride=stride)))


@pytest.mark.parametrize(
    ("length", "stride"), [(1, 512), (CONTEXT, CONTEXT - 1), (CONTEXT + 1, 512), (1400, 300)]
)
def test_each_token_has_the_logprob_of_a_float64_loop(
    engine: Engine, oracle: LogitsAfter, length: int, stride: int
) -> None:
    """To 1e-5, each token once, in order; the first one after BOS."""
    ids = np.random.default_rng(5).integers(0, BOS, length).tolist()
    expected = loop(oracle, [BOS, *ids], size=CONTEXT, stride=stride)
    scores = score_all(engine, ids, stride=stride)
    assert [s.token_id for s in scores] == ids
    assert [s.logprob for s in scores] == pytest.approx(expected, rel=0, abs=1e-5)
    assert engine.lengths == ()


@pytest.mark.parametrize("stride", [1, 2, 7, 15])
@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 40])
def test_every_stride_and_length_is_the_guides(length: int, stride: int) -> None:
    """On a context of 16 tokens; the logits depend on every token that a window shows."""
    ids = [id_ % 257 for id_ in range(length)]
    engine = ScriptedEngine(scatter(257), max_slots=1)
    expected = loop(
        lambda window: np.stack(
            [scatter(257)(window[: i + 1]).astype(np.float64) for i in range(len(window))]
        ),
        [256, *ids],
        size=16,
        stride=stride,
    )
    scores = score_all(engine, ids, stride=stride, bos=256)
    assert [s.logprob for s in scores] == pytest.approx(expected, rel=0, abs=1e-12)
    assert engine.slots == []


def test_without_bos_the_first_token_has_no_score() -> None:
    """Nothing stands before it; the others are scored after it, and it does not count."""
    engine = ScriptedEngine(scatter(257), max_slots=1)
    first, *others = score_all(engine, [5, 6, 7], stride=8, bos=None)
    after_bos = score_all(engine, [6, 7], stride=8, bos=5)
    assert first == TokenLogprob(5, None)
    assert others == after_bos
    totals = Totals()
    totals.add([first, *others])
    assert totals.scored_tokens == 2


@pytest.mark.parametrize("bos", [256, None])
def test_an_empty_text_asks_nothing_of_the_engine(bos: int | None) -> None:
    engine = ScriptedEngine(scatter(257), max_slots=1)
    assert score_all(engine, [], stride=8, bos=bos) == []
    assert engine.calls == []
    assert Totals().perplexity is None


@pytest.mark.parametrize("length", [64, 500])
def test_the_logits_of_few_places_are_asked_for_at_once(length: int) -> None:
    """However long the text: logits would be most of the memory."""
    asked = []

    class Counting(ScriptedEngine):
        def extend(self, slot: int, ids: Sequence[int], positions: Sequence[int]) -> Logits:
            asked.append(len(positions))
            return super().extend(slot, ids, positions)

    engine = Counting(lambda ids: np.zeros(9, np.float32), n_positions=128, max_slots=1)
    score_all(engine, [1] * length, stride=64, bos=0)
    assert max(asked) == MOST_ASKED
    assert sum(asked) == length


def test_closing_the_iterator_frees_the_slot() -> None:
    engine = ScriptedEngine(scatter(257), n_positions=128, max_slots=1)
    scores = score(engine, [1] * 500, bos_token_id=256, stride=64)
    next(scores)
    scores.close()
    assert engine.slots == []
    assert engine.count("extend") == 1


def test_alternatives_are_the_likeliest_at_each_place() -> None:
    """Best first, ties to the lower id; each token of the text has those of its own place."""
    rows = {(4,): [0, 3, 1, 3, 1], (4, 3): [5, 0, 0, 0, 0]}
    engine = ScriptedEngine(
        lambda ids: np.array(rows[tuple(ids)], np.float32), vocab_size=5, max_slots=1
    )
    [[first, second]] = score(engine, [3, 0], bos_token_id=4, stride=8, top=2)
    assert [other.token_id for other in first.alternatives] == [1, 3]
    assert [other.token_id for other in second.alternatives] == [0, 1]
    assert first.alternatives[1].logprob == first.logprob


def test_texts_that_are_scored_together_have_the_scores_of_each_alone(engine: Engine) -> None:
    """To the last bit, with the alternatives too; each group is scored in one call."""
    texts = [np.random.default_rng(n).integers(0, BOS, n).tolist() for n in (9, 1, 64, 200, 17, 2)]
    groups = list(find_groups(engine, [len(ids) for ids in texts]))
    assert groups == [[1, 5, 0, 4], [2], [3]]
    each = score_each(engine, texts, bos_token_id=BOS, stride=9, top=2)
    scored = {index: list(itertools.chain.from_iterable(parts)) for index, parts in each}
    assert list(scored) == [1, 5, 0, 4, 2, 3]
    for index, ids in enumerate(texts):
        alone = score(engine, ids, bos_token_id=BOS, stride=9, top=2)
        assert scored[index] == list(itertools.chain.from_iterable(alone))
    assert engine.lengths == ()


@pytest.mark.parametrize(
    ("lengths", "together", "n_positions", "groups"),
    [
        ([], True, 1024, []),
        ([64, 65, 64, 64], True, 1024, [[0, 2], [3], [1]]),
        ([7, 8, 8, 9], True, 9, [[0, 1, 2], [3]]),
        ([16] * 9, True, 1024, [[*range(8)], [8]]),
        ([2, 1], False, 1024, [[1], [0]]),
    ],
)
def test_groups_are_of_similar_and_short_texts(
    lengths: list[int], together: bool, n_positions: int, groups: list[list[int]]
) -> None:
    """At most 64 ids each and 128 in all, and fewer than the context; or alone, if bits change."""
    engine = ScriptedEngine(scatter(257), n_positions=n_positions, max_slots=1)
    engine.reads_together = together
    assert list(find_groups(engine, lengths)) == groups


@pytest.mark.parametrize(
    ("logprobs", "perplexity"),
    [
        ([0.0], 1.0),
        ([math.log(1 / 8), math.log(1 / 2)], 4.0),
        ([-1000.0], math.inf),
        ([None], None),
        ([None, math.log(1 / 3)], 3.0),
    ],
)
def test_the_perplexity_is_the_inverse_of_the_mean_probability(
    logprobs: list[float | None], perplexity: float | None
) -> None:
    """The geometric mean, of the tokens that have a score; infinite beyond what floats hold."""
    totals = Totals()
    for logprob in logprobs:
        totals.add([TokenLogprob(0, logprob)])
    assert totals.perplexity == (None if perplexity is None else pytest.approx(perplexity))


@pytest.mark.parametrize(
    ("stride", "n_positions", "settled"),
    [(None, 1024, 512), (None, 33, 16), (None, 2, 1), (1, 33, 1), (32, 33, 32)],
)
def test_the_stride_is_half_of_the_context_unless_it_is_given(
    stride: int | None, n_positions: int, settled: int
) -> None:
    """From 1 to one less than the context: a window's new tokens need one before them."""
    assert choose_stride(stride, n_positions) == settled


def test_a_stride_as_long_as_the_context_is_a_usage_error() -> None:
    """Only the model tells how long that is; the error names both."""
    with pytest.raises(UsageError, match=r"stride: expected 1 to 32, .*, found 33"):
        choose_stride(33, 33)


SCORES = st.builds(
    TokenLogprob,
    st.integers(0, 2**32 - 1),
    st.none() | st.floats(max_value=0, allow_nan=False),
    st.lists(
        st.builds(Alternative, st.integers(0, 2**32 - 1), st.floats(max_value=0, allow_nan=False)),
        max_size=3,
    ).map(tuple),
)


@given(st.lists(SCORES, max_size=8))
def test_compact_scores_are_the_scores(scores: list[TokenLogprob]) -> None:
    """With any number of alternatives, and without a logprob."""
    compact = CompactScores()
    for one in scores:
        compact.add(one)
    assert list(compact) == scores


def test_compact_scores_take_twelve_bytes_each() -> None:
    """And four for the number of alternatives, where objects take hundreds."""
    tracemalloc.start()
    compact = CompactScores()
    for number in range(10_000):
        compact.add(TokenLogprob(number, -0.5, (Alternative(number, -0.25),)))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 10_000 * (2 * 12 + 4) * 1.3
