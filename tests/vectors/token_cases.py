"""Owns the checkpoints whose tokenizers are compared with transformers, and the stored outcome.

make_tokens.py, which writes tokens.json, says which version. Left out is what we read otherwise, as
the tables of `export/special_tokens.py` and `export/tokenizer.py` say.
"""

import json
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.checkpoints import BYTE_COUNT, END_OF_TEXT, write_tokenizer

STORED_FILE: Final = pathlib.Path(__file__).with_name("tokens.json")
VOCAB_SIZE: Final = 300

_FLAGS: Final = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
_BYTES: Final = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
_BEGIN: Final = {"SpecialToken": {"id": END_OF_TEXT, "type_id": 0}}
_TEXT: Final = {"Sequence": {"id": "A", "type_id": 0}}


@dataclass(frozen=True, slots=True)
class TokenCase:
    """The files beside a vocabulary of 256 bytes and `<|endoftext|>`, and the text to encode."""

    text: str = "a [X] b"
    whole: bool = False  # tokenizer.json, not vocab.json and merges.txt
    change: Mapping[str, Any] = field(default_factory=dict)  # of tokenizer.json
    config: Mapping[str, Any] | None = None  # tokenizer_config.json
    special: Mapping[str, Any] | None = None  # special_tokens_map.json
    added: Mapping[str, int] | None = None  # added_tokens.json


def _listed(**flags: bool) -> dict[str, object]:
    return {"content": "[X]", "special": False, **_FLAGS, **flags}


_OWN: Final = {"id": BYTE_COUNT, "content": END_OF_TEXT, "special": True, **_FLAGS}
_BACKEND: Final = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END_OF_TEXT}

CASES: Final[Mapping[str, TokenCase]] = {
    "2019: vocabulary files alone": TokenCase(),
    "2019: a padding token": TokenCase(added={"[X]": 257}, special={"pad_token": "[X]"}),
    "2019: a token that is not special": TokenCase(added={"[X]": 257}),
    "2020: a mask that takes the space before it": TokenCase(
        added={"[X]": 257}, special={"mask_token": _listed(lstrip=True)}
    ),
    "2020: both files name an end": TokenCase(
        added={"[X]": 257, "[Y]": 258}, config={"eos_token": "[X]"}, special={"eos_token": "[Y]"}
    ),
    "2020: objects with a type": TokenCase(
        added={"[X]": 257},
        config={"bos_token": {"__type": "AddedToken", **_listed()}, "model_max_length": 4},
    ),
    "2023: added_tokens_decoder": TokenCase(
        config={"added_tokens_decoder": {"257": _listed(lstrip=True, rstrip=True)}}
    ),
    "2023: added_tokens_decoder, special": TokenCase(
        config={"added_tokens_decoder": {"257": _listed(special=True)}, "pad_token": "[X]"}
    ),
    "2023: single words": TokenCase(
        text="a[X] [X] [X]b",
        config={"added_tokens_decoder": {"257": _listed(single_word=True)}},
    ),
    "2025: extra_special_tokens": TokenCase(
        added={"[X]": 257}, config={"extra_special_tokens": ["[X]"]}
    ),
    "a name of its own": TokenCase(added={"[X]": 257}, config={"image_token": "[X]"}),
    "add_prefix_space": TokenCase(config={"add_prefix_space": True}),
    "add_prefix_space before tokenizer.json": TokenCase(
        whole=True, config={"add_prefix_space": True}
    ),
    "add_prefix_space of tokenizer.json": TokenCase(
        whole=True,
        config=_BACKEND,
        change={"pre_tokenizer": {**_BYTES, "add_prefix_space": True}},
    ),
    "add_bos_token": TokenCase(config={"add_bos_token": True}),
    "add_bos_token beside tokenizer.json": TokenCase(whole=True, config={"add_bos_token": True}),
    "a template": TokenCase(
        whole=True,
        change={
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [_BEGIN, _TEXT],
                "pair": [_TEXT, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {
                    END_OF_TEXT: {"id": END_OF_TEXT, "ids": [256], "tokens": [END_OF_TEXT]}
                },
            }
        },
    ),
    "a normalizer": TokenCase(
        text="A B", whole=True, config=_BACKEND, change={"normalizer": {"type": "Lowercase"}}
    ),
    "digits one by one": TokenCase(
        text="a 12",
        whole=True,
        config=_BACKEND,
        change={
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "Digits", "individual_digits": True},
                    _BYTES,
                ],
            }
        },
    ),
    "truncation and padding": TokenCase(
        text="abcdef",
        whole=True,
        change={
            "truncation": {
                "max_length": 3,
                "stride": 0,
                "strategy": "LongestFirst",
                "direction": "Right",
            },
            "padding": {
                "strategy": {"Fixed": 8},
                "direction": "Left",
                "pad_id": 0,
                "pad_type_id": 0,
                "pad_token": "!",
            },
        },
    ),
    "flags of tokenizer.json": TokenCase(
        whole=True, change={"added_tokens": [_OWN, {"id": 257, **_listed(rstrip=True)}]}
    ),
    "flags of added_tokens_decoder before them": TokenCase(
        whole=True,
        config={"added_tokens_decoder": {"257": _listed(lstrip=True, special=True)}},
        change={"added_tokens": [_OWN, {"id": 257, **_listed()}]},
    ),
    "do_lower_case": TokenCase(text="A B", config={"do_lower_case": True}),
    "clean_up_tokenization_spaces": TokenCase(
        text="a , b", config={"clean_up_tokenization_spaces": True, "errors": "ignore"}
    ),
}


def write_case(folder: pathlib.Path, case: TokenCase) -> None:
    """Write the files of a case, and a config.json that says nothing of them."""
    write_tokenizer(folder, BYTE_COUNT + 1, kind="bytes")
    path = folder / "tokenizer.json"
    whole = json.loads(path.read_text("utf-8")) | case.change
    path.unlink()
    if case.whole:
        _write(path, whole)
    else:
        _write(folder / "vocab.json", whole["model"]["vocab"])
        (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    sizes = {"n_layer": 1, "n_head": 1, "n_embd": 1, "n_positions": 1, "vocab_size": VOCAB_SIZE}
    _write(folder / "config.json", {"model_type": "gpt2", **sizes})
    names = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
    for name, value in zip(names, (case.config, case.special, case.added), strict=True):
        if value is not None:
            _write(folder / name, value)


def _write(path: pathlib.Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
