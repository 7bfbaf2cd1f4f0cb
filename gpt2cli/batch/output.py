"""The results of one input record as the bytes that are written."""

from typing import Final

from gpt2cli.batch.run import Group
from gpt2cli.loading import LoadedModel
from gpt2cli.records import format_record, make_error_record, make_record

# One line per completion, so that paste(1) can put it beside its prompt; undone by printf '%b'.
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\0": "\\0"})


def format_records(group: Group, model: LoadedModel) -> str:
    """Return a group as lines of JSON, one for each sample, or one for its error."""
    item = group.item
    if item.prepared is None:
        record = make_error_record(
            item.index,
            prompt=item.prompt,
            error=item.error or "",
            model=model,
            identity=item.identity,
        )
        return format_record(record)
    records = (
        make_record(
            item.prepared.request,
            sample=number,
            completion="".join(sample.completion),
            finish=sample.finish,
            model=model,
            identity=item.identity,
        )
        for number, sample in enumerate(group.samples)
        if sample.finish is not None
    )
    return "".join(map(format_record, records))


def format_completions(group: Group) -> str:
    r"""Return a group's completions alone, one line each with \n escaped; an error is empty."""
    if group.item.prepared is None:
        return "\n"
    completions = ("".join(sample.completion) for sample in group.samples)
    return "".join(f"{text.translate(_ESCAPES)}\n" for text in completions)
