"""What a model's name means: alias, folder or hub id."""

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from export.whole import put_back
from gpt2cli.errors import ModelError

DEFAULT_MODEL: Final = "gpt2"
STARTER: Final = "starter"
STARTER_FOLDER: Final = Path(__file__).parents[1] / "starter"  # bundled with this package

HUB_ALIASES: Final[Mapping[str, str]] = {
    "gpt2": "openai-community/gpt2",
    "124M": "openai-community/gpt2",
    "gpt2-medium": "openai-community/gpt2-medium",
    "355M": "openai-community/gpt2-medium",
    "gpt2-large": "openai-community/gpt2-large",
    "774M": "openai-community/gpt2-large",
    "gpt2-xl": "openai-community/gpt2-xl",
    "1558M": "openai-community/gpt2-xl",
    "distilgpt2": "distilbert/distilgpt2",
}

_HUB_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def parse_name(name: str) -> str | Path:
    """Return what `name` means: a repository on the hub, `owner/name`, or a folder.

    An alias comes first, then a folder that exists, then a hub id.

    Raises:
        ModelError: if it is none of these; suggests the nearest.
    """
    if name == STARTER:
        return STARTER_FOLDER
    if name in HUB_ALIASES:
        return HUB_ALIASES[name]
    # Not pathlib's: those raise for an unknown user, for a name too long, or with a NUL.
    path = Path(os.path.expanduser(name))  # noqa: PTH111
    if name and (os.path.isdir(path) or put_back(path)):  # noqa: PTH112
        return path
    if os.path.isfile(path):  # noqa: PTH113
        raise ModelError(f"model {name!r} is a file; expected a folder, a name or a hub id")
    if _HUB_ID.fullmatch(name):
        return name
    if "/" in name or "\\" in name or name.startswith((".", "~")):
        raise ModelError(
            f"model {name!r}: there is no such folder, and it is not a hub id (owner/name)"
        )
    aliases = [STARTER, *HUB_ALIASES]
    nearest = _find_nearest(name, aliases)
    names = (
        f"did you mean {' or '.join(nearest)}?" if nearest else f"names are {', '.join(aliases)}."
    )
    raise ModelError(
        f"unknown model {name!r}: {names} A hub id (owner/name) or a folder works too."
    )


def name_step(step: int) -> str:
    """Return what stands for a step of training where a hub model has its commit."""
    return f"step-{step}"


def parse_adapter(name: str) -> str | Path:
    """Return what an adapter's name means: a folder that exists, else a repository on the hub.

    Raises:
        ModelError: if it is neither.
    """
    path = Path(os.path.expanduser(name))  # noqa: PTH111
    if name and os.path.isdir(path):  # noqa: PTH112
        return path
    if os.path.isfile(path):  # noqa: PTH113
        raise ModelError(f"adapter {name!r} is a file; expected its folder, or a hub id")
    if _HUB_ID.fullmatch(name):
        return name
    raise ModelError(
        f"adapter {name!r}: there is no such folder, and it is not a hub id (owner/name)"
    )


def _find_nearest(name: str, aliases: Sequence[str]) -> list[str]:
    """Return names that may have been meant: typing errors (gpt2-medum) before gpt2-SOMETHING."""
    slips = difflib.get_close_matches(name, aliases, n=1, cutoff=0.9)
    begun = [alias for alias in aliases if name.lower().startswith(alias.lower())]
    return slips or begun or difflib.get_close_matches(name, aliases, n=3, cutoff=0.5)
