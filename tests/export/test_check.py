"""The check itself: it passes a right graph and catches each kind of wrong one."""

import dataclasses
import pathlib
import shutil
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from export.check import check
from export.checkpoint import open_checkpoint
from export.config import read_config
from export.errors import CheckError
from export.folder_weights import FolderWeights
from export.graph_runner import GraphRunner, open_session
from export.manifest import CPU_MODEL_FILE, MODEL_FILE, MODEL_FILES, find_graphs
from export.storage import Precision
from export.weights import expected_weights
from tests.array_weights import ArrayWeights
from tests.checkpoints import CheckpointShape, make_tensors
from tests.model_folders import ModelFolders

Edit = Callable[[onnx.ModelProto], None]

_SHAPE: Final = CheckpointShape(
    n_layer=2, n_head=2, n_embd=16, n_positions=9, vocab_size=11, seed=1
)
_WRONG: Final = "the exported graph is wrong at "

both_checks = pytest.mark.parametrize("full", [False, True], ids=["short", "full"])


class Converted:
    """A right model folder, and the checkpoint's weights in arrays of the test's own."""

    def __init__(self, folders: ModelFolders, shape: CheckpointShape) -> None:
        self.folder = folders(shape, tokenizer="bytes")
        self.config = read_config(self.folder)
        with open_checkpoint(folders.checkpoint(shape, tokenizer="bytes")) as checkpoint:
            names = expected_weights(self.config)
            self.arrays = {name: checkpoint.read(name) for name in names}

    def check(self, folder: pathlib.Path | None = None, *, full: bool = False) -> None:
        """Check all graphs of this folder, or of a copy of it."""
        weights = ArrayWeights(self.arrays)
        check(find_graphs(folder or self.folder), self.config, weights, full=full)

    def write_edited(self, copy: pathlib.Path, edit: Edit, name: str = MODEL_FILE) -> pathlib.Path:
        """Copy the folder with one graph edited."""
        shutil.copytree(self.folder, copy)
        model = onnx.load(self.folder / name, load_external_data=False)
        edit(model)
        onnx.save_model(model, copy / name)
        return copy


@pytest.fixture
def right(model_folders: ModelFolders) -> Converted:
    """Return a model of two layers, two heads and nine positions."""
    return Converted(model_folders, _SHAPE)


@both_checks
@pytest.mark.parametrize("n_positions", [1, 2, 3, 8, 9])
def test_a_right_graph_passes(model_folders: ModelFolders, n_positions: int, full: bool) -> None:
    """One position leaves nothing to decode; neither check asks for more than there are."""
    Converted(model_folders, dataclasses.replace(_SHAPE, n_positions=n_positions)).check(full=full)


@pytest.mark.parametrize(
    "name",
    [name.removeprefix("transformer.") for name in make_tensors(_SHAPE) if ".h.0." not in name],
)
def test_one_wrong_value_of_any_weight_is_caught(right: Converted, name: str) -> None:
    """One element of one weight differs by 1 between graph and checkpoint.

    It is the last one, in c_attn one of the values: a bias of the keys alone changes no logit.
    """
    right.arrays[name][(2, 5) if name == "wpe.weight" else (-1,) * right.arrays[name].ndim] += 1
    with pytest.raises(CheckError, match=_WRONG):
        right.check()


def test_the_full_check_reaches_the_last_position(model_folders: ModelFolders) -> None:
    """A wrong embedding of position 39 of 40 is beyond the short check, not beyond the full one."""
    right = Converted(model_folders, dataclasses.replace(_SHAPE, n_positions=40))
    right.arrays["wpe.weight"][39, 5] += 1
    right.check()
    with pytest.raises(CheckError, match="position 39"):
        right.check(full=True)


# Wrong graphs, made by editing a right one.


def find_node(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    node: onnx.NodeProto
    [node] = [node for node in model.graph.node if node.name == name]
    return node


def show_the_whole_prompt(model: onnx.ModelProto) -> None:
    """Let each token see up to the run's last position: right in decoding, wrong in prefill."""
    visible = find_node(model, "visible")
    axis = helper.make_tensor("last.axis", onnx.TensorProto.INT64, [1], [2])
    model.graph.initializer.append(axis)
    last = helper.make_node("ReduceMax", ["positions", "last.axis"], ["last"], name="last")
    spread = helper.make_node("Max", ["positions", "last"], ["last.spread"], name="last.spread")
    visible.input[1] = "last.spread"
    nodes = list(model.graph.node)
    place = nodes.index(visible)
    nodes[place:place] = [last, spread]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _reorder(*order: int) -> Edit:
    """Take queries, keys and values for one another."""

    def edit(model: onnx.ModelProto) -> None:
        split = find_node(model, "h.1.attn.q")
        split.output[:] = [split.output[place] for place in order]

    return edit


def _connect(node: str, place: int, name: str) -> Edit:
    """Give a node another input."""
    return lambda model: find_node(model, node).input.__setitem__(place, name)


def _compare(operator: str) -> Edit:
    """Let a token see other places than those up to its own."""
    return lambda model: setattr(find_node(model, "visible"), "op_type", operator)


def scale_attention_by_head_dim(model: onnx.ModelProto) -> None:
    [scale] = [a for a in find_node(model, "h.0.attn.mixed").attribute if a.name == "scale"]
    scale.f = 1 / 8


def leave_out_the_second_residual(model: onnx.ModelProto) -> None:
    add = find_node(model, "h.1")
    add.input[0] = add.input[1]


def write_too_early(model: onnx.ModelProto) -> None:
    """Take the first position of a run as its last: right in decoding, wrong in prefill."""
    find_node(model, "last_position").input[1] = "the.first"
    model.graph.initializer.append(helper.make_tensor("the.first", onnx.TensorProto.INT64, [], [0]))


# Right in the first prefill and wrong ever after.
_COUNT_FROM_EACH_RUN: Final = _connect("wpe", 1, "logit_positions")
_EDITS: Final[Mapping[str, Edit]] = {
    "keys for values": _reorder(0, 2, 1),
    "queries for keys": _reorder(1, 0, 2),
    "positions from the start of each run": _COUNT_FROM_EACH_RUN,
    "written over the first places": _connect("write_indices", 0, "logit_positions"),
    "not the token itself": _compare("Less"),
    "the future alone": _compare("GreaterOrEqual"),
    "the whole prompt": show_the_whole_prompt,
    "scaled by head_dim": scale_attention_by_head_dim,
    "no second residual": leave_out_the_second_residual,
}


@both_checks
@pytest.mark.parametrize("edit", _EDITS.values(), ids=_EDITS)
def test_a_wrong_graph_is_caught(
    right: Converted, tmp_path: pathlib.Path, edit: Edit, full: bool
) -> None:
    """Each edit is a mistake that a writer of GPT-2 graphs can make."""
    with pytest.raises(CheckError, match=_WRONG):
        right.check(right.write_edited(tmp_path / "model", edit), full=full)


@pytest.mark.parametrize(
    "edit", [_COUNT_FROM_EACH_RUN, write_too_early, leave_out_the_second_residual]
)
def test_a_wrong_graph_for_the_cpu_is_caught_beside_a_right_one(
    right: Converted, tmp_path: pathlib.Path, edit: Edit
) -> None:
    """Both graphs of a folder are checked."""
    with pytest.raises(CheckError, match=_WRONG):
        right.check(right.write_edited(tmp_path / "model", edit, CPU_MODEL_FILE))


@pytest.mark.parametrize("precision", [Precision.FP16, Precision.INT8, Precision.INT4])
@pytest.mark.parametrize("edit", [_reorder(0, 2, 1), leave_out_the_second_residual])
def test_a_wrong_graph_of_lower_precision_is_caught(
    model_folders: ModelFolders, tmp_path: pathlib.Path, precision: Precision, edit: Edit
) -> None:
    """What its arithmetic may round does not hide a mistake."""
    folder = shutil.copytree(model_folders(precision=precision), tmp_path / "model")
    model = onnx.load(folder / MODEL_FILE, load_external_data=False)
    edit(model)
    onnx.save_model(model, folder / MODEL_FILE)
    weights = FolderWeights(folder / MODEL_FILE)
    with pytest.raises(CheckError, match=_WRONG):
        check([folder / MODEL_FILE], read_config(folder), weights, precision=precision)


# What is not a number, and what does not run.


def make_every_logit_nan(model: onnx.ModelProto) -> None:
    [bias] = [tensor for tensor in model.graph.initializer if tensor.name == "ln_f.bias"]
    nan = np.full(bias.dims, np.nan, np.float32)
    bias.CopyFrom(numpy_helper.from_array(nan, bias.name))


def test_nan_out_of_the_graph_is_caught(right: Converted, tmp_path: pathlib.Path) -> None:
    """NaN compares as neither small nor large; it is wrong all the same."""
    with pytest.raises(CheckError, match="differ from the reference by nan"):
        right.check(right.write_edited(tmp_path / "model", make_every_logit_nan))


@both_checks
def test_a_checkpoint_whose_own_logits_are_not_finite_is_told_as_such(
    right: Converted, full: bool
) -> None:
    """Weights near the largest float32 overflow; no warning is printed, the graph is not blamed."""
    right.arrays["ln_f.weight"][:] = 3e38
    right.arrays["wte.weight"][:] = 3e38
    with pytest.raises(CheckError, match="the checkpoint's own logits are not finite"):
        right.check(full=full)


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx.data"])
def test_a_model_that_onnxruntime_cannot_load_is_one_line(
    right: Converted, tmp_path: pathlib.Path, name: str
) -> None:
    """Onnxruntime's own exceptions become a CheckError."""
    copy = shutil.copytree(right.folder, tmp_path / "model")
    (copy / name).write_bytes(b"nonsense")
    with pytest.raises(CheckError, match="ONNX Runtime cannot run the exported graph: ") as caught:
        right.check(copy)
    assert "\n" not in str(caught.value)


def test_a_run_that_fails_is_a_check_error_and_no_log(
    right: Converted, capfd: pytest.CaptureFixture[str]
) -> None:
    """An id beyond the vocabulary fails inside onnxruntime, which then writes nothing itself."""
    runner = GraphRunner(open_session(right.folder / MODEL_FILE), right.config, rows=1, capacity=8)
    with pytest.raises(CheckError, match="ONNX Runtime cannot run the exported graph"):
        runner.run([[right.config.vocab_size]], [0])
    assert capfd.readouterr() == ("", "")


def test_the_full_check_reports_its_stages(right: Converted) -> None:
    """It takes minutes with a large model; of each graph."""
    stages: list[str] = []
    graphs, weights = find_graphs(right.folder), ArrayWeights(right.arrays)
    check(graphs, right.config, weights, full=True, report=stages.append)
    assert stages == [
        f"checking all positions by {name}, in one piece and cut" for name in MODEL_FILES
    ]


def test_a_provider_that_leaves_the_graph_to_the_cpu_is_an_error(
    right: Converted, capfd: pytest.CaptureFixture[str]
) -> None:
    """A provider whose libraries are missing passes no check."""
    provider = "TensorrtExecutionProvider"  # its libraries come with no package of ours
    if provider not in onnxruntime.get_available_providers():
        pytest.skip(f"this onnxruntime has no {provider}")
    with pytest.raises(CheckError, match=f"cannot run the exported graph by {provider}"):
        open_session(right.folder / MODEL_FILE, provider)
    capfd.readouterr()
