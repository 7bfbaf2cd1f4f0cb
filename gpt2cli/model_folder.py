"""Reads a model folder by its export.json: the contract between the two packages."""

import hashlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from export.small_files import LARGE, AccessError, ReadError, read_object
from gpt2cli.config import PRECISIONS
from gpt2cli.errors import ModelError, shorten

GRAPH_VERSION: Final = 4  # of the model folders that this version reads
MANIFEST_FILE: Final = "export.json"
IDENTITIES: Final = "identities"  # its key for `kept_identities`
# As `export` takes them from a config.json; what a manifest says is built by loops over these.
_SIZE_LIMIT: Final = 2**31
_MOST_LAYERS: Final = 1000


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
    """An id that is not ordinary text; each property with the checkpoint's file that says so."""

    id: int
    text: str | None  # the text that means it where that is allowed; None: no token has the id
    begins: str | None
    ends: str | None
    silent: str | None  # it never prints


@dataclass(frozen=True, slots=True)
class MergedAdapter:
    """An adapter that is merged into a model, by a name as the model's own."""

    name: str
    revision: str | None  # the commit of one of the hub

    @property
    def title(self) -> str:
        """What people are shown: the id on the hub, or a folder's last name."""
        return self.name if self.revision else Path(self.name).name


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
    files: Mapping[str, tuple[int, str]] = field(repr=False)  # size and sha256, by name
    adapters: tuple[MergedAdapter, ...] = ()
    token_names: Mapping[str, str] = field(default_factory=dict)  # texts, by fields as eos_token
    identities: Sequence[Mapping[str, Any]] = field(default=(), repr=False)  # as `kept_identities`

    @property
    def graph_file(self) -> Path:
        """The ONNX graph that every provider runs."""
        return self._find_graph("model.onnx")

    @property
    def cpu_graph_file(self) -> Path:
        """The ONNX graph to run on the CPU: a faster form, if the model has one."""
        faster = self._find_graph("model_cpu.onnx")
        return faster if faster.is_file() else self.graph_file

    def _find_graph(self, name: str) -> Path:
        """Return a graph of our own; in a portable folder its name is one that no other loads."""
        own = self.path / f"{name}.gpt2"
        return own if own.is_file() else self.path / name

    @property
    def verifying_graph_file(self) -> Path | None:
        """The CPU's graph that also takes several single steps in one call, if there is one."""
        verifying = self._find_graph("model_verify.onnx")
        return verifying if verifying.is_file() else None

    @property
    def tokenizer_file(self) -> Path:
        """The tokenizer."""
        return self.path / "tokenizer.json"

    @property
    def config(self) -> Mapping[str, Any]:
        """The checkpoint's own config.json; a ModelError if it is damaged."""
        return _read_object(self.path / "config.json")

    @property
    def generation_config(self) -> Mapping[str, Any]:
        """Its generation_config.json, empty where there is none; a ModelError if it is damaged."""
        path = self.path / "generation_config.json"
        return _read_object(path) if path.is_file() else {}

    @property
    def fingerprint(self) -> str:
        """A digest of the weights and of config.json: 16 hexadecimal digits.

        Not of graphs and tokenizer: another version may write the same ones with other bytes.
        """
        hashes = {
            name: sha256
            for name, (_, sha256) in self.files.items()
            if name == "config.json" or name.endswith(".data")
        }
        return _digest(hashes)

    def find_damage(self) -> str | None:
        """Read every file and return which differ from the recorded hashes."""
        for name, (_, sha256) in self.files.items():
            try:
                with (self.path / name).open("rb") as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                return f"{name} cannot be read: {error.strerror}"
            if found != sha256:
                return f"{name} is damaged: its sha256 is not the recorded one"
        return None


def digest_source(source: Mapping[str, Any]) -> str:
    """Return 16 hexadecimal digits of what a model was made of, which tell no path to others."""
    return _digest(source)


def _digest(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def is_model_folder(path: Path) -> bool:
    """Tell whether `export` wrote this folder; False if it cannot be read."""
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
            f"{path} holds graph version {shorten(str(version))}, this gpt2 needs {GRAPH_VERSION}; "
            "export again"
        )
    folder = _parse(path, manifest)
    found = (_find_fault(path / name, size) for name, (size, _) in folder.files.items())
    if faults := [fault for fault in found if fault]:
        raise ModelError(f"model folder {path} is damaged: {'; '.join(faults)}; export again")
    return folder


def read_manifest(path: Path) -> dict[str, Any]:
    """Return what export.json says of a model folder, of whatever version.

    Raises:
        ModelError: if there is none, or it is not a JSON object.
    """
    if not is_model_folder(path):
        raise ModelError(f"{path} is not a model folder: it has no {MANIFEST_FILE}")
    return _read_object(path / MANIFEST_FILE)


def kept_identities(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what was kept of how the model computes: under which conditions, and what was found.

    Whoever finds nothing there measures it, so it is no damage if it is wrong.
    """
    kept = manifest.get(IDENTITIES)
    return [entry for entry in kept if isinstance(entry, dict)] if isinstance(kept, list) else []


def _parse(path: Path, manifest: Mapping[str, Any]) -> ModelFolder:
    """Return what a manifest says; what `export` never writes is a ModelError.

    Nothing that it says is built or used before it is checked.
    """
    try:
        shape = _parse_shape(manifest["model"])
        tokenizer, end = manifest["tokenizer"], shape.vocab_size
        gaps = [_parse_ids(gap, end) for gap in tokenizer["missing_ids"]]
        bos = tokenizer["bos_token_id"]
        _require(manifest["precision"] in [*PRECISIONS], "precision", manifest["precision"])
        return ModelFolder(
            path=path,
            shape=shape,
            precision=manifest["precision"],
            bos_token_id=None if bos is None else _parse_ids([bos], end)[0],
            eos_token_ids=frozenset(_parse_ids(tokenizer["eos_token_ids"], end)),
            start_ids=_parse_ids(tokenizer["start_ids"], end),
            missing_ids=tuple(range(first, last + 1) for first, last in gaps),
            special_tokens=tuple(map(_parse_special, tokenizer["special_tokens"])),
            source=dict(manifest["source"]),
            adapters=_parse_adapters(manifest["source"]),
            checked=_parse_checked(manifest["checked"]),
            token_names=_parse_names(tokenizer.get("names", {})),
            identities=kept_identities(manifest),
            files={name: _parse_file(name, facts) for name, facts in manifest["files"].items()},
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path / MANIFEST_FILE} is damaged ({error}); export again") from error


def _parse_adapters(source: Mapping[str, Any]) -> tuple[MergedAdapter, ...]:
    sources = source.get("adapters", [])
    _require(isinstance(sources, list), "a list of adapters", sources)
    adapters = [MergedAdapter(s.get("repo") or s["path"], s.get("commit")) for s in sources]
    known = all(isinstance(a.name, str) and isinstance(a.revision, str | None) for a in adapters)
    _require(known, "names of adapters", sources)
    return tuple(adapters)


def _parse_shape(sizes: Mapping[str, Any]) -> ModelShape:
    shape = ModelShape(**sizes)
    known = _parse_ids(list(sizes.values()), _SIZE_LIMIT)
    _require(min(known) > 0 and shape.n_layer <= _MOST_LAYERS, "sizes of a model", known)
    _require(shape.n_head * shape.head_dim == shape.n_embd, "n_embd of all heads", shape.n_embd)
    return shape


def _parse_ids(values: Any, end: int) -> tuple[int, ...]:
    whole = isinstance(values, list) and all(type(v) is int and 0 <= v < end for v in values)
    _require(whole, f"whole numbers below {end}", values)
    return tuple(values)


def _parse_names(names: Any) -> dict[str, str]:
    texts = isinstance(names, dict) and all(isinstance(text, str) for text in names.values())
    _require(texts, "names of special tokens", names)
    return dict(names)


def _parse_checked(entries: Any) -> tuple[tuple[str, str], ...]:
    pairs = [(entry["onnxruntime"], entry["provider"]) for entry in entries]
    texts = all(isinstance(text, str) for pair in pairs for text in pair)
    _require(isinstance(entries, list) and texts, "a list of versions and providers", entries)
    return tuple(pairs)


def _parse_file(name: str, facts: Mapping[str, Any]) -> tuple[int, str]:
    parts = name.split("/")  # a portable folder has a folder in it
    plain = all(Path(part).name == part and part not in ("", "..") for part in parts)
    _require(plain and "\\" not in name and name.isprintable(), "file name", name)
    size, sha256 = facts["size"], facts["sha256"]
    _require(type(size) is int and isinstance(sha256, str), "size and sha256", facts)
    return size, sha256


def _parse_special(fields: Mapping[str, Any]) -> SpecialToken:
    token = SpecialToken(**fields)
    _parse_ids([token.id], _SIZE_LIMIT)
    texts = [token.begins, token.ends, token.silent]
    known = isinstance(token.text, str) and all(isinstance(text, str | None) for text in texts)
    _require(known, "texts", [token.text, *texts])
    return token


def _require(right: bool, expected: str, found: object) -> None:
    if not right:
        raise ValueError(f"expected {expected}, found {shorten(ascii(found))}")


def _find_fault(path: Path, size: int) -> str | None:
    try:
        found = path.stat()
    except OSError:
        return f"{path.name} is missing"
    if not stat.S_ISREG(found.st_mode):  # reading a pipe would block
        return f"{path.name} is not a regular file"
    if found.st_size != size:
        return f"{path.name} has {found.st_size} bytes, expected {size}"
    return None


def _read_object(path: Path) -> dict[str, Any]:
    try:  # config.json is the checkpoint's own: it may have a key twice
        return read_object(path, most_bytes=LARGE, repeated_keys=True)
    except AccessError as error:
        raise ModelError(f"{path} {error}") from error
    except ReadError as error:
        raise ModelError(f"{path} is damaged (it {error.reason}); export again") from error
