"""The options that `gpt2 generate` alone has."""

from dataclasses import dataclass
from pathlib import Path

from gpt2cli.config import MODEL, REPORT, file_option, json_option, output_option, stdin_option
from gpt2cli.declarations import option
from gpt2cli.option_kinds import TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutput:
    """Where the prompt comes from, beside the argument, and what is written, and where."""

    file: Path | None = file_option(
        None, "Read the prompt from FILE; - is stdin.", "the argument, or stdin"
    )
    stdin: bool | None = stdin_option()
    separator: str = option(
        "---", r"Line between samples; \n and \t are understood.", REPORT, kind=TEXT
    )
    echo: bool = option(
        True, "Print the prompt before its completion. Default --echo; --no-echo: the completion "
        "alone.", REPORT,
    )  # fmt: skip
    json: bool = json_option("Print one JSON record per sample, not text.")
    output: Path | None = output_option()
    api_key_file: Path | None = option(
        None, "With --server: read the key that it wants from FILE, the first line.", MODEL,
        usual="what GPT2_API_KEY holds, or none",
    )  # fmt: skip
