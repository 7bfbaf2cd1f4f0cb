"""Records in, records out: a reader that never blocks the loop, order, and resuming."""

from gpt2cli.batch.items import BatchItem, ItemDefaults, ItemParser, ItemSource
from gpt2cli.batch.journal import (
    Journal,
    JournalHeader,
    read_header,
    refuse_difference,
    resume_output,
    start_output,
)
from gpt2cli.batch.output import format_completions, format_records
from gpt2cli.batch.reader import InputReader
from gpt2cli.batch.run import BatchRun, Group

__all__ = [
    "BatchItem",
    "BatchRun",
    "Group",
    "InputReader",
    "ItemDefaults",
    "ItemParser",
    "ItemSource",
    "Journal",
    "JournalHeader",
    "format_completions",
    "format_records",
    "read_header",
    "refuse_difference",
    "resume_output",
    "start_output",
]
