"""Reads a request's fields: those of OpenAI's API by their names, the table's options by theirs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from export.small_files import ReadError, parse_json
from gpt2cli.errors import Gpt2Error, shorten
from gpt2cli.openai.faults import Fault, explain
from gpt2cli.prompt_options import OPTIONS, read_options
from gpt2cli.settings import Layer

SWITCH: Final = "true or false"
MOST_CHARACTERS: Final = 1 << 20  # of a prompt: tokenizers 0.23 takes half a second for so many


def is_id(value: Any) -> bool:
    """Tell whether a value of JSON may be a token's id: a flag is none."""
    return type(value) is int and value >= 0


def read_object(data: bytes) -> dict[str, Any]:
    """Return the fields of a request, but for those that are null.

    Raises:
        Fault: if the body is no JSON object.
    """
    try:
        value = parse_json(data)
    except ReadError as error:
        raise Fault(400, f"the body {error}") from error
    if not isinstance(value, dict):
        raise Fault(400, 'the body is not a JSON object; expected {"prompt": …}')
    return {name: given for name, given in value.items() if given is not None}


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a request. `names`: what OpenAI calls an option of the table, by its field."""

    given: Mapping[str, Any]
    names: Mapping[str, str]

    def refuse_unknown(
        self, known: Collection[str], *, options: Collection[str] = OPTIONS.keys()
    ) -> None:
        """Refuse what is neither `known` nor one of the options.

        Raises:
            Fault: naming the first one.
        """
        for name in self.given:
            if name not in known and name not in options and name not in self.names.values():
                raise Fault(400, f"unknown field {shorten(name)}", param=shorten(name))

    def read(self, name: str, kind: type[Any], default: Any, wanted: str) -> Any:
        """Return a field of exactly this type: a flag is no whole number.

        Raises:
            Fault: if it has another one.
        """
        value = self.given.get(name, default)
        if value is not default and type(value) is not kind:
            raise Fault(400, f"{name}: expected {wanted}, found {shorten(repr(value))}", param=name)
        return value

    def read_options(self) -> Layer:
        """Return the options that the request has.

        Raises:
            Fault: naming the one that is wrong, or has two names here.
        """
        ours = {name: value for name, value in self.given.items() if name in OPTIONS}
        for field, name in self.names.items():
            if name in self.given:
                if field in ours and field != name:
                    raise Fault(400, f"{name}: expected no {field} together with it", param=name)
                ours[field] = self.given[name]
        try:
            return read_options(ours)
        except Gpt2Error as error:
            raise explain(error, self.spelling) from error

    @property
    def spelling(self) -> Mapping[str, str]:
        """What the client calls an option, by its field."""
        return {field: name for field, name in self.names.items() if field not in self.given}
