"""What one value of an option is: its kind and range, and how it is read from text and JSON."""

import functools
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpt2cli.errors import UsageError

_SWITCHES: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("on", "true", "yes", "1"), True),
    **dict.fromkeys(("off", "false", "no", "0"), False),
}


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `low` to `high`; with `above`, `low` itself is left out."""

    low: float
    high: float | None = None
    above: bool = False
    words: str = ""  # in place of the words that the numbers make

    def __contains__(self, value: float) -> bool:
        reached = self.low < value if self.above else self.low <= value
        return reached and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        """Return the range in the words of help and errors."""
        if self.words:
            return self.words
        if self.above:
            return f"above {self.low}" + ("" if self.high is None else f", up to {self.high}")
        return f"{self.low} or more" if self.high is None else f"{self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class Kind:
    """What one value of an option is."""

    wanted: str  # in errors: expected …
    parse: Callable[[str], Any]  # from text; raises a ValueError if it is invalid
    types: tuple[type, ...]  # types that JSON or TOML may have for it
    metavar: str
    has_escapes: bool = False  # on the command line
    choices: tuple[str, ...] = ()
    wanted_of_json: str = ""  # where JSON wants something else
    convert: Callable[[Any], Any] = lambda value: value  # from a value of JSON or TOML

    def read(self, value: Any) -> Any:
        """Return the value that JSON or TOML gives.

        Raises:
            ValueError: if it is none.
        """
        if not isinstance(value, self.types) or isinstance(value, bool) is not (bool in self.types):
            raise ValueError
        return self.convert(value)


def _parse_switch(text: str) -> bool:
    if text.lower() not in _SWITCHES:
        raise ValueError
    return _SWITCHES[text.lower()]


def _parse_device(text: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,4})?", text):
        raise ValueError
    return text


def _parse_server(text: str) -> str:
    is_url = re.fullmatch(r"https?://[^/?#@\s]+(/[^?#\s]*)?", text)
    if not (text == "off" or is_url or (text.startswith("unix:") and text != "unix:")):
        raise ValueError
    return text


def _parse_bias(text: str) -> tuple[str, float]:
    token, equals, bias = text.rpartition("=")  # the last: the token may be or hold one
    if not equals:
        raise ValueError
    return token, float(bias)


def _check_float(value: Any) -> Any:
    try:
        float(value)
    except OverflowError as error:  # a whole number of hundreds of digits
        raise ValueError from error
    return value


NUMBER: Final = Kind("a number", float, (int, float), "<float>", convert=_check_float)
WHOLE: Final = Kind("a whole number", int, (int,), "<int>")
TEXT: Final = Kind("a text", str, (str,), "TEXT", has_escapes=True)
PATTERN: Final = Kind("a text", str, (str,), "PATTERN")  # backslashes in it are kept as they are
NAME: Final = Kind("a text", str, (str,), "NAME")
SWITCH: Final = Kind(
    "on or off", _parse_switch, (bool,), "", choices=("on", "off"), wanted_of_json="true or false"
)
FILE: Final = Kind("a file", Path, (), "FILE")
# A file on the command line, an object in a record; in both cases the schema's text in the end.
SCHEMA: Final = Kind(
    "a file", Path, (dict,), "FILE",
    wanted_of_json="a JSON schema, an object",
    convert=functools.partial(json.dumps, ensure_ascii=False),
)  # fmt: skip
BIAS: Final = Kind(
    "ID_OR_TEXT=NUMBER", _parse_bias, (str,), "ID_OR_TEXT=X",
    has_escapes=True,
    wanted_of_json='an object {"ID_OR_TEXT": number, …}',
    convert=_parse_bias,
)  # fmt: skip
DEVICE: Final = Kind(
    "auto, cpu, cuda or cuda:N", _parse_device, (str,), "auto|cpu|cuda|cuda:N",
    choices=("auto", "cpu", "cuda"), convert=_parse_device,
)  # fmt: skip
SERVER: Final = Kind(
    "off, http://HOST:PORT or unix:FILE", _parse_server, (str,), "URL|unix:FILE|off",
    convert=_parse_server,
)  # fmt: skip
BY_TYPE: Final = {bool: SWITCH, int: WHOLE, float: NUMBER, Path: FILE}


def one_of(values: Iterable[str]) -> Kind:
    """Return the kind of an option that is one of these words, members of a StrEnum mostly."""
    known = {str(value): value for value in values}

    def parse(text: str) -> Any:
        if text not in known:
            raise ValueError
        return known[text]

    return Kind(_list(known), parse, (str,), "|".join(known), choices=tuple(known), convert=parse)


def _list(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def from_bytes(text: str, option: str | None = None, *, subject: str = "it") -> str:
    """Return the text of an argument or a variable as UTF-8, whatever the locale's encoding.

    Raises:
        UsageError: naming the option, or else the subject, if it is not UTF-8.
    """
    try:
        return os.fsencode(text).decode()
    except UnicodeError as error:
        raise UsageError(f"{subject} is not valid UTF-8 text", option=option) from error


def unescape(text: str) -> str:
    r"""Return text from the command line with \n, \t, \r and \\ as the characters they mean."""
    known = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
    return re.sub(r"\\([ntr\\])", lambda escape: known[escape[1]], text)
