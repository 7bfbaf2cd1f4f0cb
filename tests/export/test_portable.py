"""The graph that other programs load: against the oracle, by plain onnxruntime."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from export.attention import AttentionForm
from export.check_portable import check_portable
from export.checkpoint import open_checkpoint
from export.config import read_config
from export.convert import convert
from export.errors import CheckError
from export.graph import build_graph
from export.reference import Reference
from export.storage import STORAGES, Precision
from tests.checkpoints import CheckpointShape
from tests.export.graph_session import TOLERANCE, difference
from tests.model_folders import ODD_N_INNER, ODD_SHAPE, ModelFolders

Array = npt.NDArray[Any]

_SHAPE: Final = CheckpointShape(
    n_layer=2, n_head=2, n_embd=16, n_positions=12, vocab_size=289, seed=1
)
_TEXTS: Final = ([5, 250, 17, 4, 99, 31, 2], [80, 9, 9, 200])
_STEMS: Final = {
    "fp32": "model",
    "fp16": "model_fp16",
    "int8": "model_quantized",
    "int4": "model_q4",
}


class Portable:
    """A loaded portable graph, and the oracle of its checkpoint."""

    def __init__(
        self, folders: ModelFolders, precision: Precision = Precision.FP32, **options: Any
    ) -> None:
        self.source = folders.checkpoint(_SHAPE, **options)
        self.folder = folders.convert(self.source, precision, portable=True)
        self.config = read_config(self.source)
        graph = self.folder / "onnx" / f"{_STEMS[precision]}.onnx"
        on_one_thread = onnxruntime.SessionOptions()
        on_one_thread.intra_op_num_threads = 1
        providers = ["CPUExecutionProvider"]
        self.session = onnxruntime.InferenceSession(graph, on_one_thread, providers=providers)
        half = precision is Precision.FP16
        self._dtype = np.float16 if half else np.float32

    def make_past(self, *, rows: int, length: int = 0, value: float = 0) -> Mapping[str, Array]:
        """Return keys and values of `length` places, all of one number."""
        shape = (rows, self.config.n_head, length, self.config.head_dim)
        names = [i.name for i in self.session.get_inputs() if i.name.startswith("past")]
        return {name: np.full(shape, value, self._dtype) for name in names}

    def run(
        self,
        ids: Sequence[Sequence[int]],
        mask: Sequence[Sequence[int]],
        positions: Sequence[Sequence[int]],
        past: Mapping[str, Array],
    ) -> tuple[Array, Mapping[str, Array]]:
        """Return logits [B, S, V] and what is the past of the next call."""
        feeds = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        arrays = {name: np.array(value, np.int64) for name, value in feeds.items()}
        names = [output.name for output in self.session.get_outputs()]
        logits, *present = self.session.run(names, arrays | dict(past))
        renamed = [name.replace("present", "past_key_values") for name in names[1:]]
        return logits, dict(zip(renamed, present, strict=True))

    def run_row(self, text: Sequence[int]) -> Array:
        """Return the logits of a text alone, without a past: [S, V]."""
        past = self.make_past(rows=1)
        return self.run([text], [[1] * len(text)], [range(len(text))], past)[0][0]

    def expect(self, text: Sequence[int]) -> Array:
        """Return the oracle's logits at every position, float64 [S, V]."""
        with open_checkpoint(self.source) as weights:
            return Reference(self.config, weights).logits(text, range(len(text)))


@pytest.fixture(scope="module")
def portable(model_folders: ModelFolders) -> Portable:
    return Portable(model_folders)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tied": False},
        {"config": {"activation_function": "gelu"}},
        {"config": {"scale_attn_by_inverse_layer_idx": True}},
    ],
    ids=["tied", "untied", "erf", "scaled-by-layer"],
)
def test_a_text_without_a_past_gets_the_oracles_logits(
    model_folders: ModelFolders, options: dict[str, Any]
) -> None:
    """At every position; the past has the length zero."""
    portable = Portable(model_folders, **options)
    assert difference(portable.run_row(_TEXTS[0]), portable.expect(_TEXTS[0])) <= TOLERANCE


@pytest.mark.parametrize("cut", [1, 3, 6])
def test_a_text_in_two_pieces_gets_the_oracles_logits(portable: Portable, cut: int) -> None:
    """The second has a past, which the first one gave."""
    text, length = _TEXTS[0], len(_TEXTS[0])
    first, past = portable.run([text[:cut]], [[1] * cut], [range(cut)], portable.make_past(rows=1))
    rest, _ = portable.run([text[cut:]], [[1] * length], [range(cut, length)], past)
    found = np.concatenate([first[0], rest[0]])
    assert difference(found, portable.expect(text)) <= TOLERANCE


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("precision", Precision)
def test_padding_changes_no_logit(
    model_folders: ModelFolders, precision: Precision, side: str
) -> None:
    """Two rows, one of them padded by three, then a token each; int8 rounds by row, so alike."""
    portable = Portable(model_folders, precision)
    long, short = _TEXTS
    gap = [0] * (len(long) - 1 - len(short[:-1]))
    real, places = [1] * len(short[:-1]), [*range(len(short) - 1)]
    if side == "left":
        ids, mask, positions = [*gap, *short[:-1]], [*gap, *real], [*gap, *places]
    else:
        ids, mask, positions = [*short[:-1], *gap], [*real, *gap], [*places, *gap]
    masks = [[1] * (len(long) - 1), mask]
    read, past = portable.run(
        [long[:-1], ids], masks, [range(len(long) - 1), positions], portable.make_past(rows=2)
    )
    last, _ = portable.run(
        [long[-1:], short[-1:]],
        [[*row, 1] for row in masks],
        [[len(long) - 1], [len(short) - 1]],
        past,
    )
    kept = slice(len(gap), None) if side == "left" else slice(len(real))
    found = [np.concatenate([read[0], last[0]]), np.concatenate([read[1][kept], last[1]])]
    for text, logits in zip(_TEXTS, found, strict=True):
        alone = portable.run_row(text)
        rounding = 0.02 if precision is Precision.FP16 else 0.0
        assert difference(logits, alone) <= TOLERANCE + rounding


def test_what_stands_in_padding_is_never_seen(portable: Portable) -> None:
    """Neither other ids there, nor loud keys and values of an earlier call."""
    text = _TEXTS[1]
    quiet, _ = portable.run(
        [[0, *text]], [[0, 0, 1, 1, 1, 1]], [[0, 0, 1, 2, 3]], portable.make_past(rows=1, length=1)
    )
    loud, _ = portable.run(
        [[288, *text]],
        [[0, 0, 1, 1, 1, 1]],
        [[7, 0, 1, 2, 3]],
        portable.make_past(rows=1, length=1, value=1e4),
    )
    assert difference(quiet[0, 1:], loud[0, 1:]) == 0
    assert difference(loud[0, 1:], portable.expect(text)) <= TOLERANCE


def test_a_row_of_padding_alone_stays_finite(portable: Portable) -> None:
    """Else its keys and values would spoil all that comes after them."""
    first, past = portable.run([[0, 0]], [[0, 0]], [[0, 0]], portable.make_past(rows=1))
    assert np.isfinite(first).all()
    text = _TEXTS[1]
    found, _ = portable.run([text], [[0, 0, 1, 1, 1, 1]], [range(4)], past)
    assert difference(found[0], portable.expect(text)) <= TOLERANCE


@pytest.mark.parametrize("precision", Precision)
def test_sizes_that_fill_no_block_pass_the_full_check(
    model_folders: ModelFolders, precision: Precision, tmp_path: pathlib.Path
) -> None:
    """In every precision, with the weights that its folder has."""
    source = model_folders.checkpoint(ODD_SHAPE, n_inner=ODD_N_INNER)
    convert(source, tmp_path / "out", precision=precision, portable=True, full_check=True)


def test_inputs_and_outputs_have_the_names_that_other_programs_know(
    model_folders: ModelFolders,
) -> None:
    """And their axes: transformers.js takes the length of an axis of another name for 0."""
    config = read_config(model_folders.checkpoint(_SHAPE))
    graph = build_graph(config, STORAGES[Precision.FP16], AttentionForm.PORTABLE).graph
    new, total = ["batch_size", "sequence_length"], ["batch_size", "total_sequence_length"]
    whole, half = TensorProto.INT64, TensorProto.FLOAT16

    def name_cache(prefix: str, length: str) -> dict[str, tuple[int, list[Any]]]:
        names = [f"{prefix}.{layer}.{part}" for layer in (0, 1) for part in ("key", "value")]
        return dict.fromkeys(names, (half, ["batch_size", 2, length, 8]))

    assert describe(graph.input) == {
        "input_ids": (whole, new),
        "attention_mask": (whole, total),
        "position_ids": (whole, new),
        **name_cache("past_key_values", "past_sequence_length"),
    }
    assert describe(graph.output) == {
        "logits": (TensorProto.FLOAT, [*new, 289]),
        **name_cache("present", "total_sequence_length"),
    }


@pytest.mark.parametrize("precision", Precision)
def test_it_has_no_operators_that_webassembly_lacks(
    model_folders: ModelFolders, precision: Precision
) -> None:
    """Of ONNX Runtime's own it has MatMulNBits alone; GatherBlockQuantized was refused there."""
    config = read_config(model_folders.checkpoint(_SHAPE))
    model = build_graph(config, STORAGES[precision], AttentionForm.PORTABLE)
    own = {node.op_type for node in model.graph.node if node.domain}
    assert own == ({"MatMulNBits"} if precision in (Precision.INT8, Precision.INT4) else set())


def describe(values: Any) -> dict[str, tuple[int, list[Any]]]:
    """Return element type and axes of graph inputs or outputs, by name."""
    tensors = {value.name: value.type.tensor_type for value in values}
    return {
        name: (t.elem_type, [axis.dim_param or axis.dim_value for axis in t.shape.dim])
        for name, t in tensors.items()
    }


def _ignore_padding(model: onnx.ModelProto) -> None:
    """Let every earlier place be seen."""
    [node] = [n for n in model.graph.node if n.name == "visible"]
    node.input[1] = node.input[0]


def _ignore_order(model: onnx.ModelProto) -> None:
    """Let later places be seen."""
    [node] = [n for n in model.graph.node if n.name == "visible"]
    node.input[0] = node.input[1]


def _ignore_positions(model: onnx.ModelProto) -> None:
    """Look the position up by the token."""
    [node] = [n for n in model.graph.node if n.name == "wpe"]
    model.graph.initializer.append(helper.make_tensor("zero", TensorProto.INT64, [1], [0]))
    model.graph.node.insert(0, helper.make_node("Mul", ["position_ids", "zero"], ["nowhere"]))
    node.input[1] = "nowhere"


def _shift_last_position(model: onnx.ModelProto) -> None:
    """Take the last position for the first one."""
    [node] = [n for n in model.graph.node if n.name == "wpe"]
    model.graph.initializer.append(helper.make_tensor("n", TensorProto.INT64, [1], [11]))
    model.graph.node.insert(0, helper.make_node("Mod", ["position_ids", "n"], ["within"]))
    node.input[1] = "within"


@pytest.mark.parametrize(
    ("edit", "full", "told"),
    [
        (_ignore_padding, False, "padded: left"),
        (_ignore_order, False, "padded: no"),
        (_ignore_positions, False, "padded: no"),
        (_shift_last_position, True, "position 11 of 12"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_check_catches_a_wrong_graph(
    portable: Portable, edit: Any, full: bool, told: str
) -> None:
    """The last one is wrong at one place only, which the short check does not reach."""
    graph = portable.folder / "onnx" / "model.onnx"
    model = onnx.load(graph, load_external_data=False)
    edit(model)
    wrong = graph.with_name("wrong.onnx")
    onnx.save_model(model, wrong)
    try:
        with open_checkpoint(portable.source) as weights:
            if full:
                check_portable(wrong, portable.config, weights)
            with pytest.raises(CheckError, match=told):
                check_portable(wrong, portable.config, weights, full=full)
    finally:
        wrong.unlink()
