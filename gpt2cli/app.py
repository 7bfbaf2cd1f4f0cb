"""The command-line application: commands, and known errors as one line and an exit code."""

import os
import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from gpt2cli.batch.command import batch
from gpt2cli.bench.command import bench
from gpt2cli.chat.command import chat
from gpt2cli.config_command import config
from gpt2cli.doctor.command import doctor
from gpt2cli.errors import ExitCode, Gpt2Error, UsageError
from gpt2cli.export_command import export
from gpt2cli.generate.command import generate
from gpt2cli.models import models
from gpt2cli.options import Command, spell_flag
from gpt2cli.preset_command import preset
from gpt2cli.replay.command import replay
from gpt2cli.score.command import score
from gpt2cli.serve.command import serve
from gpt2cli.terminal.notes import PROGRAM, end_line, write_error
from gpt2cli.tokens import tokens

_STDOUT: Final = 1
_STDERR: Final = 2
_MEMORY_FULL: Final = (
    "out of memory; use shorter texts, fewer at once (--batch-size, --samples, --beams), or "
    "a smaller model"
)
# The usual cause of an error in the arguments, as advice; the patterns match Typer 0.28's messages.
_HINTS: Final[Mapping[re.Pattern[str], str]] = {
    re.compile("Got unexpected extra argument"): "; put a text with spaces in quotes",
    re.compile(r"No such option: (?!.*\(Possible)"): "; put -- before a text that begins with -",
}

_ENDED_BY_SIGNAL: Final = (ExitCode.HUNG_UP, ExitCode.TERMINATED)

# The panels of `gpt2 --help`.
_TEXT: Final = "Text"
_MODELS: Final = "Models"
_MACHINE: Final = "Machine and settings"


class _Group(TyperGroup):
    """The command group; the one place that turns exceptions into exit codes."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command. After Ctrl-C the shell's prompt gets a line of its own."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            end_line()
            _drop(_STDOUT)  # nobody may read any more what its buffer holds
            raise

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and exit."""
        extra |= {"standalone_mode": False, "prog_name": PROGRAM}
        try:
            code = super().main(*args, **extra)
        except SystemExit as exit_:
            # Typer 0.28 and Rich 15 make exit code 1 of a closed pipe; but nothing is left to do.
            closed = isinstance(exit_.__context__, BrokenPipeError)
            code = ExitCode.DONE if closed else exit_.code
            if code in _ENDED_BY_SIGNAL:
                _drop(_STDOUT)  # as after Ctrl-C
        except typer.TyperException as error:
            _say(error)
            code = error.exit_code
        except Gpt2Error as error:
            write_error(" ".join([error.tell(spell_flag), *getattr(error, "__notes__", ())]))
            code = ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.FAILED
        except MemoryError:
            write_error(_MEMORY_FULL)
            code = ExitCode.FAILED
        except OSError as error:  # a full disk or the like, in any module
            write_error(": ".join(str(part) for part in (error.strerror, error.filename) if part))
            code = ExitCode.FAILED
        except (KeyboardInterrupt, typer.Abort):
            code = ExitCode.INTERRUPTED
        sys.exit(_flush(code))


def _say(error: typer.TyperException) -> None:
    """Write a usage error with the command for its help; nothing if help was shown instead."""
    message = error.format_message()
    context = getattr(error, "ctx", None)
    if context is not None and any(p.param_type_name == "argument" for p in context.command.params):
        message += next((hint for words, hint in _HINTS.items() if words.match(message)), "")
    if message and context is not None:
        message = f"{message.rstrip('.')} (see {context.command_path} --help)"
    if message:
        write_error(message)


def _flush(code: object) -> int:
    """Flush what waits in stdout and stderr, and return the exit code.

    If that fails, Python's own flush at exit must not fail too: it would make the code 120.
    """
    code = code if isinstance(code, int) else ExitCode.DONE
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        _drop(_STDOUT)
        if code == ExitCode.DONE and not isinstance(error, BrokenPipeError):
            write_error(f"cannot write the result: {error.strerror}")
            code = ExitCode.FAILED
    try:
        sys.stderr.flush()
    except OSError:
        _drop(_STDERR)
    return code


def _drop(descriptor: int) -> None:
    """Discard what is still written there."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


app = typer.Typer(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    no_args_is_help=True,
)
app.command(cls=Command, rich_help_panel=_TEXT)(generate)
app.command(cls=Command, rich_help_panel=_TEXT)(chat)
app.command(cls=Command, rich_help_panel=_TEXT)(batch)
app.command(cls=Command, rich_help_panel=_TEXT)(serve)
app.command(cls=Command, rich_help_panel=_TEXT)(replay)
app.command(cls=Command, rich_help_panel=_TEXT)(score)
app.command(cls=Command, rich_help_panel=_TEXT)(tokens)
app.command(cls=Command, rich_help_panel=_MODELS)(export)
app.add_typer(models, name="models", rich_help_panel=_MODELS)
app.command(cls=Command, rich_help_panel=_MACHINE)(bench)
app.command(cls=Command, rich_help_panel=_MACHINE)(doctor)
config.add_typer(preset, name="preset")
app.add_typer(config, name="config", rich_help_panel=_MACHINE)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata  # imported here since it takes 10 ms

        typer.echo(metadata.version("gpt2"))
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    """GPT-2 text generation: prompts in, text out, on this machine.

    For example:

    gpt2 generate "Once upon a time"

    gpt2 generate --help
    """
