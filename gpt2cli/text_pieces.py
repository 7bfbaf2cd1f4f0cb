"""Cuts long texts into pieces that are encoded one by one, to the same ids as the whole."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Final

import tokenizers

from export.small_files import parse_json
from gpt2cli.errors import PromptError

# Encoding takes about 200 bytes of memory for each of a text's, and Ctrl-C waits for its end.
_LENGTH: Final = 1 << 16  # characters of a piece, at least
_LONGEST: Final = 500_000  # characters without a place to cut: about 0.5 s and 100 MB


class Cutter:
    """Finds where a text's tokens end whatever stands around, by GPT-2's pattern and a vocabulary.

    GPT-2's pattern (openai/gpt-2 `src/encoder.py`) never looks back. It makes no word of what is no
    space and a space after it. Within a word, or at its end, no merge leads over two bytes that no
    token of the vocabulary holds side by side.
    """

    def __init__(
        self, tokenizer: tokenizers.Tokenizer, byte_of: Mapping[str, int], *, spaces_only: bool
    ) -> None:
        """`byte_of`: the bytes that a vocabulary's characters stand for; see `make_cutter`."""
        self._tokenizer = tokenizer
        self._byte_of = byte_of
        self._spaces_only = spaces_only
        self._added = [t.content for t in tokenizer.get_added_tokens_decoder().values()]

    def cut(self, text: str, length: int = _LENGTH, longest: int = _LONGEST) -> Iterator[str]:
        """Yield a text in pieces of about that length.

        Raises:
            PromptError: if there is no place to cut within `longest` characters.
        """
        begin = 0
        while begin + length < len(text):
            ends = range(begin + length, min(len(text), begin + longest + 1))
            end = next((place for place in ends if self._can_cut(text, place)), None)
            if end is None:
                if len(text) - begin <= longest:
                    break
                raise PromptError(
                    f"the text has more than {longest} characters in a row that can only be "
                    f"encoded at once, from character {begin} on: put spaces or newlines between"
                )
            yield text[begin:end]
            begin = end
        yield text[begin:]

    @cached_property
    def _joined(self) -> frozenset[tuple[int | None, int | None]]:
        """The bytes that stand side by side in any token."""
        spelt = (
            list(map(self._byte_of.get, token))
            for token in self._tokenizer.get_vocab(with_added_tokens=False)
        )
        return frozenset(pair for token in spelt for pair in pairwise(token))

    def _can_cut(self, text: str, place: int) -> bool:
        before, after = text[place - 1], text[place]
        if _may_be_space(before):
            return False
        if after not in (" " if self._spaces_only else " \n"):
            if self._spaces_only or _may_be_space(after):
                return False
            if "'" in text[max(0, place - 2) : place + 1]:  # as in 'll, which the pattern knows
                return False
            if (before.encode()[-1], after.encode()[0]) in self._joined:
                return False
        # Added tokens are found before the words, and some by what stands beside them.
        return not any(t in text[max(0, place - len(t)) : place + len(t)] for t in self._added)


def make_cutter(tokenizer: tokenizers.Tokenizer, byte_of: Mapping[str, int]) -> Cutter | None:
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
    return Cutter(tokenizer, byte_of, spaces_only=settings["add_prefix_space"])


def _may_be_space(character: str) -> bool:
    """Tell whether any library takes a character for a space; U+180E was one until Unicode 6.3."""
    return character.isspace() or character == "\u180e"
