"""Reads `config.json` and `generation_config.json` into a frozen GPT2Config.

OpenAI's own checkpoints have `hparams.json` in place of the first.
Field names, defaults and meanings are those of Hugging Face's GPT2Config
(`configuration_gpt2.py` @ 71c6f69). Every field that changes what the model computes is either
implemented or refused by name; fields about training, heads of other tasks and generation are not
read here.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from export import small_files
from export.errors import CheckpointError

CONFIG_FILE: Final = "config.json"
HPARAMS_FILE: Final = "hparams.json"

# Hugging Face's ACT2FN name -> the formula that export/graph.py and export/reference.py implement.
ACTIVATIONS: Final[Mapping[str, str]] = {
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "quick_gelu": "gelu_sigmoid",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}

# Other spellings that Hugging Face accepts (GPT2Config.attribute_map; n_ctx is the older name).
_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "n_embd": ("hidden_size",),
    "n_positions": ("max_position_embeddings", "n_ctx"),
    "n_head": ("num_attention_heads",),
    "n_layer": ("num_hidden_layers",),
}

# Fields whose maths is not implemented, with the value at which they change nothing.
_REFUSED: Final[Mapping[str, object]] = {
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "pruned_heads": {},
    "quantization_config": None,
    "rope_scaling": None,
    "sliding_window": None,
}

_MODEL_CLASS: Final = re.compile("AutoModel|AutoConfig")

# The sizes in hparams.json (`default_hparams` of openai/gpt-2 `src/model.py` @ 9b63575) -> the
# names of Hugging Face.
_HPARAMS: Final[Mapping[str, str]] = {
    "n_vocab": "vocab_size",
    "n_ctx": "n_positions",
    "n_embd": "n_embd",
    "n_head": "n_head",
    "n_layer": "n_layer",
}
# What that code computes, whatever the sizes.
_OPENAI: Final[Mapping[str, Any]] = {
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
}
_TRAINING: Final = "dropout"  # in the names that programs for fine-tuning add

_LARGEST_SIZE: Final = 2**31 - 1
# Layers are built one by one, so a hostile number must not fill the memory.
_MOST_LAYERS: Final = 1000


def read_object(path: Path) -> Mapping[str, Any]:
    """Return the object in a checkpoint's JSON file; of a key that it has twice the last counts.

    Raises:
        CheckpointError: if the file is missing, cannot be read, or holds anything else.
    """
    try:
        return small_files.read_object(path, most_bytes=small_files.LARGE, repeated_keys=True)
    except small_files.ReadError as error:
        raise CheckpointError(path.parent, [f"{path.name} {error}"]) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class GPT2Config:
    """What a GPT-2 checkpoint computes. Sizes are positive; `n_embd` is a multiple of `n_head`."""

    n_layer: int
    n_head: int
    n_embd: int
    n_positions: int
    vocab_size: int
    n_inner: int
    activation: str  # a value of ACTIVATIONS
    layer_norm_epsilon: float
    scale_attn_weights: bool
    scale_attn_by_inverse_layer_idx: bool
    tie_word_embeddings: bool
    bos_token_id: int | None  # None: the config files do not say
    eos_token_ids: tuple[int, ...]  # empty: the config files do not say
    bos_origin: str = "config.json"  # the file that says so
    eos_origin: str = "config.json"

    @property
    def head_dim(self) -> int:
        """Width of one attention head, D."""
        return self.n_embd // self.n_head

    def attention_scale(self, layer: int) -> float:
        """Return the factor on q·k in `layer` (0-based): 1/sqrt(D), and 1/(layer + 1) if asked."""
        scale = 1.0 / math.sqrt(self.head_dim) if self.scale_attn_weights else 1.0
        return scale / (layer + 1) if self.scale_attn_by_inverse_layer_idx else scale


def read_config(folder: Path) -> GPT2Config:
    """Read the configuration of a checkpoint folder, or raise CheckpointError."""
    raw, generation = _read_files(folder)
    fields = _Fields(raw)
    _refuse_unimplemented(raw, fields.faults)
    config = _parse(fields, generation)
    if fields.faults:
        raise CheckpointError(folder, fields.faults)
    return config


class _Fields:
    """Typed access to a config object; it collects what is wrong in `faults`."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self.faults: list[str] = []

    def size(self, name: str, *, default: int | None = None, largest: int = _LARGEST_SIZE) -> int:
        """Return a positive integer; 0 stands for a value that was reported as a fault."""
        names = (name, *_ALIASES.get(name, ()))
        value: object = next((self.raw[n] for n in names if n in self.raw), None)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= largest:
            self._expected(name, f"an integer from 1 to {largest}", value)
            return 0
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.raw.get(name, default)
        if not isinstance(value, bool):
            self._expected(name, "true or false", value)
        return value is True

    def epsilon(self, name: str, default: float) -> float:
        value = self.raw.get(name, default)
        if type(value) not in (int, float) or not 0 < value < 1:  # True is an int
            self._expected(name, "a number between 0 and 1", value)
            return default
        return float(value)

    def activation(self) -> str:
        value = self.raw.get("activation_function", "gelu_new")
        if not isinstance(value, str) or value not in ACTIVATIONS:
            self._expected("activation_function", f"one of {', '.join(ACTIVATIONS)}", value)
        return ACTIVATIONS.get(str(value), "")

    def token_ids(
        self, name: str, vocab_size: int, sources: Mapping[str, Mapping[str, Any]]
    ) -> tuple[tuple[int, ...], str]:
        """Return the ids of the first source that names any of the vocabulary, and its name.

        Empty if none does.

        Ids outside the vocabulary are passed over, not refused: transformers writes GPT2Config's
        50256 into every config that was not told otherwise, however small the vocabulary, and some
        write -1 for "none". The model never draws them, so they can end nothing. A `vocab_size` of
        0, one that was reported as a fault, bounds nothing.
        """
        for origin, source in sources.items():
            value: Any = source.get(name)
            named = value if isinstance(value, list) else [] if value is None else [value]
            for token_id in named:
                if isinstance(token_id, bool) or not isinstance(token_id, int):
                    self._expected(name, "token ids", token_id)
                    return (), origin
            ids = tuple(i for i in named if 0 <= i < (vocab_size or _LARGEST_SIZE))
            if ids:
                return ids, origin
        return (), "config.json"

    def _expected(self, name: str, what: str, found: object) -> None:
        shown = "nothing" if found is None else json.dumps(found)
        self.faults.append(f"config field {name}: expected {what}, found {shown[:80]}")


def _parse(fields: _Fields, generation: Mapping[str, Any]) -> GPT2Config:
    n_head, n_embd = fields.size("n_head"), fields.size("n_embd")
    vocab_size = fields.size("vocab_size")
    if n_head and n_embd % n_head:
        fields.faults.append(f"n_embd {n_embd} is not a multiple of n_head {n_head}")
    sources = {"generation_config.json": generation, "config.json": fields.raw}
    bos_ids, bos_origin = fields.token_ids("bos_token_id", vocab_size, sources)
    eos_ids, eos_origin = fields.token_ids("eos_token_id", vocab_size, sources)
    # reorder_and_upcast_attn scales q before the product and upcasts the softmax: in float32 the
    # same function, so it is only checked to be a flag.
    fields.flag("reorder_and_upcast_attn", False)
    return GPT2Config(
        n_layer=fields.size("n_layer", largest=_MOST_LAYERS),
        n_head=n_head,
        n_embd=n_embd,
        n_positions=fields.size("n_positions"),
        vocab_size=vocab_size,
        n_inner=fields.size("n_inner", default=4 * n_embd),
        activation=fields.activation(),
        layer_norm_epsilon=fields.epsilon("layer_norm_epsilon", 1e-5),
        scale_attn_weights=fields.flag("scale_attn_weights", True),
        scale_attn_by_inverse_layer_idx=fields.flag("scale_attn_by_inverse_layer_idx", False),
        tie_word_embeddings=fields.flag("tie_word_embeddings", True),
        bos_token_id=bos_ids[0] if bos_ids else None,
        eos_token_ids=eos_ids,
        bos_origin=bos_origin,
        eos_origin=eos_origin,
    )


def _refuse_unimplemented(raw: Mapping[str, Any], faults: list[str]) -> None:
    model_type = raw.get("model_type", "gpt2")
    if model_type != "gpt2":
        faults.append(f"model_type is {json.dumps(model_type)}, only gpt2 can be converted")
    for name, harmless in _REFUSED.items():
        if raw.get(name) not in (None, harmless):
            faults.append(f"config field {name} is {json.dumps(raw[name])[:80]}: not implemented")
    # A model class of the checkpoint's own is there because it computes something else, even under
    # model_type gpt2 (bigcode/santacoder: multi-query attention); transformers, not told to trust
    # it, makes wrong text without a warning. A tokenizer's class changes no logit.
    own_code = raw.get("auto_map") or {}
    if not isinstance(own_code, dict) or any(map(_MODEL_CLASS.match, own_code)):
        faults.append(
            f"config field auto_map names code of its own, {json.dumps(own_code)[:80]}: not "
            "implemented; if that computes what GPT-2 does, remove the field"
        )


def _read_files(folder: Path) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return what the configuration and generation_config.json hold; the second may be missing."""
    raw: Mapping[str, Any] = {}
    generation: Mapping[str, Any] = {}
    faults: list[str] = []
    try:
        raw = read_raw(folder)
    except CheckpointError as error:
        faults += error.faults
    try:
        if (folder / "generation_config.json").exists():
            generation = read_object(folder / "generation_config.json")
    except CheckpointError as error:
        faults += error.faults
    if faults:
        raise CheckpointError(folder, faults)
    return raw, generation


def read_raw(folder: Path) -> Mapping[str, Any]:
    """Return what `config.json` holds, or what `hparams.json` means where there is none.

    Raises:
        CheckpointError: if neither is there, or the file cannot be read.
    """
    if (folder / CONFIG_FILE).exists() or not (folder / HPARAMS_FILE).exists():
        return read_object(folder / CONFIG_FILE)
    hparams = read_object(folder / HPARAMS_FILE)
    faults = _find_hparams_faults(hparams)
    if faults:
        raise CheckpointError(folder, faults)
    return {**_OPENAI, **{name: hparams[field] for field, name in _HPARAMS.items()}}


def _find_hparams_faults(hparams: Mapping[str, Any]) -> list[str]:
    """Return why these are not what OpenAI's GPT-2 has; the values are checked later."""
    faults = [f"{HPARAMS_FILE} has no {name}" for name in _HPARAMS if name not in hparams]
    for name, value in hparams.items():
        if name not in _HPARAMS and _TRAINING not in name:
            faults.append(
                f"{HPARAMS_FILE} has {name} = {json.dumps(value)[:80]}, which OpenAI's GPT-2 has "
                "not: not implemented; if it changes nothing that is computed, remove it"
            )
    return faults
