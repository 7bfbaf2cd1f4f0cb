"""Tells before each step what a sample may not draw, by its text and its length."""

import copy
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpt2cli.generation.requests import PreparedRequest
from gpt2cli.tokenizer import Tokenizer


class ForbiddenIds:
    """The ids that would complete a banned text, and EOS before `min_new_tokens`."""

    def __init__(self, tokenizer: Tokenizer, prepared: PreparedRequest) -> None:
        self._tokenizer = tokenizer
        self._bans = prepared.bans
        self._eos_ids = np.array(sorted(tokenizer.eos_token_ids), np.int64)
        self._still_needed = prepared.request.generation.min_new_tokens
        self._tail = b""  # of the text, the prompt's included: as much as a ban can reach back
        if self._bans is not None:
            spelt = b"".join(map(tokenizer.token_bytes, prepared.prompt_ids))
            self._tail = spelt[-self._bans.reach :]

    def fork(self) -> "ForbiddenIds":
        """Return what goes on from here by itself."""
        return copy.copy(self)  # nothing in it is ever changed in place

    def append(self, token_id: int) -> None:
        """Take note of the drawn id."""
        self._still_needed -= 1
        if self._bans is not None:
            spelt = self._tail + self._tokenizer.token_bytes(token_id)
            self._tail = spelt[-self._bans.reach :]

    def find(self) -> Sequence[NDArray[np.int64]]:
        """Return what may not be drawn next; nothing where nothing is forbidden."""
        found = () if self._bans is None else self._bans.find_forbidden(self._tail)
        return (*found, self._eos_ids) if self._still_needed > 0 else found
