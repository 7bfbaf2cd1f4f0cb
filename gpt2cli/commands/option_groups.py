"""Groups of options that commands take whole, filled with the user's own defaults.

A command writes `sampling: SamplingOptions` and `flatten` spreads the group's fields into the
signature that Typer reads. What the command line does not give comes from `user_defaults`.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_type_hints

from gpt2cli.commands.option_values import describe_option
from gpt2cli.commands.user_defaults import find_defaults, is_settable, naming_origins


def flatten(command: Callable[..., None]) -> Callable[..., None]:
    """Spread the option groups among a command's parameters into single options."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if _is_group(hint)}
    parameters = list(_spread(command, hints))
    described = [
        describe_option(p.name, p.annotation, p.default)
        for p in parameters
        if hasattr(p.annotation, "__metadata__")
    ]
    settable = [option for option in described if is_settable(option)]
    built_in = {option.field: option.default for option in settable}
    parameters = [
        p.replace(annotation=_may_be_unsaid(p.annotation), default=None)
        if p.name in built_in
        else p
        for p in parameters
    ]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        defaults = find_defaults(settable, values)
        for name in built_in:
            if values.get(name) is None:
                values[name] = defaults[name].value if name in defaults else built_in[name]
        origins = {name: default.origin for name, default in defaults.items()}
        if values.get("json_schema") is not None:  # what is wrong is wrong in the file
            origins["json_schema"] = f"--json-schema {values['json_schema']}"
        with naming_origins(origins):
            for name, group in groups.items():
                values[name] = group(**{f.name: values.pop(f.name) for f in fields(group)})
            command(**values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _is_group(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)


def _may_be_unsaid(hint: Any) -> Any:
    """Return an annotation that takes None too: what the user did not give."""
    return Annotated[hint.__origin__ | None, *hint.__metadata__]


def _spread(command: Callable[..., None], hints: dict[str, Any]) -> Iterator[inspect.Parameter]:
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        if not _is_group(hint):
            yield parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY)
            continue
        own_hints = get_type_hints(hint, include_extras=True)
        for field in fields(hint):
            yield inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=own_hints[field.name],
            )
