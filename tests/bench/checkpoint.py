"""Makes the benchmark's checkpoint, and of it what each program loads."""

import pathlib
from typing import Final

from tests.bench.processes import run_to_end
from tests.bench.variants import OURS, Variant
from tests.checkpoints import GPT2_VOCAB_SIZE, CheckpointShape, write_checkpoint

# GPT-2's smallest. The spreads that `tests.checkpoints` draws with keep greedy text from looping.
_SHAPE: Final = CheckpointShape(
    n_layer=12, n_head=12, n_embd=768, n_positions=1024, vocab_size=GPT2_VOCAB_SIZE, seed=124
)


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
    arguments, precision = [str(checkpoint), str(out)], variant.precision
    if variant.program == OURS:
        run_to_end([python, "-m", "export", *arguments, "--precision", precision, "--force"])
    elif not out.exists():
        module = f"tests.bench.convert_{variant.program}"
        run_to_end([python, "-m", module, *arguments, precision])
    return out
