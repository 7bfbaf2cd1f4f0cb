"""What goes into the decode loop and what comes out: requests, their limits, and chunks."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gpt2cli.errors import PromptError, UsageError
from gpt2cli.generation.vocabulary import find_bans, find_biases, find_constraint
from gpt2cli.model_folder import ModelShape
from gpt2cli.sampling import (
    LARGEST_SEED,
    BannedTexts,
    BeamConfig,
    Constraint,
    ConstraintConfig,
    SamplingConfig,
    TokenLogprob,
)
from gpt2cli.tokenizer import Tokenizer

_MOST_ALTERNATIVES: Final = 20
_RANDOM_SEEDS: Final = 2**32  # enough, and short enough to type again


class Overflow(StrEnum):
    """What happens when prompt and completion would have more than `n_positions` tokens."""

    STOP = "stop"  # the completion ends there
    SLIDE = "slide"  # the last half is kept and prefilled again, of a long prompt as well
    ERROR = "error"  # refused before anything is generated


class FinishReason(StrEnum):
    """Why a completion ended."""

    STOP = "stop"  # EOS or a stop sequence
    LENGTH = "length"  # max_new_tokens
    CONTEXT = "context"  # n_positions
    INTERRUPTED = "interrupted"
    ERROR = "error"  # its options left nothing to choose


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationConfig:
    """Where a completion ends.

    Raises:
        UsageError: naming the option, its range and the value found.
    """

    max_new_tokens: int = 256
    min_new_tokens: int = 0  # before so many no EOS is drawn, and no stop sequence counts
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    overflow: Overflow = Overflow.STOP

    def __post_init__(self) -> None:
        least, most = self.min_new_tokens, self.max_new_tokens
        if most < 0:
            raise UsageError(f"--max-new-tokens: expected a number 0 or more, found {most}")
        if least < 0:
            raise UsageError(f"--min-new-tokens: expected a number 0 or more, found {least}")
        if least > most:
            expected = f"at most --max-new-tokens, {most}"
            raise UsageError(f"--min-new-tokens: expected {expected}, found {least}")
        if "" in self.stop:
            raise UsageError("--stop: expected some text, found an empty one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt and its settings.

    Raises:
        UsageError: naming the option, its range and the value found.
    """

    prompt: str
    sampling: SamplingConfig
    generation: GenerationConfig
    search: BeamConfig = field(default_factory=BeamConfig)
    constraint: ConstraintConfig = field(default_factory=ConstraintConfig)
    seed: int  # the effective one
    samples: int = 1
    index: int = 0
    allow_special: bool = False
    logprobs: int | None = None  # alternatives of each token in the record; None: no logprobs

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if self.samples < 1:
            raise UsageError(f"--samples: expected a number 1 or more, found {self.samples}")
        if self.logprobs is not None and not 0 <= self.logprobs <= _MOST_ALTERNATIVES:
            expected = f"a number 0 to {_MOST_ALTERNATIVES}"
            raise UsageError(f"--logprobs: expected {expected}, found {self.logprobs}")
        beams = self.search.beams
        if self.search.on and self.samples > beams:
            raise UsageError(f"--samples: expected at most --beams, {beams}, found {self.samples}")
        if self.search.on and self.generation.overflow is Overflow.SLIDE:
            raise UsageError("--overflow: expected stop or error with --beams, found slide")
        if self.search.on and self.constraint.option is not None:
            raise UsageError(f"{self.constraint.option}: expected no --beams beside it")


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request whose prompt is known to fit, and what its options come to in the vocabulary."""

    request: Request
    prompt_ids: tuple[int, ...]
    biases: tuple[tuple[int, float], ...] = ()  # different ids, each with its own
    bans: BannedTexts | None = None
    constraint: Constraint | None = None
    kept_tokens: int = 0  # of the prompt's first ones, that stay when the others slide

    @property
    def slots(self) -> int:
        """How many slots it takes at once, for all its samples or for each."""
        return self.request.search.beams

    @property
    def runs(self) -> int:
        """How many runs make its samples: a search makes all of them at once."""
        return 1 if self.request.search.on else self.request.samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """How one sample ended. Tokens are those drawn, without EOS."""

    reason: FinishReason
    stop_sequence: str | None
    prompt_tokens: int
    completion_tokens: int
    truncated_prompt_tokens: int = 0  # of the prompt's, that the model did not see at all
    logprobs: tuple[TokenLogprob, ...] | None = None  # of each token; None: not asked for
    error: str | None = None  # why it could not go on


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one sample's completion; the last one of a sample carries its finish."""

    index: int
    sample: int
    text: str
    finish: Finish | None = None


def check_seed(seed: int) -> None:
    """Check the range of a seed.

    Raises:
        UsageError: naming it.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise UsageError(f"--seed: expected 0 to 2^53-1, found {seed}")


def draw_seed() -> int:
    """Return a random seed."""
    return secrets.randbelow(_RANDOM_SEEDS)


def seed_of(run_seed: int, index: int) -> int:
    """Return the effective seed of the request at `index` that names none itself."""
    return (run_seed + index) % (LARGEST_SEED + 1)


def prepare(
    request: Request,
    tokenizer: Tokenizer,
    shape: ModelShape,
    *,
    prompt_ids: Sequence[int] | None = None,
    kept_tokens: int = 0,
) -> PreparedRequest:
    """Encode the prompt, check that it fits as its `overflow` asks, and look up options' texts.

    `prompt_ids`: what the model is to see, if that is not the prompt alone; the first `kept_tokens`
    of them stay where the others slide.

    Raises:
        PromptError: if it does not fit, or cannot be encoded.
        UsageError: if an option means nothing in the model's vocabulary.
    """
    if prompt_ids is None:
        prompt_ids = tokenizer.encode(request.prompt, allow_special=request.allow_special)
    ids = tuple(prompt_ids)
    config, limit = request.generation, shape.n_positions
    if config.overflow is Overflow.STOP and len(ids) > limit:
        raise PromptError(
            f"the prompt has {len(ids)} tokens, the model takes {limit}: shorten it, "
            "or use --overflow slide to keep its end"
        )
    if config.overflow is Overflow.ERROR and len(ids) + config.max_new_tokens > limit:
        raise PromptError(
            f"the prompt's {len(ids)} tokens and --max-new-tokens {config.max_new_tokens} exceed "
            f"the model's {limit}: shorten the prompt, or lower --max-new-tokens"
        )
    tokenizer.note_unwritable("--stop", config.stop)
    sampling, size = request.sampling, shape.vocab_size
    return PreparedRequest(
        request,
        ids,
        find_biases(sampling, tokenizer, vocab_size=size, allow_special=request.allow_special),
        find_bans(sampling, tokenizer, vocab_size=size),
        find_constraint(request.constraint, tokenizer, vocab_size=size),
        kept_tokens,
    )
