"""GPT-2 in plain NumPy without a cache: the independent oracle of the check and of the tests.

Written from the equations of openai/gpt-2 `src/model.py` @ 9b63575 and Hugging Face
`modeling_gpt2.py` @ 71c6f69; shares no code with the graph.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from export.config import GPT2Config
from export.weights import Weights

Array = NDArray[Any]


def gelu_tanh(x: Array) -> Array:
    """GELU by its tanh approximation (Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2)."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x: Array) -> Array:
    """GELU by the error function (same paper)."""
    erf = np.vectorize(math.erf, otypes=[x.dtype])
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(0.5 * x))


_ACTIVATIONS: Final[Mapping[str, Callable[[Array], Array]]] = {
    "gelu_tanh": gelu_tanh,
    "gelu_erf": gelu_erf,
    "gelu_sigmoid": lambda x: x * _sigmoid(1.702 * x),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * _sigmoid(x),
    "tanh": np.tanh,
}


def softmax(x: Array) -> Array:
    """Softmax over the last axis."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x: Array, gain: Array, bias: Array, epsilon: float) -> Array:
    """Normalise the last axis by its mean and biased variance."""
    deviation = x - x.mean(axis=-1, keepdims=True)
    normal = deviation / np.sqrt(x.var(axis=-1, keepdims=True) + epsilon)
    return normal * gain + bias


def attention(q: Array, k: Array, v: Array, scale: float) -> Array:
    """Causal softmax attention of each head: [H, S, D] × 3 -> [H, S, D]."""
    scores = q @ k.transpose(0, 2, 1) * scale  # [H, S, S]
    future = np.triu(np.ones(scores.shape[-2:], bool), k=1)  # [S, S]
    return softmax(np.where(future, -np.inf, scores)) @ v


class Reference:
    """One checkpoint's forward pass; every weight is read when its turn comes.

    `rounded` is applied to what enters each matrix, [S, in]: the rounding of a lower precision.
    """

    def __init__(
        self,
        config: GPT2Config,
        weights: Weights,
        *,
        dtype: DTypeLike = np.float64,
        rounded: Callable[[Array], Array] = lambda x: x,
    ) -> None:
        self._config = config
        self._weights = weights
        self._dtype = dtype
        self._rounded = rounded

    def logits(self, ids: Sequence[int], positions: Sequence[int]) -> Array:
        """Return the logits after the tokens at `positions`: [S] ids -> [K, V]."""
        hidden = self.hidden(ids)[list(positions)]  # [K, E]
        head = "wte.weight" if self._config.tie_word_embeddings else "lm_head.weight"
        return self._rounded(hidden) @ self._read(head).T

    def hidden(self, ids: Sequence[int]) -> Array:
        """Return what the output matrix is applied to: [S] ids -> [S, E]."""
        token_rows = self._weights.read("wte.weight")[list(ids)].astype(self._dtype)  # [S, E]
        x: Array = token_rows + self._read("wpe.weight")[: len(ids)]
        for layer in range(self._config.n_layer):
            x = x + self._attend(self._layer_norm(x, f"h.{layer}.ln_1"), layer)
            x = x + self._mlp(self._layer_norm(x, f"h.{layer}.ln_2"), layer)
        return self._layer_norm(x, "ln_f")

    def _attend(self, x: Array, layer: int) -> Array:
        heads, head_dim = self._config.n_head, self._config.head_dim
        packed = self._linear(x, f"h.{layer}.attn.c_attn")  # [S, 3E]
        q, k, v = packed.reshape(len(x), 3, heads, head_dim).transpose(1, 2, 0, 3)  # [H, S, D] each
        scale = self._config.attention_scale(layer)
        # Head by head: the scores of all of them, [H, S, S], would be most of the memory.
        mixed = [attention(q[[h]], k[[h]], v[[h]], scale)[0] for h in range(heads)]  # [S, D] each
        return self._linear(np.concatenate(mixed, axis=-1), f"h.{layer}.attn.c_proj")

    def _mlp(self, x: Array, layer: int) -> Array:
        inner = _ACTIVATIONS[self._config.activation](self._linear(x, f"h.{layer}.mlp.c_fc"))
        return self._linear(inner, f"h.{layer}.mlp.c_proj")

    def _linear(self, x: Array, name: str) -> Array:
        return self._rounded(x) @ self._read(f"{name}.weight") + self._read(f"{name}.bias")

    def _layer_norm(self, x: Array, name: str) -> Array:
        epsilon = self._config.layer_norm_epsilon
        return layer_norm(x, self._read(f"{name}.weight"), self._read(f"{name}.bias"), epsilon)

    def _read(self, name: str) -> Array:
        return self._weights.read(name).astype(self._dtype, copy=False)
