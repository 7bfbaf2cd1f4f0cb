"""From logits to ids: the only reader of logits."""

from gpt2cli.sampling.config import SamplingConfig
from gpt2cli.sampling.sampler import Row, Sampler
from gpt2cli.sampling.stream import LARGEST_SEED, RandomStream

__all__ = ["LARGEST_SEED", "RandomStream", "Row", "Sampler", "SamplingConfig"]
