"""Reads what `export` says of a model folder: the contract between the two packages."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from export.small_files import LARGE, AccessError, ReadError, read_object
from gpt2cli.errors import ModelError

GRAPH_VERSION: Final = 3  # of the model folders that this version reads
MANIFEST_FILE: Final = "export.json"


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes that the engine needs, under GPT-2's own names."""

    n_layer: int
    n_head: int
    head_dim: int
    n_embd: int
    n_positions: int
    vocab_size: int


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """An id that is no ordinary text, each thing with the checkpoint's file that says so."""

    id: int
    text: str | None  # which reads as it where that is allowed; None: no token has the id
    begins: str | None
    ends: str | None
    silent: str | None  # it never prints


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model folder whose files are all there, with the sizes that `export` recorded."""

    path: Path
    shape: ModelShape
    precision: str
    bos_token_id: int | None
    eos_token_ids: frozenset[int]
    start_ids: tuple[int, ...]  # what the tokenizer puts before every prompt
    missing_ids: tuple[range, ...]  # ids of the model that the tokenizer lacks
    special_tokens: tuple[SpecialToken, ...]
    source: Mapping[str, Any] = field(repr=False)
    checked: tuple[tuple[str, str], ...]  # (onnxruntime version, provider) that passed the check

    @property
    def graph_file(self) -> Path:
        """Path of the ONNX graph that every provider runs."""
        return self.path / "model.onnx"

    @property
    def cpu_graph_file(self) -> Path:
        """Path of the ONNX graph to run on the CPU: a faster form, if the model has one."""
        faster = self.path / "model_cpu.onnx"
        return faster if faster.is_file() else self.graph_file

    @property
    def tokenizer_file(self) -> Path:
        """Path of the tokenizer."""
        return self.path / "tokenizer.json"

    @property
    def config(self) -> Mapping[str, Any]:
        """The checkpoint's own config.json.

        Raises:
            ModelError: if it is damaged.
        """
        return _read_object(self.path / "config.json")

    @property
    def generation_config(self) -> Mapping[str, Any]:
        """The model's own generation_config.json; empty where there is none.

        Raises:
            ModelError: if it is damaged.
        """
        path = self.path / "generation_config.json"
        return _read_object(path) if path.is_file() else {}

    def find_damage(self) -> str | None:
        """Return what differs from the recorded hashes, by reading every file."""
        for name, recorded in _read_object(self.path / MANIFEST_FILE)["files"].items():
            try:
                with (self.path / name).open("rb") as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                return f"{name} cannot be read: {error.strerror}"
            if found != recorded["sha256"]:
                return f"{name} is damaged: its sha256 is not the recorded one"
        return None


def is_model_folder(path: Path) -> bool:
    """Tell whether `export` wrote this folder; not, where it cannot be read."""
    return os.path.isfile(path / MANIFEST_FILE)  # noqa: PTH113 (pathlib's raises there)


def read_model_folder(path: Path) -> ModelFolder:
    """Read a model folder; checks its files' sizes, not their contents.

    Raises:
        ModelError: if it was not written by `export`, is of another version, or lacks something.
    """
    manifest = read_manifest(path)
    version = manifest.get("graph_version")
    if version != GRAPH_VERSION:
        raise ModelError(
            f"{path} holds graph version {version}, this gpt2 needs {GRAPH_VERSION}; export again"
        )
    try:
        tokenizer = manifest["tokenizer"]
        folder = ModelFolder(
            path=path,
            shape=_read_shape(manifest["model"]),
            precision=manifest["precision"],
            bos_token_id=tokenizer["bos_token_id"],
            eos_token_ids=frozenset(tokenizer["eos_token_ids"]),
            start_ids=tuple(tokenizer["start_ids"]),
            missing_ids=tuple(range(a, b + 1) for a, b in tokenizer["missing_ids"]),
            special_tokens=tuple(SpecialToken(**t) for t in tokenizer["special_tokens"]),
            source=dict(manifest["source"]),
            checked=tuple((c["onnxruntime"], c["provider"]) for c in manifest["checked"]),
        )
        sizes = {name: facts["size"] for name, facts in manifest["files"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path / MANIFEST_FILE} is damaged ({error}); export again") from error
    faults = list(_find_size_faults(path, sizes))
    if faults:
        raise ModelError(f"model folder {path} is damaged: {'; '.join(faults)}; export again")
    return folder


def read_manifest(path: Path) -> dict[str, Any]:
    """Return what export.json says of a model folder, of whatever version.

    Raises:
        ModelError: if there is none, or it is no JSON object.
    """
    if not is_model_folder(path):
        raise ModelError(f"{path} is no model folder: it has no {MANIFEST_FILE}")
    return _read_object(path / MANIFEST_FILE)


def _read_shape(sizes: Mapping[str, Any]) -> ModelShape:
    if not all(type(size) is int and size > 0 for size in sizes.values()):
        raise ValueError("a size of the model is no positive whole number")
    return ModelShape(**sizes)


def _find_size_faults(path: Path, sizes: Mapping[str, int]) -> Iterable[str]:
    for name, size in sizes.items():
        try:
            found = (path / name).stat().st_size
        except OSError:
            yield f"{name} is missing"
        else:
            if found != size:
                yield f"{name} has {found} bytes, expected {size}"


def _read_object(path: Path) -> dict[str, Any]:
    try:  # config.json is the checkpoint's own: it may have a key twice
        return read_object(path, most_bytes=LARGE, repeated_keys=True)
    except AccessError as error:
        raise ModelError(f"{path} {error}") from error
    except ReadError as error:
        raise ModelError(f"{path} is damaged (it {error.reason}); export again") from error
