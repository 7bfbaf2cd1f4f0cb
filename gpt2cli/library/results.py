"""What a Python program gets: completions and scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpt2cli.config import ScoringConfig, TextConfig
from gpt2cli.generation.interfaces import Finish
from gpt2cli.generation.requests import PreparedRequest
from gpt2cli.loading import LoadedModel
from gpt2cli.records import describe_token, make_record
from gpt2cli.sampling.logprobs import TokenLogprob
from gpt2cli.scoring import Totals, choose_stride, score_each
from gpt2cli.settings import Settings


@dataclass(frozen=True, slots=True)
class Completion:
    """What the model wrote after a prompt, and how it ended."""

    prompt: str
    text: str
    finish_reason: str  # stop, length, context, or what else a record says
    seed: int
    prompt_tokens: int
    completion_tokens: int
    record: Mapping[str, Any]  # the whole of it, as `gpt2 generate --json` writes it

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Score:
    """How likely a text is."""

    text: str
    perplexity: float | None  # None: no token has a score
    total_logprob: float  # natural
    scored_tokens: int
    tokens: Sequence[Mapping[str, Any]]  # id, text, logprob, alternatives: as in a record


def complete(
    prepared: PreparedRequest, text: str, finish: Finish, loaded: LoadedModel
) -> Completion:
    """Return what was made of a request."""
    request = prepared.request
    return Completion(
        request.prompt,
        text,
        finish.reason.value,
        request.seed,
        finish.prompt_tokens,
        finish.completion_tokens,
        make_record(request, sample=0, completion=text, finish=finish, model=loaded),
    )


def score_all(texts: Sequence[str], settings: Settings, loaded: LoadedModel) -> list[Score]:
    """Score texts, short ones side by side; each has the score that it has alone."""
    how, special = settings.make(ScoringConfig), settings.make(TextConfig).allow_special
    engine, bos = loaded.engine, loaded.tokenizer.context_id
    stride = choose_stride(how.stride, engine.shape.n_positions)
    encode = loaded.tokenizer.encode_long
    ids = [encode(text, allow_special=special, begins=True) for text in texts]
    scored: list[list[list[TokenLogprob]]] = [[] for _ in texts]  # as parts
    each = score_each(engine, ids, bos_token_id=bos, stride=stride, top=how.top)
    for index, parts in each:
        scored[index] += parts
    return [_tell_score(text, scored[i], loaded) for i, text in enumerate(texts)]


def _tell_score(text: str, parts: Sequence[Sequence[TokenLogprob]], loaded: LoadedModel) -> Score:
    totals = Totals()
    for part in parts:  # whose sums are added one by one, as everywhere
        totals.add(part)
    tokens = tuple(describe_token(one, loaded.tokenizer) for part in parts for one in part)
    return Score(text, totals.perplexity, totals.total_logprob, totals.scored_tokens, tokens)
