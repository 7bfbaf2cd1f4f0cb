"""The options that `gpt2 replay` alone has."""

from dataclasses import dataclass

from gpt2cli.config import MODEL, REPORT, json_option
from gpt2cli.declarations import option
from gpt2cli.option_kinds import NAME, Range


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayConfig:
    """Which records are replayed, by which model, and how the results are shown."""

    index: int | None = option(
        None, 'Only the records whose "index" is N.', REPORT,
        within=Range(0), usual="all", metavar="N",
    )  # fmt: skip
    model: str | None = option(
        None, "Where the model is now: a name, a hub id or a folder.", MODEL,
        kind=NAME, short="-m", usual="what each record says",
    )  # fmt: skip
    json: bool = json_option("Print one JSON object per record.")
