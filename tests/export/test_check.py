"""The check itself: it passes a right graph and catches each kind of wrong one."""

import dataclasses
import pathlib
import shutil
from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from export.check import check_full, check_short
from export.checkpoint import open_checkpoint
from export.config import GPT2Config, read_config
from export.errors import CheckError
from export.graph_runner import GraphRunner, open_session
from export.manifest import CPU_MODEL_FILE, MODEL_FILE, find_graphs
from export.weights import expected_weights
from tests.array_weights import ArrayWeights
from tests.checkpoints import CheckpointShape, FloatArray, make_tensors
from tests.model_folders import ModelFolders

Check = Callable[[Sequence[pathlib.Path], GPT2Config, ArrayWeights], None]

_SHAPE = CheckpointShape(n_layer=2, n_head=2, n_embd=16, n_positions=9, vocab_size=11, seed=1)

both_checks = pytest.mark.parametrize("check", [check_short, check_full])


@pytest.fixture(scope="module")
def folder(model_folders: ModelFolders) -> pathlib.Path:
    """Return a right model folder of two layers, two heads and nine positions."""
    return model_folders(_SHAPE, tokenizer="bytes")


@pytest.fixture(scope="module")
def config(folder: pathlib.Path) -> GPT2Config:
    """Return its configuration."""
    return read_config(folder)


@pytest.fixture
def arrays(model_folders: ModelFolders) -> dict[str, FloatArray]:
    """Return its weights: the checkpoint's, in arrays of the test's own."""
    return read_checkpoint(model_folders.checkpoint(_SHAPE, tokenizer="bytes"))[1]


def read_checkpoint(folder: pathlib.Path) -> tuple[GPT2Config, dict[str, FloatArray]]:
    config = read_config(folder)
    with open_checkpoint(folder) as checkpoint:
        return config, {name: checkpoint.read(name) for name in expected_weights(config)}


@both_checks
def test_a_right_graph_passes(
    folder: pathlib.Path, config: GPT2Config, arrays: dict[str, FloatArray], check: Check
) -> None:
    """No difference is found where there is none."""
    check(find_graphs(folder), config, ArrayWeights(arrays))


@both_checks
@pytest.mark.parametrize("n_positions", [1, 2, 3, 8])
def test_a_model_of_few_positions_can_be_checked(
    model_folders: ModelFolders, n_positions: int, check: Check
) -> None:
    """One position leaves nothing to decode; neither check asks for more than there are."""
    shape = CheckpointShape(1, 1, 4, n_positions, 3)
    checkpoint = model_folders.checkpoint(shape, tokenizer="bytes")
    config, arrays = read_checkpoint(checkpoint)
    graph = model_folders(shape, tokenizer="bytes") / "model.onnx"
    check([graph], config, ArrayWeights(arrays))


@both_checks
@pytest.mark.parametrize(
    "name", [name.removeprefix("transformer.") for name in make_tensors(_SHAPE)]
)
def test_one_wrong_value_of_any_weight_is_caught(
    folder: pathlib.Path,
    config: GPT2Config,
    arrays: dict[str, FloatArray],
    name: str,
    check: Check,
) -> None:
    """One element of one weight differs by 1 between graph and checkpoint.

    It is the last one, in c_attn one of the values: a bias of the keys alone changes no logit.
    """
    place = (2, 5) if name == "wpe.weight" else (-1,) * arrays[name].ndim
    arrays[name][place] += 1
    with pytest.raises(CheckError, match="the exported graph is wrong at "):
        check(find_graphs(folder), config, ArrayWeights(arrays))


def test_the_full_check_reaches_the_last_position(model_folders: ModelFolders) -> None:
    """A wrong embedding of position 39 of 40 is beyond the short check, not beyond the full one."""
    shape = dataclasses.replace(_SHAPE, n_positions=40)
    graph = model_folders(shape, tokenizer="bytes") / "model.onnx"
    config, arrays = read_checkpoint(model_folders.checkpoint(shape, tokenizer="bytes"))
    arrays["wpe.weight"][39, 5] += 1
    check_short([graph], config, ArrayWeights(arrays))
    with pytest.raises(CheckError, match="position 39"):
        check_full([graph], config, ArrayWeights(arrays))


# Wrong graphs, made by editing a right one.

Edit = Callable[[onnx.ModelProto], None]


def find_node(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    node: onnx.NodeProto
    [node] = [node for node in model.graph.node if node.name == name]
    return node


def swap_keys_and_values(model: onnx.ModelProto) -> None:
    split = find_node(model, "h.1.attn.q")
    split.output[:] = [split.output[0], split.output[2], split.output[1]]


def swap_queries_and_keys(model: onnx.ModelProto) -> None:
    split = find_node(model, "h.1.attn.q")
    split.output[:] = [split.output[1], split.output[0], split.output[2]]


def count_positions_from_the_start_of_each_run(model: onnx.ModelProto) -> None:
    """Embed the place in S, which is right in the first prefill and wrong ever after."""
    find_node(model, "wpe").input[1] = "logit_positions"


def write_over_the_first_places(model: onnx.ModelProto) -> None:
    """Put new keys and values at place 0 on, which is right in the first prefill only."""
    find_node(model, "write_indices").input[0] = "logit_positions"


def hide_the_token_itself(model: onnx.ModelProto) -> None:
    find_node(model, "visible").op_type = "Less"


def show_the_future_alone(model: onnx.ModelProto) -> None:
    find_node(model, "visible").op_type = "GreaterOrEqual"


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


def scale_attention_by_head_dim(model: onnx.ModelProto) -> None:
    [scale] = [a for a in find_node(model, "h.0.attn.mixed").attribute if a.name == "scale"]
    scale.f = 1 / 8


def leave_out_the_second_residual(model: onnx.ModelProto) -> None:
    add = find_node(model, "h.1")
    add.input[0] = add.input[1]


_EDITS = (
    swap_keys_and_values,
    swap_queries_and_keys,
    count_positions_from_the_start_of_each_run,
    write_over_the_first_places,
    hide_the_token_itself,
    show_the_future_alone,
    show_the_whole_prompt,
    scale_attention_by_head_dim,
    leave_out_the_second_residual,
)


@both_checks
@pytest.mark.parametrize("edit", _EDITS, ids=lambda edit: edit.__name__)
def test_a_wrong_graph_is_caught(
    folder: pathlib.Path,
    config: GPT2Config,
    arrays: dict[str, FloatArray],
    tmp_path: pathlib.Path,
    edit: Edit,
    check: Check,
) -> None:
    """Each edit is a mistake that a writer of GPT-2 graphs can make."""
    graph = write_edited(folder, tmp_path / "model", edit)
    with pytest.raises(CheckError, match="the exported graph is wrong at "):
        check([graph], config, ArrayWeights(arrays))


def write_edited(
    folder: pathlib.Path, copy: pathlib.Path, edit: Edit, name: str = MODEL_FILE
) -> pathlib.Path:
    """Copy a model folder with one graph edited, and return the graph's path."""
    shutil.copytree(folder, copy)
    model = onnx.load(folder / name, load_external_data=False)
    edit(model)
    onnx.save_model(model, copy / name)
    return copy / name


def write_one_place_too_early(model: onnx.ModelProto) -> None:
    """Take the first position of a run as its last: right in decoding, wrong in prefill."""
    find_node(model, "last_position").input[1] = "the.first"
    model.graph.initializer.append(helper.make_tensor("the.first", onnx.TensorProto.INT64, [], [0]))


@both_checks
@pytest.mark.parametrize(
    "edit",
    [
        count_positions_from_the_start_of_each_run,
        write_one_place_too_early,
        scale_attention_by_head_dim,
        leave_out_the_second_residual,
    ],
    ids=lambda edit: edit.__name__,
)
def test_a_wrong_graph_for_the_cpu_is_caught_beside_a_right_one(
    folder: pathlib.Path,
    config: GPT2Config,
    arrays: dict[str, FloatArray],
    tmp_path: pathlib.Path,
    edit: Edit,
    check: Check,
) -> None:
    """Both graphs of a folder are checked."""
    write_edited(folder, tmp_path / "model", edit, CPU_MODEL_FILE)
    graphs = find_graphs(tmp_path / "model")
    assert [graph.name for graph in graphs] == [MODEL_FILE, CPU_MODEL_FILE]
    with pytest.raises(CheckError, match="the exported graph is wrong at "):
        check(graphs, config, ArrayWeights(arrays))


# What is not a number, and what does not run.


def make_every_logit_nan(model: onnx.ModelProto) -> None:
    [bias] = [tensor for tensor in model.graph.initializer if tensor.name == "ln_f.bias"]
    nan = np.full(bias.dims, np.nan, np.float32)
    bias.CopyFrom(numpy_helper.from_array(nan, bias.name))


@both_checks
def test_nan_out_of_the_graph_is_caught(
    folder: pathlib.Path,
    config: GPT2Config,
    arrays: dict[str, FloatArray],
    tmp_path: pathlib.Path,
    check: Check,
) -> None:
    """NaN compares as neither small nor large; it is wrong all the same."""
    graph = write_edited(folder, tmp_path / "model", make_every_logit_nan)
    with pytest.raises(CheckError, match="differ from the reference by nan"):
        check([graph], config, ArrayWeights(arrays))


@both_checks
def test_a_checkpoint_whose_own_logits_are_not_finite_is_told_as_such(
    folder: pathlib.Path, config: GPT2Config, arrays: dict[str, FloatArray], check: Check
) -> None:
    """Weights near the largest float32 overflow; no warning is printed, the graph is not blamed."""
    arrays["ln_f.weight"][:] = 3e38
    arrays["wte.weight"][:] = 3e38
    with pytest.raises(CheckError, match="the checkpoint's own logits are not finite"):
        check(find_graphs(folder), config, ArrayWeights(arrays))


@both_checks
@pytest.mark.parametrize("damage", ["graph", "data", "no-data"])
def test_a_model_that_onnxruntime_cannot_load_is_one_line(
    folder: pathlib.Path,
    config: GPT2Config,
    arrays: dict[str, FloatArray],
    tmp_path: pathlib.Path,
    damage: str,
    check: Check,
) -> None:
    """Onnxruntime's own exceptions become a CheckError."""
    copy = shutil.copytree(folder, tmp_path / "model")
    if damage == "graph":
        (copy / "model.onnx").write_bytes(b"nonsense")
    elif damage == "data":
        (copy / "model.onnx.data").write_bytes(b"")
    else:
        (copy / "model.onnx.data").unlink()
    with pytest.raises(CheckError, match="ONNX Runtime cannot run the exported graph: ") as caught:
        check([copy / "model.onnx"], config, ArrayWeights(arrays))
    assert "\n" not in str(caught.value)


def test_a_run_that_fails_is_a_check_error_and_no_log(
    folder: pathlib.Path, config: GPT2Config, capfd: pytest.CaptureFixture[str]
) -> None:
    """An id beyond the vocabulary fails inside onnxruntime, which then writes nothing itself."""
    session = open_session(folder / "model.onnx")
    runner = GraphRunner(session, config, rows=1, capacity=8)
    with pytest.raises(CheckError, match="ONNX Runtime cannot run the exported graph"):
        runner.run([[config.vocab_size]], [0])
    assert capfd.readouterr() == ("", "")


def test_the_full_check_reports_its_stages(
    folder: pathlib.Path, config: GPT2Config, arrays: dict[str, FloatArray]
) -> None:
    """Ragged rows, then all positions, then each way to cut the prefill."""
    stages: list[str] = []
    check_full(find_graphs(folder), config, ArrayWeights(arrays), report=stages.append)
    assert stages[:2] == ["checking ragged rows", "checking all 9 positions"]
    assert "checking a prefill in one piece" in stages
    assert "checking a prefill cut at [8]" in stages


def test_a_provider_that_leaves_the_graph_to_the_cpu_is_an_error(
    folder: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A provider whose libraries are missing passes no check."""
    provider = "TensorrtExecutionProvider"  # its libraries come with no package of ours
    if provider not in onnxruntime.get_available_providers():
        pytest.skip(f"this onnxruntime has no {provider}")
    with pytest.raises(CheckError, match=f"cannot run the exported graph by {provider}"):
        open_session(folder / "model.onnx", provider)
    capfd.readouterr()
