"""The options that a batch alone has."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpt2cli.config import REPORT, batch_size_option
from gpt2cli.declarations import option
from gpt2cli.errors import UsageError
from gpt2cli.option_kinds import Kind, one_of
from gpt2cli.resumable.shards import WHOLE, Shard

KEEP, IGNORE, ERROR = EXTRA_FIELDS = ("keep", "ignore", "error")

_TEXT: Final = "text"
_SHARD: Final = Kind(
    "I/N, as 2/8, with I from 1 to N", lambda text: str(Shard.parse(text)), (str,), "I/N"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutput:
    """Where records come from, beside the argument, what is written and where, and how many run."""

    file: Path | None = option(
        None, "Read from FILE, like the argument; - is stdin.", REPORT,
        short="-f", usual="the argument, or stdin",
    )  # fmt: skip
    jsonl: bool = option(
        False, 'Records are JSON objects: {"prompt": …}, with "id" and any option by its long name '
        "with underscores. Default: for a FILE named .jsonl; else lines are prompts.", REPORT,
    )  # fmt: skip
    extra_fields: str = option(
        ERROR, "Fields of a record that are no options: copy them into its results (keep), leave "
        "them out (ignore), or refuse the record (error).", REPORT, kind=one_of(EXTRA_FIELDS),
    )  # fmt: skip
    null: bool = option(
        False, "Input records end with NUL. Default: with a newline.", REPORT, short="-0"
    )
    format: str = option(
        "jsonl", r"Write JSON records, or completions alone, one per line, newlines as \n.", REPORT,
        kind=one_of(("jsonl", _TEXT)),
    )  # fmt: skip
    output: Path | None = option(
        None, "Write to FILE, with FILE.resume.json beside it.", REPORT, short="-o", usual="stdout"
    )
    resume: bool = option(
        False, "Continue the run that was writing to --output. Default: start over.", REPORT
    )
    batch_size: int | None = batch_size_option("How many records run at once.")
    shard: str | None = option(
        None, "Run shard I of N of the input only, such as 2/8, with --seed: every N-th group of "
        "records. --merge puts the outputs together.", REPORT, kind=_SHARD, usual="all of it",
    )  # fmt: skip
    merge: bool = option(
        False, "Put the outputs of all shards, the FILEs, together, with the bytes of one run. "
        "Only --output, --quiet, --verbose and --log-file go with it.", REPORT,
    )  # fmt: skip

    @property
    def own_shard(self) -> Shard:
        """The part of the input that runs."""
        return WHOLE if self.shard is None else Shard.parse(self.shard)

    def check_alone(self, seed: int | None) -> None:
        """Check what the options ask of one another, before anything takes time.

        Raises:
            UsageError: naming two of them.
        """
        if self.resume and self.output is None:
            raise UsageError(option="resume", expected="{output} FILE, the file to continue")
        if self.extra_fields == KEEP and self.as_text:
            raise UsageError(
                option="extra_fields", expected="{format} jsonl, whose records hold them"
            )
        if self.shard is not None and seed is None:
            raise UsageError(option="shard", expected="{seed} too, the same for every shard")

    @property
    def as_text(self) -> bool:
        """Whether completions alone are written."""
        return self.format == _TEXT
