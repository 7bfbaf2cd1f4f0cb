"""Reads a checkpoint's tokenizer, checks that it is byte-level BPE, and writes `tokenizer.json`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from export.config import GPT2Config
from export.errors import CheckpointError

END_OF_TEXT: Final = "<|endoftext|>"


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """What the model folder says of its tokenizer."""

    vocab_size: int  # ids that the tokenizer knows
    missing_ids: tuple[int, ...]  # ids of the model that it lacks: they must never be drawn
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]


def read_tokenizer(folder: Path) -> Tokenizer:
    """Read `tokenizer.json`, or `vocab.json` and `merges.txt` where there is none.

    Raises:
        CheckpointError: if there is none, it is damaged, or it is not byte-level BPE.
    """
    try:
        if (folder / "tokenizer.json").is_file():
            return _read_tokenizer_json(folder / "tokenizer.json")
        missing = [n for n in ("vocab.json", "merges.txt") if not (folder / n).is_file()]
        if missing:
            listed = " and ".join(missing)
            raise CheckpointError(folder, [f"tokenizer.json is missing, and so is {listed}"])
        return _read_vocabulary(folder)
    except CheckpointError:
        raise
    except Exception as error:  # tokenizers raises bare Exception for whatever it cannot parse
        raise CheckpointError(folder, [f"the tokenizer cannot be read: {error}"]) from error


def gather_facts(tokenizer: Tokenizer, config: GPT2Config) -> TokenizerFacts:
    """Relate the tokenizer's ids to the model's."""
    known = set(tokenizer.get_vocab(with_added_tokens=True).values())
    end_of_text = tokenizer.token_to_id(END_OF_TEXT)
    if end_of_text is not None and end_of_text >= config.vocab_size:
        end_of_text = None
    bos = end_of_text if config.bos_token_id is None else config.bos_token_id
    eos = config.eos_token_ids or (() if end_of_text is None else (end_of_text,))
    return TokenizerFacts(
        vocab_size=len(known),
        missing_ids=tuple(i for i in range(config.vocab_size) if i not in known),
        bos_token_id=bos,
        eos_token_ids=eos,
    )


def _read_tokenizer_json(path: Path) -> Tokenizer:
    text = path.read_text(encoding="utf-8")
    _refuse_other_kinds(path.parent, json.loads(text))
    return Tokenizer.from_str(text)


def _refuse_other_kinds(folder: Path, raw: object) -> None:
    model = _type_of_part(raw, "model")
    if model not in ("BPE", None):  # None: older files do not say; BPE is what then fits or not
        fault = f"the tokenizer is {model}, expected byte-level BPE as GPT-2's"
        raise CheckpointError(folder, [fault])
    decoder = _type_of_part(raw, "decoder")
    if decoder != "ByteLevel":
        fault = f"the tokenizer's decoder is {decoder}, expected ByteLevel as GPT-2's"
        raise CheckpointError(folder, [fault])


def _type_of_part(raw: object, part: str) -> object:
    value = raw.get(part) if isinstance(raw, dict) else None
    return value.get("type") if isinstance(value, dict) else None


def _read_vocabulary(folder: Path) -> Tokenizer:
    """Build the tokenizer that openai/gpt-2 `src/encoder.py` describes."""
    bpe = models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer = Tokenizer(bpe)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if tokenizer.token_to_id(END_OF_TEXT) is not None:
        tokenizer.add_special_tokens([AddedToken(END_OF_TEXT, special=True, normalized=False)])
    added = folder / "added_tokens.json"
    if added.is_file():
        for token, token_id in sorted(json.loads(added.read_text("utf-8")).items(), key=_by_id):
            tokenizer.add_tokens([AddedToken(token, normalized=False)])
            if tokenizer.token_to_id(token) != token_id:
                fault = f"added_tokens.json: {token!r} has the id {token_id}, not the next"
                raise CheckpointError(folder, [fault])
    return tokenizer


def _by_id(item: tuple[str, int]) -> int:
    return item[1]
