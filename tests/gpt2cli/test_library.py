"""Claims about `import gpt2cli`: a model in memory for Python programs."""

import json
import logging
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import gpt2cli
from tests.gpt2cli.runner import invoke
from tests.model_folders import ModelFolders

ENDLESS = {"ignore_eos": True, "max_new_tokens": 8}


@pytest.fixture(scope="module")
def folder(model_folders: ModelFolders) -> pathlib.Path:
    return model_folders()


@pytest.fixture(scope="module")
def model(folder: pathlib.Path) -> Iterator[gpt2cli.Model]:
    with gpt2cli.load(folder, device="cpu", threads=1) as loaded:
        yield loaded


def generate_by_shell(folder: pathlib.Path, *options: object) -> list[dict[str, Any]]:
    line = ("generate", "-m", folder, "-q", "--json", "--ignore-eos", "-n", 8, *options)
    return [json.loads(line) for line in invoke(*map(str, line)).stdout.splitlines()]


def test_a_completion_is_that_of_the_command_line(
    model: gpt2cli.Model, folder: pathlib.Path
) -> None:
    """With its whole record, which replay takes."""
    made = model.generate("zq", seed=4, temperature=0.9, stop=["\n"], logprobs=1, **ENDLESS)
    [record] = generate_by_shell(folder, "zq", "--seed", 4, "-t", 0.9, "-s", r"\n", "--logprobs", 1)
    assert json.loads(json.dumps(made.record)) == record
    assert (made.text, made.prompt, made.seed) == (record["completion"], "zq", 4)
    assert (made.finish_reason, made.completion_tokens) == ("length", 8)
    assert str(made) == made.text


def test_several_prompts_are_completed_side_by_side(
    model: gpt2cli.Model, folder: pathlib.Path
) -> None:
    """In their order, with seeds that count up; none is none."""
    made = model.generate(("z", "qz"), seed=7, **ENDLESS)
    expected = [
        generate_by_shell(folder, prompt, "--seed", seed)[0]["completion"]
        for prompt, seed in (("z", 7), ("qz", 8))
    ]
    assert [one.text for one in made] == expected
    assert model.generate([]) == []


def test_a_stream_is_the_completion_in_pieces(model: gpt2cli.Model) -> None:
    pieces = list(model.stream("z", seed=3, **ENDLESS))
    assert len(pieces) > 1
    assert "".join(pieces) == model.generate("z", seed=3, **ENDLESS).text


def test_a_stream_that_is_closed_leaves_the_model_free(model: gpt2cli.Model) -> None:
    """Until then this thread cannot use it, and others wait."""
    stream = model.stream("z", seed=3, **ENDLESS)
    next(iter(stream))
    with pytest.raises(gpt2cli.Gpt2Error, match="in use by a stream"):
        model.generate("z")
    made: list[str] = []
    other = threading.Thread(target=lambda: made.append(model.generate("z", max_new_tokens=1).text))
    other.start()
    assert made == []
    stream.close()  # type: ignore[attr-defined]
    other.join(60)
    assert len(made) == 1


def test_a_score_is_that_of_the_command_line(model: gpt2cli.Model, folder: pathlib.Path) -> None:
    """Of a text, and of several of any length, which are scored side by side."""
    texts = ["zqz", "", "q" * 70, "zz"]
    scores = model.score(texts, top=1, stride=5)
    for text, score in zip(texts, scores, strict=True):
        shell = invoke("score", "-m", folder, "--json", "--top", "1", "--stride", "5", text)
        record = json.loads(shell.stdout)
        assert (score.text, list(score.tokens)) == (text, record["tokens"])
        assert (score.perplexity, score.total_logprob, score.scored_tokens) == (
            record["perplexity"],
            record["total_logprob"],
            record["scored_tokens"],
        )
    assert model.score("zqz", top=1, stride=5) == scores[0]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"temprature": 1}, "temprature: there is no such option; did you mean temperature?"),
        ({"json": True}, "json: there is no such option; known are allow_special, ban, "),
        ({"samples": 2}, "samples: there is no such option"),
        ({"top_p": 2}, "top_p: expected a number between 0 and 1, found 2"),
        ({"max_new_tokens": "5"}, "max_new_tokens: expected a whole number 0 or more, found '5'"),
        (
            {"min_new_tokens": 9, "max_new_tokens": 5},
            "min_new_tokens: expected at most max_new_tokens, 5, found 9",
        ),
        ({"regex": "a", "choice": ["b"]}, "regex: expected no choice together with it"),
    ],
    ids=str,
)
def test_a_wrong_option_is_named_as_python_writes_it(
    model: gpt2cli.Model, options: dict[str, Any], told: str
) -> None:
    """Before anything is made, also of a stream."""
    for use in (model.generate, model.stream):
        with pytest.raises(gpt2cli.UsageError) as caught:
            use("z", **options)
        assert str(caught.value).startswith(told)


def test_values_are_as_in_a_record_of_a_batch(model: gpt2cli.Model) -> None:
    """Lists and tuples, objects, and None for what is not said."""
    biased = {"logit_bias": {"z": 100}, "ban": ("q",), "seed": None, "top_k": None}
    assert model.generate("z", max_new_tokens=3, **biased).text == "zzz"
    schema = {"json_schema": {"enum": [7]}}
    assert model.generate("z", **schema).text == "7"


@pytest.mark.parametrize("options", [{"precison": "int8"}, {"temperature": 1}], ids=str)
def test_a_wrong_option_of_loading_is_told_before_a_model_is_looked_for(
    options: dict[str, Any],
) -> None:
    with pytest.raises(gpt2cli.UsageError, match="there is no such option"):
        gpt2cli.load("/missing", **options)


def test_errors_are_the_tools_own(model: gpt2cli.Model) -> None:
    with pytest.raises(gpt2cli.Gpt2Error, match="/missing"):
        gpt2cli.load("/missing", offline=True)
    with pytest.raises(gpt2cli.Gpt2Error, match="the prompt has 99 tokens"):
        model.generate("z" * 99)
    assert model.generate("z", max_new_tokens=1).completion_tokens <= 1


def test_a_model_that_is_closed_says_so(folder: pathlib.Path) -> None:
    model = gpt2cli.load(folder, device="cpu", threads=1)
    model.close()
    model.close()
    with pytest.raises(gpt2cli.Gpt2Error, match="the model is closed; load it again"):
        model.score("z")


def test_the_users_own_defaults_do_not_count(
    model: gpt2cli.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program does the same for everyone; the model's own still count."""
    monkeypatch.setenv("GPT2_MAX_NEW_TOKENS", "1")
    assert model.generate("z", ignore_eos=True, overflow="slide").completion_tokens == 256


def test_notes_go_to_logging(
    folder: pathlib.Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here that a draft would not help: nothing is printed."""
    with caplog.at_level(logging.DEBUG, "gpt2cli"):
        gpt2cli.load(folder, device="cpu", threads=1).close()
    assert any(record.message.startswith("loading ") for record in caplog.records)
    assert capsys.readouterr() == ("", "")


def test_importing_it_imports_nothing_heavy() -> None:
    """Until something of it is used; what it has can be listed."""
    script = (
        "import sys, gpt2cli\n"
        "heavy = {'numpy', 'onnxruntime', 'tokenizers', 'typer', 'typing', 'gpt2cli.errors'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert set(gpt2cli.__all__) <= set(dir(gpt2cli))\n"
        "assert issubclass(gpt2cli.UsageError, gpt2cli.Gpt2Error)\n"
        "assert 'numpy' not in sys.modules\n"
        "assert not hasattr(gpt2cli, 'other')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=pathlib.Path.cwd())


def test_all_that_it_offers_is_there_and_typed() -> None:
    assert all(getattr(gpt2cli, name) is not None for name in gpt2cli.__all__)
    assert pathlib.Path(gpt2cli.__file__).with_name("py.typed").exists()
