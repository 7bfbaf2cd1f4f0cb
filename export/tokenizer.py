"""Reads a checkpoint's tokenizer, checks that it is byte-level BPE, and writes `tokenizer.json`."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from export.checkpoint_files import read_object, read_text
from export.config import GPT2Config
from export.encoding import EncodingSettings, settle_encoding
from export.errors import CheckpointError
from export.panics import panics_caught
from export.special_tokens import SpecialTokens, settle_special_tokens
from export.token_files import END_OF_TEXT, TokenEntry, read_token_files

_TOKENIZER_FILE: Final = "tokenizer.json"
_VOCABULARY_FILES: Final = ("vocab.json", "merges.txt")
_MOST_UNUSED: Final = 2**16  # ids beyond a model's vocabulary, as of tokens that it does not have
_MOST_IDS: Final = 2**24
_NEEDED: Final = "expected byte-level BPE as GPT-2's"
# Files of other kinds of tokenizer, where there is no tokenizer.json.
_OTHER_KINDS: Final[Mapping[str, str]] = {
    "vocab.txt": "WordPiece",
    "spiece.model": "SentencePiece",
    "sentencepiece.bpe.model": "SentencePiece",
    "spm.model": "SentencePiece",
    "tokenizer.model": "SentencePiece",
}


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """A checkpoint's tokenizer as all its files make it, and what the model folder says of it."""

    tokenizer: Tokenizer
    special: SpecialTokens
    settings: EncodingSettings
    vocab_size: int  # ids that the tokenizer knows
    missing_ids: list[list[int]]  # [first, last] of the runs of ids that it lacks: never drawn

    @property
    def notes(self) -> list[str]:
        """What the user should know of it, a line each."""
        return [*self.special.notes, *self.settings.notes]


def read_facts(folder: Path, config: GPT2Config) -> TokenizerFacts:
    """Read the tokenizer, and relate its ids to the model's.

    Raises:
        CheckpointError: if there is none, a file is damaged, or a setting is not implemented.
    """
    files = read_token_files(folder)
    whole = (folder / _TOKENIZER_FILE).is_file()
    own_file = _TOKENIZER_FILE if whole else _VOCABULARY_FILES[0]
    tokenizer = read_tokenizer(folder, files.listed)
    with _translated(folder):
        settings = settle_encoding(folder, tokenizer, files, whole=whole)
        special = settle_special_tokens(tokenizer, files, config, own_file=own_file)
    known = set(tokenizer.get_vocab(with_added_tokens=True).values())
    _refuse_far_ids(folder, tokenizer, known, config.vocab_size)
    return TokenizerFacts(
        tokenizer,
        special,
        settings,
        vocab_size=len(known),
        missing_ids=_find_gaps(known | {*special.eos_token_ids}, config.vocab_size),
    )


def read_tokenizer(folder: Path, added: Sequence[TokenEntry] = ()) -> Tokenizer:
    """Read `tokenizer.json`, or `vocab.json` and `merges.txt` where there is none.

    `added`: further tokens of the latter, with their ids; those that come first count.

    Raises:
        CheckpointError: if there is none, it is damaged, or it is not byte-level BPE.
    """
    with _translated(folder):
        tokenizer = _read_either(folder, added)
    if not tokenizer.get_vocab_size():
        raise CheckpointError(folder, [f"the tokenizer has no tokens, {_NEEDED}"])
    return tokenizer


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    try:
        with panics_caught():
            yield
    except CheckpointError:
        raise
    except Exception as error:  # tokenizers raises bare Exception for whatever it cannot parse
        raise CheckpointError(folder, [f"the tokenizer cannot be read: {error}"]) from error


def _read_either(folder: Path, added: Sequence[TokenEntry]) -> Tokenizer:
    if (folder / _TOKENIZER_FILE).is_file():
        _refuse_other_kinds(folder, read_object(folder / _TOKENIZER_FILE))
        return Tokenizer.from_file(str(folder / _TOKENIZER_FILE))
    if not all((folder / name).is_file() for name in _VOCABULARY_FILES):
        raise CheckpointError(folder, [_describe_missing(folder)])
    return _read_vocabulary(folder, added)


def _refuse_far_ids(
    folder: Path, tokenizer: Tokenizer, known: Collection[int], vocab_size: int
) -> None:
    """Refuse ids far beyond others: tokenizers 0.23.3 notes every id before them in memory."""
    largest = max(known)
    limit = min(max(vocab_size, len(known)) + _MOST_UNUSED, _MOST_IDS)
    if largest >= limit:
        token = tokenizer.id_to_token(largest)
        fault = (
            f"the tokenizer's {token!r} has the id {largest}, the model's end at {vocab_size - 1}"
        )
        raise CheckpointError(folder, [fault])


def _find_gaps(known: Iterable[int], end: int) -> list[list[int]]:
    """Return the runs of ids below `end` that are not known, each as [first, last].

    A padded vocabulary is one run, and takes no memory however large a config says that it is.
    """
    bounds = [-1, *sorted(i for i in known if i < end), end]
    pairs = itertools.pairwise(bounds)
    return [[before + 1, after - 1] for before, after in pairs if after - before > 1]


def _describe_missing(folder: Path) -> str:
    for name, kind in _OTHER_KINDS.items():
        if (folder / name).is_file():
            files = f"{_TOKENIZER_FILE}, or {' and '.join(_VOCABULARY_FILES)}"
            return f"the tokenizer is {kind} ({name}), {_NEEDED}: {files}"
    missing = [name for name in _VOCABULARY_FILES if not (folder / name).is_file()]
    fault = f"{_TOKENIZER_FILE} is missing, and so is {' and '.join(missing)}"
    return f"{fault}; vocab.json alone is a list of tokens" if missing == ["merges.txt"] else fault


def _refuse_other_kinds(folder: Path, raw: Mapping[str, Any]) -> None:
    model, decoder = raw.get("model"), raw.get("decoder")
    kind = _type_of(model)
    if kind not in ("BPE", None):  # None: older files do not say; BPE is what then fits or not
        raise CheckpointError(folder, [f"the tokenizer is {kind}, {_NEEDED}"])
    if _type_of(decoder) != "ByteLevel":
        found = _type_of(decoder) or "nothing"
        fault = f"the tokenizer's decoder is {found}, expected ByteLevel as GPT-2's"
        raise CheckpointError(folder, [fault])
    steps = [*_list_steps(raw.get("normalizer")), *_list_steps(raw.get("pre_tokenizer"))]
    if "ByteLevel" not in steps:
        fault = f"the tokenizer splits text by {' and '.join(steps) or 'nothing'}, {_NEEDED}"
        raise CheckpointError(folder, [fault])
    merges = model.get("merges") if isinstance(model, dict) else None
    _refuse_characters(folder, merges if isinstance(merges, list) else [])


def _refuse_characters(folder: Path, merges: Iterable[str | list[str]]) -> None:
    """Refuse merges of what stands for no byte: BPE over characters, whatever else the file says.

    Merges are the test, not the vocabulary: that may hold special tokens of any characters.
    """
    merged: set[str] = set()
    for merge in merges:
        merged.update(merge if isinstance(merge, str) else "".join(merge))
    others = merged - {*pre_tokenizers.ByteLevel.alphabet(), " "}
    if others:
        fault = f"the tokenizer merges characters, such as {min(others)!r}, not bytes; {_NEEDED}"
        raise CheckpointError(folder, [fault])


def _type_of(part: object) -> str | None:
    kind = part.get("type") if isinstance(part, dict) else None
    return kind if isinstance(kind, str) else None


def _list_steps(part: object) -> list[str]:
    """Return the types in a normalizer or pre-tokenizer, those in a sequence one by one."""
    kind = _type_of(part)
    if not isinstance(part, dict) or kind is None:
        return []
    steps = part.get("normalizers", part.get("pretokenizers")) if kind == "Sequence" else None
    if not isinstance(steps, list):
        return [kind]
    return [_type_of(step) or "" for step in steps]


def _read_vocabulary(folder: Path, added: Sequence[TokenEntry]) -> Tokenizer:
    """Build the tokenizer that openai/gpt-2 `src/encoder.py` describes."""
    vocabulary, merges = (folder / name for name in _VOCABULARY_FILES)
    read_object(vocabulary)  # by our limits, before the library has none
    read_text(merges)
    tokens, pairs = models.BPE.read_file(str(vocabulary), str(merges))
    _refuse_characters(folder, ["".join(pair) for pair in pairs])
    tokenizer = Tokenizer(models.BPE(_extend(folder, tokens, added), pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if tokenizer.token_to_id(END_OF_TEXT) is not None:
        tokenizer.add_special_tokens([AddedToken(END_OF_TEXT, special=True, normalized=False)])
    return tokenizer


def _extend(
    folder: Path, vocabulary: Mapping[str, int], added: Sequence[TokenEntry]
) -> dict[str, int]:
    """Return a vocabulary with the added tokens in it, each at its own id."""
    whole = dict(vocabulary)
    owners = {token_id: token for token, token_id in whole.items()}
    for entry in added:
        token_id = whole.setdefault(entry.text, entry.token_id)
        owner = owners.setdefault(token_id, entry.text)
        if owner != entry.text:
            fault = f"{entry.origin}: {entry.text!r} has the id {token_id}, which {owner!r} has too"
            raise CheckpointError(folder, [fault])
    return whole
