"""What a tokenizer's steps do to a text: what they may lose of it, and what they put before it."""

from typing import Any

from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel, Sequence


def may_lose(tokenizer: Tokenizer) -> bool:
    """Tell whether a text's ids may not spell it all: a step drops some, or a byte has no token."""
    plain = (
        tokenizer.normalizer is None
        and isinstance(tokenizer.pre_tokenizer, ByteLevel)
        and not any(t.lstrip or t.rstrip for t in tokenizer.get_added_tokens_decoder().values())
    )
    return not plain or None in map(tokenizer.token_to_id, ByteLevel.alphabet())


def find_prefixing(tokenizer: Tokenizer) -> list[ByteLevel]:
    """Return the steps that put a space before a text; to set their flag switches them."""
    whole: Any = tokenizer.pre_tokenizer
    steps: Any = whole if isinstance(whole, Sequence) else [whole]
    return [step for step in steps if isinstance(step, ByteLevel) and step.add_prefix_space]
