"""Beam searches: what transformers finds, what the rules say, and how they share slots.

A scripted engine records the calls and holds the loop to its rules about slots.
"""

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from gpt2cli.config import SamplingConfig
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.errors import PromptError
from gpt2cli.generation.beams import BeamSearch
from gpt2cli.generation.interfaces import FinishReason
from gpt2cli.generation.loop import generate
from gpt2cli.generation.requests import PreparedRequest, prepare
from gpt2cli.model_folder import read_model_folder
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.checkpoints import BYTE_COUNT, TokenizerKind, write_tokenizer
from tests.gpt2cli.folders import bare_folder
from tests.gpt2cli.generation.runs import (
    EOS,
    VOCAB_SIZE,
    ScriptedSource,
    join,
    make_engine,
    make_request,
    run,
    run_from,
)
from tests.gpt2cli.scripted import ScriptedEngine
from tests.model_folders import ModelFolders
from tests.vectors.beam_cases import CASES, BeamCase, config_of, load_stored

# What transformers finds, in stored vectors


def prepare_case(case: BeamCase) -> PreparedRequest:
    """Return the request of a case for all that it finds, with log-probabilities."""
    penalty, size = case.repetition_penalty, case.no_repeat_ngram
    request = make_request(
        sampling=SamplingConfig(temperature=0, repetition_penalty=penalty, no_repeat_ngram=size),
        beams=case.beams,
        penalty=case.length_penalty,
        logprobs=0,
        max_new_tokens=case.max_new_tokens,
        min_new_tokens=case.min_new_tokens,
        ignore_eos=case.ignore_eos,
    )
    return PreparedRequest(request, case.prompt_ids)


def stored_ids(case: BeamCase) -> list[tuple[int, ...]]:
    """Return the stored ids, without the EOS that ends one."""
    ends = () if case.ignore_eos else case.eos_ids
    return [ids[:-1] if ids[-1] in ends else ids for ids in load_stored(case).ids]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_search_finds_what_transformers_finds(
    model_folders: ModelFolders, case: BeamCase
) -> None:
    """In order of their scores; one beam is a greedy sample. Every id has a text."""
    kind: TokenizerKind = "filled" if case.shape.vocab_size > BYTE_COUNT else "bytes"
    folder = read_model_folder(model_folders(case.shape, config=config_of(case), tokenizer=kind))
    engine = Engine(folder, Device("cpu"), max_slots=case.beams, threads=1)
    sampler = Sampler(folder.missing_ids)
    found = join(generate(engine, Tokenizer(folder), sampler, [prepare_case(case)]))
    ids = [tuple(one.token_id for one in finish.logprobs or ()) for _, finish in found.values()]
    assert ids == stored_ids(case)
    assert engine.lengths == ()


def rank(**logits: float) -> NDArray[np.float32]:
    """Return logits of characters (`end` is EOS); the others have next to no probability."""
    ranked = np.full(VOCAB_SIZE, -50, np.float32)
    for name, logit in logits.items():
        ranked[EOS if name == "end" else ord(name) - 32] = logit
    return ranked


def test_there_are_candidates_for_every_way_to_end(tmp_path: pathlib.Path) -> None:
    """With two EOS ids two beams go on, though three of the best four candidates end."""
    write_tokenizer(tmp_path, VOCAB_SIZE, kind="ascii")
    folder = dataclasses.replace(
        bare_folder(tmp_path, vocab_size=VOCAB_SIZE, eos_token_id=EOS),
        eos_token_ids=frozenset({EOS, ord("z") - 32}),
    )
    tokenizer = Tokenizer(folder)
    request = make_request(beams=2, min_new_tokens=1)
    search = BeamSearch(tokenizer, prepare(request, tokenizer, make_engine().shape), 16)
    assert search.step(Sampler(), rank(a=0, b=-0.15)[None]) == [0, 0]
    assert search.step(Sampler(), np.stack([rank(end=0, a=-0.1, z=-0.2)] * 2)) == [0, 1]


def test_the_logprobs_of_a_completion_add_up_to_its_score(ascii_tokenizer: Tokenizer) -> None:
    """Without a length penalty the scores are in order, so the sums are."""
    request = make_request(
        beams=4, penalty=0.0, ignore_eos=True, max_new_tokens=6, stop=("b",), logprobs=2
    )
    sums = []
    for _, finish in run(make_engine(max_slots=4), ascii_tokenizer, request).values():
        assert finish.logprobs is not None
        assert len(finish.logprobs) == finish.completion_tokens
        assert {len(one.alternatives) for one in finish.logprobs} == {2}
        sums.append(sum(one.logprob or 0.0 for one in finish.logprobs))
    assert sums == sorted(sums, reverse=True)
    assert len(set(sums)) == 4


# Slots


def widths(engine: ScriptedEngine) -> list[int]:
    return [len(call[1]) for call in engine.calls if call[0] == "decode"]


def test_beams_share_one_prefill_and_copy_what_they_must(ascii_tokenizer: Tokenizer) -> None:
    """At the first step two copies for three beams; the texts come at the end, each at once."""
    engine = make_engine(max_slots=3)
    request = make_request("abc", beams=3, ignore_eos=True, max_new_tokens=6)
    prepared = prepare(request, ascii_tokenizer, engine.shape)
    chunks = list(generate(engine, ascii_tokenizer, Sampler(), [prepared]))
    assert [(chunk.sample, chunk.finish is not None) for chunk in chunks] == [
        (number, True) for number in range(3)
    ]
    names = [call[0] for call in engine.calls]
    assert (names.count("extend"), names.count("decode")) == (1, 5)
    assert names[:4] == ["extend", "fork", "fork", "decode"]
    assert names.count("fork") <= 2 * 6


def test_a_search_for_which_there_is_no_room_waits_and_nobody_passes(
    ascii_tokenizer: Tokenizer,
) -> None:
    """Two samples run in three slots; the search comes, then a third sample, which would fit."""
    engine = make_engine(max_slots=3)
    requests = [
        make_request("a", index=0, ignore_eos=True, max_new_tokens=4),
        make_request("b", index=1, ignore_eos=True, max_new_tokens=6),
        make_request("c", index=2, beams=3, ignore_eos=True, max_new_tokens=3),
        make_request("d", index=3, ignore_eos=True, max_new_tokens=1),
    ]
    run(engine, ascii_tokenizer, *requests)
    extended = [(call[1], call[2]) for call in engine.calls if call[0] == "extend"]
    assert extended == [(0, (65,)), (1, (66,)), (0, (67,)), (0, (68,))]
    assert widths(engine) == [2, 2, 2, 1, 1, 3, 3]


def test_a_search_takes_the_slots_of_finished_samples(ascii_tokenizer: Tokenizer) -> None:
    """Of two beside one that goes on; there are no more slots. It takes a prefill, too."""
    engine = make_engine(max_slots=3)
    engine.slot_limit = 3
    requests = [
        make_request("a", index=0, samples=2, ignore_eos=True, max_new_tokens=2),
        make_request("b", index=1, ignore_eos=True, max_new_tokens=6),
        make_request("b", index=2, beams=2, ignore_eos=True, max_new_tokens=4),
    ]
    run(engine, ascii_tokenizer, *requests)
    assert widths(engine) == [3, 3, 3, 3, 1]
    assert engine.count("extend") == 2


def test_the_slots_of_beams_that_end_stay_the_searchs(ascii_tokenizer: Tokenizer) -> None:
    """Of two beams only `cc` goes on after two tokens; the next token makes them two again."""

    def logits_of(ids: Sequence[int]) -> NDArray[np.float32]:
        steps = [rank(c=0, d=-1), rank(a=0, c=-0.1, b=-0.2), rank(e=0, f=-0.1), rank(g=0)]
        return steps[len(ids) - 1] if ids[0] == 83 else rank(z=0)

    engine = make_engine(logits_of, max_slots=3)
    requests = [
        make_request("x", index=0, max_new_tokens=9),
        make_request("s", beams=2, index=1, max_new_tokens=4, stop=("a", "b")),
        make_request("y", index=2, max_new_tokens=9),
    ]
    results = run(engine, ascii_tokenizer, *requests)
    assert widths(engine)[:4] == [3, 2, 3, 2]
    assert [results[1, number][0] for number in range(2)] == ["cceg", "ccfg"]


# Ends


def test_an_interrupted_search_tells_the_best_so_far(ascii_tokenizer: Tokenizer) -> None:
    """After four tokens: those of a search for four tokens at most, but for their reason."""
    engine = make_engine(max_slots=3)
    request = make_request(beams=3, ignore_eos=True, max_new_tokens=9)
    results = run(engine, ascii_tokenizer, request, interrupted=lambda: engine.count("decode") == 3)
    assert {finish.reason for _, finish in results.values()} == {FinishReason.INTERRUPTED}
    shorter = make_request(beams=3, ignore_eos=True, max_new_tokens=4)
    whole = run(make_engine(max_slots=3), ascii_tokenizer, shorter)
    assert [text for text, _ in results.values()] == [text for text, _ in whole.values()]


ONLY_C = SamplingConfig(ban=tuple(chr(code) for code in range(32, 127) if code != ord("c")))


def test_options_that_forbid_everything_are_the_searchs_own_error(
    ascii_tokenizer: Tokenizer,
) -> None:
    """Each of its samples finishes with the reason; what runs beside it goes on."""
    banned = SamplingConfig(ban=("\n", "c", *ONLY_C.ban))
    engine = make_engine(max_slots=4)
    search = make_request(sampling=banned, beams=3, samples=2, min_new_tokens=1)
    beside = make_request("b", index=1, ignore_eos=True, max_new_tokens=5)
    entries = [(prepare(one, ascii_tokenizer, engine.shape), 0) for one in (search, beside)]
    found = join(run_from(ScriptedSource(*entries), engine, ascii_tokenizer))
    assert {key: finish.reason for key, (_, finish) in found.items()} == {
        (0, 0): FinishReason.ERROR,
        (0, 1): FinishReason.ERROR,
        (1, 0): FinishReason.LENGTH,
    }
    assert str(found[0, 1][1].error).startswith("every token is forbidden")
    with pytest.raises(PromptError, match="every token is forbidden"):
        run(make_engine(max_slots=4), ascii_tokenizer, search)


def test_completions_that_the_options_do_not_allow_are_errors(ascii_tokenizer: Tokenizer) -> None:
    """One token, of which two are allowed: the third completion is not there."""
    engine = make_engine(max_slots=3)
    request = make_request(sampling=ONLY_C, beams=3, max_new_tokens=1, min_new_tokens=1)
    entry = prepare(request, ascii_tokenizer, engine.shape), 0
    found = join(run_from(ScriptedSource(entry), engine, ascii_tokenizer))
    assert [finish.reason for _, finish in found.values()] == ["length", "length", "error"]
    told = "the options allow 2 completions here, not 3; lower samples"
    assert str(found[0, 2][1].error) == told
