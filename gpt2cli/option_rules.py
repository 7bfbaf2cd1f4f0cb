"""What options ask of one another, by field: which replace others, and which exclude others."""

from collections.abc import Mapping
from typing import Any, Final

from gpt2cli.errors import UsageError

_CONSTRAINTS: Final = ("choice", "regex", "json_schema")

# Option -> options that it replaces where they were set farther from the user: `-t 0.5` on the
# command line overrides a `greedy = true` of the file.
TAKES_PLACE_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "temperature": ("greedy",),
    "greedy": ("temperature",),
    "model": ("revision", "step", "adapter"),
    "quiet": ("verbose",),
    "verbose": ("quiet",),
    "choice": ("regex", "json_schema"),
    "regex": ("choice", "json_schema"),
    "json_schema": ("choice", "regex"),
}


def check_together(values: Mapping[str, Any]) -> None:
    """Check that options go together; rules about options that are not there are skipped.

    Raises:
        UsageError: naming one option, and the other in what was expected.
    """
    given = values.keys()
    if {"min_new_tokens", "max_new_tokens"} <= given:
        _check_limits(values)
    if {"beams", "samples", "overflow"} <= given:
        _check_search(values)
    _check_one_constraint(values)
    if values.get("quiet") and values.get("verbose"):
        raise UsageError(option="verbose", expected="no {quiet} together with it")
    if values.get("heal"):
        _check_healing(values)


def _check_limits(values: Mapping[str, Any]) -> None:
    least, most = values["min_new_tokens"], values["max_new_tokens"]
    if least > most:
        expected = f"at most {{max_new_tokens}}, {most}"
        raise UsageError(option="min_new_tokens", expected=expected, found=least)


def _check_one_constraint(values: Mapping[str, Any]) -> None:
    given = given_constraints(values)
    if len(given) > 1:
        raise UsageError(option=given[1], expected=f"no {{{given[0]}}} together with it")


def _check_search(values: Mapping[str, Any]) -> None:
    beams = values["beams"]
    if beams == 1:
        return
    if values["samples"] > beams:
        expected = f"at most {{beams}}, {beams}"
        raise UsageError(option="samples", expected=expected, found=values["samples"])
    if values["overflow"] == "slide":
        raise UsageError(option="overflow", expected="stop or error with {beams}", found="slide")
    for constraint in given_constraints(values):
        raise UsageError(option=constraint, expected="no {beams} together with it")


def _check_healing(values: Mapping[str, Any]) -> None:
    # A constraint is of the completion alone; beams would count what was looked ahead twice.
    searching = ["beams"] if values.get("beams", 1) > 1 else []
    for other in [*given_constraints(values), *searching]:
        raise UsageError(option="heal", expected=f"no {{{other}}} together with it")


def given_constraints(values: Mapping[str, Any]) -> list[str]:
    """Return the fields of the constraints that are set."""
    return [field for field in _CONSTRAINTS if values.get(field) not in (None, ())]
