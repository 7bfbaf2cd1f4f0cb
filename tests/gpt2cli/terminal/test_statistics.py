"""Claims about what --stats tells."""

import dataclasses
import pathlib
import sys
from typing import Any

import pytest

from gpt2cli.generation.interfaces import Counts
from gpt2cli.loading import LoadedModel
from gpt2cli.terminal.statistics import describe_run, process_seconds
from tests.gpt2cli.loaded import load

_COUNTS = Counts(
    prefill_tokens=3, prefill_seconds=0.5, decode_tokens=8, decode_seconds=1.5, sample_seconds=0.5
)


@pytest.fixture(scope="module")
def model(starter_folder: pathlib.Path) -> LoadedModel:
    return load(starter_folder)


def describe(model: LoadedModel, counts: Counts = _COUNTS, **changed: Any) -> list[str]:
    """Return the lines, without that of the memory, which nobody can foresee."""
    settings: dict[str, Any] = {"seed": 7, "first_token_seconds": None, "from_model": {}}
    lines = describe_run(model, counts, **(settings | changed))
    return [line for line in lines if not line.startswith("peak memory")]


def test_speeds_come_with_their_conditions(
    model: LoadedModel, starter_folder: pathlib.Path
) -> None:
    """Model, precision, device, threads; the rate counts the time to sample, and says its share."""
    assert describe(model) == [
        f"model {starter_folder}, fp32 on cpu, 1 thread, context 512 tokens",
        "prefill 3 tokens in 0.500 s",
        "decode 8 tokens in 2.000 s: 4.0 tokens/s, sampling 25.0 % of it",
        "seed 7",
    ]


def test_what_prompts_shared_is_told(model: LoadedModel) -> None:
    """In tokens, and what was kept for it."""
    counts = dataclasses.replace(_COUNTS, shared_tokens=40, kept_bytes=3 << 19)
    assert describe(model, counts)[1:3] == [
        "prefill 3 tokens in 0.500 s, 40 more were there already",
        "kept prefixes take 1.5 MB",
    ]


def test_a_hub_model_is_told_with_its_commit(model: LoadedModel) -> None:
    stored = dataclasses.replace(model.stored, name="owner/name", revision="0123456789abcdef")
    first, *_ = describe(dataclasses.replace(model, stored=stored))
    assert first.startswith("model owner/name (0123456789ab), fp32")


def test_what_did_not_happen_is_not_told(model: LoadedModel) -> None:
    """No decode step, no rate; nothing from the model, no line of it."""
    assert [line.split()[0] for line in describe(model, Counts())] == ["model", "prefill", "seed"]


def test_the_first_token_and_the_models_own_settings_are_told_where_there_are_any(
    model: LoadedModel,
) -> None:
    """The time is counted from the process's beginning."""
    lines = describe(model, first_token_seconds=0.756, from_model={"temperature": 0.7, "top_k": 40})
    assert "first token 0.76 s after the process began" in lines
    assert "from the model's generation_config.json: temperature 0.7, top_k 40" in lines


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell")
def test_the_peak_memory_is_a_number_of_megabytes(model: LoadedModel) -> None:
    """A process with a model in it has some tens of them at least."""
    lines = describe_run(model, _COUNTS, seed=0, first_token_seconds=None, from_model={})
    (line,) = (line for line in lines if line.startswith("peak memory"))
    assert line.endswith(" MB")
    assert 20 < int(line.split()[2]) < 100_000


def test_the_process_began_before_now() -> None:
    first = process_seconds()
    assert 0 < first <= process_seconds()
