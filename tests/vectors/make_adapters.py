"""Owns the making of adapters and of adapters.npz: adapters by peft, and its logits with them.

Run by hand, in an environment of its own, from the root of the checkout:

    pip install torch transformers peft numpy safetensors tokenizers
    python -m tests.vectors.make_adapters

The stored files were made with torch 2.13.0+cpu, transformers 5.24.0, peft 0.21.2 and numpy 2.4.6
on Python 3.11; adapters.npz holds the first three in `versions`. Nothing is trained: what training
would change is drawn.
"""

import pathlib
import shutil
import tempfile
import warnings
from typing import Any, Final

import numpy as np
import peft
import torch
import transformers
from safetensors.torch import load_file

from tests.checkpoints import FloatArray, draw_normal
from tests.vectors.adapter_cases import (
    ADAPTERS,
    BASE_SHAPE,
    CASES,
    IDS,
    MERGED,
    POSITIONS,
    REFUSED,
    STORED_FILE,
    AdapterCase,
    write_base,
)

_FILES: Final = ("adapter_config.json", "adapter_model.safetensors")
_SPREAD: Final = 0.2
_NEAR: Final = 3e-5  # two right float32 forwards


def main() -> None:
    """Write every adapter, and the logits of every case."""
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    versions = (f"{m.__name__} {m.__version__}" for m in (torch, transformers, peft))
    arrays: dict[str, Any] = {"versions": np.array([*versions])}
    shutil.rmtree(ADAPTERS, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for case in CASES:
            model = _load(root, case.tied, case.vocab_size)
            config = peft.LoraConfig(task_type="CAUSAL_LM", **case.config)
            _save(root, case.name, model, config, case)
        for name, settings in REFUSED.items():
            kind = peft.IA3Config if name == "ia3" else peft.LoraConfig
            model = _load(root, True, BASE_SHAPE.vocab_size)
            _save(root, name, model, kind(task_type="CAUSAL_LM", **settings), None)
        for name, cases in MERGED.items():
            arrays[name] = _compute(root, name, cases)
    (ADAPTERS / "rslora-bin").mkdir()
    shutil.copyfile(ADAPTERS / "rslora" / _FILES[0], ADAPTERS / "rslora-bin" / _FILES[0])
    tensors = load_file(ADAPTERS / "rslora" / _FILES[1])
    torch.save(tensors, ADAPTERS / "rslora-bin" / "adapter_model.bin")
    np.savez_compressed(STORED_FILE, allow_pickle=False, **arrays)
    size = sum(path.stat().st_size for path in ADAPTERS.rglob("*") if path.is_file())
    print(f"{ADAPTERS}: {size} bytes; {STORED_FILE}: {STORED_FILE.stat().st_size} bytes")


def _load(root: pathlib.Path, tied: bool, vocab_size: int) -> Any:
    folder = root / ("tied" if tied else "untied")
    if not folder.exists():
        write_base(folder, tied=tied)
    model = transformers.GPT2LMHeadModel.from_pretrained(
        next(folder.iterdir()), attn_implementation="eager", dtype=torch.float32
    )
    model.config.name_or_path = next(folder.iterdir()).name
    model.name_or_path = next(folder.iterdir()).name
    if vocab_size != BASE_SHAPE.vocab_size:
        model.resize_token_embeddings(vocab_size, mean_resizing=False)
    return model.eval()


def _save(root: pathlib.Path, name: str, model: Any, config: Any, case: AdapterCase | None) -> None:
    adapted = peft.get_peft_model(model, config)
    resized = case is not None and case.saves_embeddings
    for key, (place, parameter) in enumerate(adapted.named_parameters()):
        if parameter.requires_grad or (resized and "wte" in place):
            drawn = draw_normal(7, key, shape=tuple(parameter.shape), mean=0.0, spread=_SPREAD)
            parameter.data = parameter.data + torch.from_numpy(drawn)
    if case is not None and case.dtype != "float32":
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.to(getattr(torch, case.dtype))
    adapted.save_pretrained(root / name, save_embedding_layers=resized)
    (ADAPTERS / name).mkdir(parents=True)
    for file in _FILES:
        shutil.copyfile(root / name / file, ADAPTERS / name / file)


def _compute(root: pathlib.Path, name: str, cases: tuple[AdapterCase, ...]) -> FloatArray:
    """Return the logits of the adapters, merged by peft one after the other, [K, V]."""
    model = _load(root, cases[0].tied, cases[0].vocab_size)
    before = _forward(_load(root, cases[0].tied, BASE_SHAPE.vocab_size))
    for case in cases:
        adapted = peft.PeftModel.from_pretrained(model, root / case.name).eval()
        as_trained = _forward(adapted)
        model = adapted.merge_and_unload()
    merged = _forward(model)
    gap = float(np.abs(merged - as_trained).max())
    effect = float(np.abs(merged[:, : BASE_SHAPE.vocab_size] - before).max())
    print(f"{name}: merged differs by {gap:.1e} from unmerged, by {effect:.1f} from the base")
    if all(case.merges_as_trained for case in cases) != (gap < _NEAR) or effect < 0.1:
        raise ValueError(f"{name}: peft merges otherwise than the table says")
    return as_trained if gap >= _NEAR else merged


def _forward(model: Any) -> FloatArray:
    with torch.inference_mode():
        logits: FloatArray = (
            model(torch.tensor([IDS]), use_cache=False).logits[0, [*POSITIONS]].numpy()
        )
    return logits


if __name__ == "__main__":
    main()
