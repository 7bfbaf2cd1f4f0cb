"""A record as the line that is written. Light: it is there before any model is."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")


def format_record(record: Mapping[str, Any]) -> str:
    """Return a record as one line of JSON, with its newline.

    Half of a surrogate pair, which an input record may have, becomes U+FFFD: UTF-8 cannot write it,
    and readers of JSON stop at its escape.
    """
    line = json.dumps(record, ensure_ascii=False) + "\n"
    return _HALF_PAIR.sub("\ufffd", line)
