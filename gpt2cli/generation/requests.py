"""What goes into the decode loop: requests, and their options in terms of a vocabulary."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gpt2cli.config import (
    BeamConfig,
    ConstraintConfig,
    GenerationConfig,
    Overflow,
    PromptConfig,
    SampleConfig,
    SamplingConfig,
    SeedConfig,
    TextConfig,
    values_of,
)
from gpt2cli.errors import PromptError, UsageError, shorten
from gpt2cli.model_folder import ModelShape
from gpt2cli.option_rules import check_together
from gpt2cli.sampling.constraints import Constraint, ConstraintCompiler
from gpt2cli.sampling.healing import Healing, count_healed
from gpt2cli.sampling.history import BannedTexts
from gpt2cli.sampling.random import draw_seed
from gpt2cli.sampling.repeats import Breakers
from gpt2cli.sampling.vocabulary import Vocabulary
from gpt2cli.settings import Settings
from gpt2cli.tokenizer import Tokenizer

_MOST_SHOWN: Final = 40  # tokens of a text
_LONGEST_ID: Final = 18  # digits


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
    heal: bool = False  # whether the prompt's end is drawn again
    logprobs: int | None = None  # alternatives of each token in the record; None: no logprobs

    def __post_init__(self) -> None:
        SeedConfig(seed=self.seed)
        how_many = SampleConfig(samples=self.samples, logprobs=self.logprobs)
        options = values_of(self.generation, self.search, self.constraint, how_many)
        check_together(options | {"heal": self.heal})


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request whose prompt fits, and its options in terms of the vocabulary."""

    request: Request
    prompt_ids: tuple[int, ...]  # that the model sees
    biases: tuple[tuple[int, float], ...] = ()  # different ids, each with its own
    bans: BannedTexts | None = None
    breakers: Breakers | None = None  # of DRY; None: it is off
    constraint: Constraint | None = None
    healing: Healing | None = None  # of the prompt's end, which `prompt_ids` lack
    kept_tokens: int = 0  # of the prompt's first ones, that stay when the others slide
    stepped: Sequence[bool] = ()  # of each id of the prompt, whether it was drawn; (): none was

    @property
    def runs(self) -> int:
        """How many runs make its samples: a search makes all of them at once."""
        return 1 if self.request.search.on else self.request.samples


def choose_seed(settings: Settings) -> int:
    """Return the user's seed, or a random one."""
    seed = settings.make(SeedConfig).seed
    return draw_seed() if seed is None else seed


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
        heal=settings.make(PromptConfig).heal,
        logprobs=how_many.logprobs,
    )


def prepare(
    request: Request,
    tokenizer: Tokenizer,
    shape: ModelShape,
    *,
    prompt_ids: Sequence[int] | None = None,
    kept_tokens: int = 0,
    stepped: Sequence[bool] = (),
) -> PreparedRequest:
    """Encode the prompt, check that it fits as its `overflow` asks, and look up options' texts.

    `prompt_ids`: what the model is to see, if that is not the prompt alone; the first `kept_tokens`
    of them stay where the others slide, and those that are `stepped` were drawn once.

    Raises:
        PromptError: if it does not fit, or cannot be encoded.
        UsageError: if an option means nothing in the model's vocabulary.
    """
    if prompt_ids is None:
        prompt_ids = tokenizer.encode(request.prompt, allow_special=request.allow_special)
    _check_room(len(prompt_ids), request.generation, shape.n_positions)
    _check_stop_tokens(request.generation, shape.vocab_size)
    tokenizer.note_unwritable("stop", request.generation.stop)
    healing = None
    if request.heal:
        prompt_ids, healing = _heal(prompt_ids, tokenizer, shape)
    sampling, constraint, size = request.sampling, request.constraint, shape.vocab_size
    return PreparedRequest(
        request,
        tuple(prompt_ids),
        find_biases(sampling, tokenizer, vocab_size=size, allow_special=request.allow_special),
        find_bans(sampling, tokenizer, vocab_size=size),
        _find_breakers(sampling, tokenizer, size),
        None if constraint.field is None else _compile(constraint, tokenizer, size),
        healing,
        kept_tokens,
        stepped,
    )


def _check_room(length: int, config: GenerationConfig, limit: int) -> None:
    if config.overflow is Overflow.STOP and length > limit:
        raise PromptError(
            f"the prompt has {length} tokens, the model takes {limit}",
            "shorten it, or use {overflow} slide to keep its end",
        )
    if config.overflow is Overflow.ERROR and length + config.max_new_tokens > limit:
        raise PromptError(
            f"the prompt's {length} tokens and {config.max_new_tokens} new ones exceed the "
            f"model's {limit}",
            "shorten the prompt, or lower {max_new_tokens}",
        )


def _check_stop_tokens(config: GenerationConfig, vocab_size: int) -> None:
    largest = max(config.stop_token, default=0)
    if largest >= vocab_size:
        expected = f"an id 0 to {vocab_size - 1}"
        raise UsageError(option="stop_token", expected=expected, found=shorten(str(largest)))


def _heal(
    ids: Sequence[int], tokenizer: Tokenizer, shape: ModelShape
) -> tuple[Sequence[int], Healing | None]:
    """Take the tokens off a prompt that are to be drawn again; BOS stands in for a whole one."""
    vocabulary = _read_vocabulary(tokenizer, shape.vocab_size)
    bos = tokenizer.bos_token_id
    first = len(tokenizer.start_ids) or int(bos is None)  # something must be left to see
    count = count_healed(ids[first:], vocabulary)
    if len(ids) > shape.n_positions:  # where there is no room to look ahead
        count = min(count, 1)
    if not count:
        return ids, None
    kept = ids[:-count] or [i for i in [bos] if i is not None]
    return kept, Healing(ids[-count:], vocabulary)


def find_biases(
    config: SamplingConfig, tokenizer: Tokenizer, *, vocab_size: int, allow_special: bool
) -> tuple[tuple[int, float], ...]:
    """Return each id that has a logit bias, with it; of an id named twice the last counts.

    Raises:
        UsageError: if a name is no id of the model, and not one token as it stands.
    """
    biases = {
        _find_id(token, tokenizer, vocab_size, allow_special): bias
        for token, bias in config.logit_bias
    }
    return tuple(biases.items())


def find_bans(
    config: SamplingConfig, tokenizer: Tokenizer, *, vocab_size: int
) -> BannedTexts | None:
    """Return the banned texts by ids; None if there are none."""
    tokenizer.note_unwritable("ban", config.ban)
    return _read_bans(tokenizer, config.ban, vocab_size) if config.ban else None


def _find_breakers(config: SamplingConfig, tokenizer: Tokenizer, size: int) -> Breakers | None:
    if not config.dry_multiplier:
        return None
    return _read_breakers(tokenizer, config.dry_sequence_breaker, size)


def _find_id(token: str, tokenizer: Tokenizer, vocab_size: int, allow_special: bool) -> int:
    if token.isascii() and token.isdigit():
        token_id = int(token) if len(token) <= _LONGEST_ID else vocab_size
        if token_id >= vocab_size:
            found = shorten(token)
            expected = f"an id 0 to {vocab_size - 1}"
            raise UsageError(option="logit_bias", expected=expected, found=found)
        return token_id
    shown = repr(shorten(token))
    try:
        ids = tokenizer.encode_text(token, allow_special=allow_special)
    except PromptError as error:
        fault = f"the model has no token for {shown}"
        raise UsageError(fault, option="logit_bias") from error
    if not ids:
        raise UsageError(f"the model has no token for {shown}", option="logit_bias")
    if len(ids) != 1:
        pieces = [tokenizer.show([token_id]) for token_id in ids[:_MOST_SHOWN]]
        spelt = ", ".join(
            f"{piece!r} {token_id}" for piece, token_id in zip(pieces, ids, strict=False)
        )
        raise UsageError(
            option="logit_bias",
            expected="an id or a text of one token",
            found=f"{shown}, which has {len(ids)}: {spelt}"
            f"{', …' if len(ids) > len(pieces) else ''}",
        )
    return ids[0]


# Cached, since the records of a batch mostly share their bans and one tokenizer.
@functools.lru_cache(maxsize=16)
def _read_bans(tokenizer: Tokenizer, texts: tuple[str, ...], vocab_size: int) -> BannedTexts:
    return BannedTexts((text.encode() for text in texts), _read_vocabulary(tokenizer, vocab_size))


@functools.lru_cache(maxsize=16)
def _read_breakers(tokenizer: Tokenizer, texts: tuple[str, ...], vocab_size: int) -> Breakers:
    return Breakers((text.encode() for text in texts), _read_vocabulary(tokenizer, vocab_size))


@functools.lru_cache(maxsize=16)
def _compile(config: ConstraintConfig, tokenizer: Tokenizer, vocab_size: int) -> Constraint:
    return _make_compiler(tokenizer, vocab_size).compile(config)


@functools.lru_cache(maxsize=1)
def _make_compiler(tokenizer: Tokenizer, vocab_size: int) -> ConstraintCompiler:
    return ConstraintCompiler(_read_vocabulary(tokenizer, vocab_size).pieces, tokenizer.encode_text)


@functools.lru_cache(maxsize=1)
def _read_vocabulary(tokenizer: Tokenizer, vocab_size: int) -> Vocabulary:
    return Vocabulary(tokenizer.token_bytes(token_id) for token_id in range(vocab_size))
