"""Reads a checkpoint's tokenizer, checks that it is byte-level BPE, and does what its files ask for.

What asks for something where a text is encoded is honoured, or refused by name:

| setting | what becomes of it |
|---|---|
| normalizer, pre_tokenizer, added tokens' flags, unk_token, fuse_unk, ignore_merges | honoured by the library |
| post_processor; add_bos_token and add_eos_token of tokenizer_config.json, where there is no tokenizer.json | its ids before a text: honoured, of a whole prompt; those after it: left out, since the text goes on, with a note |
| add_prefix_space of tokenizer_config.json | honoured, before that of tokenizer.json |
| dropout, truncation, padding | for training: left out, as transformers does unless told otherwise |
| do_lower_case | left out, as transformers does since 4.0, with a note |
| continuing_subword_prefix, end_of_word_suffix; byte_fallback where bytes are missing | refused: their tokens spell no bytes |
| trim_offsets, errors, clean_up_tokenization_spaces, model_max_length, split_special_tokens | change no id of a text that is encoded here |
"""  # noqa: E501 (a table's row is a line)

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from export.chat_template import ChatFacts, read_chat_facts
from export.config import GPT2Config, read_object
from export.errors import CheckpointError, panics_caught
from export.small_files import LARGE, ReadError, read_text
from export.special_tokens import (
    CONFIG_FILE,
    END_OF_TEXT,
    SpecialTokens,
    TokenEntry,
    TokenFiles,
    find_special_tokens,
    read_token_files,
)

_TOKENIZER_FILE: Final = "tokenizer.json"
# A vocabulary and its merges: as transformers names them, and as OpenAI does.
_VOCABULARY_FILES: Final = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
_MOST_UNUSED: Final = 2**16  # ids beyond a model's vocabulary, as of tokens that it does not have
_MOST_IDS: Final = 2**24
_NEEDED: Final = "expected byte-level BPE like GPT-2's"
# Files of other kinds of tokenizer, WordPiece and SentencePiece, where there is no tokenizer.json.
_OTHER_FILES: Final = (
    *("vocab.txt", "spiece.model", "sentencepiece.bpe.model", "spm.model", "tokenizer.model"),
)


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """A checkpoint's tokenizer as all its files make it, and what the model folder says of it."""

    tokenizer: Tokenizer
    special: SpecialTokens
    start_ids: tuple[int, ...]  # ids that stand before a prompt
    vocab_size: int  # ids that the tokenizer knows
    missing_ids: list[list[int]]  # [first, last] of the runs of ids that it lacks: never drawn
    notes: list[str]  # what the user should know of it, a line each
    chat: ChatFacts


def read_facts(folder: Path, config: GPT2Config) -> TokenizerFacts:
    """Read the tokenizer, and relate its ids to the model's, or raise CheckpointError."""
    files = read_token_files(folder)
    whole = (folder / _TOKENIZER_FILE).is_file()
    own_file = _TOKENIZER_FILE if whole else _find_vocabulary(folder)[0].name
    tokenizer = read_tokenizer(folder, files.listed)
    with _translated(folder):
        _refuse_settings(folder, tokenizer)
        _set_for_inference(tokenizer, files)
        before, after = _find_around(tokenizer) if whole else _find_flagged(tokenizer, files)
        special = find_special_tokens(tokenizer, files, config, own_file=own_file)
    chat = read_chat_facts(folder, files, special)
    known = set(tokenizer.get_vocab(with_added_tokens=True).values())
    _refuse_far_ids(folder, tokenizer, known, config.vocab_size)
    return TokenizerFacts(
        tokenizer,
        special,
        start_ids=before,
        vocab_size=len(known),
        missing_ids=_find_gaps(known | {*special.eos_token_ids}, config.vocab_size),
        notes=[*special.notes, *_describe_left_out(tokenizer, after, files), *chat.notes],
        chat=chat,
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
        raw = read_object(folder / _TOKENIZER_FILE)  # by our limits, before the library has none
        tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER_FILE))
        _refuse_other_kinds(folder, tokenizer)
        _refuse_characters(folder, raw["model"]["merges"])
        return tokenizer
    if not all(path.is_file() for path in _find_vocabulary(folder)):
        raise CheckpointError(folder, [_describe_missing(folder)])
    return _read_vocabulary(folder, added)


def _find_vocabulary(folder: Path) -> Sequence[Path]:
    """Return the pair of files of which the most are there."""
    pairs = [[folder / name for name in pair] for pair in _VOCABULARY_FILES]
    return max(pairs, key=lambda pair: sum(path.is_file() for path in pair))


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
    pair = _find_vocabulary(folder)
    missing = [path.name for path in pair if not path.is_file()]
    fault = f"{_TOKENIZER_FILE} is missing, and so is {' and '.join(missing)}"
    if others := [name for name in _OTHER_FILES if (folder / name).is_file()]:
        return f"{fault}; {others[0]} is of another kind of tokenizer, {_NEEDED}"
    alone = missing == [pair[1].name]
    return f"{fault}; {pair[0].name} alone is a list of tokens" if alone else fault


def _refuse_other_kinds(folder: Path, tokenizer: Tokenizer) -> None:
    fault = None
    steps = _list_steps(tokenizer.normalizer) + _list_steps(tokenizer.pre_tokenizer)
    kinds = [type(step).__name__ for step in steps]
    if not isinstance(tokenizer.model, models.BPE):
        fault = f"the tokenizer is {type(tokenizer.model).__name__}, {_NEEDED}"
    elif not isinstance(tokenizer.decoder, decoders.ByteLevel):
        found = type(tokenizer.decoder).__name__ if tokenizer.decoder else "nothing"
        fault = f"the tokenizer's decoder is {found}, expected ByteLevel as GPT-2's"
    elif "ByteLevel" not in kinds:
        fault = f"the tokenizer splits text by {' and '.join(kinds) or 'nothing'}, {_NEEDED}"
    if fault:
        raise CheckpointError(folder, [fault])


def _list_steps(part: Any) -> list[Any]:
    """Return a normalizer or pre-tokenizer, the steps of a sequence one by one."""
    if isinstance(part, normalizers.Sequence | pre_tokenizers.Sequence):
        return [*part]  # type: ignore[misc]
    return [] if part is None else [part]


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


def _read_vocabulary(folder: Path, added: Sequence[TokenEntry]) -> Tokenizer:
    """Build the tokenizer that openai/gpt-2 `src/encoder.py` describes."""
    vocabulary, merges = _find_vocabulary(folder)
    read_object(vocabulary)  # by our limits, as above
    try:
        read_text(merges, most_bytes=LARGE)
    except ReadError as error:
        raise CheckpointError(folder, [f"{merges.name} {error}"]) from error
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


def _refuse_settings(folder: Path, tokenizer: Tokenizer) -> None:
    model: Any = tokenizer.model
    faults = [
        f"the tokenizer's {name} is {value!r}: not implemented"
        for name in ("continuing_subword_prefix", "end_of_word_suffix")
        if (value := getattr(model, name))
    ]
    lacking = [c for c in pre_tokenizers.ByteLevel.alphabet() if tokenizer.token_to_id(c) is None]
    if model.byte_fallback and lacking:
        faults.append(
            "the tokenizer's byte_fallback is true and bytes are missing: not implemented"
        )
    if faults:
        raise CheckpointError(folder, faults)


def _set_for_inference(tokenizer: Tokenizer, files: TokenFiles) -> None:
    tokenizer.model.dropout = None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    prefix_space = files.settings.get("add_prefix_space")
    for step in _list_steps(tokenizer.pre_tokenizer):
        if isinstance(step, pre_tokenizers.ByteLevel) and isinstance(prefix_space, bool):
            step.add_prefix_space = prefix_space


def adds_prefix_space(tokenizer: Tokenizer) -> bool:
    """Tell whether a text is read as if a space stood before it."""
    steps = _list_steps(tokenizer.pre_tokenizer)
    return any(isinstance(s, pre_tokenizers.ByteLevel) and s.add_prefix_space for s in steps)


def _find_around(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that are put before a text and after it."""
    texts = map(chr, range(ord("!"), ord("~") + 1))
    encodings = (tokenizer.encode(text, add_special_tokens=False) for text in texts)
    plain = next((encoding for encoding in encodings if encoding.ids), None)
    if plain is None:
        return (), ()
    added = tokenizer.post_process(plain)
    start = added.special_tokens_mask.index(0)
    return tuple(added.ids[:start]), tuple(added.ids[start + len(plain.ids) :])


def _find_flagged(
    tokenizer: Tokenizer, files: TokenFiles
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that GPT2Tokenizer adds by its flags: of the named tokens, or its defaults."""
    found: list[tuple[int, ...]] = []
    for name in ("bos_token", "eos_token"):
        texts = [*(entry.text for entry in files.find_named(name)), END_OF_TEXT]
        ids = [i for i in map(tokenizer.token_to_id, texts) if i is not None]
        found.append(tuple(ids[:1]) if files.settings.get(f"add_{name}") is True else ())
    return found[0], found[1]


def _describe_left_out(
    tokenizer: Tokenizer, after: Sequence[int], files: TokenFiles
) -> Iterator[str]:
    if after:
        names = ", ".join(repr(tokenizer.id_to_token(i)) for i in after)
        yield f"the tokenizer puts {names} after a text: left out, since the text goes on"
    if files.settings.get("do_lower_case") is True:
        yield f"{CONFIG_FILE}: do_lower_case is left out, as in transformers"
