"""Makes model text safe to show: on a terminal, what would control it becomes visible."""

import re
from typing import Final

# C0 but for \t and \n, DEL, C1; and the characters that reorder or hide what stands beside them.
_CONTROLS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)


def make_safe(text: str) -> str:
    """Return `text` with control characters as visible ones: ESC as ␛, U+202E as <U+202E>."""
    return _CONTROLS.sub(_show, text)


def _show(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's control pictures
    return "␡" if code == 0x7F else f"<U+{code:04X}>"
