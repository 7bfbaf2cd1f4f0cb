"""Keeps a slot's tokens between two runs, so that a turn of a chat prefills its own only."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpt2cli.generation.sequence import TokenSequence


@dataclass(slots=True)
class PromptCache:
    """What slot 0 of an engine still holds after a run: its last sequence, as far as it was fed."""

    sequence: TokenSequence | None = None  # None: the slot is closed, before the first run

    def completion_of(self, prompt_ids: Sequence[int]) -> Sequence[int] | None:
        """Return the ids drawn after this prompt, EOS left out; None if some have slid away."""
        held = self.sequence
        if held is None or held.prefix != tuple(prompt_ids):
            return ()  # nothing was to be drawn, so the prompt never came here
        prompt_is_there = tuple(held.window[: len(held.prefix)]) == held.prefix
        return tuple(held.window[len(held.prefix) :]) if prompt_is_there else None
