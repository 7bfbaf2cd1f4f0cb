"""Owns the table of checkpoints whose logits are stored in logits.npz, and the reading of it."""

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from tests.checkpoints import CheckpointShape, FloatArray, TokenizerKind, write_checkpoint

STORED_FILE: Final = pathlib.Path(__file__).with_name("logits.npz")
GREEDY_PROMPT_LENGTH: Final = 5


@dataclass(frozen=True)
class LogitsCase:
    """One checkpoint and the seed of the ids it is fed; the ids fill all `n_positions`."""

    name: str
    shape: CheckpointShape
    config: Mapping[str, object] = field(default_factory=dict)
    tied: bool = True
    n_inner: int | None = None
    ids_seed: int = 0


@dataclass(frozen=True)
class StoredLogits:
    """What transformers answered for one case, float32, by one forward without a cache.

    S is `n_positions`, K the asked positions (always 0, 1 and S - 1), C the stored vocabulary ids.
    A gap is the best logit less the second best: near zero, another kernel may choose otherwise.
    """

    ids: npt.NDArray[np.int64]  # [S]
    positions: npt.NDArray[np.int64]  # [K]
    vocabulary_ids: npt.NDArray[np.int64]  # [C]
    logits: FloatArray  # [K, C]
    argmax: npt.NDArray[np.int64]  # [K], over the whole vocabulary
    argmax_gaps: FloatArray  # [K]
    greedy_ids: npt.NDArray[np.int64]  # [S - 5], after ids[:5]; end of text does not end it
    greedy_gaps: FloatArray  # [S - 5]


_SMALL_SHAPE: Final = CheckpointShape(
    n_layer=2, n_head=2, n_embd=64, n_positions=24, vocab_size=97, seed=178
)


def _plain(
    head_dim: int, n_layer: int, vocab_size: int, *, n_head: int, n_positions: int, seed: int
) -> LogitsCase:
    shape = CheckpointShape(n_layer, n_head, n_head * head_dim, n_positions, vocab_size, seed=seed)
    return LogitsCase(f"head{head_dim}-layers{n_layer}-vocab{vocab_size}", shape, ids_seed=seed)


def _activation(name: str) -> LogitsCase:
    return LogitsCase(f"activation-{name}", _SMALL_SHAPE, config={"activation_function": name})


_PLAIN_CASES: Final = (
    _plain(16, 1, 97, n_head=2, n_positions=24, seed=1),
    _plain(16, 2, 4096, n_head=3, n_positions=32, seed=2),
    _plain(16, 4, 50257, n_head=2, n_positions=24, seed=3),
    _plain(32, 1, 4096, n_head=2, n_positions=40, seed=4),
    _plain(32, 2, 97, n_head=2, n_positions=128, seed=5),
    _plain(32, 3, 50257, n_head=1, n_positions=48, seed=6),
    _plain(64, 2, 50257, n_head=1, n_positions=32, seed=7),
    _plain(64, 3, 4096, n_head=2, n_positions=40, seed=8),
    _plain(64, 4, 97, n_head=1, n_positions=64, seed=9),
)

# Each differs from one small model in one thing.
_FIELD_CASES: Final = (
    LogitsCase("small", _SMALL_SHAPE),
    LogitsCase(
        "scale-attn-by-inverse-layer-idx",
        CheckpointShape(3, 2, 64, 24, 97, seed=101),
        config={"scale_attn_by_inverse_layer_idx": True},
    ),
    LogitsCase("no-scale-attn-weights", _SMALL_SHAPE, config={"scale_attn_weights": False}),
    LogitsCase("reorder-and-upcast-attn", _SMALL_SHAPE, config={"reorder_and_upcast_attn": True}),
    LogitsCase("layer-norm-epsilon", _SMALL_SHAPE, config={"layer_norm_epsilon": 1e-3}),
    LogitsCase("n-inner", _SMALL_SHAPE, n_inner=80),
    LogitsCase("untied", _SMALL_SHAPE, tied=False),
)

# The default, gelu_new, is that of every other case. Taking it for gelu moves these logits by
# only 1.9e-4 (float32 kernels: by 5e-6), so a test needs a tolerance between the two.
_ACTIVATION_CASES: Final = tuple(
    _activation(name)
    for name in (
        "gelu",
        "gelu_pytorch_tanh",
        "gelu_fast",
        "quick_gelu",
        "relu",
        "silu",
        "tanh",
    )
)

CASES: Final = _PLAIN_CASES + _FIELD_CASES + _ACTIVATION_CASES

# Heads of 16, 32 and 64, three of them, and an lm_head of its own: for what runs the graphs, whose
# numbers tests/export/test_graph.py holds for all cases.
FEW_CASES: Final = tuple(
    case
    for case in CASES
    if case.name in ("head16-layers2-vocab4096", "head64-layers3-vocab4096", "small", "untied")
)


def write_case(
    folder: pathlib.Path, case: LogitsCase, *, tokenizer: TokenizerKind | None = "bytes"
) -> pathlib.Path:
    """Write the checkpoint of `case` into `folder`, in float32, and return it."""
    return write_checkpoint(
        folder,
        case.shape,
        config=case.config,
        tied=case.tied,
        n_inner=case.n_inner,
        tokenizer=tokenizer,
    )


def load_stored(case: LogitsCase) -> StoredLogits:
    """Read what logits.npz holds for `case`.

    Raises:
        KeyError: logits.npz is older than the case.
    """
    with np.load(STORED_FILE) as stored:
        names = StoredLogits.__dataclass_fields__
        return StoredLogits(**{name: stored[f"{case.name}/{name}"] for name in names})
