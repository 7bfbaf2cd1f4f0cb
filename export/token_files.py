"""Reads what the files beside a tokenizer say about its tokens; not which file counts.

They are those of transformers' `save_pretrained`, from 2019 (`special_tokens_map.json`,
`added_tokens.json`) to now (`tokenizer_config.json`, since 4.34 with `added_tokens_decoder`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tokenizers import AddedToken

from export.config import read_object
from export.errors import CheckpointError

END_OF_TEXT: Final = "<|endoftext|>"

CONFIG_FILE: Final = "tokenizer_config.json"
MAP_FILE: Final = "special_tokens_map.json"
ADDED_FILE: Final = "added_tokens.json"

FLAGS: Final = ("single_word", "lstrip", "rstrip", "normalized")  # of an AddedToken

_LISTS: Final = ("additional_special_tokens", "extra_special_tokens")


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """A token, where a file has it, and what that says of it."""

    token: AddedToken
    origin: str  # the file's name
    field: str | None = None  # as eos_token; None: it is only listed
    token_id: int = -1  # where it is listed

    @property
    def text(self) -> str:
        """The text that reads as the token."""
        return str(self.token.content)


@dataclass(frozen=True, slots=True)
class TokenFiles:
    """What the files say, the one that counts more first."""

    named: tuple[TokenEntry, ...]  # by a field: special, whatever else is said
    listed: tuple[TokenEntry, ...]  # with ids
    settings: Mapping[str, Any]  # tokenizer_config.json

    def find_named(self, field: str) -> Iterator[TokenEntry]:
        """Give the tokens that a field names."""
        return (entry for entry in self.named if entry.field == field)


def read_token_files(folder: Path) -> TokenFiles:
    """Read the files that are there, or raise CheckpointError."""
    settings, special = _read(folder, CONFIG_FILE), _read(folder, MAP_FILE)
    decoder = settings.get("added_tokens_decoder")
    sources = [(MAP_FILE, special), (CONFIG_FILE, settings)]
    if decoder is not None:  # then transformers opens neither of the older files
        sources.reverse()
    named = (entry for name, fields in sources for entry in _find_named(name, fields))
    listed = [*_read_decoder(folder, decoder), *_read_added(folder)]
    return TokenFiles(tuple(named), tuple(listed), settings)


def _read(folder: Path, name: str) -> Mapping[str, Any]:
    return read_object(folder / name) if (folder / name).is_file() else {}


def _find_named(origin: str, fields: Mapping[str, Any]) -> Iterator[TokenEntry]:
    for field, value in fields.items():
        if field.endswith("_token"):  # also those that only one model has, as image_token
            values = [value]
        elif field in _LISTS:  # as an object each has a name of its own
            values = [*value.values()] if isinstance(value, dict) else value
        else:
            continue
        for token in values if isinstance(values, list) else []:
            if made := _make_token(token, special=True):
                yield TokenEntry(made, origin, field)


def _make_token(value: object, *, special: bool) -> AddedToken | None:
    """Return the token that a text means, or an object with its flags; None if it is neither."""
    fields = value if isinstance(value, dict) else {"content": value}
    content = fields.get("content")
    if not isinstance(content, str) or not content:
        return None
    flags = {flag: fields[flag] for flag in FLAGS if isinstance(fields.get(flag), bool)}
    flags.setdefault("normalized", not special)
    return AddedToken(content, special=special, **flags)


def _read_decoder(folder: Path, decoder: object) -> Iterator[TokenEntry]:
    if not isinstance(decoder, dict):
        return
    for key, value in decoder.items():
        special = isinstance(value, dict) and value.get("special") is True
        token = _make_token(value, special=special)
        if token is None or not (key.isascii() and key.isdigit() and len(key) < 10):
            fault = f"{CONFIG_FILE}: added_tokens_decoder has {key!r}, expected an id and a token"
            raise CheckpointError(folder, [fault])
        yield TokenEntry(token, CONFIG_FILE, token_id=int(key))


def _read_added(folder: Path) -> Iterator[TokenEntry]:
    for text, token_id in _read(folder, ADDED_FILE).items():
        token = _make_token(text, special=False)
        if token is None or type(token_id) is not int or token_id < 0:
            fault = f"{ADDED_FILE}: {text!r} has the id {token_id!r}, expected a number 0 or more"
            raise CheckpointError(folder, [fault])
        yield TokenEntry(token, ADDED_FILE, token_id=token_id)
