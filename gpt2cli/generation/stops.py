"""Finds the stop sequence that ends a completion: the first that comes when enough is drawn."""

import copy
from collections.abc import Sequence

from gpt2cli.tokenizer import StopMatcher


class LateStops:
    """Stop sequences that may come too early to count; text is held back as by `StopMatcher`.

    One that begins too early and is complete in time counts, unless it has another within it that
    was complete too early.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._matcher = StopMatcher(stops)
        self._held = ""

    @property
    def matched(self) -> str | None:
        """The stop sequence that ended the text."""
        return self._matcher.matched

    def fork(self) -> "LateStops":
        """Return what goes on from here by itself."""
        stops = copy.copy(self)
        stops._matcher = self._matcher.fork()
        return stops

    def feed(self, text: str, *, counts: bool) -> str:
        """Return the text that is certain now; `counts`: whether a stop that is complete does."""
        held = self._held + text
        certain = self._matcher.feed(text)
        while self.matched is not None and not counts:
            # It is text after all, but within it another one may begin.
            passed = len(certain) + 1
            self._matcher = StopMatcher(self._stops)
            certain = held[:passed] + self._matcher.feed(held[passed:])
        self._held = held[len(certain) :]
        return certain

    def finish(self) -> str:
        """Return the held text: nothing will complete it."""
        self._held = ""
        return self._matcher.finish()
