"""From logits to ids: the only reader of logits."""

from gpt2cli.sampling.bans import BannedTexts, Pieces
from gpt2cli.sampling.beams import BeamConfig, Continuation, find_continuations
from gpt2cli.sampling.config import SamplingConfig
from gpt2cli.sampling.constraints import Constraint, ConstraintCompiler, ConstraintConfig
from gpt2cli.sampling.logprobs import Alternative, TokenLogprob, find_logprobs
from gpt2cli.sampling.processors import Places
from gpt2cli.sampling.row import Row
from gpt2cli.sampling.sampler import Sampler, explain
from gpt2cli.sampling.stream import LARGEST_SEED, RandomStream

__all__ = [
    "LARGEST_SEED",
    "Alternative",
    "BannedTexts",
    "BeamConfig",
    "Constraint",
    "ConstraintCompiler",
    "ConstraintConfig",
    "Continuation",
    "Pieces",
    "Places",
    "RandomStream",
    "Row",
    "Sampler",
    "SamplingConfig",
    "TokenLogprob",
    "explain",
    "find_continuations",
    "find_logprobs",
]
