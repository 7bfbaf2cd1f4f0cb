"""From logits to ids: the only reader of logits."""

from gpt2cli.sampling.bans import BannedTexts, Pieces
from gpt2cli.sampling.beams import Continuation, find_continuations, rate
from gpt2cli.sampling.constraints import Constraint, ConstraintCompiler
from gpt2cli.sampling.logprobs import Alternative, TokenLogprob, find_logprobs
from gpt2cli.sampling.processors import Places
from gpt2cli.sampling.row import Row
from gpt2cli.sampling.sampler import Sampler, explain
from gpt2cli.sampling.stream import RandomStream

__all__ = [
    "Alternative",
    "BannedTexts",
    "Constraint",
    "ConstraintCompiler",
    "Continuation",
    "Pieces",
    "Places",
    "RandomStream",
    "Row",
    "Sampler",
    "TokenLogprob",
    "explain",
    "find_continuations",
    "find_logprobs",
    "rate",
]
