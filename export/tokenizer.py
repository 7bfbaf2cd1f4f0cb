"""Reads a checkpoint's tokenizer, checks that it is byte-level BPE, and writes `tokenizer.json`."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from export.checkpoint_files import read_object, read_text
from export.config import GPT2Config
from export.errors import CheckpointError

END_OF_TEXT: Final = "<|endoftext|>"

_TOKENIZER_FILE: Final = "tokenizer.json"
_VOCABULARY_FILES: Final = ("vocab.json", "merges.txt")
_NEEDED: Final = "expected byte-level BPE as GPT-2's"
# Files of other kinds of tokenizer, where there is no tokenizer.json.
_OTHER_KINDS: Final[Mapping[str, str]] = {
    "vocab.txt": "WordPiece",
    "spiece.model": "SentencePiece",
    "sentencepiece.bpe.model": "SentencePiece",
    "spm.model": "SentencePiece",
    "tokenizer.model": "SentencePiece",
}
# What says which token ends a text, where no file names its id and there is no <|endoftext|>.
_SPECIAL_TOKEN_FILES: Final = ("tokenizer_config.json", "special_tokens_map.json")


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """What the model folder says of its tokenizer."""

    vocab_size: int  # ids that the tokenizer knows
    missing_ids: list[list[int]]  # [first, last] of the runs of ids that it lacks: never drawn
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]


def read_tokenizer(folder: Path) -> Tokenizer:
    """Read `tokenizer.json`, or `vocab.json` and `merges.txt` where there is none.

    Raises:
        CheckpointError: if there is none, it is damaged, or it is not byte-level BPE.
    """
    try:
        tokenizer = _read_either(folder)
    except CheckpointError:
        raise
    except Exception as error:  # tokenizers raises bare Exception for whatever it cannot parse
        raise CheckpointError(folder, [f"the tokenizer cannot be read: {error}"]) from error
    if not tokenizer.get_vocab_size():
        raise CheckpointError(folder, [f"the tokenizer has no tokens, {_NEEDED}"])
    return tokenizer


def _read_either(folder: Path) -> Tokenizer:
    if (folder / _TOKENIZER_FILE).is_file():
        _refuse_other_kinds(folder, read_object(folder / _TOKENIZER_FILE))
        return Tokenizer.from_file(str(folder / _TOKENIZER_FILE))
    if not all((folder / name).is_file() for name in _VOCABULARY_FILES):
        raise CheckpointError(folder, [_describe_missing(folder)])
    return _read_vocabulary(folder)


def gather_facts(folder: Path, tokenizer: Tokenizer, config: GPT2Config) -> TokenizerFacts:
    """Relate the tokenizer's ids to the model's.

    Raises:
        CheckpointError: if a file is damaged that is needed to find BOS or EOS.
    """
    known = set(tokenizer.get_vocab(with_added_tokens=True).values())
    bos = config.bos_token_id
    if bos is None:
        bos = _find_special(folder, "bos_token", tokenizer, config)
    eos = config.eos_token_ids
    if not eos:
        found = _find_special(folder, "eos_token", tokenizer, config)
        eos = () if found is None else (found,)
    return TokenizerFacts(
        vocab_size=len(known),
        missing_ids=_find_gaps(known, config.vocab_size),
        bos_token_id=bos,
        eos_token_ids=eos,
    )


def _find_gaps(known: Iterable[int], end: int) -> list[list[int]]:
    """Return the runs of ids below `end` that are not known, each as [first, last].

    A padded vocabulary is one run, and takes no memory however large a config says that it is.
    """
    bounds = [-1, *sorted(i for i in known if i < end), end]
    pairs = itertools.pairwise(bounds)
    return [[before + 1, after - 1] for before, after in pairs if after - before > 1]


def _find_special(folder: Path, field: str, tokenizer: Tokenizer, config: GPT2Config) -> int | None:
    """Return the id of `<|endoftext|>`, else of the token that `field` of a file names."""
    for token in _name_special(folder, field):
        token_id: int | None = tokenizer.token_to_id(token)
        if token_id is not None and token_id < config.vocab_size:
            return token_id
    return None


def _name_special(folder: Path, field: str) -> Iterator[str]:
    """Give the tokens to try; a file is opened only when its turn comes."""
    yield END_OF_TEXT
    for name in _SPECIAL_TOKEN_FILES:
        if (folder / name).is_file():
            token = read_object(folder / name).get(field)
            content = token.get("content") if isinstance(token, dict) else token
            if isinstance(content, str):
                yield content


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


def _read_vocabulary(folder: Path) -> Tokenizer:
    """Build the tokenizer that openai/gpt-2 `src/encoder.py` describes."""
    vocabulary, merges = (folder / name for name in _VOCABULARY_FILES)
    read_object(vocabulary)  # by our limits, before the library has none
    lines = read_text(merges).split("\n")
    _refuse_characters(folder, [line for line in lines if not line.startswith("#version")])
    tokenizer = Tokenizer(models.BPE.from_file(str(vocabulary), str(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if tokenizer.token_to_id(END_OF_TEXT) is not None:
        tokenizer.add_special_tokens([AddedToken(END_OF_TEXT, special=True, normalized=False)])
    added = folder / "added_tokens.json"
    if added.is_file():
        for token, token_id in sorted(read_object(added).items(), key=_by_id):
            tokenizer.add_tokens([AddedToken(token, normalized=False)])
            if tokenizer.token_to_id(token) != token_id:
                fault = f"added_tokens.json: {token!r} has the id {token_id}, not the next"
                raise CheckpointError(folder, [fault])
    return tokenizer


def _by_id(item: tuple[str, int]) -> int:
    return item[1]
