"""A checkpoint's files on the hub: which are needed, which are missing, and which are whole."""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from export.other_weights import find_others
from export.small_files import LARGE, ReadError, read_object
from gpt2cli.errors import HubError

# What a conversion reads beside the weights; everything else in a repository is left there.
_TOKENIZER_FILES: Final = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
)
_CONFIG: Final = "config.json"
_ADAPTER_CONFIG: Final = "adapter_config.json"
_DESCRIPTIONS: Final = (_CONFIG, "generation_config.json", *_TOKENIZER_FILES)
_ADAPTER_DESCRIPTIONS: Final = (_ADAPTER_CONFIG, *_TOKENIZER_FILES)
# The forms of weights, the preferred one first: a single file, or an index and its shards.
WEIGHTS: Final = (
    ("model.safetensors", None),
    ("model.safetensors.index.json", re.compile(r"model-\d+-of-\d+\.safetensors")),
    ("pytorch_model.bin", None),
    ("pytorch_model.bin.index.json", re.compile(r"pytorch_model-\d+-of-\d+\.bin")),
)
_ADAPTER_WEIGHTS: Final = ("adapter_model.safetensors", "adapter_model.bin")
# The forms of tokenizers: all files of one.
_TOKENIZERS: Final = (("tokenizer.json",), ("vocab.json", "merges.txt"))
_SHA256_DIGITS: Final = 64
_DIGEST: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file as the hub lists it; what the hub does not say is None.

    The digest of a large file is its sha256, that of a small one its name as a git object. In
    huggingface_hub's cache the content lies under this name.
    """

    name: str
    size: int | None
    digest: str | None

    @property
    def sha256(self) -> str | None:
        """The digest of a large file; None for a small one."""
        return self.digest if self.digest and len(self.digest) == _SHA256_DIGITS else None

    def is_whole(self, path: Path) -> bool:
        """Tell whether `path` holds what the hub lists; reads all of it."""
        try:
            if self.size not in (None, path.stat().st_size):
                return False
            return self.digest in (None, self._find_digest(path))
        except OSError:
            return False

    def _find_digest(self, path: Path) -> str:
        with path.open("rb") as file:
            if self.sha256:
                return hashlib.file_digest(file, "sha256").hexdigest()
            content = file.read()
        blob = b"blob %d\0%b" % (len(content), content)
        return hashlib.sha1(blob, usedforsecurity=False).hexdigest()


def choose_files(repo: str, listed: Mapping[str, HubFile], *, weights: bool) -> list[HubFile]:
    """Return the files that a conversion reads of those in a repository, the weights last.

    `weights`: whether those are wanted.

    Raises:
        HubError: if a file that is needed is missing.
    """
    descriptions = [listed[name] for name in _DESCRIPTIONS if name in listed]
    form = next(((name, shard) for name, shard in WEIGHTS if name in listed), None)
    if "config.json" not in listed or (weights and form is None):
        missing = "config.json" if "config.json" not in listed else "model.safetensors"
        if _ADAPTER_CONFIG in listed:
            advice = "name the model that it was made for, and it with {adapter}"
            raise HubError(f"{repo} is an adapter, not a model", advice)
        found, advice = find_others(repo, listed) or ("", "expected a GPT-2 checkpoint")
        only = f", only {found}" if found else ""
        raise HubError(f"{repo} has no {missing}{only}", advice)
    if form is None or not weights:
        return descriptions
    name, shard = form
    shards = [other for other in sorted(listed) if shard is not None and shard.fullmatch(other)]
    return descriptions + [listed[name] for name in (name, *shards)]


def choose_adapter_files(repo: str, listed: Mapping[str, HubFile]) -> list[HubFile]:
    """Return the files of an adapter that a conversion reads, the weights last.

    Raises:
        HubError: if a file that is needed is missing.
    """
    weights = [name for name in _ADAPTER_WEIGHTS if name in listed][:1]
    if _ADAPTER_CONFIG not in listed or not weights:
        missing = _ADAPTER_WEIGHTS[0] if _ADAPTER_CONFIG in listed else _ADAPTER_CONFIG
        raise HubError(f"{repo} has no {missing}", "expected an adapter that peft made")
    names = (*(name for name in _ADAPTER_DESCRIPTIONS if name in listed), *weights)
    return [listed[name] for name in names]


def find_missing_of_adapter(folder: Path) -> list[str]:
    """Return what the snapshot of an adapter lacks."""
    if not (folder / _ADAPTER_CONFIG).exists():
        return [_ADAPTER_CONFIG]
    has_weights = any((folder / name).exists() for name in _ADAPTER_WEIGHTS)
    return [] if has_weights else [_ADAPTER_WEIGHTS[0]]


def find_damaged(folder: Path) -> list[str]:
    """Return the files of a snapshot that are not what was downloaded; reads all of them."""
    digests = {path: find_blob(path).name for path in sorted(folder.iterdir())}
    return [
        path.name
        for path, digest in digests.items()
        if _DIGEST.fullmatch(digest) and not HubFile(path.name, None, digest).is_whole(path)
    ]


def find_blob(path: Path) -> Path:
    """Return what a file of a snapshot links to, whose name is its digest; else the file itself.

    That may be a link as well, to what several repositories share under another kind of hash.
    """
    return path.parent / path.readlink() if path.is_symlink() else path


def find_missing(folder: Path, *, weights: bool) -> list[str]:
    """Return what a snapshot lacks to be converted; a download may have been cut at any file."""
    if not (folder / "config.json").exists():
        return ["config.json"]
    if not any(all((folder / name).exists() for name in form) for form in _TOKENIZERS):
        return ["tokenizer.json"]
    if not weights:
        return []
    for name, shard in WEIGHTS:
        if (folder / name).exists():
            return _find_missing_shards(folder / name) if shard is not None else []
    return ["model.safetensors"]


def _find_missing_shards(index: Path) -> list[str]:
    try:
        listed = read_object(index, most_bytes=LARGE, repeated_keys=True)
        shards = set(listed["weight_map"].values())
        return sorted(str(shard) for shard in shards if not (index.parent / shard).exists())
    except (OSError, ReadError, KeyError, TypeError, AttributeError):
        return [index.name]


@dataclass(frozen=True, slots=True)
class Contents:
    """What is wanted of a repository."""

    config: str  # the file that every one of its kind has
    choose: Callable[[str, Mapping[str, HubFile]], list[HubFile]]  # from what the hub lists
    find_missing: Callable[[Path], list[str]]  # in a snapshot


CHECKPOINT: Final = Contents(
    _CONFIG, partial(choose_files, weights=True), partial(find_missing, weights=True)
)
TOKENIZER: Final = Contents(
    _CONFIG, partial(choose_files, weights=False), partial(find_missing, weights=False)
)
ADAPTER: Final = Contents(_ADAPTER_CONFIG, choose_adapter_files, find_missing_of_adapter)
