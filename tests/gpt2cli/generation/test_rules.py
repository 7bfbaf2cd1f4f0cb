"""What requests yield depends on each alone: any batch of them gives what the rules say."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt2cli.config import Overflow, SamplingConfig
from gpt2cli.errors import PromptError
from gpt2cli.generation.interfaces import Finish, FinishReason
from gpt2cli.generation.loop import generate
from gpt2cli.generation.requests import PreparedRequest, Request, prepare
from gpt2cli.sampling.history import History
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.generation.runs import EOS, LOGITS_OF, Joined, join, make_engine, make_request


def end_plainly(
    prepared: PreparedRequest, ids: Sequence[int], limit: int, cut: int = 0
) -> tuple[str, Finish] | None:
    """Return the completion if it ends after these ids, by the rules alone."""
    config, prompt_tokens = prepared.request.generation, len(prepared.prompt_ids)
    text = "".join(chr(32 + i) if i < 95 else "\n" for i in ids if i != EOS)
    last = ids[-1] if ids else None
    ending = [stop for stop in config.stop if last != EOS and text.endswith(stop)]
    stop, count = max(ending, key=len, default=None), len(ids)
    if last == EOS and not config.ignore_eos:
        reason, count = FinishReason.STOP, count - 1
    elif stop is not None:
        reason, text = FinishReason.STOP, text[: len(text) - len(stop)]
    elif count == config.max_new_tokens:
        reason = FinishReason.LENGTH
    elif prompt_tokens + count >= limit and config.overflow is not Overflow.SLIDE:
        reason = FinishReason.CONTEXT
    else:
        return None
    return text, Finish(
        reason=reason,
        stop_sequence=stop,
        prompt_tokens=prompt_tokens,
        completion_tokens=count,
        truncated_prompt_tokens=cut,
    )


def generate_plainly(prepared: PreparedRequest, number: int, limit: int) -> tuple[str, Finish]:
    """Make one sample of printable ASCII by the rules alone: no slots, no cache, no streaming."""
    request, prompt_ids = prepared.request, prepared.prompt_ids
    history = History(request.sampling, seed=request.seed, sample=number, prompt_ids=prompt_ids)
    window, ids, cut = list(prompt_ids), list[int](), 0
    while (ended := end_plainly(prepared, ids, limit, cut)) is None:
        if len(window) >= limit:
            window = window[-max(1, limit // 2) :]
            cut = cut if ids else len(prompt_ids) - len(window)
        [token_id] = Sampler().step(LOGITS_OF(window)[None], [history])
        history.append(token_id)
        window.append(token_id)
        ids.append(token_id)
    return ended


def search_plainly(prepared: PreparedRequest, limit: int) -> list[tuple[str, Finish]]:
    """Search by the rules alone: no slots, no streaming, every text from the beginning."""
    config, search = prepared.request.generation, prepared.request.search
    if (ended := end_plainly(prepared, (), limit)) is not None:
        return [ended] * search.beams
    beams: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    found: list[tuple[float, tuple[str, Finish]]] = []
    for length in range(1, config.max_new_tokens + 1):
        candidates = []
        for place, (total, ids) in enumerate(beams):
            logits = LOGITS_OF([*prepared.prompt_ids, *ids]).astype(np.float64)
            logprobs = (logits - np.log(np.exp(logits).sum())).astype(np.float32)
            candidates += [(-(total + float(p)), place, i) for i, p in enumerate(logprobs)]
        going_on = []
        for rank, (negative, place, token_id) in enumerate(sorted(candidates)[: 2 * search.beams]):
            ids = (*beams[place][1], token_id)
            result = end_plainly(prepared, ids, limit)
            if result is None:
                going_on.append((-negative, ids))
            elif rank < search.beams:
                found.append((-negative / length**search.length_penalty, result))
        beams = going_on[: search.beams]
        found = sorted(found, key=lambda one: -one[0])[: search.beams]
        full = len(found) == search.beams
        if not beams or (full and beams[0][0] / length**search.length_penalty <= found[-1][0]):
            break
    return [result for _, result in found]


@st.composite
def requests_of(draw: st.DrawFn, index: int) -> Request:
    """Draw samples of any kind, or a search, after a prompt of up to ten `a` and `b`."""
    beams = draw(st.sampled_from([1, 1, 2, 3, 4]))
    options: dict[str, Any] = {
        "samples": draw(st.integers(1, beams)),
        "penalty": draw(st.sampled_from([0.0, 1.0, 2.0, -1.0])),
        "overflow": draw(st.sampled_from([Overflow.STOP, Overflow.ERROR])),
        "sampling": SamplingConfig(),
    }
    if beams == 1:
        options["samples"] = draw(st.integers(1, 4))
        options["overflow"] = draw(st.sampled_from(Overflow))
        options["sampling"] = SamplingConfig(
            temperature=draw(st.sampled_from([0.0, 0.5, 1.0])),
            top_k=draw(st.sampled_from([0, 2])),
            repetition_penalty=draw(st.sampled_from([1.0, 1.2])),
        )
    return make_request(
        draw(st.text("ab", max_size=10)),
        beams=beams,
        index=index,
        seed=draw(st.integers(0, 2)),
        max_new_tokens=draw(st.integers(0, 12)),
        stop=tuple(draw(st.lists(st.text("ab", min_size=1, max_size=3), max_size=2))),
        ignore_eos=draw(st.booleans()),
        **options,
    )


BATCHES = st.integers(1, 6).flatmap(lambda count: st.tuples(*map(requests_of, range(count))))


@settings(max_examples=80)
@given(batch=BATCHES, max_slots=st.integers(1, 7), limit=st.sampled_from([1, 2, 3, 5, 8, 16]))
def test_any_batch_yields_what_the_rules_say_of_each(
    ascii_tokenizer: Tokenizer, batch: tuple[Request, ...], max_slots: int, limit: int
) -> None:
    """In any number of slots, also fewer than a search has beams; nothing waits for ever."""
    engine = make_engine(max_slots=max_slots, n_positions=limit)
    prepared = []
    for request in batch:
        try:
            prepared.append(prepare(request, ascii_tokenizer, engine.shape))
        except PromptError:
            continue
    found = join(generate(engine, ascii_tokenizer, Sampler(), prepared))
    assert engine.slots == []
    expected: Joined = {}
    for one in prepared:
        numbers = range(one.request.samples)
        if one.request.search.beams > 1:
            results = search_plainly(one, limit)
        else:
            results = [generate_plainly(one, number, limit) for number in numbers]
        expected |= {(one.request.index, number): results[number] for number in numbers}
    assert found == expected
