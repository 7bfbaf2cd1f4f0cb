"""Claims about `gpt2 config`."""

import json
import pathlib

import pytest

from gpt2cli.setting_sources import settable_options
from gpt2cli.user_settings import config_file, read_config
from tests.gpt2cli.runner import error_line, invoke
from tests.gpt2cli.test_options import Keep, take

FIELDS = [option.field for option in settable_options()]


def test_path_says_where_the_file_is_or_would_be(keep: Keep) -> None:
    result = invoke("config", "path")
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{config_file()}\n", "")


def test_show_tells_each_value_and_where_it_comes_from(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file and its key, the variable, or built in; all options stand there."""
    path = keep('top_k = 5\nseed = 1\nstop = ["\\n"]\n')
    monkeypatch.setenv("GPT2_SEED", "2")
    monkeypatch.setenv("GPT2_GREEDY", "yes")
    lines = [line.split(None, 1) for line in invoke("config", "show").stdout.splitlines()]
    told = {key: " ".join(rest.split()) for key, rest in lines}
    assert list(told) == ["SETTING", *FIELDS]
    assert told["top_k"] == f"5 {path}: top_k"
    assert told["stop"] == f'["\\n"] {path}: stop'
    assert told["seed"] == "2 GPT2_SEED"
    assert told["greedy"] == "on GPT2_GREEDY"
    assert told["quiet"] == "off built in"
    assert told["max_new_tokens"] == "256 (chat 128), or the model's own built in"


def test_show_gives_the_same_as_records(keep: Keep) -> None:
    """A value that nobody gave is null, and its default is told in words."""
    path = keep("top_k = 5\n")
    lines = invoke("config", "show", "--json").stdout.splitlines()
    records = {record["setting"]: record for record in map(json.loads, lines)}
    assert list(records) == FIELDS
    assert records["top_k"] == {
        "setting": "top_k",
        "value": 5,
        "from": f"{path}: top_k",
        "default": "40, or the model's own",
    }
    assert records["seed"]["value"] is None
    assert records["seed"]["from"] == "built in"


@pytest.mark.parametrize(
    ("field", "text", "meant"),
    [
        ("top_k", "5", 5),
        ("temperature", "0.5", 0.5),
        ("greedy", "on", True),
        ("overflow", "slide", "slide"),
        ("device", "cuda:1", "cuda:1"),
        ("stop", r'["\n", "a"]', ("\n", "a")),
        ("logit_bias", "a=b=2", (("a=b", 2.0),)),
        ("regex", r"\d", r"\d"),
        ("model", "here", "/here"),
    ],
)
def test_every_kind_of_setting_can_be_kept_and_taken_out_again(
    keep: Keep,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
    field: str,
    text: str,
    meant: object,
) -> None:
    """What is kept is what a command then takes; a model's folder by its whole path."""
    monkeypatch.chdir(tmp_path)
    pathlib.Path("here").mkdir()
    kept = invoke("config", "set", field, text)
    assert (kept.exit_code, kept.stdout) == (0, "")
    assert kept.stderr.startswith(f"gpt2: {field} is ")
    assert take()[field] == (f"{tmp_path}{meant}" if field == "model" else meant)
    assert invoke("config", "unset", field).exit_code == 0
    assert read_config() == {}


@pytest.mark.parametrize("key", ["max_new_tokens", "max-new-tokens", "--max-new-tokens"])
def test_a_key_may_be_written_as_elsewhere(keep: Keep, key: str) -> None:
    """In the file it has underscores, as in a record."""
    invoke("config", "set", key, "5", "-q")
    assert read_config() == {"max_new_tokens": 5}
    assert invoke("config", "unset", key).exit_code == 0
    assert read_config() == {}


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("top_k", "-1", "top_k: expected a whole number 0 or more, found -1"),
        ("threads", "0", "threads: expected a whole number 1 to 1024, found 0"),
        ("seed", "-4", "seed: expected a whole number 0 to 2^53-1, found -4"),
        ("device", "gpu", "device: expected auto, cpu, cuda or cuda:N, found 'gpu'"),
        ("greedy", "maybe", "greedy: expected on or off, found 'maybe'"),
        ("temp", "1", "there is no setting temp; did you mean temperature?"),
        ("output", "x", "there is no setting output; `gpt2 config show` lists them all"),
        ("regex", "(a", "regex: unclosed group"),
        ("min_new_tokens", "300", "min_new_tokens: expected at most --max-new-tokens, 256"),
    ],
)
def test_what_is_no_value_is_not_kept(keep: Keep, key: str, value: str, reason: str) -> None:
    """It is told in the words of the option, at once."""
    path = keep("# mine\n")
    result = invoke("config", "set", key, value)
    assert result.exit_code == 2
    assert error_line(result).startswith(reason)
    assert path.read_text(encoding="utf-8") == "# mine\n"


def test_an_unknown_model_is_not_kept(keep: Keep) -> None:
    """A hub id is not looked up, but an alias must be one."""
    assert invoke("config", "set", "model", "startr").exit_code == 1
    assert invoke("config", "set", "model", "owner/name").exit_code == 0
    assert read_config() == {"model": "owner/name"}


def test_values_are_checked_together_with_those_that_are_there(keep: Keep) -> None:
    """300 tokens at least are no fault where 500 are allowed; an error names the other's place."""
    path = keep("max_new_tokens = 500\n")
    assert invoke("config", "set", "min_new_tokens", "300").exit_code == 0
    result = invoke("config", "set", "max_new_tokens", "200")
    assert result.exit_code == 2
    assert error_line(result).startswith(f"{path}: min_new_tokens: expected at most")


def test_a_variable_that_comes_first_is_told(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPT2_TOP_K", "3")
    result = invoke("config", "set", "top_k", "5")
    assert "gpt2: GPT2_TOP_K is set, and takes precedence\n" in result.stderr


def test_a_file_with_a_wrong_key_or_value_can_be_mended(keep: Keep) -> None:
    """By taking it out or by another value; before that every command says what is wrong."""
    keep('temperatur = 1\ntop_k = "x"\n')
    assert invoke("config", "show").exit_code == 2
    assert invoke("config", "unset", "temperatur").exit_code == 0
    assert invoke("config", "show").exit_code == 2
    assert invoke("config", "set", "top_k", "5").exit_code == 0
    assert read_config() == {"top_k": 5}


def test_an_empty_text_is_told_in_quotes(keep: Keep) -> None:
    path = keep("")
    result = invoke("config", "set", "regex", "")
    assert (result.exit_code, result.stderr) == (0, f'gpt2: regex is "" in {path}\n')


@pytest.mark.parametrize(("key", "code"), [("top_k", 0), ("temp", 2)])
def test_what_is_not_there_cannot_be_taken_out(keep: Keep, key: str, code: int) -> None:
    """That is what was wanted, but for a key that there is not."""
    keep("")
    assert invoke("config", "unset", key).exit_code == code


@pytest.mark.parametrize("command", ["set", "unset"])
def test_quiet_says_nothing(keep: Keep, command: str) -> None:
    arguments = ["top_k", "5"] if command == "set" else ["top_k"]
    result = invoke("config", command, *arguments, "--quiet")
    assert (result.exit_code, result.output) == (0, "")
