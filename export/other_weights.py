"""What can be done with weights of other programs, which are not read here.

They are known by the names that those programs give their files.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Tried with TensorFlow 2.19 and Flax 0.12. transformers 4.57 can no longer save what it read so
# ("Cannot copy out of meta tensor"), and 5 does not read it.
_BY_TRANSFORMERS: Final = (
    'transformers 4.46 converts it: GPT2LMHeadModel.from_pretrained("{source}", {option}=True)'
    '.save_pretrained("FOLDER"); add the tokenizer\'s files, and name FOLDER'
)
_ORIGIN: Final = "name the model that it was made from"


@dataclass(frozen=True, slots=True)
class _Kind:
    names: re.Pattern[str]  # of files, below the checkpoint's folder
    whose: str
    advice: str


_KINDS: Final = (
    _Kind(
        re.compile(r"[^/]+\.index"),
        "a TensorFlow checkpoint",
        "download it by `hf download {source} --local-dir FOLDER`, and name FOLDER",
    ),
    _Kind(
        re.compile(r"tf_model.*\.h5"),
        "weights of Keras",
        _BY_TRANSFORMERS.replace("{option}", "from_tf"),
    ),
    _Kind(
        re.compile(r"flax_model.*\.msgpack"),
        "weights of Flax",
        _BY_TRANSFORMERS.replace("{option}", "from_flax"),
    ),
    _Kind(re.compile(r".+\.gguf"), "for llama.cpp", f"run it there, or {_ORIGIN}"),
    _Kind(re.compile(r".+\.onnx"), "a graph of another exporter", _ORIGIN),
    _Kind(re.compile(r"rust_model\.ot"), "weights of rust-bert", _ORIGIN),
)


def find_others(source: str, names: Collection[str]) -> tuple[str, str] | None:
    """Return what other programs' weights are among some files, and what can be done with them.

    `source` is the name of their model; None if there are none.
    """
    for kind in _KINDS:
        found = [name for name in sorted(names) if kind.names.fullmatch(name)]
        if found:
            return f"{found[0]} ({kind.whose})", kind.advice.replace("{source}", source)
    return None


def list_names(folder: Path) -> list[str]:
    """Return the names of the files in a folder and in its `onnx` folder, with slashes."""
    paths = [*folder.glob("*"), *folder.glob("onnx/*")]
    return [path.relative_to(folder).as_posix() for path in paths if path.is_file()]
