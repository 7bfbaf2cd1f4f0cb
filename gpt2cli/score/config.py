"""The options that `gpt2 score` alone has."""

from dataclasses import dataclass
from pathlib import Path

from gpt2cli.config import REPORT, file_option, json_option, output_option, stdin_option
from gpt2cli.declarations import option
from gpt2cli.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutput:
    """Where texts come from, beside the argument, what is written of the scores, and where."""

    file: tuple[Path, ...] = file_option(
        (), "Read a text from FILE; repeatable; - is stdin.", "the argument, or stdin"
    )
    lines: bool = option(
        False, "Each line of one FILE or of stdin is a text; write a line for each: the sum of its "
        "log-probabilities, its perplexity, and how many tokens have a score.", REPORT,
    )  # fmt: skip
    stdin: bool | None = stdin_option()
    json: bool = json_option("Print one JSON record per text.")
    html: Path | None = option(
        None, "Write the coloured text to FILE as a page for a browser, with the likeliest tokens "
        "at each place (5, or as --top says).", REPORT, usual="none",
    )  # fmt: skip
    output: Path | None = output_option(
        "Write the result to FILE, whole or not at all; with --lines line by line, and "
        "FILE.resume.json beside it. - is stdout."
    )
    resume: bool = option(
        False, "Continue the run with --lines that was writing to --output. Default: start over.",
        REPORT,
    )  # fmt: skip

    def check(self, text: str | None, *, top: int) -> None:
        """Check what these and the others ask of one another, before anything takes time.

        Raises:
            UsageError: naming two of them.
        """
        if self.html is not None:
            given = {"json": self.json, "lines": self.lines, "output": self.output is not None}
            for field in (field for field, is_given in given.items() if is_given):
                raise UsageError(option="html", expected=f"no {{{field}}} together with it")
        if self.resume and not self.lines:
            raise UsageError(option="resume", expected="{lines} together with it")
        if not self.lines:
            return
        if self.resume and self.output is None:
            raise UsageError(option="resume", expected="{output} FILE, the file to continue")
        if text is not None:
            raise UsageError(option="lines", expected="{file} FILE or stdin, and no text argument")
        if self.stdin is not None:
            raise UsageError(option="stdin", expected="no {lines} together with it")
        if len(self.file) > 1:
            found = len(self.file)
            raise UsageError(option="file", expected="one FILE with {lines}", found=found)
        if top and not self.json:
            raise UsageError(option="top", expected="{json} together with it and {lines}")
