"""Owns the making of tests/vectors/tensorflow/: checkpoints that TensorFlow wrote, and answers.

The answers are the logits of openai/gpt-2's own `src/model.py`, and the ids of its `encoder.py`.
Run by hand, in an environment of its own, from the root of the checkout, with a checkout of
openai/gpt-2 @ 9b63575:

    pip install tensorflow-cpu numpy regex tokenizers
    python -m tests.vectors.make_tensorflow CHECKOUT

The stored files were made with tensorflow-cpu 2.21.0 and numpy 2.4.6 on Python 3.11.
"""

import json
import pathlib
import sys
import types
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import tensorflow

from tests.checkpoints import FloatArray
from tests.vectors.tensorflow_cases import (
    ANSWERS_FILE,
    FOLDER,
    MERGES,
    SHAPE,
    TEXT,
    make_openai_tensors,
)

tf: Final = tensorflow.compat.v1
_IDS: Final = np.arange(SHAPE.n_positions)[None] * 37 % SHAPE.vocab_size  # [1, S]
_SIZES: Final = {
    "n_vocab": SHAPE.vocab_size,
    "n_ctx": SHAPE.n_positions,
    "n_embd": SHAPE.n_embd,
    "n_head": SHAPE.n_head,
    "n_layer": SHAPE.n_layer,
}


def main() -> None:
    """Write every checkpoint, and the file of answers."""
    FOLDER.mkdir(exist_ok=True)
    model, encoder = import_openai(pathlib.Path(sys.argv[1]))
    answers: dict[str, Any] = {"ids": _IDS[0], "text_ids": write_tokenizer(encoder)}
    tensors = make_openai_tensors()
    answers["one"] = save(model, "one", tensors, "model.ckpt")
    answers["shards"] = save(model, "shards", tensors, "model", global_step=20, sharded=True)
    half = {name: tensor.astype(np.float16) for name, tensor in tensors.items()}
    answers["half"] = save(model, "half", half, "model", global_step=7)
    answers |= train(model, tensors)
    np.savez_compressed(ANSWERS_FILE, **answers)


def import_openai(checkout: pathlib.Path) -> tuple[Any, Any]:
    """Import the modules `model` and `encoder`, written for TensorFlow 1, under TensorFlow 2."""
    tf.disable_v2_behavior()
    contrib = types.ModuleType("tensorflow.contrib.training")
    contrib.HParams = types.SimpleNamespace  # type: ignore[attr-defined]
    sys.modules |= {"tensorflow": tf, "tensorflow.contrib.training": contrib}
    sys.path.insert(0, str(checkout / "src"))
    import encoder  # type: ignore[import-not-found]
    import model  # type: ignore[import-not-found]

    return model, encoder


def write_tokenizer(encoder: Any) -> list[int]:
    """Write encoder.json and vocab.bpe; return the ids that OpenAI's encoder gives `TEXT`."""
    tokens = [*encoder.bytes_to_unicode().values(), *map("".join, MERGES), "<|endoftext|>"]
    lines = ["#version: 0.2", *map(" ".join, MERGES), ""]
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    (FOLDER / "encoder.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (FOLDER / "vocab.bpe").write_text("\n".join(lines), encoding="utf-8")
    (FOLDER / "hparams.json").write_text(json.dumps(_SIZES), encoding="utf-8")
    return list(encoder.Encoder(vocabulary, MERGES).encode(TEXT))


def build(model: Any) -> Any:
    """Return the logits [1, S, V] of `_IDS` in the current graph."""
    return model.model(types.SimpleNamespace(**_SIZES), tf.constant(_IDS, tf.int32))["logits"]


def compute_logits(model: Any, tensors: Mapping[str, FloatArray]) -> FloatArray:
    """Return the logits [S, V] of weights under OpenAI's names, in float32."""
    with tf.Graph().as_default(), tf.Session() as session:
        logits = build(model)
        for variable in tf.global_variables():
            variable.load(tensors[variable.op.name].astype(np.float32), session)
        return session.run(logits)[0]


def save(
    model: Any,
    name: str,
    tensors: Mapping[str, Any],
    prefix: str,
    *,
    global_step: int | None = None,
    sharded: bool = False,
) -> FloatArray:
    """Save weights as they are, on two devices in turn, which are two shards; return the logits."""
    with tf.Graph().as_default():
        for number, (variable, tensor) in enumerate(tensors.items()):
            with tf.device(f"/cpu:{number % 2}"):
                tf.get_variable(variable, initializer=tensor)
        with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
            session.run(tf.global_variables_initializer())
            _write(session, _make_saver(sharded=sharded), name, prefix, global_step)
    return compute_logits(model, tensors)


def train(model: Any, tensors: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Save two steps of Adam, with its variables; return the logits after each."""
    answers = {}
    with tf.Graph().as_default(), tf.Session() as session:
        logits = build(model)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=tf.constant(_IDS[:, 1:], tf.int32), logits=logits[:, :-1]
            )
        )
        weights = tf.global_variables()
        step = tf.train.get_or_create_global_step()
        descend = tf.train.AdamOptimizer(0.01).minimize(loss, global_step=step)
        session.run(tf.global_variables_initializer())
        for variable in weights:
            variable.load(tensors[variable.op.name], session)
        saver = _make_saver()
        for number in (9, 10):  # as text the other way round
            session.run(descend)
            _write(session, saver, "trained", "model", number)
            answers[f"trained-{number}"] = session.run(logits)[0]
    return answers


def _make_saver(**options: Any) -> Any:
    return tf.train.Saver(tf.global_variables(), save_relative_paths=True, **options)


def _write(session: Any, saver: Any, name: str, prefix: str, step: int | None) -> None:
    path = FOLDER / name / prefix
    path.parent.mkdir(exist_ok=True)
    saver.save(session, str(path), global_step=step, write_meta_graph=False)


if __name__ == "__main__":
    main()
