"""Streams text: ids in, whole characters out, and nothing of a stop sequence shown."""

import codecs
import copy
from collections.abc import Iterable, Sequence

from gpt2cli.tokenizer import Tokenizer


class Detokenizer:
    """Token ids in, whole characters out.

    The joined output equals the decoding of all bytes at once, with U+FFFD for what is no UTF-8.
    """

    def __init__(self, tokenizer: Tokenizer, *, skipped: int = 0) -> None:
        """`skipped`: how many of the first bytes are left out."""
        self._tokenizer = tokenizer
        self._skipped = skipped
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def fork(self) -> "Detokenizer":
        """Return an independent copy."""
        detokenizer = Detokenizer(self._tokenizer, skipped=self._skipped)
        detokenizer._decoder.setstate(self._decoder.getstate())
        return detokenizer

    def add(self, token_id: int) -> str:
        """Return the characters that this token completes; often none within an emoji."""
        piece = self._tokenizer.token_bytes(token_id)
        shown = piece[self._skipped :]
        self._skipped -= len(piece) - len(shown)
        return self._decoder.decode(shown)

    def finish(self) -> str:
        """Return U+FFFD for an unfinished character, else nothing."""
        return self._decoder.decode(b"", final=True)


class StopMatcher:
    """Finds the first stop sequence in streamed text, however the stream is cut.

    First is the one that is complete first; of those complete at the same character, the longest.
    Only text that may still become a stop sequence is held back. One that completes before stop
    sequences count is text, but another may begin within it.
    """

    def __init__(self, stops: Iterable[str], *, keep: bool = False) -> None:
        """`keep`: whether the stop sequence that ends the text is shown."""
        self._stops: Sequence[str] = tuple(stop for stop in stops if stop)
        self._keep = keep
        self._held = ""
        self.matched: str | None = None

    def fork(self) -> "StopMatcher":
        """Return an independent copy."""
        return copy.copy(self)  # nothing in it is ever changed in place

    def feed(self, text: str, *, counts: bool = True) -> str:
        """Return the text that can no longer become part of a stop sequence; none after a match.

        `counts`: whether a stop sequence that is complete now ends the text.
        """
        if self.matched is not None:
            return ""
        if not self._stops:
            return text
        text = self._held + text
        begin = 0  # where a stop sequence may begin
        while found := self._find_first(text, begin):
            _, start, stop = found
            if counts:
                self._held, self.matched = "", stop
                return text[: start + len(stop)] if self._keep else text[:start]
            begin = start + 1
        kept = max((overlap(text[begin:], stop) for stop in self._stops), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def finish(self) -> str:
        """Return the held text: nothing will complete it."""
        held, self._held = self._held, ""
        return held

    def _find_first(self, text: str, begin: int) -> tuple[int, int, str] | None:
        found = ((text.find(stop, begin), stop) for stop in self._stops)
        ends = ((start + len(stop), start, stop) for start, stop in found if start >= 0)
        return min(ends, default=None)


def cut_begun(text: str, ends: Sequence[str]) -> str:
    """Return text that stops short without the beginning of an end that it stops short in."""
    return text[: len(text) - max((overlap(text, end) for end in ends), default=0)]


def overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of `text` that is a proper beginning of `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
