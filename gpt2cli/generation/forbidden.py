"""Tells before each step what a sample may not draw, by its text and its length."""

import copy
from collections.abc import Sequence

import numpy as np

from gpt2cli.generation.requests import PreparedRequest
from gpt2cli.sampling import Places
from gpt2cli.tokenizer import Tokenizer


class ForbiddenIds:
    """The ids that would complete a banned text or break a constraint, and EOS where too early."""

    def __init__(self, tokenizer: Tokenizer, prepared: PreparedRequest) -> None:
        self._tokenizer = tokenizer
        self._bans = prepared.bans
        self._constraint = None if prepared.constraint is None else prepared.constraint.fork()
        self._eos_ids = np.array(sorted(tokenizer.eos_token_ids), np.int64)
        self._ignore_eos = prepared.request.generation.ignore_eos
        self._still_needed = prepared.request.generation.min_new_tokens
        self._tail = b""  # of the text, the prompt's included: as much as a ban can reach back
        if self._bans is not None:
            spelt = b"".join(map(tokenizer.token_bytes, prepared.prompt_ids))
            self._tail = spelt[-self._bans.reach :]

    def fork(self) -> "ForbiddenIds":
        """Return what goes on from here by itself."""
        forked = copy.copy(self)  # all but the constraint is never changed in place
        forked._constraint = None if self._constraint is None else self._constraint.fork()
        return forked

    @property
    def all_said(self) -> bool:
        """Whether a constraint is met so that nothing may follow."""
        return self._constraint is not None and self._constraint.complete

    def append(self, token_id: int) -> None:
        """Take note of the drawn id."""
        self._still_needed -= 1
        if self._bans is not None:
            spelt = self._tail + self._tokenizer.token_bytes(token_id)
            self._tail = spelt[-self._bans.reach :]
        if self._constraint is not None:
            self._constraint.append(token_id)

    def find(self) -> Sequence[Places]:
        """Return what may not be drawn next; nothing where nothing is forbidden."""
        found: Sequence[Places] = ()
        if self._bans is not None:
            found = self._bans.find_forbidden(self._tail)
        if self._constraint is not None:
            broken = self._constraint.find_forbidden()  # [V]
            broken[self._eos_ids] = self._ignore_eos or not self._constraint.satisfied
            found = (*found, broken)
        return (*found, self._eos_ids) if self._still_needed > 0 else found
