"""What was made for an answer, some at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpt2cli.generation.interfaces import Finish
from gpt2cli.sampling.logprobs import TokenLogprob

Key = tuple[int, int]  # the number of the prompt, and of its sample


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a prompt's tokens."""

    number: int  # of the prompt
    scores: Sequence[TokenLogprob]


@dataclass(slots=True)
class Piece:
    """What there is of a sample since the client took something of it."""

    key: Key
    text: str = ""
    tokens: list[TokenLogprob] = field(default_factory=list)
    finish: Finish | None = None
    drawn: int = 0  # tokens of the whole sample so far


Results = tuple[Sequence[Scores], Sequence[Piece]]
