"""Tables as plain text: columns in line, for people and for awk alike."""

import math
from collections.abc import Sequence
from typing import Final

_UNITS: Final = ("kB", "MB", "GB", "TB")
_STEP: Final = 1000


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return lines of left-aligned columns, two spaces apart, the header first."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    padded = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    return "".join(f"{line}\n" for line in padded)


def format_size(size: int) -> str:
    """Return a number of bytes in decimal units: 498000000 is 498.0 MB."""
    if size < _STEP:
        return f"{size} B"
    power = min(int(math.log(size, _STEP)), len(_UNITS))
    return f"{size / _STEP**power:.1f} {_UNITS[power - 1]}"
