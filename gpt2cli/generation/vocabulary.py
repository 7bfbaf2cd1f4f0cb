"""Turns the texts of a request's options into ids of the model's vocabulary."""

import functools
from typing import Final

from gpt2cli.config import ConstraintConfig, SamplingConfig
from gpt2cli.errors import PromptError, UsageError, shorten
from gpt2cli.sampling import (
    BannedTexts,
    Constraint,
    ConstraintCompiler,
    Pieces,
)
from gpt2cli.tokenizer import Tokenizer

_MOST_SHOWN: Final = 40  # tokens of a text
_LONGEST_ID: Final = 18  # digits


def find_biases(
    config: SamplingConfig, tokenizer: Tokenizer, *, vocab_size: int, allow_special: bool
) -> tuple[tuple[int, float], ...]:
    """Return each id that has a logit bias, with it; of an id named twice the last counts.

    Raises:
        UsageError: if a name is no id of the model, and not one token as it stands.
    """
    biases = {
        _find_id(token, tokenizer, vocab_size, allow_special): bias
        for token, bias in config.logit_bias
    }
    return tuple(biases.items())


def find_bans(
    config: SamplingConfig, tokenizer: Tokenizer, *, vocab_size: int
) -> BannedTexts | None:
    """Return the banned texts by ids; None if there are none."""
    tokenizer.note_unwritable("ban", config.ban)
    return _read_bans(tokenizer, config.ban, vocab_size) if config.ban else None


def find_constraint(
    config: ConstraintConfig, tokenizer: Tokenizer, *, vocab_size: int
) -> Constraint | None:
    """Return the compiled constraint; None if there is none.

    Raises:
        UsageError: if it is wrong or not supported.
        PackageError: if the package that compiles it is not installed.
    """
    return None if config.field is None else _compile(config, tokenizer, vocab_size)


def _find_id(token: str, tokenizer: Tokenizer, vocab_size: int, allow_special: bool) -> int:
    if token.isascii() and token.isdigit():
        token_id = int(token) if len(token) <= _LONGEST_ID else vocab_size
        if token_id >= vocab_size:
            found = shorten(token)
            expected = f"an id 0 to {vocab_size - 1}"
            raise UsageError(option="logit_bias", expected=expected, found=found)
        return token_id
    shown = repr(shorten(token))
    try:
        ids = tokenizer.encode_text(token, allow_special=allow_special)
    except PromptError as error:
        fault = f"the model has no token for {shown}"
        raise UsageError(fault, option="logit_bias") from error
    if not ids:
        raise UsageError(f"the model has no token for {shown}", option="logit_bias")
    if len(ids) != 1:
        pieces = [tokenizer.show([token_id]) for token_id in ids[:_MOST_SHOWN]]
        spelt = ", ".join(
            f"{piece!r} {token_id}" for piece, token_id in zip(pieces, ids, strict=False)
        )
        raise UsageError(
            option="logit_bias",
            expected="an id or a text of one token",
            found=f"{shown}, which has {len(ids)}: {spelt}"
            f"{', …' if len(ids) > len(pieces) else ''}",
        )
    return ids[0]


# The records of a batch mostly share their bans, and one tokenizer: what they mean is kept.
@functools.lru_cache(maxsize=16)
def _read_bans(tokenizer: Tokenizer, texts: tuple[str, ...], vocab_size: int) -> BannedTexts:
    return BannedTexts((text.encode() for text in texts), _read_pieces(tokenizer, vocab_size))


@functools.lru_cache(maxsize=16)
def _compile(config: ConstraintConfig, tokenizer: Tokenizer, vocab_size: int) -> Constraint:
    return _make_compiler(tokenizer, vocab_size).compile(config)


@functools.lru_cache(maxsize=1)
def _make_compiler(tokenizer: Tokenizer, vocab_size: int) -> ConstraintCompiler:
    pieces = [tokenizer.token_bytes(token_id) for token_id in range(vocab_size)]
    return ConstraintCompiler(pieces, tokenizer.encode_text)


@functools.lru_cache(maxsize=1)
def _read_pieces(tokenizer: Tokenizer, vocab_size: int) -> Pieces:
    return Pieces(tokenizer.token_bytes(token_id) for token_id in range(vocab_size))
