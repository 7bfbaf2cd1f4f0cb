"""What must be the same for a run to be resumed: the first line of its journal."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from gpt2cli.config import DraftConfig, ModelConfig, PresetConfig, ReportConfig
from gpt2cli.declarations import options_of
from gpt2cli.errors import UsageError
from gpt2cli.settings import Settings
from gpt2cli.store.store import StoredModel

Header = Mapping[str, Any]


def make_header(
    settings: Settings,
    stored: StoredModel,
    seed: int | None,
    from_model: Mapping[str, Any],
    *,
    device: str,
    versions: Mapping[str, str],
    of_no_effect: Iterable[type[Any]] = (),
    **others: Any,
) -> dict[str, Any]:
    """Return what must be the same for the run to be resumed; `others` are found, not asked for.

    Of the options it is what changes the results, or how they are written; not how fast or where.
    `of_no_effect`: a command's own groups of options that do not count.
    """
    groups = (ModelConfig, DraftConfig, PresetConfig, ReportConfig, *of_no_effect)
    of_the_run = {o.field for group in groups for o in options_of(group)}
    of_the_run |= {"seed", "file", "output", "stdin", "resume", "batch_size", "merge"}
    options = {name: value for name, value in settings.values.items() if name not in of_the_run}
    return {
        "options": options | others,
        "seed": seed,
        "model": stored.name,
        "revision": stored.revision,
        "fingerprint": stored.folder.fingerprint,
        "source": dict(stored.folder.source),  # what identifies a model that has no revision
        "generation_config": dict(from_model),
        "precision": stored.folder.precision,
        "device": device,
        "versions": versions,
    }


def refuse_difference(before: Header, now: Header) -> None:
    """Refuse to resume a run that differs from this one; the error names what differs."""
    difference = find_difference(before, now)
    if difference is not None:
        name, *values = difference
        raise UsageError(
            f"the run was begun with {name} {values[0]}, now it is {values[1]}",
            "use the same as before, or start over without {resume}",
            option="resume",
        )


def find_difference(
    one: Header, other: Header, *, without: Collection[str] = ()
) -> tuple[str, str, str] | None:
    """Return the first thing that differs, by the name that the user knows, and both its values.

    `without`: keys of a header, and options, that do not count.
    """
    known, new = (_flatten_header(header, without) for header in (one, other))
    for name in known | new:
        first, second = (json.dumps(side.get(name), ensure_ascii=False) for side in (known, new))
        if first != second:
            return name, first, second
    return None


def _flatten_header(header: Header, without: Collection[str]) -> dict[str, Any]:
    """Return the header's values by the names that the user knows them by, versions first."""
    values = {name: value for name, value in header.items() if name not in without}
    options = {n: value for n, value in values.pop("options").items() if n not in without}
    return {**values.pop("versions"), **options, **dict(_flatten(values))}


def _flatten(values: Mapping[str, Any], names: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested values, each with the names of all levels."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{names}{name} ")
        else:
            yield f"{names}{name}", value
