"""Finds the template of a conversation that a tokenizer's files have, as transformers does.

| file | what it holds |
|---|---|
| `chat_template.jinja` | the template; counts before the others (transformers since 4.49) |
| `tokenizer_config.json` | `chat_template`: the template, or several with names, of which `default` counts |
| `chat_template.json` | `chat_template`, where neither of the others has one |

Whether it works is told only where it is used: most who convert a model never do.
"""  # noqa: E501 (a table's row is a line)

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from export.config import read_object
from export.errors import CheckpointError
from export.small_files import ReadError, read_text
from export.special_tokens import CONFIG_FILE, SpecialTokens, TokenFiles

CHAT_TEMPLATE_FILE: Final = "chat_template.jinja"
_OLD_FILE: Final = "chat_template.json"
_FIELD: Final = "chat_template"
_DEFAULT: Final = "default"  # of several with names


@dataclass(frozen=True, slots=True)
class ChatFacts:
    """How a tokenizer's makers write a conversation."""

    template: str | None  # in Jinja; None: they do not say
    names: dict[str, str]  # the texts of special tokens, by fields such as eos_token
    notes: list[str]  # what the user should know of it, a line each


def read_chat_facts(folder: Path, files: TokenFiles, special: SpecialTokens) -> ChatFacts:
    """Read the template and the names that it may use, or raise CheckpointError."""
    template, notes = _read_template(folder, files.settings)
    return ChatFacts(template, _name_tokens(special, files), notes)


def _read_template(folder: Path, settings: Mapping[str, Any]) -> tuple[str | None, list[str]]:
    if (folder / CHAT_TEMPLATE_FILE).is_file():
        try:
            return read_text(folder / CHAT_TEMPLATE_FILE), []
        except ReadError as error:
            raise CheckpointError(folder, [f"{CHAT_TEMPLATE_FILE} {error}"]) from error
    origin, value = CONFIG_FILE, settings.get(_FIELD)
    if value is None and (folder / _OLD_FILE).is_file():
        origin, value = _OLD_FILE, read_object(folder / _OLD_FILE).get(_FIELD)
    template = _choose(value)
    if value is None or template is not None:
        return template, []
    return None, [f"{origin}: chat_template is left out, expected a text or one named {_DEFAULT}"]


def _name_tokens(special: SpecialTokens, files: TokenFiles) -> dict[str, str]:
    named: dict[str, str] = {}
    for entry in files.named:
        if entry.field is not None and entry.field.endswith("_token"):
            named.setdefault(entry.field, entry.text)
    ends = next(iter(special.eos_token_ids), None)
    for name, token_id in (("bos_token", special.bos_token_id), ("eos_token", ends)):
        text = special.tokens[token_id].text if token_id is not None else None
        if text is not None:
            named.setdefault(name, text)
    return named


def _choose(value: object) -> str | None:
    """Return the template that a value of JSON holds; several are a list, or an object by name."""
    if isinstance(value, list):
        pairs = [entry for entry in value if isinstance(entry, dict)]
        value = {entry.get("name"): entry.get("template") for entry in pairs}
    if isinstance(value, dict):
        value = value.get(_DEFAULT)
    return value if isinstance(value, str) else None
