"""Claims about the declared options: their help, their ranges, and how groups become options."""

import pathlib
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
import typer
import typer.main
from typer.testing import CliRunner

from gpt2cli.app import app
from gpt2cli.batch.config import InputOutput
from gpt2cli.option_kinds import SWITCH
from gpt2cli.options import takes
from gpt2cli.settings import Settings, settable_options
from tests.gpt2cli.runner import error_line, invoke
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
    [name for name, p in _GENERATE.items() if p.opts[0][0] == "-" and not p.is_flag],
)
def test_an_option_that_is_not_simply_off_tells_its_default(name: str) -> None:
    """Also where the default is that nothing is given."""
    assert "Default" in _GENERATE[name].help


@pytest.mark.parametrize("option", _NUMBERS)
def test_the_help_says_the_range_in_the_words_of_the_error(option: str) -> None:
    """So that a person who got it wrong finds it again."""
    parameter = _GENERATE[option.removeprefix("--").replace("-", "_")]
    assert f" {_NUMBERS[option][0].capitalize()}" in parameter.help


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
    assert (option.kind is SWITCH) is (f"--no-{option.name}" in names)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--overflow", "x"], "expected stop, slide or error, found 'x'"),
        (["--precision", "int3"], "expected auto, fp32, fp16, int8 or int4, found 'int3'"),
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


@pytest.mark.parametrize(("given", "meant"), [([], None), (["--batch-size", "auto"], None)])
def test_a_batch_size_of_auto_is_as_if_nothing_were_given(
    given: list[str], meant: int | None
) -> None:
    """The contract's word for the default."""
    seen: list[InputOutput] = []

    def command(*, settings: Settings) -> None:
        seen.append(settings.make(InputOutput))

    application = typer.Typer()
    application.command()(takes(InputOutput)(command))

    assert CliRunner().invoke(application, given).exit_code == 0
    assert [options.batch_size for options in seen] == [meant]
