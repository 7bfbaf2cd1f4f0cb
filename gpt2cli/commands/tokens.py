"""`gpt2 tokens`: a text's tokens, and back from ids to text."""

import re
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gpt2cli.commands.option_groups import flatten
from gpt2cli.commands.options import TokenizerOptions, TokensInputOptions, TokensOutputOptions
from gpt2cli.errors import PromptError, UsageError, shorten

if TYPE_CHECKING:
    from gpt2cli.store import StoredModel
    from gpt2cli.tokenizer import Tokenizer

_TEXT_EXAMPLE: Final = 'gpt2 tokens "Hello world"'
_IDS_EXAMPLE: Final = "gpt2 tokens --decode 15496 995"
_MOST_DIGITS: Final = 18  # of an id; Python itself refuses numbers of some thousands


@flatten
def tokens(
    *,
    given: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT|ID ...",
            show_default=False,
            help="Text, or with --decode ids. - is stdin, which is also read if there is nothing.",
        ),
    ] = None,
    source: TokensInputOptions,
    output: TokensOutputOptions,
    model: TokenizerOptions,
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
    from gpt2cli.commands.named_text import read_texts
    from gpt2cli.commands.text import find_stdin
    from gpt2cli.terminal.notes import Notes
    from gpt2cli.terminal.result import open_result

    if source.decode and output.chosen:
        raise UsageError(f"--decode prints text alone: leave out {output.chosen[0]}")
    argument = _join(given, decode=source.decode)
    files = [] if source.file is None else [source.file]
    example = _IDS_EXAMPLE if source.decode else _TEXT_EXAMPLE
    [read] = read_texts(argument, files, stdin=find_stdin(), example=example)
    asked = parse_ids(read.text) if source.decode else None
    with Notes(quiet=output.quiet) as notes:
        # Heavy: not for --help or a missing file. Not gpt2cli.loading, which brings onnxruntime.
        from gpt2cli.store import find_tokenizer
        from gpt2cli.tokenizer import Tokenizer

        with find_tokenizer(
            model.model, revision=model.revision, offline=model.offline, listener=notes
        ) as stored:
            tokenizer = Tokenizer(stored.folder, notes.note)
        notes.pause()
        with open_result(None) as writer:
            if asked is not None:
                writer.write_bytes(tokenizer.decode(asked))
                return
            special = source.allow_special
            ids = tokenizer.encode_long(read.text, allow_special=special, begins=True)
            for part in _format(ids, tokenizer, stored, output):
                writer.write(part)


def parse_ids(text: str) -> Sequence[int]:
    """Return the ids that a text lists, apart by white space or commas, or as a JSON list.

    Raises:
        PromptError: if it holds anything else.
    """
    ids = array("Q")  # whose eight bytes hold so many digits
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
    ids: Sequence[int], tokenizer: "Tokenizer", stored: "StoredModel", output: TokensOutputOptions
) -> Iterator[str]:
    """Yield what is written, in parts."""
    from gpt2cli.pieces import describe_piece, format_in_parts, join_in_parts, quote_piece

    pieces = ((token_id, tokenizer.spell(token_id)) for token_id in ids)
    if output.ids:
        yield from join_in_parts(map(str, ids), " ")
        yield "\n"
    elif output.count:
        yield f"{len(ids)}\n"
    elif output.json:
        tokens = ({"id": token_id, **describe_piece(piece)} for token_id, piece in pieces)
        about_model = {"model": stored.name, "revision": stored.revision}
        yield from format_in_parts({"ids": iter(ids), "tokens": tokens, **about_model})
    else:
        yield from join_in_parts((f"{i}\t{quote_piece(piece)}\n" for i, piece in pieces), "")
