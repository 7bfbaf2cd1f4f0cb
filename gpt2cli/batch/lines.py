"""A result as the line that is written, and what there is to tell of it."""

from typing import Any, Final

from gpt2cli.batch.asked import Asked, answer
from gpt2cli.batch.items import BatchItem
from gpt2cli.batch.results import Result
from gpt2cli.generation.interfaces import Finish
from gpt2cli.loading import LoadedModel
from gpt2cli.options import spell_flag
from gpt2cli.record_lines import format_record
from gpt2cli.records import make_error_record, make_record
from gpt2cli.resumable.input import Line
from gpt2cli.terminal.statistics import describe_cut, describe_ending

# One line per completion, so that paste(1) can put it beside its prompt; undone by printf '%b',
# which takes up to three digits after \0 for a part of it.
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\0": "\\0000"})


def make_line(result: Result, model: LoadedModel, *, as_text: bool) -> Line:
    """Return the line of a result that is done."""
    item, finish = result.item, result.finish
    if item.asked is not None:
        return _make_answer(result, item.asked, model)
    return Line(
        index=item.index,
        sample=result.sample,
        digest=item.digest,
        text=format_as_text(result) if as_text else format_as_record(result, model),
        error=result.error,
        tokens=0 if finish is None else finish.completion_tokens,
        cuts=tuple([] if finish is None else _find_cuts(finish, model)),
        hints=tuple(_find_hints(item)),
    )


def _make_answer(result: Result, asked: Asked, model: LoadedModel) -> Line:
    item, pieces = result.item, tuple(result.made.values())
    text, error = answer(asked, pieces, model, index=item.index, record=item.digest)
    made = sum(piece.finish.completion_tokens for piece in pieces if piece.finish is not None)
    return Line(item.index, 0, item.digest, text, error, tokens=made)


def _find_cuts(finish: Finish, model: LoadedModel) -> list[str]:
    cut, limit = finish.truncated_prompt_tokens, model.engine.shape.n_positions
    return describe_cut(cut, prompt_tokens=finish.prompt_tokens, n_positions=limit)


def _find_hints(item: BatchItem) -> list[str]:
    prepared = item.prepared
    if prepared is None or prepared.request.heal:
        return []
    return describe_ending(prepared.request.prompt, heal=spell_flag("heal"))


def format_as_record(result: Result, model: LoadedModel) -> str:
    """Return a result as a line of JSON."""
    item, finish = result.item, result.finish
    same: dict[str, Any] = {"sample": result.sample, "model": model}
    same |= {"identity": item.identity, "extras": item.extras}
    if item.prepared is None or finish is None or finish.error is not None:
        error = result.error or ""
        record = make_error_record(item.index, prompt=item.prompt, error=error, **same)
    else:
        request, completion = item.prepared.request, result.completion
        record = make_record(request, completion=completion, finish=finish, **same)
    return format_record(record)


def format_as_text(result: Result) -> str:
    r"""Return the completion alone as one line, with \n escaped; an error is an empty line."""
    return f"{'' if result.error else result.completion.translate(_ESCAPES)}\n"
