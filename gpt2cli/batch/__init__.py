"""Records in, records out: a reader that never blocks the loop, order, and resuming."""

from gpt2cli.batch.items import BatchItem, ItemParser, ItemSource
from gpt2cli.batch.journal import (
    Journal,
    JournalHeader,
    journal_path,
    read_header,
    resume_output,
    start_output,
)
from gpt2cli.batch.output import format_as_record, format_as_text
from gpt2cli.batch.reader import InputReader
from gpt2cli.batch.run import BatchRun, Result

__all__ = [
    "BatchItem",
    "BatchRun",
    "InputReader",
    "ItemParser",
    "ItemSource",
    "Journal",
    "JournalHeader",
    "Result",
    "format_as_record",
    "format_as_text",
    "journal_path",
    "read_header",
    "resume_output",
    "start_output",
]
