"""`gpt2 tokens`: a text's tokens, and back from ids to text."""

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gpt2cli.config import (
    REPORT,
    ModelConfig,
    ReportConfig,
    TextConfig,
    file_option,
    json_option,
    stdin_option,
)
from gpt2cli.declarations import option
from gpt2cli.errors import PromptError, UsageError, shorten
from gpt2cli.options import takes
from gpt2cli.settings import Settings
from gpt2cli.spelling import describe_piece, format_in_parts, join_in_parts, quote_piece
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.result import open_result
from gpt2cli.text_input import Stdin, find_stdin, read_texts

if TYPE_CHECKING:
    from gpt2cli.store.store import StoredModel
    from gpt2cli.tokenizer import Tokenizer

_TEXT_EXAMPLE: Final = 'gpt2 tokens "Hello world"'
_IDS_EXAMPLE: Final = "gpt2 tokens --decode 15496 995"
_MOST_DIGITS: Final = 18  # of an id; Python itself refuses numbers of some thousands


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutput:
    """Where a text or its ids come from, and what is written: a line for each token, or one form.

    Raises:
        UsageError: if more than one form is given.
    """

    decode: bool = option(False, "Turn ids into text. Default: text into ids.", REPORT, short="-d")
    file: Path | None = file_option(None, "Read from FILE; - is stdin.", "the arguments, or stdin")
    stdin: bool | None = stdin_option()
    ids: bool = option(False, "Print only the ids, on one line.", REPORT)
    count: bool = option(False, "Print how many tokens there are.", REPORT)
    json: bool = json_option("Print one JSON record.")

    def __post_init__(self) -> None:
        forms = {"ids": self.ids, "count": self.count, "json": self.json}
        chosen = [field for field, given in forms.items() if given]
        if self.decode and chosen:
            expected = "no {decode} together with it, which prints only text"
            raise UsageError(option=chosen[0], expected=expected)
        if len(chosen) > 1:
            raise UsageError(option=chosen[1], expected=f"no {{{chosen[0]}}} together with it")


@takes(
    TextConfig, InputOutput, ReportConfig, ModelConfig,
    without={"stats", "precision", "device", "threads"},
)  # fmt: skip
def tokens(
    *,
    given: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT|ID ...",
            show_default=False,
            help="Text, or with --decode ids. - is stdin, which is also read without arguments; "
            "what it holds comes before them.",
        ),
    ] = None,
    settings: Settings,
) -> None:
    r"""Show the tokens of a text, or the text of tokens.

    Each line is a token: its id, a tab, and its text in quotes, in which a byte
    that is only part of a character is shown as \xf0.

    With --decode ids become text again, byte for byte; they are separated by
    spaces, newlines or commas, or are a JSON list.

    For example:

    gpt2 tokens "Hello world"

    gpt2 tokens -f story.txt --ids | gpt2 tokens --decode
    """
    io, model = settings.make(InputOutput), settings.make(ModelConfig)
    argument = _join(given, decode=io.decode)
    files = [] if io.file is None else [io.file]
    example = _IDS_EXAMPLE if io.decode else _TEXT_EXAMPLE
    with Notes(quiet=settings.make(ReportConfig).quiet) as notes:
        stdin = Stdin(find_stdin(), io.stdin, notes.note)
        [read] = read_texts("text", argument, files, stdin=stdin, example=example)
        asked = parse_ids(read.text) if io.decode else None
        # Heavy: not for --help or a missing file. Not gpt2cli.loading, which brings onnxruntime.
        from gpt2cli.store.store import Store
        from gpt2cli.tokenizer import Tokenizer

        store = Store(
            revision=model.revision,
            step=model.step,
            adapters=model.adapter,
            offline=model.offline,
            listener=notes,
        )
        with store.find_tokenizer(model.model) as stored:
            tokenizer = Tokenizer(stored.folder, notes.note)
        notes.pause()
        with open_result(None) as writer:
            if asked is not None:
                writer.write_bytes(tokenizer.decode(asked))
                return
            special = settings.make(TextConfig).allow_special
            ids = tokenizer.encode_long(read.text, allow_special=special, begins=True)
            for part in _format(ids, tokenizer, stored, io):
                writer.write(part)


def parse_ids(text: str) -> Sequence[int]:
    """Return the ids that a text lists, apart by white space or commas, or as a JSON list.

    Raises:
        PromptError: if it holds anything else.
    """
    ids = array("Q")  # eight bytes hold so many digits
    for found_word in re.finditer(r"[^\s,\[\]]+", text):
        word = found_word[0]
        if not re.fullmatch(rf"[0-9]{{1,{_MOST_DIGITS}}}", word):
            found = repr(shorten(word))
            raise PromptError(f"expected token ids, whole numbers 0 or more, found {found}")
        ids.append(int(word))
    return ids


def _join(given: Sequence[str] | None, *, decode: bool) -> str | None:
    """Return the arguments as one; None if there is none."""
    if given and len(given) > 1 and not decode:
        raise UsageError(f"expected one text, found {len(given)} words; put the text in quotes")
    return " ".join(given) if given else None


def _format(
    ids: Sequence[int], tokenizer: "Tokenizer", stored: "StoredModel", io: InputOutput
) -> Iterator[str]:
    """Yield what is written, in parts."""
    pieces = ((token_id, tokenizer.spell(token_id)) for token_id in ids)
    if io.ids:
        yield from join_in_parts(map(str, ids), " ")
        yield "\n"
    elif io.count:
        yield f"{len(ids)}\n"
    elif io.json:
        tokens = ({"id": token_id, **describe_piece(piece)} for token_id, piece in pieces)
        about_model = {"model": stored.name, "revision": stored.revision}
        yield from format_in_parts({"ids": iter(ids), "tokens": tokens, **about_model})
    else:
        yield from join_in_parts((f"{i}\t{quote_piece(piece)}\n" for i, piece in pieces), "")
