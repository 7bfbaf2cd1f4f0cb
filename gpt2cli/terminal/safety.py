"""Makes model text safe to show: on a terminal, what would control it becomes visible."""

import re
from typing import Final

# C0 except \t and \n, DEL, C1, line and paragraph separators; and characters that reorder or hide
# others, or show nothing: Unicode's format characters (Cf), with all of U+E0000 to
# U+E0FFF, in which text can be hidden. Except visible ones, such as the Arabic number signs, and
# the joiners that scripts and emoji need, U+200C and U+200D.
_CONTROLS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029"
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def make_safe(text: str) -> str:
    """Return `text` with control characters as visible ones: ESC as ␛, U+202E as <U+202E>."""
    return _CONTROLS.sub(_show, text)


def _show(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's control pictures
    return "␡" if code == 0x7F else f"<U+{code:04X}>"
