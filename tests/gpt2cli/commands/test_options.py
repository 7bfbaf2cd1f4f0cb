"""Claims about the declared options: their help, their ranges, and how groups become options."""

import dataclasses
import pathlib
import re
from collections.abc import Iterator
from typing import Annotated, Any, Final

import pytest
import typer
import typer.main
from typer.testing import CliRunner

from gpt2cli.app import app
from gpt2cli.commands.option_groups import flatten
from gpt2cli.commands.options import BatchOutputOptions, ModelOptions, OverflowChoice
from gpt2cli.commands.user_defaults import settable_options
from gpt2cli.errors import UsageError
from gpt2cli.generation import GenerationConfig, Overflow
from gpt2cli.sampling import BeamConfig, SamplingConfig
from tests.gpt2cli.commands.runner import error_line, invoke
from tests.model_folders import ModelFolders

_NOT_NUMBERS: Final = ("", " ", "x", "1,5", "0x1", "--top-k")
_NOT_WHOLE: Final = (*_NOT_NUMBERS, "1.5", "1e3", "nan", "inf", "-inf", "1" * 5000)
_NOT_FINITE: Final = (*_NOT_NUMBERS, "nan", "inf", "-inf", "1e999", "-1e999")

# Option -> its range in words, values beyond it, and its ends.
_NUMBERS: Final[dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]]] = {
    "--temperature": ("0 or more", (*_NOT_FINITE, "-1", "-1e-300"), ("0", "-0", "1e300")),
    "--top-k": ("0 or more", (*_NOT_WHOLE, "-1"), ("0", "1", f"{10**30}")),
    "--top-p": ("between 0 and 1", (*_NOT_FINITE, "-0.001", "1.001"), ("0", "1")),
    "--min-p": ("between 0 and 1", (*_NOT_FINITE, "-0.001", "1.001"), ("0", "1")),
    "--typical-p": ("above 0, up to 1", (*_NOT_FINITE, "0", "1.001"), ("1e-300", "1")),
    "--repetition-penalty": ("above 0", (*_NOT_FINITE, "0", "-1"), ("1e-300", "1e300")),
    "--presence-penalty": ("between -2 and 2", (*_NOT_FINITE, "-2.1", "2.1"), ("-2", "2")),
    "--frequency-penalty": ("between -2 and 2", (*_NOT_FINITE, "-2.1", "2.1"), ("-2", "2")),
    "--no-repeat-ngram": ("0 or more", (*_NOT_WHOLE, "-1"), ("0", "1", f"{10**30}")),
    "--min-new-tokens": ("0 or more", (*_NOT_WHOLE, "-1"), ("0", "2")),
    "--beams": ("1 to 256", (*_NOT_WHOLE, "0", "-1", "257"), ("1", "256")),
    "--length-penalty": ("between -10 and 10", (*_NOT_FINITE, "-10.1", "11"), ("-10", "10")),
    "--logprobs": ("0 to 20", (*_NOT_WHOLE, "-1", "21"), ("0", "20")),
    "--max-new-tokens": ("0 or more", (*_NOT_WHOLE, "-1"), ("0", f"{10**30}")),
    "--samples": ("1 or more", (*_NOT_WHOLE, "0", "-1"), ("1",)),
    "--seed": ("0 to 2^53-1", (*_NOT_WHOLE, "-1", f"{2**53}"), ("0", f"{2**53 - 1}")),
    "--threads": ("1 to 1024", (*_NOT_WHOLE, "0", "-1", "1025", f"{10**30}"), ("1",)),
}
_NEEDED: Final = {"--logprobs": ("--json",)}  # what an option cannot be without


def find_parameters() -> Iterator[tuple[str, Any]]:
    """Yield every argument and option of every command, with the command's name."""
    groups = [("gpt2", typer.main.get_command(app))]
    while groups:
        name, command = groups.pop()
        yield from ((name, parameter) for parameter in command.params)
        groups += [(f"{name} {n}", c) for n, c in getattr(command, "commands", {}).items()]


_PARAMETERS: Final = [
    pytest.param(parameter, id=f"{name} {parameter.name}") for name, parameter in find_parameters()
]
_GENERATE: Final = {p.name: p for name, p in find_parameters() if name == "gpt2 generate"}


@pytest.mark.parametrize(
    ("option", "value"),
    [(option, value) for option, (_, wrong, _) in _NUMBERS.items() for value in wrong],
)
def test_a_number_out_of_range_is_a_usage_error_that_names_option_range_and_value(
    option: str, value: str
) -> None:
    """One line, before any model is looked for: the one named here does not exist."""
    needed = _NEEDED.get(option, ())
    result = invoke("generate", "x", "--model", "/missing", *needed, f"{option}={value}")

    line = error_line(result)
    assert result.exit_code == 2
    assert line.startswith(f"{option}: expected ")
    assert _NUMBERS[option][0] in line
    assert re.search(r", found \S", line)
    assert len(line) < 150


@pytest.mark.parametrize(
    ("option", "value"),
    [(option, value) for option, (_, _, ends) in _NUMBERS.items() for value in ends],
)
def test_both_ends_of_a_range_run(model_folders: ModelFolders, option: str, value: str) -> None:
    """Two tokens where the option does not say itself how many."""
    limit = [] if option == "--max-new-tokens" else ["-n", "2"]
    beside = [*limit, *_NEEDED.get(option, ())]

    result = invoke("generate", "x", "-m", model_folders(), "-q", *beside, f"{option}={value}")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(("x", '{"index": 0, "prompt": "x"'))


def test_as_many_threads_as_can_be_asked_for_are_taken() -> None:
    """Without starting them here."""
    assert ModelOptions(threads=1024).threads == 1024
    with pytest.raises(UsageError):
        ModelOptions(threads=1025)


def test_every_number_option_is_in_these_tests() -> None:
    """An option that is added must be added above."""
    numbers = {
        parameter.opts[0]
        for parameter in _GENERATE.values()
        if parameter.metavar in ("<int>", "<float>")
    }
    assert numbers == set(_NUMBERS)


@pytest.mark.parametrize("parameter", _PARAMETERS)
def test_every_argument_and_option_has_a_sentence_of_help(parameter: Any) -> None:
    """One that ends, and that shows no markup gone wrong."""
    assert parameter.help
    assert parameter.help.endswith((".", ")."))
    assert parameter.help[0].isupper() or parameter.help[0] in '<-"'


@pytest.mark.parametrize(
    "name",
    [name for name, p in _GENERATE.items() if p.opts[0][0] == "-" and p.default is not False],
)
def test_an_option_that_is_not_simply_off_tells_its_default(name: str) -> None:
    """Also where the default is that nothing is given."""
    assert "Default" in _GENERATE[name].help


@pytest.mark.parametrize("option", _NUMBERS)
def test_the_help_says_the_range_in_the_words_of_the_error(option: str) -> None:
    """So that a person who got it wrong finds it again."""
    parameter = _GENERATE[option.removeprefix("--").replace("-", "_")]
    assert f" {_NUMBERS[option][0].capitalize()}" in parameter.help


@pytest.mark.parametrize("config_type", [SamplingConfig, GenerationConfig, BeamConfig])
def test_the_defaults_that_the_help_tells_are_those_that_run(config_type: Any) -> None:
    """The help repeats them, since the configurations are too heavy to import for it."""
    told = {name: re.search(r"Default:? (.+)\.$", p.help) for name, p in _GENERATE.items()}
    for field in dataclasses.fields(config_type):
        match = told[field.name]
        value = field.default
        if isinstance(value, bool):
            assert value is False
        elif value == ():
            assert match is not None
            assert match[1] == "none"
        else:
            assert match is not None
            assert re.split(r",| \(", match[1])[0] == str(value)


@pytest.mark.parametrize(
    ("option", "off"),
    [
        ("--temperature", {"temperature": 0.0}),
        ("--top-k", {"top_k": 0}),
        ("--top-p", {"top_p": 1.0}),
        ("--min-p", {"min_p": 0.0}),
        ("--typical-p", {"typical_p": 1.0}),
        ("--repetition-penalty", {"repetition_penalty": 1.0}),
        ("--presence-penalty", {"presence_penalty": 0.0}),
        ("--frequency-penalty", {"frequency_penalty": 0.0}),
        ("--no-repeat-ngram", {"no_repeat_ngram": 0}),
    ],
)
def test_the_help_says_which_value_is_off(option: str, off: dict[str, float]) -> None:
    """And that value is one that the configuration takes."""
    (name, value) = next(iter(off.items()))
    assert f"; {value:g}: {'greedy' if name == 'temperature' else 'off'}." in _GENERATE[name].help
    SamplingConfig(**off)  # type: ignore[arg-type]


def find_commands() -> Iterator[tuple[str, Any]]:
    """Yield every command that does something, with its name."""
    groups = [("gpt2", typer.main.get_command(app))]
    while groups:
        name, command = groups.pop()
        below = getattr(command, "commands", {})
        groups += [(f"{name} {n}", c) for n, c in below.items()]
        if not below:
            yield name, command


@pytest.mark.parametrize(("name", "command"), [pytest.param(*c, id=c[0]) for c in find_commands()])
def test_the_help_of_a_command_has_two_examples(name: str, command: Any) -> None:
    """Of this command, whatever they pipe it into or where the text comes from."""
    examples = command.help.partition("For example:")[2].split("\n\n")
    assert sum("gpt2 " in example for example in examples) >= 2
    assert f"{name} " in f"{command.help.partition('For example:')[2]} ".replace("\n", " ")


@pytest.mark.parametrize(("name", "command"), [pytest.param(*c, id=c[0]) for c in find_commands()])
def test_every_option_of_a_command_stands_in_a_panel_of_its_kind(name: str, command: Any) -> None:
    """Else it would stand beside --help."""
    options = [p for p in command.params if p.opts[0].startswith("-")]
    assert [p.opts[0] for p in options if p.rich_help_panel is None] == []


@pytest.mark.parametrize(
    "parameter", [p for p in _PARAMETERS if getattr(p.values[0], "secondary_opts", [])]
)
def test_the_help_of_a_switch_says_how_it_is_turned_off(parameter: Any) -> None:
    """In its sentence: a column for it would leave the sentences too little room."""
    assert parameter.secondary_opts[0] in parameter.help


def test_the_help_has_no_column_for_turning_off() -> None:
    """80 columns are few; the sentences take most of them."""
    lines = invoke("generate", "--help").stdout.splitlines()
    switches = [line for line in lines if line.startswith("│ --")]
    assert switches
    assert not [line for line in switches if re.match(r"│ --[a-z-]+ +(-\w +)?--no-", line)]


@pytest.mark.parametrize("option", settable_options(), ids=lambda option: option.name)
def test_a_switch_that_can_be_kept_can_be_turned_off(option: Any) -> None:
    """Else a `greedy = true` of the config file would hold whatever the command line says."""
    names = [name for parameter in _GENERATE.values() for name in parameter.secondary_opts]
    assert (option.kind is bool) is (f"--no-{option.name}" in names)


def test_the_choices_of_overflow_are_those_of_the_loop() -> None:
    """They are declared twice, since the loop is too heavy to import for the help."""
    assert [choice.value for choice in OverflowChoice] == [mode.value for mode in Overflow]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--overflow", "x"], "'stop', 'slide', 'error'"),
        (["--precision", "int3"], "'auto', 'fp32'"),
        (["--device", "gpu"], "auto, cpu, cuda or cuda:N"),
        (["--no-such-option"], "--no-such-option"),
        (["--temperatur", "1"], "--temperature"),
        (["more", "words"], "more"),
        (["--top-k"], "--top-k"),
    ],
    ids=" ".join,
)
def test_a_wrong_use_is_one_line_that_says_what_would_be_right(
    starter_folder: pathlib.Path, arguments: list[str], expected: str
) -> None:
    """Choices by name, a misspelt option with the one that was meant, words too many."""
    result = invoke("generate", "x", "-m", starter_folder, *arguments)

    assert result.exit_code == 2
    assert expected in error_line(result)


def test_a_group_becomes_single_options_and_comes_back_whole() -> None:
    """With the values that were given and the defaults of those that were not."""

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Options:
        first: Annotated[int, typer.Option()] = 1
        second: Annotated[int, typer.Option("--two", "-t")] = 2

    taken: list[tuple[str, Options]] = []

    @flatten
    def command(*, name: Annotated[str, typer.Argument()], options: Options) -> None:
        taken.append((name, options))

    command(name="x", first=1, second=5)

    assert taken == [("x", Options(first=1, second=5))]


@pytest.mark.parametrize(("given", "meant"), [([], None), (["--batch-size", "auto"], None)])
def test_a_batch_size_of_auto_is_as_if_nothing_were_given(
    given: list[str], meant: int | None
) -> None:
    """The contract's word for the default."""
    seen: list[BatchOutputOptions] = []

    def command(*, output: BatchOutputOptions) -> None:
        seen.append(output)

    application = typer.Typer()
    application.command()(flatten(command))

    assert CliRunner().invoke(application, given).exit_code == 0
    assert [options.batch_size for options in seen] == [meant]
