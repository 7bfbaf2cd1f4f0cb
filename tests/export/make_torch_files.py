"""Owns the making of tests/export/data/*.bin: what torch itself writes.

Run by hand, in an environment of its own, from the root of the checkout:

    pip install torch numpy ml_dtypes tokenizers
    python -m tests.export.make_torch_files

The stored files were made with torch 2.13.0+cpu on Python 3.11. What each holds is said, as NumPy
arrays, in `tests.export.torch_files`, which the tests hold them against.
"""

import collections
from collections.abc import Mapping
from typing import Any

import torch

from tests.checkpoints import make_tensors
from tests.export.conversions import SMALLEST_SHAPE
from tests.export.torch_files import DATA_FOLDER, DTYPES, LAYOUTS


def main() -> None:
    """Write every file."""
    DATA_FOLDER.mkdir(exist_ok=True)
    legacy = {"_use_new_zipfile_serialization": False}  # as torch wrote before 1.6
    save("dtypes", make_dtypes())
    save("dtypes-legacy", make_dtypes(), **legacy)
    save("layouts", make_layouts())
    save("layouts-legacy", make_layouts(), **legacy)
    state = make_gpt2()
    save("gpt2", state)
    save("gpt2-bare", {name.removeprefix("transformer."): t for name, t in state.items()})
    save("gpt2-nested", {"epoch": 3, "state_dict": state, "losses": [0.5, None, True]})
    save("gpt2-protocol4", state, pickle_protocol=4)
    save("gpt2-legacy", state, **legacy)
    save("gpt2-legacy-protocol4", {"state_dict": state}, pickle_protocol=4, **legacy)
    save_without_checksums("gpt2-no-checksums", state)
    save("whole-model", torch.nn.Linear(1, 1))
    save("complex", {"x": torch.zeros(1, dtype=torch.complex64)})
    save("float8", {"x": torch.zeros(1, dtype=torch.float8_e4m3fn)})
    for path in sorted(DATA_FOLDER.glob("*.bin")):
        print(f"{path.name}: {path.stat().st_size} bytes")


def save(name: str, value: object, **options: Any) -> None:
    """Write one file by torch.save; the root folder in the archive is the file's name."""
    torch.save(value, DATA_FOLDER / f"{name}.bin", **options)


def save_without_checksums(name: str, value: object) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        save(name, value)
    finally:
        torch.serialization.set_crc32_options(True)


def make_dtypes() -> Mapping[str, torch.Tensor]:
    """Return 0, 1, 2 in every dtype of the table; bool makes that 0, 1, 1."""
    return {
        name: torch.arange(3).to(getattr(torch, torch_name)) for name, torch_name in DTYPES.items()
    }


def make_layouts() -> Mapping[str, torch.Tensor]:
    """Return the tensors that LAYOUTS describes, views of one storage where it says so."""
    base = torch.arange(24.0)
    tensors = {
        "whole": base,
        "rows": base.reshape(4, 6)[1:3],
        "columns": base.reshape(4, 6)[:, 2:4],
        "transposed": base.reshape(4, 6).t(),
        "permuted": base.reshape(2, 3, 4).permute(2, 0, 1),
        "expanded": torch.tensor([[7.0]]).expand(2, 3),
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 4),
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    assert {n: t.detach().tolist() for n, t in tensors.items()} == {
        n: a.tolist() for n, a in LAYOUTS.items()
    }
    return tensors


def make_gpt2() -> collections.OrderedDict[str, Any]:
    """Return a state dict as GPT2LMHeadModel of transformers 4 wrote them, with mask and head."""
    state: collections.OrderedDict[str, Any] = collections.OrderedDict()
    for name, array in make_tensors(SMALLEST_SHAPE).items():
        state[name] = torch.from_numpy(array)
    size = SMALLEST_SHAPE.n_positions
    mask = torch.tril(torch.ones(size, size, dtype=torch.bool)).view(1, 1, size, size)
    state["transformer.h.0.attn.bias"] = mask
    state["transformer.h.0.attn.masked_bias"] = torch.tensor(-1e4)
    state["lm_head.weight"] = state["transformer.wte.weight"]  # shares the storage
    state._metadata = collections.OrderedDict({"transformer": {"version": 1}})  # type: ignore[attr-defined]
    return state


if __name__ == "__main__":
    main()
