"""Claims about the JSON record of a sample."""

import dataclasses
import json
import pathlib
from importlib import metadata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.config import LARGEST_SEED, GenerationConfig, SamplingConfig
from gpt2cli.generation.interfaces import Finish, FinishReason
from gpt2cli.generation.requests import Request
from gpt2cli.loading import LoadedModel
from gpt2cli.record_lines import format_record
from gpt2cli.records import make_record
from gpt2cli.sampling.logprobs import Alternative, TokenLogprob
from tests.gpt2cli.loaded import load

RUNTIME = next(
    name for name in ("onnxruntime-gpu", "onnxruntime") if any(metadata.distributions(name=name))
)


@pytest.fixture(scope="module")
def model(starter_folder: pathlib.Path) -> LoadedModel:
    loaded = load(starter_folder)
    stored = dataclasses.replace(loaded.stored, name="owner/name", revision="0123")
    return dataclasses.replace(loaded, stored=stored)


def test_a_record_has_the_keys_of_the_contract_in_its_order(model: LoadedModel) -> None:
    """Each with what the request, the finish and the model say."""
    request = Request(
        prompt="a",
        sampling=SamplingConfig(),
        generation=GenerationConfig(max_new_tokens=7),
        seed=LARGEST_SEED,
        samples=4,
        index=2,
    )
    finish = Finish(
        reason=FinishReason.STOP, stop_sequence="\n", prompt_tokens=1, completion_tokens=5
    )

    record = make_record(request, sample=3, completion="b", finish=finish, model=model)

    assert list(record.items()) == [
        ("index", 2),
        ("prompt", "a"),
        ("completion", "b"),
        ("finish_reason", "stop"),
        ("stop_sequence", "\n"),
        ("prompt_tokens", 1),
        ("completion_tokens", 5),
        ("sample", 3),
        ("seed", LARGEST_SEED),
        ("options", {"max_new_tokens": 7}),
        ("model", "owner/name"),
        ("revision", "0123"),
        ("precision", "fp32"),
        ("device", "cpu"),
        ("fingerprint", model.stored.folder.fingerprint),
        (
            "versions",
            {"gpt2": metadata.version("gpt2"), "onnxruntime": metadata.version(RUNTIME)},
        ),
    ]


def test_logprobs_come_last_with_a_tokens_bytes_where_they_are_no_text(model: LoadedModel) -> None:
    """Alternatives where there are some; a special token by its name, though it adds no text."""
    tokenizer = model.tokenizer
    [eos_id] = tokenizer.eos_token_ids
    [b_id] = tokenizer.encode("b")
    broken = next(i for i in range(300) if tokenizer.spell(i) == b"\xc3")
    request = Request(
        prompt="a", sampling=SamplingConfig(), generation=GenerationConfig(), seed=0, logprobs=2
    )
    finish = Finish(
        reason=FinishReason.LENGTH,
        stop_sequence=None,
        prompt_tokens=1,
        completion_tokens=2,
        logprobs=(
            TokenLogprob(broken, -0.5, (Alternative(b_id, -0.25), Alternative(eos_id, -2.0))),
            TokenLogprob(eos_id, -1.0),
        ),
    )

    record = make_record(request, sample=0, completion="", finish=finish, model=model)

    assert list(record)[-1] == "logprobs"
    assert record["logprobs"] == [
        {
            "id": broken,
            "text": "\ufffd",
            "bytes": [0xC3],
            "logprob": -0.5,
            "alternatives": [
                {"id": b_id, "text": "b", "logprob": -0.25},
                {"id": eos_id, "text": "<|endoftext|>", "logprob": -2.0},
            ],
        },
        {"id": eos_id, "text": "<|endoftext|>", "logprob": -1.0},
    ]


@given(st.text())
def test_any_text_is_one_line_that_reads_back(text: str) -> None:
    """Newlines and controls are escaped, the rest is written as it is."""
    line = format_record({"prompt": text, "seed": LARGEST_SEED})
    assert line.endswith("}\n")
    assert line.count("\n") == 1
    assert json.loads(line) == {"prompt": text, "seed": LARGEST_SEED}


def test_letters_beyond_ascii_are_not_escaped() -> None:
    assert format_record({"prompt": "é日本👩‍🚀"}) == '{"prompt": "é日本👩‍🚀"}\n'
