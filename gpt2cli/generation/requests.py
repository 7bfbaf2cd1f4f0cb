"""What goes into the decode loop and what comes out: requests, their limits, and chunks."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gpt2cli.config import (
    LARGEST_SEED,
    BeamConfig,
    ConstraintConfig,
    GenerationConfig,
    Overflow,
    SampleConfig,
    SamplingConfig,
    SeedConfig,
    TextConfig,
    check_together,
    values_of,
)
from gpt2cli.errors import Gpt2Error, PromptError
from gpt2cli.generation.vocabulary import find_bans, find_biases, find_constraint
from gpt2cli.model_folder import ModelShape
from gpt2cli.sampling import (
    BannedTexts,
    Constraint,
    TokenLogprob,
)
from gpt2cli.settings import Settings
from gpt2cli.tokenizer import Tokenizer

_RANDOM_SEEDS: Final = 2**32  # enough, and short enough to type again


class FinishReason(StrEnum):
    """Why a completion ended."""

    STOP = "stop"  # EOS or a stop sequence
    LENGTH = "length"  # max_new_tokens
    CONTEXT = "context"  # n_positions
    INTERRUPTED = "interrupted"
    ERROR = "error"  # its options left nothing to choose


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
        SeedConfig(seed=self.seed)
        how_many = SampleConfig(samples=self.samples, logprobs=self.logprobs)
        check_together(values_of(self.generation, self.search, self.constraint, how_many))


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
    error: Gpt2Error | None = None  # why it could not go on


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one sample's completion; the last one of a sample carries its finish."""

    index: int
    sample: int
    text: str
    finish: Finish | None = None


def draw_seed() -> int:
    """Return a random seed."""
    return secrets.randbelow(_RANDOM_SEEDS)


def choose_seed(settings: Settings) -> int:
    """Return the user's seed, or a random one."""
    seed = settings.make(SeedConfig).seed
    return draw_seed() if seed is None else seed


def seed_of(run_seed: int, index: int) -> int:
    """Return the effective seed of the request at `index` that names none itself."""
    return (run_seed + index) % (LARGEST_SEED + 1)


def make_request(settings: Settings, prompt: str, *, seed: int, index: int = 0) -> Request:
    """Build the request of a prompt; `seed` is its effective one.

    Raises:
        UsageError: if options do not go together.
    """
    how_many = settings.make(SampleConfig)
    return Request(
        prompt=prompt,
        sampling=settings.make(SamplingConfig),
        generation=settings.make(GenerationConfig),
        search=settings.make(BeamConfig),
        constraint=settings.make(ConstraintConfig),
        seed=seed,
        samples=how_many.samples,
        index=index,
        allow_special=settings.make(TextConfig).allow_special,
        logprobs=how_many.logprobs,
    )


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
            f"the prompt has {len(ids)} tokens, the model takes {limit}",
            "shorten it, or use {overflow} slide to keep its end",
        )
    if config.overflow is Overflow.ERROR and len(ids) + config.max_new_tokens > limit:
        raise PromptError(
            f"the prompt's {len(ids)} tokens and {config.max_new_tokens} new ones exceed the "
            f"model's {limit}",
            "shorten the prompt, or lower {max_new_tokens}",
        )
    tokenizer.note_unwritable("stop", config.stop)
    sampling, size = request.sampling, shape.vocab_size
    return PreparedRequest(
        request,
        ids,
        find_biases(sampling, tokenizer, vocab_size=size, allow_special=request.allow_special),
        find_bans(sampling, tokenizer, vocab_size=size),
        find_constraint(request.constraint, tokenizer, vocab_size=size),
        kept_tokens,
    )
