"""Keeps the user's own settings: reads and writes the config file, reads the environment."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import platformdirs

from export.small_files import MissingFileError, ReadError, parse_toml, read_text
from export.whole import locked, replacing
from gpt2cli.errors import OutputError, UsageError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_PREFIX: Final = "GPT2_"
PRESETS: Final = "preset"  # the table of presets in the config file
_LARGEST: Final = 1 << 16  # bytes of a config file: tomllib takes time by their square


def config_file() -> Path:
    """Return the user's config file, which may not exist yet."""
    return platformdirs.user_config_path("gpt2") / "config.toml"


def variable_of(key: str) -> str:
    """Return the name of a key's environment variable: GPT2_TOP_K for top_k."""
    return _PREFIX + key.upper()


def read_variable(key: str) -> str | None:
    """Return the value of a key's environment variable; an empty one counts as unset."""
    return os.environ.get(variable_of(key)) or None


def read_config() -> dict[str, Any]:
    """Return the values of the config file by their keys, `_` for `-`; none without a file.

    Raises:
        UsageError: if it cannot be read, or a key stands there in both spellings.
    """
    values = _spell(_read_values())
    _check_presets(values.pop(PRESETS, {}))
    return values


def read_presets() -> dict[str, dict[str, Any]]:
    """Return the values of each preset by its name, in their order.

    Raises:
        UsageError: as `read_config`, or if there is anything else among them.
    """
    presets = _read_values().get(PRESETS, {})
    _check_presets(presets)
    return {name: _spell(values) for name, values in presets.items()}


def _check_presets(presets: Any) -> None:
    if not isinstance(presets, dict) or not all(isinstance(v, dict) for v in presets.values()):
        raise UsageError(f"{config_file()}: expected tables such as [{PRESETS}.NAME] for presets")


def read_preset(name: str) -> dict[str, Any]:
    """Return the values of a preset.

    Raises:
        UsageError: as `read_presets`, or if there is no such preset; names the known ones.
    """
    presets = read_presets()
    if name not in presets:
        known = f"one of {', '.join(presets)}" if presets else "one that is kept"
        advice = "" if presets else "`gpt2 config preset save` keeps one"
        raise UsageError(advice=advice, option=PRESETS, expected=known, found=name)
    return presets[name]


def write_preset(name: str, values: Mapping[str, Any]) -> bool:
    """Keep a preset, in place of an earlier one; return whether there was one.

    Raises:
        UsageError, OutputError: as `write_setting`.
    """
    import tomlkit

    with _changing() as document:
        presets = document.setdefault(PRESETS, tomlkit.table(is_super_table=True))
        _check_presets(presets)
        replaced = name in presets
        presets[name] = values
    return replaced


def remove_preset(name: str) -> None:
    """Remove a preset, as `write_preset` writes one."""
    with _changing() as document:
        del document[PRESETS][name]
        if not document[PRESETS]:
            del document[PRESETS]


def write_setting(key: str, value: Any) -> None:
    """Write a key's value to the config file; other keys and all comments stay.

    Raises:
        UsageError: if the file that is there cannot be read.
        OutputError: if it cannot be written.
    """
    with _changing() as document:
        document[_find_spelling(document, key) or key] = value


def remove_setting(key: str) -> bool:
    """Remove a key from the config file, as `write_setting` does; return whether it was there."""
    if not config_file().parent.is_dir():  # which is made where something is written
        return False
    with _changing() as document:
        spelling = _find_spelling(document, key)
        if spelling is not None:
            del document[spelling]
    return spelling is not None


@contextmanager
def _changing() -> Iterator["TOMLDocument"]:
    """Lock the config file while it is changed, so that no process loses another's value."""
    path = config_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.parent):
            document = _parse(_read())
            before = document.as_string()
            yield document
            if document.as_string() != before:
                with replacing(path) as file:
                    file.write(document.as_string().encode())
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def _find_spelling(document: Iterable[str], key: str) -> str | None:
    return next((known for known in document if known.replace("-", "_") == key), None)


def _spell(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by their keys, `_` for `-`."""
    spelled = {key: key.replace("-", "_") for key in values}
    twice = sorted(key for key in values if "-" in key and spelled[key] in values)
    if twice:
        raise UsageError(f"{config_file()}: {twice[0]} and {spelled[twice[0]]} are the same key")
    return {spelled[key]: value for key, value in values.items()}


def _read_values() -> dict[str, Any]:
    text = _read()
    return _load(text) if text else {}


def _read() -> str:
    """Return the file's text; none if there is no file."""
    try:
        return read_text(config_file(), most_bytes=_LARGEST)
    except MissingFileError:
        return ""
    except ReadError as error:
        raise UsageError(f"{config_file()} {error}") from error


def _load(text: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except ReadError as error:
        expected = "expected lines such as top_k = 40, each key once"
        raise UsageError(f"{config_file()} {error}; {expected}") from error


def _parse(text: str) -> "TOMLDocument":
    import tomlkit  # keeps comments and order; slower than tomllib, and its errors say less
    from tomlkit.exceptions import TOMLKitError

    _load(text)
    try:
        return tomlkit.parse(text)
    except (TOMLKitError, RecursionError) as error:
        raise UsageError(f"{config_file()} is not valid TOML: {error}") from error
