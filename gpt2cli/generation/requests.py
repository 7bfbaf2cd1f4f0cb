"""What goes into the decode loop and what comes out: requests, their limits, and chunks."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpt2cli.errors import PromptError, UsageError
from gpt2cli.model_folder import ModelShape
from gpt2cli.sampling import LARGEST_SEED, SamplingConfig
from gpt2cli.tokenizer import Tokenizer


class Overflow(StrEnum):
    """What happens when prompt and completion would have more than `n_positions` tokens."""

    STOP = "stop"  # the completion ends there
    SLIDE = "slide"  # the last half is kept and prefilled again
    ERROR = "error"  # refused before anything is generated


class FinishReason(StrEnum):
    """Why a completion ended."""

    STOP = "stop"  # EOS or a stop sequence
    LENGTH = "length"  # max_new_tokens
    CONTEXT = "context"  # n_positions
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationConfig:
    """Where a completion ends.

    Raises:
        UsageError: naming the option, its range and the value found.
    """

    max_new_tokens: int = 256
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    overflow: Overflow = Overflow.STOP

    def __post_init__(self) -> None:
        if self.max_new_tokens < 0:
            found = self.max_new_tokens
            raise UsageError(f"--max-new-tokens: expected a number 0 or more, found {found}")
        if "" in self.stop:
            raise UsageError("--stop: expected some text, found an empty one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt and its settings.

    Raises:
        UsageError: if the seed or the number of samples is out of range.
    """

    prompt: str
    sampling: SamplingConfig
    generation: GenerationConfig
    seed: int  # the effective one
    samples: int = 1
    index: int = 0
    allow_special: bool = False

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if self.samples < 1:
            raise UsageError(f"--samples: expected a number 1 or more, found {self.samples}")


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request whose prompt is known to fit."""

    request: Request
    prompt_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """How one sample ended. Tokens are those drawn, without EOS."""

    reason: FinishReason
    stop_sequence: str | None
    prompt_tokens: int
    completion_tokens: int


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


def seed_of(run_seed: int, index: int) -> int:
    """Return the effective seed of the request at `index` that names none itself."""
    return (run_seed + index) % (LARGEST_SEED + 1)


def prepare(
    request: Request,
    tokenizer: Tokenizer,
    shape: ModelShape,
    *,
    prompt_ids: Sequence[int] | None = None,
) -> PreparedRequest:
    """Encode the prompt and check that it fits as its `overflow` asks.

    `prompt_ids`: what the model is to see, if that is not the prompt alone.

    Raises:
        PromptError: if it does not, or cannot be encoded.
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
    return PreparedRequest(request, ids)
