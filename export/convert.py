"""Converts a checkpoint folder to a model folder.

The order is fixed: read → validate → build → write to a temporary folder → check → rename.
The folder takes its final name in one step after everything in it is written and checked.
"""

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final

import onnx
import onnxruntime

from export.adapted import Adapted
from export.adapter import open_adapters
from export.check import check
from export.check_portable import check_portable
from export.checkpoint import open_checkpoint
from export.config import GPT2Config, read_config
from export.errors import CheckpointError, OutputError, as_one_line
from export.folder_weights import FolderWeights
from export.graph import GRAPH_VERSION
from export.graph_runner import CPU_PROVIDER
from export.manifest import (
    LIGHT_FILES,
    MANIFEST_FILE,
    MODEL_FILES,
    OWN_SUFFIX,
    describe,
    find_graph,
    find_graphs,
    write_descriptions,
    write_manifest,
)
from export.model_writing import DATA_FILE, write_model
from export.portable_files import (
    ONNX_FOLDER,
    PORTABLE_FILES,
    portable_graph,
    write_portable_descriptions,
)
from export.storage import STORAGES, Precision
from export.tokenizer import TokenizerFacts, read_facts, read_tokenizer
from export.whole import put_back, replacing_folder

# All files that a model folder may hold; a folder with any other file is never replaced.
_FILES: Final = frozenset(
    {
        *(DATA_FILE, *LIGHT_FILES, *PORTABLE_FILES),
        *(f"{name}{suffix}" for name in MODEL_FILES for suffix in ("", OWN_SUFFIX)),
    }
)

Report = Callable[[str], None]


def convert(
    source: Path,
    out: Path,
    *,
    step: int | None = None,
    adapters: Sequence[Path] = (),
    precision: Precision = Precision.FP32,
    portable: bool = False,
    origin: Mapping[str, Any] | None = None,
    full_check: bool = False,
    force: bool = False,
    report: Report = lambda stage: None,
    note: Report = lambda text: None,
) -> None:
    """Write the model folder `out` from the checkpoint folder `source`.

    `step` is that of a TensorFlow checkpoint (default: `export.tensorflow_steps` says). `adapters`
    are folders of adapters that are merged into it, one after the other. With `portable` other
    programs load the folder too (`export.portable_files`). `origin` is stored as the folder's
    source (default: the paths); `report` is told each stage as it begins, and `note` what the user
    should know of the checkpoint, a line each.
    An existing model folder is replaced with `force`.

    Raises:
        CheckpointError: with everything that is wrong with the checkpoint.
        OutputError: if `out` exists or cannot be written.
        CheckError: if the written graph does not compute what the checkpoint says.
    """
    put_back(out)
    _refuse_taken(out, force=force)
    report("reading the checkpoint")
    origin = origin or _describe_origin(source, step, adapters)
    base, facts = _read_valid(source, step, adapters)
    with (
        _open_weights(source, step, base, adapters) as weights,
        _written_whole(out, force=force) as folder,
    ):
        config = weights.config
        name = str(origin.get("repo") or origin.get("name") or origin.get("path") or source)
        of_weights = [*weights.notes, *weights.find_other_bases(name)]
        for notes in filter(None, (of_weights, facts.notes)):
            note(as_one_line("; ".join(notes)))
        report("writing the graph and the weights")
        portable_as = precision if portable else None
        faults = write_model(folder, config, weights, STORAGES[precision], portable_as=portable_as)
        if faults:
            raise CheckpointError(source, faults)
        write_descriptions(source, folder, facts, changed=weights.changed_fields)
        if portable:
            tokenizer = weights.tokenizer_folder or source
            others = write_portable_descriptions(tokenizer, folder, config, facts, precision)
            for difference in others:
                note(as_one_line(difference))
        report("checking the graph against the NumPy reference")
        graphs, exact = find_graphs(folder), precision is Precision.FP32
        written = weights if exact else FolderWeights(find_graph(folder))
        check(graphs, config, written, precision=precision, full=full_check, report=report)
        if portable:
            graph = folder / portable_graph(precision)
            check_portable(
                graph, config, written, precision=precision, full=full_check, report=report
            )
        manifest = describe(
            folder, config, facts, graph_version=GRAPH_VERSION, precision=precision.value
        )
        manifest |= {
            "source": origin,
            "onnx": onnx.__version__,
            "checked": [{"onnxruntime": onnxruntime.__version__, "provider": CPU_PROVIDER}],
        }
        write_manifest(folder, manifest)


def _describe_origin(source: Path, step: int | None, adapters: Sequence[Path]) -> Mapping[str, Any]:
    origin: dict[str, Any] = {"path": str(source.resolve())}
    if step is not None:
        origin["step"] = step
    if adapters:
        origin["adapters"] = [{"path": str(adapter.resolve())} for adapter in adapters]
    return origin


def _read_valid(
    source: Path, step: int | None, adapters: Sequence[Path]
) -> tuple[GPT2Config, TokenizerFacts]:
    """Validate config, tokenizer and weights, and report the faults of all three at once.

    Then the adapters: whether they fit can be told only of a checkpoint that has no faults.
    """
    faults: list[str] = []
    config, facts = None, None
    try:
        if not source.is_dir():
            raise CheckpointError(source, ["is not a folder; expected a GPT-2 checkpoint folder"])
    except OSError as error:  # a name that is too long, before Python 3.14
        raise CheckpointError(source, [f"cannot be read: {error.strerror}"]) from error
    with _gathering(faults):
        config = read_config(source)
    with _gathering(faults), open_checkpoint(source, step) as weights:
        faults += weights.find_faults(config) if config else []
    adapted, tokenizer = config, source
    if config and adapters and not faults:
        with _gathering(faults), _open_weights(source, step, config, adapters) as merged:
            faults += merged.find_faults()
            adapted, tokenizer = merged.config, merged.tokenizer_folder or source
    with _gathering(faults, tokenizer if tokenizer != source else None):
        if adapted:
            facts = read_facts(tokenizer, adapted)
        else:
            read_tokenizer(source)  # for its faults
    if faults or config is None or facts is None:
        raise CheckpointError(source, faults)
    return config, facts


@contextmanager
def _open_weights(
    source: Path, step: int | None, config: GPT2Config, adapters: Sequence[Path]
) -> Iterator[Adapted]:
    """Open a checkpoint's weights with adapters merged into them; `config` is the checkpoint's."""
    with open_checkpoint(source, step) as base, open_adapters(source, adapters) as opened:
        yield Adapted(base, config, opened)


@contextmanager
def _gathering(faults: list[str], adapter: Path | None = None) -> Iterator[None]:
    try:
        yield
    except CheckpointError as error:
        faults += [f"adapter {adapter}: {f}" if adapter else f for f in error.faults]
    except OSError as error:  # a folder that may not be entered
        faults.append(f"cannot be read: {error.strerror}")


def _refuse_taken(out: Path, *, force: bool) -> None:
    try:
        names = _names_at(out)
    except OSError as error:
        raise _cannot_write(out, error) from error
    if names == set():
        return
    if names is None or MANIFEST_FILE not in names:
        raise OutputError(f"{out} exists and is not a model folder; choose another name")
    others = {name for name in names - _FILES if not PurePosixPath(name).name.startswith(".")}
    if others:
        other = ascii(min(others))
        raise OutputError(f"{out} holds {other}, no part of a model folder; choose another name")
    if not force:
        raise OutputError(f"{out} exists; use --force to replace it")


def _names_at(out: Path) -> set[str] | None:
    """Return the paths in a folder; none where nothing is; None if it is not a folder of its own.

    A link is not: the rename would replace the link, not the folder behind it.
    """
    if out.is_symlink():
        return None
    if out.is_dir():
        inner = (out / ONNX_FOLDER).glob("*")
        return {path.relative_to(out).as_posix() for path in (*out.iterdir(), *inner)}
    return None if out.exists() else set()


@contextmanager
def _written_whole(out: Path, *, force: bool) -> Iterator[Path]:
    """Yield a temporary folder beside `out`, which becomes `out` if the block succeeds."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing_folder(out) as partial:
            yield partial
            _refuse_taken(out, force=force)  # again, since the conversion took a while
    except OSError as error:
        raise _cannot_write(out, error) from error


def _cannot_write(out: Path, error: OSError) -> OutputError:
    where = f"{error.filename}: " if error.filename and error.filename != str(out) else ""
    full = " (the disk is full)" if error.errno == errno.ENOSPC else ""
    return OutputError(f"cannot write {out}: {where}{error.strerror or error}{full}")
