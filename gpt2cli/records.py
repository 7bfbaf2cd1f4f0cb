"""The JSON record of one sample, as `generate --json` and `batch` write it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from typing import Any

from gpt2cli.generation.interfaces import Finish
from gpt2cli.generation.requests import Request
from gpt2cli.loading import LoadedModel
from gpt2cli.model_folder import MergedAdapter
from gpt2cli.recorded import describe_options
from gpt2cli.sampling.logprobs import Alternative, TokenLogprob
from gpt2cli.spelling import describe_piece
from gpt2cli.tokenizer import Tokenizer


def make_record(
    request: Request,
    *,
    sample: int,
    completion: str,
    finish: Finish,
    model: LoadedModel,
    identity: object = None,
    extras: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the record of a finished sample, its keys in the order that they are written.

    `context`: what the model saw, where that is not the prompt alone. `extras`: fields of the
    user's own.
    """
    return {
        "index": request.index,
        **_identify(identity),
        **(extras or {}),
        "prompt": request.prompt,
        "completion": completion,
        "finish_reason": finish.reason.value,
        "stop_sequence": finish.stop_sequence,
        "prompt_tokens": finish.prompt_tokens,
        **_describe_cut(finish),
        "completion_tokens": finish.completion_tokens,
        "sample": sample,
        "seed": request.seed,
        "options": describe_options(request),
        **({} if context is None else {"context": context}),
        **describe_model(model),
        "fingerprint": model.stored.folder.fingerprint,
        "versions": describe_versions(model),
        **_describe_logprobs(finish, model.tokenizer),
    }


def make_error_record(
    index: int,
    *,
    prompt: str | None,
    error: str,
    model: LoadedModel,
    identity: object = None,
    extras: Mapping[str, Any] | None = None,
    sample: int = 0,
) -> dict[str, Any]:
    """Return the record of an input record that could not be run: `error` says why."""
    return {
        "index": index,
        **_identify(identity),
        **(extras or {}),
        "prompt": prompt,
        "completion": "",
        "finish_reason": "error",
        "stop_sequence": None,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "sample": sample,
        "seed": None,
        "options": None,
        **describe_model(model),
        "fingerprint": model.stored.folder.fingerprint,
        "versions": describe_versions(model),
        "error": error,
    }


def _describe_adapters(adapters: Sequence[MergedAdapter]) -> dict[str, Any]:
    """Return the names and commits of what was merged into the model, if there is any."""
    return {"adapters": [asdict(adapter) for adapter in adapters]} if adapters else {}


def _identify(identity: object) -> dict[str, Any]:
    """Return the user's own "id" where there is one."""
    return {} if identity is None else {"id": identity}


def _describe_cut(finish: Finish) -> dict[str, int]:
    """Return how many of the prompt's tokens the model did not see, if there are any."""
    cut = finish.truncated_prompt_tokens
    return {"truncated_prompt_tokens": cut} if cut else {}


def _describe_logprobs(finish: Finish, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the log-probability of each token of the completion, if they were asked for."""
    if finish.logprobs is None:
        return {}
    return {"logprobs": [describe_token(token, tokenizer) for token in finish.logprobs]}


def describe_token(token: TokenLogprob, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return a token with its log-probability, and the alternatives where there are some."""
    described = _describe_one(token, tokenizer)
    if token.alternatives:
        described["alternatives"] = [_describe_one(t, tokenizer) for t in token.alternatives]
    return described


def _describe_one(token: TokenLogprob | Alternative, tokenizer: Tokenizer) -> dict[str, Any]:
    piece = tokenizer.spell(token.token_id)
    return {"id": token.token_id, **describe_piece(piece), "logprob": token.logprob}


def describe_versions(model: LoadedModel) -> dict[str, str]:
    """Return the versions of what computes a text."""
    return {"gpt2": metadata.version("gpt2"), "onnxruntime": model.engine.runtime_version}


def describe_model(model: LoadedModel) -> dict[str, Any]:
    """Return what every record says about the model that ran."""
    return {
        "model": model.stored.name,
        "revision": model.stored.revision,
        **_describe_adapters(model.stored.folder.adapters),
        "precision": model.stored.folder.precision,
        "device": str(model.engine.device),
    }
