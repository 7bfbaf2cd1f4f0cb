"""Cuts long texts into pieces that are encoded one by one, to the same ids as the whole."""

import json
import re
from collections.abc import Iterator
from typing import Final

import tokenizers

# Encoding takes about 200 bytes of memory for each of a text's, and Ctrl-C waits for its end.
_LENGTH: Final = 1 << 16  # characters of a piece, at least
# GPT-2's pattern (openai/gpt-2 `src/encoder.py`) makes no token of what is no space and a space
# after it, and never looks back. Spaces that are such for every library, after what is none.
_CUT: Final = re.compile(r"(?<=[!-~])(?=[ \n])")


def can_be_cut(tokenizer: tokenizers.Tokenizer) -> bool:
    """Tell whether the ids of a text's pieces are those of the text.

    Only where its words are found by GPT-2's own pattern, and no added token reaches over a space.
    """
    pattern = tokenizer.pre_tokenizer
    if tokenizer.normalizer is not None or pattern is None:
        return False
    settings = json.loads(pattern.__getstate__())
    by_words = settings.get("type") == "ByteLevel" and settings.get("use_regex", True)
    added = tokenizer.get_added_tokens_decoder().values()
    return by_words and not any(
        token.lstrip or token.rstrip or re.search(r"\s", token.content) for token in added
    )


def cut(text: str, length: int = _LENGTH) -> Iterator[str]:
    """Yield a text in pieces of about that length; one without a fitting space stays whole."""
    begin = 0
    while place := _CUT.search(text, begin + length):
        yield text[begin : place.start()]
        begin = place.start()
    yield text[begin:]
