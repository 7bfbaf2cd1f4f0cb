"""Checks a setting as the commands do before they load a model."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

from gpt2cli.commands.option_values import DeclaredOption
from gpt2cli.commands.options import (
    ConstraintOptions,
    LimitOptions,
    ModelOptions,
    SamplingOptions,
    SearchOptions,
)
from gpt2cli.commands.start import give_constraint, give_limits, give_sampling, settle_options
from gpt2cli.commands.user_defaults import naming_origins, read_file, settable_options
from gpt2cli.generation import check_seed
from gpt2cli.sampling import ConstraintCompiler, ConstraintConfig
from gpt2cli.store.names import FolderName, parse_name

T = TypeVar("T")


def check_setting(option: DeclaredOption, text: str) -> Any:
    """Return the value to keep; a model's folder by its whole path, which holds everywhere.

    Raises:
        UsageError: naming the setting, if the text is no value of it, is out of range, or does
            not go with what the file says already.
        ModelError: if it is the model's name, and no such model is known.
        PackageError: if it is a pattern, and what compiles it is not installed.
    """
    beside = read_file(other for other in settable_options() if other.field != option.field)
    origins = {name: default.origin for name, default in beside.items()}
    with naming_origins(origins | {option.field: option.field}):
        value = option.parse_plain(text)
        _check({name: default.value for name, default in beside.items()} | {option.field: value})
        if option.field == "regex":
            _check_regex(value)
    if option.field == "model":
        meaning = parse_name(value)
        return str(meaning.path.resolve()) if isinstance(meaning, FolderName) else value
    return value


def _check(values: Mapping[str, Any]) -> None:
    _fill(ModelOptions, values)
    sampling = _fill(SamplingOptions, values)
    given = give_sampling(sampling) | give_limits(_fill(LimitOptions, values))
    given |= asdict(_fill(SearchOptions, values))
    given |= give_constraint(_fill(ConstraintOptions, values))
    settle_options(given, {})
    if sampling.seed is not None:
        check_seed(sampling.seed)


def _check_regex(pattern: str) -> None:
    """Compile a pattern, which needs no model: here a token is a byte."""
    compiler = ConstraintCompiler([bytes([i]) for i in range(256)], lambda text: text.encode())
    compiler.compile(ConstraintConfig(regex=pattern))


def _fill(group: type[T], values: Mapping[str, Any]) -> T:
    names = {field.name for field in fields(group)}  # type: ignore[arg-type]
    return group(**{name: value for name, value in values.items() if name in names})
