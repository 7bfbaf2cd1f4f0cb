"""Owns what the checkpoints of tests/vectors/tensorflow/ hold, and the folders that tests use."""

import pathlib
import shutil
from typing import Final

from tests.checkpoints import CheckpointShape, FloatArray, make_tensors

FOLDER: Final = pathlib.Path(__file__).with_name("tensorflow")
ANSWERS_FILE: Final = FOLDER / "answers.npz"

MERGES: Final = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n")]
SHAPE: Final = CheckpointShape(
    n_layer=2, n_head=2, n_embd=8, n_positions=16, vocab_size=256 + len(MERGES) + 1, seed=31
)
TEXT: Final = "In the thin  night,\n they'd sing: über"

_OPENAI_PARTS: Final = {"weight": "w", "bias": "b"}


def make_openai_tensors() -> dict[str, FloatArray]:
    """Return the weights of `SHAPE` as OpenAI's code names and shapes them."""
    return {
        name_as_openai(name): tensor[None] if ".c_" in name and tensor.ndim == 2 else tensor
        for name, tensor in make_tensors(SHAPE).items()
    }


def name_as_openai(name: str) -> str:
    """Return OpenAI's name of a weight that Hugging Face calls `name`."""
    *parts, last = name.removeprefix("transformer.").split(".")
    if parts[0] == "h":
        parts[:2] = [f"h{parts[1]}"]
    if parts[-1].startswith("ln_"):
        parts.append("g" if last == "weight" else "b")
    elif parts[-1].startswith("c_"):
        parts.append(_OPENAI_PARTS[last])
    return "/".join(["model", *parts])


def copy_checkpoint(name: str, folder: pathlib.Path) -> pathlib.Path:
    """Copy a checkpoint of TensorFlow's with hparams.json, encoder.json and vocab.bpe."""
    shutil.copytree(FOLDER / name, folder)
    for path in FOLDER.glob("*.*"):
        if path.suffix in (".json", ".bpe"):
            shutil.copyfile(path, folder / path.name)
    return folder
