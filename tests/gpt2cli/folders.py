"""Model folders of which only a part is there."""

import pathlib

from gpt2cli.model_folder import ModelFolder, ModelShape


def bare_folder(
    path: pathlib.Path, *, vocab_size: int, eos_token_id: int | None = None
) -> ModelFolder:
    """Return a model folder of which only the tokenizer is there."""
    return ModelFolder(
        path=path,
        shape=ModelShape(1, 1, 8, 8, 8, vocab_size),
        precision="fp32",
        bos_token_id=eos_token_id,
        eos_token_ids=frozenset() if eos_token_id is None else frozenset({eos_token_id}),
        start_ids=(),
        missing_ids=(),
        special_tokens=(),
        source={},
        checked=(),
        files={},
    )
