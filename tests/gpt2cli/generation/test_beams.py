"""Beam search finds what transformers finds, in stored vectors."""

import numpy as np
import pytest

from gpt2cli.config import BeamConfig, GenerationConfig, SamplingConfig
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.generation.beams import BeamSearch
from gpt2cli.generation.interfaces import FinishReason
from gpt2cli.generation.loop import generate
from gpt2cli.generation.requests import PreparedRequest, Request
from gpt2cli.model_folder import ModelFolder, read_model_folder
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.checkpoints import BYTE_COUNT, TokenizerKind
from tests.model_folders import ModelFolders
from tests.vectors.beam_cases import CASES, BeamCase, config_of, load_stored

SEARCHES = [case for case in CASES if case.beams > 1]


def open_case(model_folders: ModelFolders, case: BeamCase) -> ModelFolder:
    """Return the model folder of a case; every id of it has a text."""
    kind: TokenizerKind = "filled" if case.shape.vocab_size > BYTE_COUNT else "bytes"
    return read_model_folder(model_folders(case.shape, config=config_of(case), tokenizer=kind))


def prepare_case(case: BeamCase, *, index: int = 0) -> PreparedRequest:
    """Return the request of a case for all that it finds, with log-probabilities."""
    request = Request(
        prompt="",
        sampling=SamplingConfig(
            temperature=0,
            repetition_penalty=case.repetition_penalty,
            no_repeat_ngram=case.no_repeat_ngram,
        ),
        generation=GenerationConfig(
            max_new_tokens=case.max_new_tokens,
            min_new_tokens=case.min_new_tokens,
            ignore_eos=case.ignore_eos,
        ),
        search=BeamConfig(beams=case.beams, length_penalty=case.length_penalty),
        seed=0,
        samples=case.beams,
        index=index,
        logprobs=0,
    )
    return PreparedRequest(request, case.prompt_ids)


def without_eos(case: BeamCase) -> list[tuple[int, ...]]:
    """Return the stored ids, without the EOS that ends one."""
    ends = () if case.ignore_eos else case.eos_ids
    return [ids[:-1] if ids[-1] in ends else ids for ids in load_stored(case).ids]


def run(
    engine: Engine, folder: ModelFolder, *requests: PreparedRequest
) -> dict[int, list[tuple[int, ...]]]:
    """Return the ids of each request's samples."""
    found: dict[int, list[tuple[int, ...]]] = {}
    sampler = Sampler(folder.missing_ids)
    for chunk in generate(engine, Tokenizer(folder), sampler, requests):
        if chunk.finish is not None and chunk.finish.logprobs is not None:
            ids = tuple(one.token_id for one in chunk.finish.logprobs)
            found.setdefault(chunk.index, []).append(ids)
    assert engine.lengths == ()
    return found


@pytest.mark.parametrize("case", SEARCHES, ids=lambda case: case.name)
def test_a_search_finds_what_transformers_finds(
    model_folders: ModelFolders, case: BeamCase
) -> None:
    """Ids and scores, without slots: every beam is prefilled anew at each step."""
    folder, stored = open_case(model_folders, case), load_stored(case)
    engine = Engine(folder, Device("cpu"), max_slots=1, threads=1)
    search = BeamSearch(Tokenizer(folder), prepare_case(case), folder.shape.n_positions)
    while not search.ended:
        logits = []
        for sequence in search.sequences:
            logits.append(engine.extend(0, sequence.window, [len(sequence.window) - 1])[0].copy())
            engine.free(0)
        search.step(Sampler(folder.missing_ids), np.stack(logits))
    scores = [hypothesis.score for hypothesis in search.hypotheses]
    assert scores == pytest.approx(list(stored.scores), abs=1e-4, rel=0)
    found = [h.beam.sequence.window[len(case.prompt_ids) :] for h in search.hypotheses]
    assert [tuple(ids) for ids in found] == without_eos(case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_search_in_slots_finds_what_transformers_finds(
    model_folders: ModelFolders, case: BeamCase
) -> None:
    """With the cache of each beam copied from its parent; one beam is a greedy sample."""
    folder = open_case(model_folders, case)
    engine = Engine(folder, Device("cpu"), max_slots=case.beams, threads=1)
    assert run(engine, folder, prepare_case(case)) == {0: without_eos(case)}


@pytest.mark.parametrize("case", [case for case in CASES if case.name.endswith("beams1-penalty0")])
def test_the_logprobs_of_a_greedy_completion_are_those_of_transformers(
    model_folders: ModelFolders, case: BeamCase
) -> None:
    """Their sum; that of EOS is not among them, so it is left out where one has ended the text."""
    folder, stored = open_case(model_folders, case), load_stored(case)
    engine = Engine(folder, Device("cpu"), max_slots=1, threads=1)
    chunks = generate(engine, Tokenizer(folder), Sampler(), [prepare_case(case)])
    [finish] = [chunk.finish for chunk in chunks if chunk.finish is not None]
    assert finish.logprobs is not None
    total = sum(one.logprob for one in finish.logprobs)
    if finish.reason is FinishReason.LENGTH:
        assert total == pytest.approx(stored.scores[0], abs=1e-4)
    else:
        assert total > stored.scores[0]
