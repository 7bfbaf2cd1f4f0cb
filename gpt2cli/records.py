"""The JSON record of one sample, as `generate --json` and `batch` write it."""

import json
from typing import Any

from gpt2cli.generation import Finish, Request
from gpt2cli.loading import LoadedModel


def make_record(
    request: Request, *, sample: int, completion: str, finish: Finish, model: LoadedModel
) -> dict[str, Any]:
    """Return the record of a finished sample, its keys in the order that they are written."""
    return {
        "index": request.index,
        "prompt": request.prompt,
        "completion": completion,
        "finish_reason": finish.reason.value,
        "stop_sequence": finish.stop_sequence,
        "prompt_tokens": finish.prompt_tokens,
        "completion_tokens": finish.completion_tokens,
        "sample": sample,
        "seed": request.seed,
        "model": model.stored.name,
        "revision": model.stored.revision,
        "precision": model.stored.folder.precision,
        "device": str(model.engine.device),
    }


def format_record(record: dict[str, Any]) -> str:
    """Return a record as one line of JSON, with its newline."""
    return json.dumps(record, ensure_ascii=False) + "\n"
