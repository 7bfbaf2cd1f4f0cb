"""What a tokenizer's own settings ask for where a text is encoded: honoured, or refused by name.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, pre_tokenizers

from export.errors import CheckpointError
from export.token_files import CONFIG_FILE, END_OF_TEXT, TokenFiles


@dataclass(frozen=True, slots=True)
class EncodingSettings:
    """What the settings come to beside the tokenizer itself."""

    start_ids: tuple[int, ...]  # ids that stand before a prompt
    notes: tuple[str, ...]


def settle_encoding(
    folder: Path, tokenizer: Tokenizer, files: TokenFiles, *, whole: bool
) -> EncodingSettings:
    """Make a tokenizer that was just read do what the settings ask for.

    `whole`: whether it was read from a tokenizer.json, which tells by its post_processor what is
    put around a text.

    Raises:
        CheckpointError: naming what is not implemented.
    """
    _refuse(folder, tokenizer)
    tokenizer.model.dropout = None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    prefix_space = files.settings.get("add_prefix_space")
    if isinstance(prefix_space, bool):
        _set_prefix_space(tokenizer, prefix_space)
    if whole:
        before, after = _find_around(tokenizer)
    else:
        before, after = (_find_flagged(tokenizer, files, name) for name in ("bos", "eos"))
    notes = []
    if after:
        names = ", ".join(repr(tokenizer.id_to_token(i)) for i in after)
        notes.append(f"the tokenizer puts {names} after a text: left out, since the text goes on")
    if files.settings.get("do_lower_case") is True:
        notes.append(f"{CONFIG_FILE}: do_lower_case is left out, as in transformers")
    return EncodingSettings(before, tuple(notes))


def _refuse(folder: Path, tokenizer: Tokenizer) -> None:
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


def _set_prefix_space(tokenizer: Tokenizer, value: bool) -> None:
    whole: Any = tokenizer.pre_tokenizer
    steps: Any = whole if isinstance(whole, pre_tokenizers.Sequence) else [whole]
    for step in steps:
        if isinstance(step, pre_tokenizers.ByteLevel):
            step.add_prefix_space = value


def _find_around(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that are put before a text and after it."""
    texts = map(chr, range(ord("!"), ord("~") + 1))
    encodings = (tokenizer.encode(text, add_special_tokens=False) for text in texts)
    plain = next((encoding for encoding in encodings if encoding.ids), None)
    if plain is None:
        return (), ()
    added = tokenizer.post_process(plain)
    place = added.special_tokens_mask.index(0)
    return tuple(added.ids[:place]), tuple(added.ids[place + len(plain.ids) :])


def _find_flagged(tokenizer: Tokenizer, files: TokenFiles, name: str) -> tuple[int, ...]:
    """Return the token that GPT2Tokenizer adds if told to: the named one, or its default."""
    if files.settings.get(f"add_{name}_token") is not True:
        return ()
    names = [entry.text for entry in files.find_named(f"{name}_token")]
    ids = (tokenizer.token_to_id(text) for text in [*names, END_OF_TEXT])
    return tuple(itertools.islice((i for i in ids if i is not None), 1))
