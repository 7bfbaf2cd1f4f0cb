"""Cuts a long text where its tokens end, so that its pieces have the same ids as the whole."""

import functools
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import tokenizers

from export.small_files import parse_json
from gpt2cli.errors import PromptError
from gpt2cli.spelling import BYTE_OF

# Encoding takes about 200 bytes of memory for each of a text's, and Ctrl-C waits for its end.
_LENGTH: Final = 1 << 16  # characters of a piece, at least
_LONGEST: Final = 500_000  # characters in a row that cannot be cut: about 0.5 s and 100 MB


class Cutter:
    """Finds where a text's tokens end whatever stands around, by GPT-2's pattern and a vocabulary.

    GPT-2's pattern (openai/gpt-2 `src/encoder.py`) never looks back. No word of it has a space
    after another character. Within a word, or at its end, no merge leads over two bytes that no
    token of the vocabulary holds side by side.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer, *, spaces_only: bool) -> None:
        """Prepare for a tokenizer that `make_cutter` accepted."""
        self._tokenizer = tokenizer
        self._spaces_only = spaces_only
        self._added = [t.content for t in tokenizer.get_added_tokens_decoder().values()]

    def cut(self, text: str, length: int = _LENGTH, longest: int = _LONGEST) -> Iterator[str]:
        """Yield a text in pieces of about that length.

        Raises:
            PromptError: if `longest` characters in a row cannot be cut.
        """
        begin = 0
        while begin + length < len(text):
            ends = range(begin + length, min(len(text), begin + longest + 1))
            end = next((index for index in ends if self._can_cut(text, index)), None)
            if end is None:
                if len(text) - begin <= longest:
                    break
                raise PromptError(
                    f"the text has more than {longest} characters in a row that can only be "
                    f"encoded together, from character {begin} on: break them up with spaces"
                )
            yield text[begin:end]
            begin = end
        yield text[begin:]

    @functools.cached_property
    def _joined(self) -> frozenset[tuple[int | None, int | None]]:
        """The bytes that stand side by side in any token."""
        spelt = (
            list(map(BYTE_OF.get, token))
            for token in self._tokenizer.get_vocab(with_added_tokens=False)
        )
        return frozenset(pair for token in spelt for pair in pairwise(token))

    def _can_cut(self, text: str, index: int) -> bool:
        before, after = text[index - 1], text[index]
        if _may_be_space(before):
            return False
        if after not in (" " if self._spaces_only else " \n"):
            if self._spaces_only or _may_be_space(after):
                return False
            if "'" in text[max(0, index - 2) : index + 1]:  # as in 'll, which the pattern knows
                return False
            if (before.encode()[-1], after.encode()[0]) in self._joined:
                return False
        # Added tokens are found before the words, and some by what stands beside them.
        return not any(t in text[max(0, index - len(t)) : index + len(t)] for t in self._added)


def make_cutter(tokenizer: tokenizers.Tokenizer) -> Cutter | None:
    """Return what cuts texts for a tokenizer; None if its ids could tell that they were cut.

    They cannot where words are found by GPT-2's own pattern, and nothing else changes a text.
    """
    pattern, model = tokenizer.pre_tokenizer, tokenizer.model
    if tokenizer.normalizer is not None or pattern is None:
        return None
    settings = parse_json(pattern.__getstate__())
    by_words = settings.get("type") == "ByteLevel" and settings.get("use_regex", True)
    if not by_words or not isinstance(model, tokenizers.models.BPE):
        return None
    if model.continuing_subword_prefix or model.end_of_word_suffix or model.fuse_unk:
        return None
    if any(t.lstrip or t.rstrip for t in tokenizer.get_added_tokens_decoder().values()):
        return None
    return Cutter(tokenizer, spaces_only=settings["add_prefix_space"])


def _may_be_space(character: str) -> bool:
    """Tell whether any library takes a character for a space; U+180E was one until Unicode 6.3."""
    return character.isspace() or character == "\u180e"
