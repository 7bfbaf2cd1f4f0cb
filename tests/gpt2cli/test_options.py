"""Claims about options as a command takes them: flags, help, and where a value comes from."""

import pathlib
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest
import typer
import typer.main
from typer.testing import CliRunner

from gpt2cli.app import app
from gpt2cli.config import OF_A_PROMPT, SETTABLE
from gpt2cli.declarations import options_of
from gpt2cli.errors import UsageError
from gpt2cli.option_kinds import SWITCH
from gpt2cli.options import takes
from gpt2cli.prompt_options import read_options
from gpt2cli.setting_sources import find_option, settable_options
from gpt2cli.settings import Settings
from tests.gpt2cli.runner import error_line, invoke
from tests.model_folders import ModelFolders

Keep = Callable[[str], pathlib.Path]  # gives the config file a text; returns its path


def open_settings(*arguments: str) -> Settings:
    """Return the settings of a command that is run with these arguments."""
    taken: list[Settings] = []

    def command(*, settings: Settings) -> None:
        taken.append(settings)

    application = typer.Typer()
    application.command()(takes(*SETTABLE)(command))
    result = CliRunner().invoke(application, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return taken[0]


def take(*arguments: str) -> Mapping[str, Any]:
    return open_settings(*arguments).values


def find_commands() -> Iterator[tuple[str, Any]]:
    groups = [("gpt2", typer.main.get_command(app))]
    while groups:
        name, command = groups.pop()
        below = getattr(command, "commands", {})
        groups += [(f"{name} {n}", c) for n, c in below.items()]
        if not below:
            yield name, command


_COMMANDS: Final = [pytest.param(name, command, id=name) for name, command in find_commands()]
_GENERATE: Final = {p.name: p for p in dict(find_commands())["gpt2 generate"].params}
_OF_GENERATE: Final = {o.field: o for g in {*OF_A_PROMPT, *SETTABLE} for o in options_of(g)}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--temperature=-1"], "--temperature: expected a number 0 or more, found -1.0"),
        (["--top-k="], "--top-k: expected a whole number 0 or more, found ''"),
        ([f"--seed={2**53}"], f"--seed: expected a whole number 0 to 2^53-1, found {2**53}"),
        (["--logprobs=21", "--json"], "--logprobs: expected a whole number 0 to 20, found 21"),
        (["--stop", ""], "--stop: expected some text, found an empty one"),
        (
            ["--logit-bias", " the=101"],
            "--logit-bias: expected a number between -100 and 100, found 101.0 for ' the'",
        ),
        (["--device", "gpu"], "--device: expected auto, cpu, cuda or cuda:N, found 'gpu'"),
        (
            ["-n", "5", "--min-new-tokens", "6"],
            "--min-new-tokens: expected at most --max-new-tokens, 5, found 6",
        ),
        (["--temperatur", "1"], "--temperature"),
        (["more", "words"], "more"),
    ],
    ids=" ".join,
)
def test_a_wrong_value_is_one_line_that_names_the_flag_and_what_would_be_right(
    arguments: list[str], expected: str
) -> None:
    """Before any model is looked for: the one named here does not exist."""
    result = invoke("generate", "x", "-m", "/missing", *arguments)
    assert result.exit_code == 2
    assert expected in error_line(result)


def test_the_ends_of_every_range_run(model_folders: ModelFolders) -> None:
    few, many = "5e-324", "1.7976931348623157e308"
    low = ["-t", few, "-k", "0", "-p", "0", "--min-p", "0", "--typical-p", few]
    high = ["-t", many, "-k", f"{10**400}", "-p", "1", "--min-p", "1", "--typical-p", "1"]
    low += ["--repetition-penalty", few, "--presence-penalty", "-2", "--seed", "0"]
    high += ["--repetition-penalty", many, "--presence-penalty", "2", "--seed", f"{2**53 - 1}"]
    low += ["--frequency-penalty", "-2", "--no-repeat-ngram", "0", "--logprobs", "0", "--json"]
    high += ["--frequency-penalty", "2", "--no-repeat-ngram", f"{10**400}", "--logprobs", "20"]
    low += ["--logit-bias", "5=-100"]
    high += ["--logit-bias", "5=100", "--json"]
    for arguments in (low, high, ["--beams", "256", "--length-penalty", "-10"]):
        result = invoke("generate", "x", "-m", model_folders(), "-q", "-n", "2", *arguments)
        assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize(("name", "command"), _COMMANDS)
def test_the_help_of_a_command_tells_what_a_person_needs(name: str, command: Any) -> None:
    """Sentences, a panel for every option, how a switch is turned off, and two examples."""
    for parameter in command.params:
        assert parameter.help.endswith((".", ")."))
        assert parameter.help[0].isupper() or parameter.help[0] in '<-"'
        if parameter.opts[0].startswith("-"):
            assert parameter.rich_help_panel
            assert all(off in parameter.help for off in parameter.secondary_opts)
    examples = command.help.partition("For example:")[2]
    assert sum("gpt2 " in example for example in examples.split("\n\n")) >= 2
    assert f"{name} " in f"{examples} ".replace("\n", " ")


def test_the_help_of_generate_tells_ranges_and_defaults() -> None:
    """In the words of the table; each option of a prompt is one of generate's."""
    assert set(_OF_GENERATE) <= set(_GENERATE)
    for field, option in _OF_GENERATE.items():
        assert _GENERATE[field].help == option.told
        assert "Default" in option.told or option.kind is SWITCH


def test_the_help_has_no_column_for_turning_off() -> None:
    """80 columns are few; the sentences take most of them."""
    lines = invoke("generate", "--help").stdout.splitlines()
    switches = [line for line in lines if line.startswith("│ --")]
    assert switches
    assert not [line for line in switches if re.match(r"│ --[a-z-]+ +(-\w +)?--no-", line)]


def test_what_can_be_kept_is_what_the_contract_says() -> None:
    """All of model, sampling, limits and reporting; nothing that names a file or is the result."""
    assert {option.field for option in settable_options()} == {
        *("model", "revision", "step", "adapter", "precision", "device", "threads", "offline"),
        *("draft", "draft_tokens"),
        *("temperature", "top_k", "top_p", "min_p", "typical_p", "greedy", "seed"),
        *("top_n_sigma", "xtc_probability", "xtc_threshold", "repeat_last_n"),
        *("dry_multiplier", "dry_base", "dry_allowed_length", "dry_sequence_breaker"),
        *("repetition_penalty", "presence_penalty", "frequency_penalty", "no_repeat_ngram"),
        *("logit_bias", "ban", "beams", "length_penalty", "heal"),
        *("max_new_tokens", "min_new_tokens", "stop", "ignore_eos", "overflow"),
        *("stop_token", "include_stop", "max_time"),
        *("choice", "regex", "stats", "quiet", "verbose", "server"),
    }


@pytest.mark.parametrize(
    ("field", "toml", "variable", "flag", "given", "record"),
    [
        ("top_k", "5", "4", "--top-k=3", 3, 2),
        ("temperature", "0.5", "0.4", "-t.3", 0.3, 0.2),
        ("greedy", "true", "off", "--greedy", True, False),
        ("ignore_eos", "false", "yes", "--no-ignore-eos", False, True),
        ("overflow", '"slide"', "error", "--overflow=slide", "slide", "stop"),
        ("stop", r"""["\n", '\n']""", r'["\n", "d"]', "--stop=e", ("e",), ["f"]),
        ("logit_bias", '["1=1"]', "2=2", "--logit-bias=3=3", (("3", 3.0),), {"4": 4.0}),
        ("regex", r"'\d\n'", r"\n\d", "--regex=c", "c", "d"),
    ],
)
def test_a_record_comes_before_a_flag_that_before_the_environment_that_before_the_file(
    keep: Keep, monkeypatch: pytest.MonkeyPatch,
    field: str, toml: str, variable: str, flag: str, given: Any, record: Any,
) -> None:  # fmt: skip
    """And that before what is built in. A variable that is empty says nothing."""
    option = find_option(field)
    name = f"GPT2_{field.upper()}"
    keep("")
    assert take()[field] == option.default
    for spelled in (field, option.name):  # with dashes, too
        keep(f"{spelled} = {toml}\n")
        from_file = take()[field]
        assert from_file == option.read(tomllib.loads(f"key = {toml}")["key"])
    monkeypatch.setenv(name, "")
    assert take()[field] == from_file
    monkeypatch.setenv(name, variable)
    assert take()[field] == option.parse(variable) != from_file
    assert take(flag)[field] == given
    settings = open_settings(flag).over(read_options({field: record}))
    assert settings.values[field] == option.read(record)


def test_the_file_comes_before_the_model(keep: Keep) -> None:
    keep("top_k = 5\n")
    settings = open_settings().with_model({"top_k": 3, "top_p": 0.5})
    assert (settings.values["top_k"], settings.from_model) == (5, {"top_p": 0.5})


@pytest.mark.parametrize(
    ("key", "text", "toml", "reason"),
    [
        ("top_k", "-1", "-1", "expected a whole number 0 or more, found -1"),
        ("device", "gpu", '"gpu"', "expected auto, cpu, cuda or cuda:N, found 'gpu'"),
        ("logit_bias", "a", '"a"', "expected {}, found 'a'"),
    ],
)
def test_what_is_no_value_is_an_error_that_names_the_variable_or_the_file_and_key(
    keep: Keep, monkeypatch: pytest.MonkeyPatch, key: str, text: str, toml: str, reason: str
) -> None:
    """In the words of the command line; it does no harm where another comes before it."""
    path = keep(f"{key} = {toml}\n")
    from_file = invoke("generate", "x", "-m", "/missing")
    monkeypatch.setenv(f"GPT2_{key.upper()}", text)
    from_environment = invoke("generate", "x", "-m", "/missing")
    assert (from_file.exit_code, from_environment.exit_code) == (2, 2)
    forms = ('an object {"ID_OR_TEXT": number, …}', "ID_OR_TEXT=NUMBER")
    assert error_line(from_file) == f"{path}: {key}: {reason.replace('{}', forms[0])}"
    assert error_line(from_environment) == f"GPT2_{key.upper()}: {reason.replace('{}', forms[1])}"
    if key == "top_k":
        assert take("--top-k", "3")["top_k"] == 3


@pytest.mark.parametrize(
    ("toml", "reason"),
    [
        ("model = 124", "model: expected a text, found 124"),
        ("[top_k]", "top_k: expected a whole number 0 or more, found {}"),
        (
            "[generate]\ntop_k = 1",
            "expected settings outside of tables, found [generate]; "
            "`gpt2 config unset generate` removes it",
        ),
    ],
)
def test_a_value_of_another_kind_is_an_error_too(keep: Keep, toml: str, reason: str) -> None:
    path = keep(toml)
    assert error_line(invoke("generate", "x")) == f"{path}: {reason}"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("temperatur", "did you mean temperature?"),
        ("top", "did you mean top_k or top_p or top_n_sigma?"),
        ("maxnewtokens", "did you mean max_new_tokens?"),
        ("json_schema", "`gpt2 config show` lists them all"),
        ("", "`gpt2 config show` lists them all"),
    ],
)
def test_an_unknown_key_is_an_error_that_says_what_was_meant(
    keep: Keep, name: str, hint: str
) -> None:
    """From the command line or from the file, which is named then, with what mends it."""
    with pytest.raises(UsageError) as caught:
        find_option(name)
    assert str(caught.value) == f"there is no setting {name}; {hint}"
    path = keep(f'"{name}" = 1\n')
    told = f"{path}: {caught.value}; `gpt2 config unset {shlex.quote(name)}` removes it"
    assert error_line(invoke("generate", "x", "-m", "/missing")) == " ".join(told.split())
    assert invoke("config", "unset", name).exit_code == 0
    assert path.read_text() == ""


def test_a_model_that_cannot_be_had_says_who_named_it(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never replaced by the starter, and who forgot the file would be at a loss."""
    path = keep('model = "/missing"\n')
    assert error_line(invoke("generate", "x")).endswith(f" (the model is named by {path}: model)")
    monkeypatch.setenv("GPT2_MODEL", "nobody")
    line = error_line(invoke("generate", "x"))
    assert "unknown model 'nobody'" in line
    assert line.endswith(" (the model is named by GPT2_MODEL)")
    assert "named by" not in error_line(invoke("generate", "x", "-m", "nobody"))


def test_a_model_that_is_not_there_offline_says_what_forbids_the_network(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is set, where it is set, and what overrules it; no other of the ways to say it."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    model = ("generate", "x", "-m", "nobody/nothing")
    missing = "nobody/nothing is not on this machine, and offline mode is on; run once without"
    set_by, overruled = (
        f"{missing} --offline (offline mode is set by",
        "; --no-offline overrules it)",
    )
    assert error_line(invoke(*model, "--offline")) == f"{missing} --offline"
    path = keep("offline = true\n")
    assert error_line(invoke(*model)) == f"{set_by} {path}: offline{overruled}"
    monkeypatch.setenv("GPT2_OFFLINE", "1")
    assert error_line(invoke(*model)) == f"{set_by} GPT2_OFFLINE{overruled}"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert error_line(invoke(*model)) == f"{missing} HF_HUB_OFFLINE"
