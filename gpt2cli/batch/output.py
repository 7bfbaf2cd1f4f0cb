"""One result as the line that is written."""

from typing import Final

from gpt2cli.batch.run import Result
from gpt2cli.loading import LoadedModel
from gpt2cli.records import format_record, make_error_record, make_record

# One line per completion, so that paste(1) can put it beside its prompt; undone by printf '%b',
# which takes up to three digits after \0 for a part of it.
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\0": "\\0000"})


def format_as_record(result: Result, model: LoadedModel) -> str:
    """Return a result as a line of JSON."""
    item = result.item
    if item.prepared is None or result.finish is None or result.finish.error is not None:
        record = make_error_record(
            item.index,
            prompt=item.prompt,
            error=result.error or "",
            sample=result.sample,
            model=model,
            identity=item.identity,
        )
    else:
        record = make_record(
            item.prepared.request,
            sample=result.sample,
            completion=result.completion,
            finish=result.finish,
            model=model,
            identity=item.identity,
        )
    return format_record(record)


def format_as_text(result: Result) -> str:
    r"""Return the completion alone as one line, with \n escaped; an error is an empty line."""
    return f"{'' if result.error else result.completion.translate(_ESCAPES)}\n"
