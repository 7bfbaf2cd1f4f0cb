"""Converts a checkpoint folder to a model folder.

The order is fixed: read → validate → build → write to a temporary folder → check → rename.
The folder takes its final name in one rename after everything in it is written, checked and
flushed to disk: a kill at any point leaves at most a `.NAME.*.partial` folder beside it.
"""

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime

from export.check import check_full, check_short
from export.checkpoint import Checkpoint, expected_weights, open_checkpoint
from export.config import GPT2Config, read_config
from export.errors import CheckpointError, OutputError
from export.graph import GRAPH_VERSION, add_weight, build_graph
from export.precision import Precision
from export.tokenizer import TokenizerFacts, gather_facts, read_tokenizer

MODEL_FILE: Final = "model.onnx"
DATA_FILE: Final = "model.onnx.data"
MANIFEST_FILE: Final = "export.json"
PROVIDER_CHECKED: Final = "CPUExecutionProvider"

# A page: external data is memory-mapped.
_ALIGNMENT: Final = 4096

Report = Callable[[str], None]


def convert(
    source: Path,
    out: Path,
    *,
    precision: Precision = Precision.FP32,
    origin: Mapping[str, Any] | None = None,
    full_check: bool = False,
    force: bool = False,
    report: Report = lambda stage: None,
) -> None:
    """Write the model folder `out` from the checkpoint folder `source`.

    `origin` is stored as the folder's source (default: the checkpoint's path, sizes and times);
    `report` is told each stage as it begins. An existing model folder is replaced with `force`.

    Raises:
        CheckpointError: with everything that is wrong with the checkpoint.
        OutputError: if `out` exists or cannot be written.
        CheckError: if the written graph does not compute what the checkpoint says.
    """
    _refuse_taken(out, force=force)
    report("reading the checkpoint")
    config = _read_all_faults(source)
    facts = gather_facts(read_tokenizer(source), config)
    with open_checkpoint(source) as weights, _written_whole(out) as folder:
        report("writing the graph and the weights")
        _write_model(folder, config, weights)
        _copy_descriptions(source, folder)
        report("checking the graph against the NumPy reference")
        check_short(folder / MODEL_FILE, config, weights)
        if full_check:
            check_full(folder / MODEL_FILE, config, weights, report=report)
        manifest = _describe(folder, config, facts, precision)
        manifest["source"] = origin if origin is not None else describe_local(source)
        _write_json(folder / MANIFEST_FILE, manifest)


def describe_local(source: Path) -> dict[str, Any]:
    """Return what identifies a local checkpoint: its path, and each file's size and time."""
    files = sorted(p for p in source.iterdir() if p.is_file() and not p.name.startswith("."))
    stats = {p.name: p.stat() for p in files}
    return {
        "path": str(source.resolve()),
        "files": {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()},
    }


def _read_all_faults(source: Path) -> GPT2Config:
    """Validate config, tokenizer and weights, and report the faults of all three at once."""
    if not source.is_dir():
        raise CheckpointError(source, ["is not a folder; expected a GPT-2 checkpoint folder"])
    faults: list[str] = []
    config = None
    try:
        config = read_config(source)
    except CheckpointError as error:
        faults += error.faults
    try:
        with open_checkpoint(source) as weights:
            faults += weights.find_faults(config) if config else []
    except CheckpointError as error:
        faults += error.faults
    try:
        read_tokenizer(source)
    except CheckpointError as error:
        faults += error.faults
    if faults or config is None:
        raise CheckpointError(source, faults)
    return config


def _write_model(folder: Path, config: GPT2Config, weights: Checkpoint) -> None:
    """Write the graph and stream the weights beside it, one in memory at a time."""
    model = build_graph(config)
    with (folder / DATA_FILE).open("wb") as file:
        for name, shape in expected_weights(config).items():
            file.write(b"\0" * (-file.tell() % _ALIGNMENT))
            add_weight(model, name, shape, DATA_FILE, file.tell())
            file.write(np.ascontiguousarray(weights.read(name), "<f4").data)
    onnx.save_model(model, folder / MODEL_FILE)


def _copy_descriptions(source: Path, folder: Path) -> None:
    for name in ("config.json", "generation_config.json"):
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    if (source / "tokenizer.json").is_file():
        shutil.copyfile(source / "tokenizer.json", folder / "tokenizer.json")
    else:
        read_tokenizer(source).save(str(folder / "tokenizer.json"))


def _describe(
    folder: Path, config: GPT2Config, facts: TokenizerFacts, precision: Precision
) -> dict[str, Any]:
    return {
        "format": "gpt2 model folder",
        "graph_version": GRAPH_VERSION,
        "precision": precision.value,
        "model": {
            "n_layer": config.n_layer,
            "n_head": config.n_head,
            "n_embd": config.n_embd,
            "head_dim": config.head_dim,
            "n_positions": config.n_positions,
            "vocab_size": config.vocab_size,
        },
        "tokenizer": {
            "vocab_size": facts.vocab_size,
            "missing_ids": _as_ranges(facts.missing_ids),
            "bos_token_id": facts.bos_token_id,
            "eos_token_ids": list(facts.eos_token_ids),
        },
        "files": {path.name: _fingerprint(path) for path in sorted(folder.iterdir())},
        "onnx": onnx.__version__,
        "checked": [{"onnxruntime": onnxruntime.__version__, "provider": PROVIDER_CHECKED}],
    }


def _as_ranges(ids: tuple[int, ...]) -> list[list[int]]:
    """Return ascending ids as [first, last] pairs: a padded vocabulary is one pair."""
    ranges: list[list[int]] = []
    for i in ids:
        if ranges and ranges[-1][1] == i - 1:
            ranges[-1][1] = i
        else:
            ranges.append([i, i])
    return ranges


def _fingerprint(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"size": path.stat().st_size, "sha256": digest}


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def _refuse_taken(out: Path, *, force: bool) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / MANIFEST_FILE).is_file():
        raise OutputError(f"{out} exists and is not a model folder; choose another place")
    if not force:
        raise OutputError(f"{out} exists; use --force to replace it")


@contextmanager
def _written_whole(out: Path) -> Iterator[Path]:
    """Give a temporary folder beside `out` that becomes `out` if the block succeeds."""
    temporary: Path | None = None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(
            tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}.", suffix=".partial")
        )
        yield temporary
        _flush(temporary)
        temporary.chmod(0o777 & ~_umask())  # mkdtemp makes it private
        _put_in_place(temporary, out)
    except OSError as error:
        place = error.filename or out
        full = " (the disk is full)" if error.errno == errno.ENOSPC else ""
        raise OutputError(f"cannot write {place}: {error.strerror or error}{full}") from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _put_in_place(temporary: Path, out: Path) -> None:
    if out.exists() and any(out.iterdir()):
        aside = temporary.with_suffix(".replaced")
        out.rename(aside)
        temporary.rename(out)
        shutil.rmtree(aside)
    else:
        temporary.rename(out)


def _flush(folder: Path) -> None:
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
