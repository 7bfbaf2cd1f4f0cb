"""Claims about the application: exceptions become one line and an exit code."""

import errno
import inspect
from importlib import metadata

import pytest
import typer
from typer.testing import CliRunner, Result

from gpt2cli import errors
from gpt2cli.app import app
from gpt2cli.errors import Gpt2Error, UsageError

_KNOWN = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Gpt2Error)
]


def run_and_raise(error: BaseException) -> Result:
    """Run a command of the application's own kind that raises."""
    group = typer.Typer(cls=app.info.cls)

    @group.command()
    def fail() -> None:
        raise error

    @group.command()
    def other() -> None:
        """Make it a group."""

    return CliRunner().invoke(group, ["fail"], catch_exceptions=False)


@pytest.mark.parametrize("kind", _KNOWN)
def test_a_known_failure_is_one_line_and_1_or_2(kind: type[Gpt2Error]) -> None:
    """2 where the command line itself is wrong, 1 for every other kind there is."""
    result = run_and_raise(kind("a\nb\x1b[1m"))
    assert result.exit_code == (2 if issubclass(kind, UsageError) else 1)
    assert (result.stdout, result.stderr) == ("", "gpt2: error: a b␛[1m\n")


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/x"), 1, "No space left on device: /x"),
        (MemoryError(), 1, "out of memory; use shorter texts, fewer at once"),
        # A reader who left is success, and a command may choose its exit code: both in silence.
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 0, None),
        *((typer.Exit(code), code, None) for code in (0, 1, 130)),
    ],
    ids=repr,
)
def test_an_end_is_an_exit_code_and_a_failure_one_line(
    error: Exception, code: int, told: str | None
) -> None:
    result = run_and_raise(error)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("" if told is None else f"gpt2: error: {told}")
    assert result.stderr.count("\n") == (told is not None)


def test_a_fault_of_our_own_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        run_and_raise(ZeroDivisionError())


@pytest.mark.parametrize("option", ["--help", "-h"])
@pytest.mark.parametrize("command", [[], ["generate"], ["export"]], ids=str)
def test_help_is_on_stdout(command: list[str], option: str) -> None:
    result = CliRunner().invoke(app, [*command, option])
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Usage: gpt2" in result.stdout


def test_version_is_one_line_on_stdout() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, metadata.version("gpt2") + "\n")


@pytest.mark.parametrize(
    ("arguments", "told", "command"),
    [
        (["wrong"], "No such command 'wrong'", ""),
        (["--x"], "No such option: --x", ""),
        (["bench", "a"], "Got unexpected extra argument(s) (a)", " bench"),
        (
            ["generate", "-5 degrees"],
            "No such option: -5; put -- before a text that begins with -",
            " generate",
        ),
        (
            ["generate", "--regx", "a"],
            "No such option: --regx (Possible options: --regex)",
            " generate",
        ),
        (["generate", "--regex"], "Option '--regex' requires an argument", " generate"),
        (["config", "show", "--json=1"], "Option '--json' does not take a value", " config show"),
        (
            ["generate", "a", "b"],
            "Got unexpected extra argument(s) (b); put a text with spaces in quotes",
            " generate",
        ),
    ],
)
def test_a_wrong_command_is_one_line_that_says_where_to_read(
    arguments: list[str], told: str, command: str
) -> None:
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"gpt2: error: {told} (see gpt2{command} --help)\n"


def test_no_command_shows_the_help_and_is_a_usage_error() -> None:
    """A script that forgot the command does not succeed."""
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 2
    assert "Usage: gpt2" in result.output
