"""Claims about presets: what `gpt2 config preset` keeps, and what --preset takes."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from gpt2cli.chat.settable import all_options, change_setting
from gpt2cli.config import SETTABLE, PresetConfig
from gpt2cli.declarations import options_of
from gpt2cli.errors import UsageError
from gpt2cli.options import complete_preset, takes
from gpt2cli.setting_sources import find_settings
from gpt2cli.settings import Settings
from gpt2cli.user_settings import read_presets
from tests.gpt2cli.runner import error_line, invoke
from tests.gpt2cli.test_options import Keep

TWO = "top_k = 5\nseed = 1\n\n[preset.wild]\ntemperature = 1.5\ntop-k = 0\n\n[preset.cold]\n"


def take(*arguments: str) -> Mapping[str, Any]:
    """Return the values that a command with --preset gets."""
    taken: list[Settings] = []

    def command(*, settings: Settings) -> None:
        taken.append(settings)

    application = typer.Typer()
    application.command()(takes(*SETTABLE, PresetConfig)(command))
    CliRunner().invoke(application, list(arguments), catch_exceptions=False)
    return taken[0].values


def test_what_is_saved_is_listed_shown_taken_and_removed(keep: Keep) -> None:
    """And the rest of the file stays, also where a setting comes later."""
    path = keep("# mine\ntop_k = 5\n")
    pairs = [
        "temperature=1.4",
        "--top-k=0",
        r'stop=["\n", "a=b"]',
        "logit_bias=a=b=-2",
        "greedy=no",
    ]
    saved = invoke("config", "preset", "save", "wild", *pairs)
    told = 'temperature 1.4, top_k 0, stop ["\\n", "a=b"], logit_bias ["a=b=-2.0"], greedy off'
    assert (saved.exit_code, saved.stdout) == (0, "")
    assert saved.stderr == f"gpt2: preset wild is {told} in {path}\n"
    assert invoke("config", "set", "seed", "3", "-q").exit_code == 0
    assert path.read_text().startswith("# mine\ntop_k = 5\nseed = 3\n\n[preset.wild]\ntemperature")
    listed = invoke("config", "preset", "list").stdout
    assert listed == f"PRESET  OPTIONS\nwild    {told}\n"
    values = take("--preset", "wild")
    assert (values["temperature"], values["top_k"], values["stop"]) == (1.4, 0, ("\n", "a=b"))
    assert (values["logit_bias"], values["seed"]) == ((("a=b", -2.0),), 3)
    [record] = map(
        json.loads, invoke("config", "preset", "show", "wild", "--json").stdout.split("\n")[:1]
    )
    assert record["options"]["stop"] == ["\n", "a=b"]
    assert invoke("config", "preset", "rm", "wild", "-q").exit_code == 0
    assert path.read_text().rstrip() == "# mine\ntop_k = 5\nseed = 3"


def test_saving_again_replaces_the_whole(keep: Keep) -> None:
    """An option that is no longer named is gone."""
    keep(TWO)
    again = invoke("config", "preset", "save", "wild", "min_p=0.1")
    assert again.stderr.endswith(", in place of the earlier one\n")
    assert read_presets() == {"wild": {"min_p": 0.1}, "cold": {}}


@pytest.mark.parametrize(
    ("flags", "variables", "top_k", "temperature"),
    [
        ([], {}, 5, 1.0),
        (["--preset", "wild"], {}, 0, 1.5),
        (["--preset", "wild", "-k", "7"], {}, 7, 1.5),
        (["--preset", "wild"], {"GPT2_TOP_K": "9"}, 0, 1.5),
        ([], {"GPT2_PRESET": "wild", "GPT2_TOP_K": "9"}, 9, 1.5),
        ([], {"GPT2_PRESET": "wild"}, 0, 1.5),
        (["--preset", "cold"], {"GPT2_PRESET": "wild"}, 5, 1.0),
        (["--preset", "wild", "--greedy"], {}, 0, 1.0),
    ],
    ids=str,
)
def test_a_preset_comes_right_behind_what_names_it(
    keep: Keep,
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    variables: dict[str, str],
    top_k: int,
    temperature: float,
) -> None:
    """Before the environment if the command line names it, else before the file."""
    keep(TWO)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    values = take(*flags)
    assert (values["top_k"], values["temperature"], values["seed"]) == (top_k, temperature, 1)


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        ("top_k=-1", "top_k: expected a whole number 0 or more, found -1"),
        ("temp=1", "there is no setting temp; did you mean temperature?"),
        ("top_k", "expected OPTION=VALUE, such as top_k=40, found 'top_k'"),
        ("regex=(a", "regex: unclosed group"),
        ("min_new_tokens=300", "min_new_tokens: expected at most --max-new-tokens, 256"),
        ("json_schema=x", "there is no setting json_schema"),
        ("top-p=1", "expected top_p once, with several values as a JSON array"),
    ],
)
def test_what_is_no_value_is_not_saved(keep: Keep, pair: str, reason: str) -> None:
    """Nor are the others beside it."""
    path = keep("# mine\n")
    result = invoke("config", "preset", "save", "wild", "top_p=0.5", pair)
    assert result.exit_code == 2
    assert error_line(result).startswith(reason)
    assert path.read_text() == "# mine\n"


def test_a_name_is_one_that_toml_takes(keep: Keep) -> None:
    keep("")
    told = "expected a name of letters, digits, - and _, found 'a.b'"
    assert error_line(invoke("config", "preset", "save", "a.b", "top_k=1")) == told


def test_an_unknown_preset_is_an_error_with_the_known_ones(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is named; no model is looked for."""
    keep(TWO)
    known = "expected one of wild, cold, found wold"
    for command in "generate", "batch", "chat", "serve":
        assert error_line(invoke(command, "--preset", "wold")) == f"--preset: {known}"
    for command in "show", "rm":
        assert error_line(invoke("config", "preset", command, "wold")) == known
    monkeypatch.setenv("GPT2_PRESET", "wold")
    assert error_line(invoke("generate", "a")) == f"GPT2_PRESET: {known}"
    keep("")
    told = "expected one that is kept, found wold; `gpt2 config preset save` keeps one"
    assert error_line(invoke("config", "preset", "show", "wold")) == told


def test_a_preset_with_a_fault_harms_who_takes_it_alone(keep: Keep) -> None:
    """Its place in the file is named."""
    path = keep("[preset.a]\ntopp = 1\n\n[preset.b]\ntop_k = -1\n\n[preset.c]\n")
    assert take("--preset", "c")["top_k"] == 40
    told = error_line(invoke("generate", "x", "--preset", "a"))
    assert told == f"{path}: preset.a: there is no setting topp; did you mean top_p?"
    told = error_line(invoke("generate", "x", "--preset", "b"))
    assert told == f"{path}: preset.b.top_k: expected a whole number 0 or more, found -1"


@pytest.mark.parametrize("text", ["preset = 5", "[preset]\ntop_k = 5"])
def test_what_is_no_preset_is_an_error(keep: Keep, text: str) -> None:
    path = keep(text)
    with pytest.raises(UsageError, match=r"expected tables such as \[preset.NAME\]") as caught:
        read_presets()
    told = str(caught.value)
    assert told.startswith(str(path))
    assert error_line(invoke("config", "preset", "save", "wild", "top_k=1")) == told
    assert error_line(invoke("generate", "a")) == told
    assert path.read_text() == text


def test_unset_leaves_presets_alone(keep: Keep) -> None:
    path = keep(TWO)
    told = error_line(invoke("config", "unset", "preset"))
    assert told == "there is no setting preset; `gpt2 config preset rm NAME` removes one"
    assert path.read_text() == TWO


def test_the_default_of_a_chat_is_the_presets(keep: Keep) -> None:
    """As it is that of the environment and the file."""
    keep(TWO)
    settings = find_settings([*all_options(), *options_of(PresetConfig)], {"preset": "wild"})
    [top_k] = [option for option in all_options() if option.field == "top_k"]
    changed = change_setting(settings, top_k, "3")
    assert changed.values["top_k"] == 3
    assert change_setting(changed, top_k, "default").values["top_k"] == 0


def test_the_shell_offers_presets(keep: Keep) -> None:
    """And nothing where the file is broken."""
    keep(TWO)
    assert complete_preset("w") == ["wild"]
    keep("[")
    assert complete_preset("") == []
