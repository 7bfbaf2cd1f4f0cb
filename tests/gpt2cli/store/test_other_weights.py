"""Claims about repositories that have weights of other programs alone."""

import pathlib

import pytest

from export.checkpoint import open_checkpoint
from export.errors import CheckpointError
from gpt2cli.errors import HubError
from gpt2cli.store.hub import Hub
from gpt2cli.store.store import Store
from tests.gpt2cli.store.conftest import Told
from tests.hub_server import serve_hub

_REPO = "someone/story"
_LOAD = "GPT2LMHeadModel.from_pretrained"


@pytest.mark.parametrize(
    ("names", "found", "advice"),
    [
        (
            ["config.json", "onnx/decoder_model.onnx", "onnx/model_quantized.onnx"],
            "onnx/decoder_model.onnx (a graph of another exporter)",
            "name the model that it was made from",
        ),
        (
            ["config.json", "tf_model.h5"],
            "tf_model.h5 (weights of Keras)",
            f'transformers 4.46 converts it: {_LOAD}("{_REPO}", from_tf=True)',
        ),
        (
            ["config.json", "flax_model.msgpack"],
            "flax_model.msgpack (weights of Flax)",
            f'transformers 4.46 converts it: {_LOAD}("{_REPO}", from_flax=True)',
        ),
        (
            ["README.md", "story.Q4_K_M.gguf", "story.Q8_0.gguf"],
            "story.Q4_K_M.gguf (for llama.cpp)",
            "run it there, or name the model that it was made from",
        ),
        (
            ["checkpoint", "hparams.json", "model-500.index", "model-500.data-00000-of-00001"],
            "model-500.index (a TensorFlow checkpoint)",
            f"download it by `hf download {_REPO} --local-dir FOLDER`, and name FOLDER",
        ),
        (
            ["config.json", "rust_model.ot"],
            "rust_model.ot (weights of rust-bert)",
            "name the model that it was made from",
        ),
    ],
)  # fmt: skip
def test_a_repository_of_other_weights_says_what_it_has_and_what_can_be_done(
    home: pathlib.Path, told: Told, names: list[str], found: str, advice: str
) -> None:
    """On the hub, where nothing is downloaded; and in a folder, but for what is read there."""
    repository = home / "repository"
    for name in names:
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).touch()
    with serve_hub({_REPO: repository}) as server, pytest.raises(HubError) as caught:
        Store(listener=told, hub=Hub(server.address, home / "hub")).pull(_REPO)
    missing = "model.safetensors" if "config.json" in names else "config.json"
    assert str(caught.value).startswith(f"{_REPO} has no {missing}, only {found}; {advice}")
    assert not list(home.glob("hub/models--*/snapshots/*/*"))
    if "checkpoint" not in names:
        with pytest.raises(CheckpointError) as in_folder, open_checkpoint(repository):
            pass
        [fault] = in_folder.value.faults
        assert f"there is {found}: {advice.replace(_REPO, str(repository))}" in fault
