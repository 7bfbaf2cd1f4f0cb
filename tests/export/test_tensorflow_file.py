"""TensorFlow checkpoints: read as TensorFlow wrote them, computed as by OpenAI, or refused."""

import pathlib
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pytest

from export.checkpoint import Checkpoint, open_checkpoint
from export.config import read_config
from export.convert import convert
from export.errors import CheckpointError
from export.tokenizer import read_facts
from export.weights import expected_weights
from tests.checkpoints import FloatArray, make_tensors
from tests.export.graph_session import GraphSession, difference
from tests.export.tensorflow_tables import HEADER, entry, masked, whole_table
from tests.vectors.tensorflow_cases import ANSWERS_FILE, SHAPE, TEXT, copy_checkpoint

_TOLERANCE = 1e-4


def read_all(folder: pathlib.Path, step: int | None = None) -> dict[str, FloatArray]:
    config = read_config(folder)
    with open_checkpoint(folder, step) as checkpoint:
        assert checkpoint.find_faults(config) == []
        return {name: checkpoint.read(name) for name in expected_weights(config)}


def find_faults(folder: pathlib.Path) -> list[str]:
    try:
        with open_checkpoint(folder) as checkpoint:
            return checkpoint.find_faults(read_config(folder))
    except CheckpointError as error:
        assert "\n" not in str(error)
        return [*error.faults]


# What TensorFlow wrote.


@pytest.mark.parametrize(
    ("name", "dtype"), [("one", np.float32), ("shards", np.float32), ("half", np.float16)]
)
def test_every_weight_is_the_one_that_was_saved(
    tmp_path: pathlib.Path, name: str, dtype: npt.DTypeLike
) -> None:
    """In one file, in two, and in half precision: bit by bit."""
    found = read_all(copy_checkpoint(name, tmp_path / name))
    for weight, tensor in make_tensors(SHAPE).items():
        expected = tensor.astype(dtype).astype(np.float32)
        assert found[weight.removeprefix("transformer.")].tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("name", "step", "answer"),
    [
        ("one", None, "one"),
        ("shards", None, "shards"),
        ("half", None, "half"),
        ("trained", None, "trained-10"),
        ("trained", 9, "trained-9"),
    ],
)
def test_the_graph_computes_what_openais_code_does(
    tmp_path: pathlib.Path, name: str, step: int | None, answer: str
) -> None:
    """Logits of `src/model.py` @ 9b63575 under TensorFlow, by make_tensorflow.py."""
    source = copy_checkpoint(name, tmp_path / name)
    convert(source, tmp_path / "model", step=step)
    config = read_config(tmp_path / "model")
    graph = GraphSession(tmp_path / "model", config)
    with np.load(ANSWERS_FILE) as answers:
        ids, expected = answers["ids"], answers[answer]
    cache = graph.make_cache(rows=1, capacity=len(ids))
    assert difference(graph.run([ids], [0], cache)[0], expected) <= _TOLERANCE


def test_the_answers_tell_the_steps_apart() -> None:
    """Else the test above could not: they lie further from each other than its bound."""
    with np.load(ANSWERS_FILE) as answers:
        assert difference(answers["trained-9"], answers["trained-10"]) > 100 * _TOLERANCE


def test_text_becomes_the_ids_of_openais_encoder(tmp_path: pathlib.Path) -> None:
    """By encoder.json and vocab.bpe; the text ends where the vocabulary says so."""
    source = copy_checkpoint("one", tmp_path / "one")
    facts = read_facts(source, read_config(source))
    with np.load(ANSWERS_FILE) as answers:
        assert facts.tokenizer.encode(TEXT).ids == answers["text_ids"].tolist()
    assert facts.special.eos_token_ids == (SHAPE.vocab_size - 1,)


# Faults.


def _cut(data: bytes) -> bytes:
    return data[:-1]


def _spoil(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (_spoil, "its checksum in model-20.data-00001-of-00002 is wrong"),
        (_cut, "model-20.data-00001-of-00002 ends too early, after 1247 bytes"),
        (lambda data: b"version https://git-lfs.github.com/spec/v1\n", "run `git lfs pull`"),
    ],
)
def test_a_damaged_shard_is_told_by_its_name(
    tmp_path: pathlib.Path, change: Callable[[bytes], bytes], fault: str
) -> None:
    """One wrong bit, one byte too few, and a pointer in its place."""
    folder = copy_checkpoint("shards", tmp_path / "shards")
    shard = folder / "model-20.data-00001-of-00002"
    shard.write_bytes(change(shard.read_bytes()))
    [found] = find_faults(folder)
    assert fault in found


def test_a_missing_shard_is_told_by_its_name(tmp_path: pathlib.Path) -> None:
    """The other one is not read as the whole."""
    folder = copy_checkpoint("shards", tmp_path / "shards")
    (folder / "model-20.data-00000-of-00002").unlink()
    assert find_faults(folder) == ["model-20.data-00000-of-00002 is missing"]


def place(folder: pathlib.Path, entries: Mapping[bytes, bytes], data: bytes = b"") -> Checkpoint:
    """Write a checkpoint of one shard by hand, and open it."""
    (folder / "model.ckpt.index").write_bytes(whole_table([HEADER, *sorted(entries.items())]))
    (folder / "model.ckpt.data-00000-of-00001").write_bytes(data)
    with open_checkpoint(folder) as checkpoint:
        return checkpoint


_DATA = np.array([1.5, -2], "<f4").tobytes()
_TWO = entry({5: 8, 6: masked(_DATA)}, axes=[2])


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        (entry({5: 8}, axes=[3]), "has 8 bytes in the index, 12 by its shape"),
        (entry({5: 8}, axes=[2**63, 2**63]), "has 8 bytes in the index, 3402"),
        (entry({4: 8, 5: 8}, axes=[2]), "ends too early, after 8 bytes, for model/wpe"),
        (entry({4: 2**63, 5: 8}, axes=[2]), "ends too early"),
        (entry({3: 1, 5: 8}, axes=[2]), "it names shard 1 (from 0), but says that it has 1"),
        (entry({3: 2**64 - 1, 5: 8}, axes=[2]), "but says that it has 1"),
        (_TWO + b"\x3a\x00", "model/wpe was saved in slices: not implemented"),
    ],
)
def test_an_index_that_lies_is_refused(tmp_path: pathlib.Path, changed: bytes, fault: str) -> None:
    """About sizes, places and shards, also with numbers that no file can have."""
    with pytest.raises(CheckpointError) as caught:
        place(tmp_path, {b"model/wte": _TWO, b"model/wpe": changed}, _DATA)
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("names", "model"),
    [
        (["newslm/embeddings/word_embed"], "it holds GROVER (newslm/embeddings/word_embed)"),
        (["bert/embeddings/word_embeddings"], "it holds BERT ("),
        (["model/layer/.ATTRIBUTES/VARIABLE_VALUE"], "it holds what TensorFlow 2 keeps as objects"),
        (["encoder/block_000/kernel"], "it holds another model (encoder/block_000/kernel)"),
        (["global_step", "model/wte/Adam"], "it holds another model (no weights)"),
        ([], "it holds another model (no weights)"),
    ],
)
def test_other_models_are_refused_by_their_names(
    tmp_path: pathlib.Path, names: list[str], model: str
) -> None:
    """GROVER and BERT are known; of any other some names are shown."""
    with pytest.raises(CheckpointError) as caught:
        place(tmp_path, {name.encode(): _TWO for name in names}, _DATA)
    [fault] = caught.value.faults
    assert fault.startswith(f"model.ckpt.index: {model}")
    assert "OpenAI's names of GPT-2 (model/wte, …)" in fault


@pytest.mark.parametrize(
    ("name", "known"),
    [
        *[
            (name, True)
            for name in ("global_step", "beta1_power", "beta2_power_1", "a/global_step")
        ],
        *[(f"model/h0/mlp/c_fc/w{slot}", True) for slot in ("/Adam", "/Adam_1", "_slot_vr")],
        ("model/h0/mlp/c_fc/w2", False),
        ("model/h0/adapter/w", False),
        ("discriminator/w", False),
    ],
)
def test_what_training_keeps_is_left_out_and_nothing_else(
    tmp_path: pathlib.Path, name: str, known: bool
) -> None:
    """Of an unknown name nobody can say that the text does not depend on it."""
    folder = copy_checkpoint("one", tmp_path / "one")
    (folder / "model.ckpt.index").unlink()
    checkpoint = place(folder, {b"model/wte": _TWO, name.encode(): _TWO}, _DATA)
    unknown = [f for f in checkpoint.find_faults(read_config(folder)) if "not a GPT-2 weight" in f]
    assert unknown == ([] if known else [f"{name} is not a GPT-2 weight"])
