"""Claims about the user's own defaults: what they may be, and how they are told apart."""

import shlex

import pytest

from gpt2cli.errors import UsageError
from gpt2cli.settings import find_option, settable_options
from tests.gpt2cli.commands.settings_cases import Keep, take
from tests.gpt2cli.runner import error_line, invoke


def test_what_can_be_kept_is_what_the_contract_says() -> None:
    """All of model, sampling, limits and reporting; nothing that names a file or is the result."""
    assert {option.field for option in settable_options()} == {
        *("model", "revision", "precision", "device", "threads", "offline"),
        *("temperature", "top_k", "top_p", "min_p", "typical_p", "greedy", "seed"),
        *("repetition_penalty", "presence_penalty", "frequency_penalty", "no_repeat_ngram"),
        *("logit_bias", "ban", "beams", "length_penalty"),
        *("max_new_tokens", "min_new_tokens", "stop", "ignore_eos", "overflow"),
        *("choice", "regex", "stats", "quiet"),
    }


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("temperatur", "did you mean temperature?"),
        ("temp", "did you mean temperature?"),
        ("top", "did you mean top_k or top_p?"),
        ("topk", "did you mean top_k?"),
        ("maxnewtokens", "did you mean max_new_tokens?"),
        ("output", "`gpt2 config show` lists them all"),
        ("json_schema", "`gpt2 config show` lists them all"),
        ("", "`gpt2 config show` lists them all"),
    ],
)
def test_an_unknown_key_is_an_error_that_says_what_was_meant(
    keep: Keep, name: str, hint: str
) -> None:
    """From the command line or from the file, which is named then."""
    with pytest.raises(UsageError) as caught:
        find_option(name)
    assert str(caught.value) == f"there is no setting {name}; {hint}"

    path = keep(f'"{name}" = 1\n')
    result = invoke("generate", "x", "-m", "/missing")
    assert result.exit_code == 2
    told = f"{path}: {caught.value}; `gpt2 config unset {shlex.quote(name)}` removes it"
    assert error_line(result) == " ".join(told.split())
    assert invoke("config", "unset", name).exit_code == 0
    assert path.read_text() == ""


@pytest.mark.parametrize(
    ("key", "text", "toml", "reason"),
    [
        ("top_k", "-1", "-1", "expected a whole number 0 or more, found -1"),
        ("temperature", "nan", "nan", "expected a number 0 or more, found nan"),
        ("device", "gpu", '"gpu"', "expected auto, cpu, cuda or cuda:N, found 'gpu'"),
        ("overflow", "no", '"no"', "expected stop, slide or error, found 'no'"),
        ("logit_bias", "a", '"a"', "expected {}, found 'a'"),
        ("seed", f"{2**53}", f"{2**53}", f"expected a whole number 0 to 2^53-1, found {2**53}"),
    ],
)
def test_what_is_no_value_is_an_error_that_names_the_variable_or_the_file_and_key(
    keep: Keep, monkeypatch: pytest.MonkeyPatch, key: str, text: str, toml: str, reason: str
) -> None:
    """In the words of the command line, before any model is looked for."""
    path = keep(f"{key} = {toml}\n")
    from_file = invoke("generate", "x", "-m", "/missing")
    monkeypatch.setenv(f"GPT2_{key.upper()}", text)
    from_environment = invoke("generate", "x", "-m", "/missing")

    assert (from_file.exit_code, from_environment.exit_code) == (2, 2)
    forms = ('an object {"ID_OR_TEXT": number, …}', "ID_OR_TEXT=NUMBER")
    assert error_line(from_file) == f"{path}: {key}: {reason.replace('{}', forms[0])}"
    assert error_line(from_environment) == f"GPT2_{key.upper()}: {reason.replace('{}', forms[1])}"


@pytest.mark.parametrize(
    ("toml", "reason"),
    [
        ("model = 124", "model: expected a text, found 124"),
        ('stop = ["a", 1]', "stop: expected a text, found 1"),
        ("top_k = true", "top_k: expected a whole number 0 or more, found true"),
        ("[top_k]", "top_k: expected a whole number 0 or more, found {}"),
        (
            "[generate]\ntop_k = 1",
            "expected settings in no table, found [generate]; "
            "`gpt2 config unset generate` removes it",
        ),
    ],
)
def test_a_value_of_another_kind_is_an_error_too(keep: Keep, toml: str, reason: str) -> None:
    """TOML has kinds of its own."""
    path = keep(toml)
    result = invoke("generate", "x")

    assert result.exit_code == 2
    assert error_line(result) == f"{path}: {reason}"


def test_a_wrong_value_does_no_harm_where_another_comes_before_it(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody reads it."""
    keep('top_k = "x"\n')
    monkeypatch.setenv("GPT2_TOP_K", "y")

    assert take("--top-k", "3")["top_k"] == 3


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a b", ("a b",)),
        (r"\n", ("\n",)),
        ('"a"', ('"a"',)),
        (
            '["a b", "\\n"]',
            (
                "a b",
                "\n",
            ),
        ),
        (r'["\\n"]', (r"\n",)),
    ],
)
def test_a_variable_of_a_repeatable_option_holds_one_value_or_a_json_array(
    monkeypatch: pytest.MonkeyPatch, text: str, meant: tuple[str, ...]
) -> None:
    """Never cut at white space; the shell has its own quotes, and JSON its own escapes."""
    monkeypatch.setenv("GPT2_STOP", text)
    assert take()["stop"] == meant


@pytest.mark.parametrize(
    ("toml", "meant"),
    [
        ('"a b"', ("a b",)),
        (r'"\n"', ("\n",)),
        (r"'\n'", (r"\n",)),
        (
            '["a", "b"]',
            (
                "a",
                "b",
            ),
        ),
    ],
)
def test_a_key_of_a_repeatable_option_holds_one_value_or_an_array(
    keep: Keep, toml: str, meant: tuple[str, ...]
) -> None:
    """TOML has its own escapes."""
    keep(f"stop = {toml}\n")
    assert take()["stop"] == meant


def test_a_pattern_keeps_its_backslashes_and_quotes(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the pattern's."""
    keep(r"""regex = '"\d\n"'""")
    assert take()["regex"] == r'"\d\n"'
    monkeypatch.setenv("GPT2_REGEX", r'"\d\n"')
    assert take()["regex"] == r'"\d\n"'


def test_flags_replace_a_list_rather_than_add_to_it(keep: Keep) -> None:
    """As with every option."""
    keep('stop = ["a", "b"]\n')
    assert take("--stop", "c")["stop"] == ("c",)


def test_a_model_that_cannot_be_had_says_who_named_it(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never replaced by the starter, and who forgot the file would be at a loss."""
    path = keep('model = "/missing"\n')
    result = invoke("generate", "x")
    assert result.exit_code == 1
    assert error_line(result).endswith(f" (the model is named by {path}: model)")

    monkeypatch.setenv("GPT2_MODEL", "nobody")
    result = invoke("generate", "x")
    assert result.exit_code == 1
    assert "unknown model 'nobody'" in error_line(result)
    assert error_line(result).endswith(" (the model is named by GPT2_MODEL)")
    assert "named by" not in error_line(invoke("generate", "x", "-m", "nobody"))


def test_a_model_that_is_not_there_offline_says_what_forbids_the_network(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is set, where it is set, and what overrules it; no other of the ways to say it."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    model = ("generate", "x", "-m", "nobody/nothing")
    missing = "nobody/nothing is not on this machine, and"
    said = f"{missing} offline mode is on; run once without --offline"
    set_by = f"{said} (offline mode is set by"
    overruled = "; --no-offline overrules it)"

    assert error_line(invoke(*model, "--offline")) == said
    path = keep("offline = true\n")
    assert error_line(invoke(*model)) == f"{set_by} {path}: offline{overruled}"
    monkeypatch.setenv("GPT2_OFFLINE", "1")
    assert error_line(invoke(*model)) == f"{set_by} GPT2_OFFLINE{overruled}"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert (
        error_line(invoke(*model))
        == f"{missing} offline mode is on; run once without HF_HUB_OFFLINE"
    )
