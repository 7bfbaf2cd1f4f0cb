"""Makes the benchmark's checkpoint, and of it what each program loads."""

import pathlib
import subprocess
from collections.abc import Sequence
from typing import Final

from tests.bench.variants import OURS, Variant
from tests.checkpoints import GPT2_VOCAB_SIZE, CheckpointShape, write_checkpoint

ROOT: Final = pathlib.Path(__file__).parents[2]  # of the repository
# GPT-2's smallest. The spreads that `tests.checkpoints` draws with keep greedy text from looping.
_SHAPE: Final = CheckpointShape(
    n_layer=12, n_head=12, n_embd=768, n_positions=1024, vocab_size=GPT2_VOCAB_SIZE, seed=124
)
_MOST_SHOWN: Final = 300  # characters of a reason
_TIMEOUT_SECONDS: Final = 600


class CannotRunError(Exception):
    """A program cannot be measured here; the text says why."""


def make_checkpoint(work: pathlib.Path) -> pathlib.Path:
    """Return the folder of a 124M checkpoint with the real vocabulary; an earlier one is used."""
    folder, part = work / "checkpoint", work / "checkpoint.part"
    if not folder.exists():
        write_checkpoint(part, _SHAPE, tokenizer="gpt2")
        part.rename(folder)
    return folder


def convert(variant: Variant, checkpoint: pathlib.Path, python: str) -> pathlib.Path:
    """Return what a variant loads, made by the interpreter of its program if it is not there.

    Ours is always made anew: our own graph is what changes.

    Raises:
        CannotRunError: if the program is not installed, or does not know the precision.
    """
    if variant.program == "transformers":
        return checkpoint
    work = checkpoint.parent / variant.program
    out = work / (f"{variant.precision}.gguf" if variant.program == "llama_cpp" else str(variant))
    work.mkdir(exist_ok=True)
    arguments = [str(checkpoint), str(out)]
    if variant.program == OURS:
        call([python, "-m", "export", *arguments, "--precision", variant.precision, "--force"])
    elif not out.exists():
        module = f"tests.bench.convert_{variant.program}"
        call([python, "-m", module, *arguments, variant.precision])
    return out


def call(command: Sequence[str]) -> str:
    """Run a command in the repository and return its stdout.

    Raises:
        CannotRunError: if it fails; with the last line that it wrote, or the signal.
    """
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRunError(str(error)) from error
    if done.returncode:
        raise CannotRunError(explain_failure(done.returncode, done.stderr))
    return done.stdout


def explain_failure(code: int, stderr: str) -> str:
    """Return why a process failed, in one line."""
    if code < 0:
        return f"killed by signal {-code}"
    lines = [line for line in stderr.splitlines() if line.strip(" │╰─╯╭╮")]
    return lines[-1].strip(" │")[:_MOST_SHOWN] if lines else f"exit code {code}"
