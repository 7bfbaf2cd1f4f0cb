"""The files of a model folder, and its light part: descriptions, tokenizer, and `export.json`.

Needs neither onnx nor the weights: who wants the tokenizer alone has no other part written.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from export.chat_template import CHAT_TEMPLATE_FILE
from export.config import CONFIG_FILE, GPT2Config, read_config, read_raw
from export.tokenizer import TokenizerFacts, read_facts

# Graph files, which share the weights.
MODEL_FILE: Final = "model.onnx"  # for every provider
CPU_MODEL_FILE: Final = "model_cpu.onnx"  # the form that the CPU computes faster, where it can
VERIFYING_MODEL_FILE: Final = "model_verify.onnx"  # the same, which also verifies drafts
MODEL_FILES: Final = (MODEL_FILE, CPU_MODEL_FILE, VERIFYING_MODEL_FILE)
MANIFEST_FILE: Final = "export.json"
TOKENIZER_FILE: Final = "tokenizer.json"
GENERATION_FILE: Final = "generation_config.json"
COPIED_FILES: Final = (CONFIG_FILE, GENERATION_FILE)
LIGHT_FILES: Final = (MANIFEST_FILE, TOKENIZER_FILE, CHAT_TEMPLATE_FILE, *COPIED_FILES)
# Behind the names of these graphs in a portable folder, where others load all that ends in .onnx.
OWN_SUFFIX: Final = ".gpt2"


def find_graph(folder: Path, name: str = MODEL_FILE) -> Path:
    """Return where a graph of a model folder lies, if it has it."""
    own = folder / f"{name}{OWN_SUFFIX}"
    return own if own.is_file() else folder / name


def find_graphs(folder: Path) -> list[Path]:
    """Return the graph files of a model folder."""
    paths = (find_graph(folder, name) for name in MODEL_FILES)
    return [path for path in paths if path.is_file()]


def write_tokenizer_folder(
    source: Path,
    folder: Path,
    *,
    adapters: Sequence[Path] = (),
    graph_version: int,
    origin: Mapping[str, Any],
) -> None:
    """Write into `folder` what a model folder of `source` has beside graph and weights.

    `adapters` may change its vocabulary.

    Raises:
        CheckpointError: with what is wrong with the configuration, the tokenizer or an adapter.
        OSError: if it cannot be written.
    """
    config = read_config(source)
    tokenizer = source
    if adapters:  # which are tensors
        from export.adapter import find_tokenizer, open_adapters, resize

        with open_adapters(source, adapters) as opened:
            config, tokenizer = resize(config, opened), find_tokenizer(opened) or source
    facts = read_facts(tokenizer, config)
    write_descriptions(source, folder, facts)
    manifest = describe(folder, config, facts, graph_version=graph_version, precision="fp32")
    write_manifest(folder, manifest | {"source": origin, "checked": []})


def write_descriptions(
    source: Path, folder: Path, facts: TokenizerFacts, *, changed: Mapping[str, Any] | None = None
) -> None:
    """Write a checkpoint's configuration and its tokenizer into a model folder.

    `changed`: fields of config.json that are no longer the checkpoint's.

    Raises:
        OSError: if they cannot be written.
    """
    for name in COPIED_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    if changed or not (folder / CONFIG_FILE).exists():
        (folder / CONFIG_FILE).write_bytes(as_bytes({**read_raw(source), **(changed or {})}))
    # Not Tokenizer.save (0.23.3): on a full disk it raises a bare Exception.
    (folder / TOKENIZER_FILE).write_text(facts.tokenizer.to_str(), encoding="utf-8")
    if facts.chat.template is not None:
        (folder / CHAT_TEMPLATE_FILE).write_bytes(facts.chat.template.encode())


def describe(
    folder: Path, config: GPT2Config, facts: TokenizerFacts, *, graph_version: int, precision: str
) -> dict[str, Any]:
    """Return what `export.json` says of the files in `folder`, the model and its tokenizer."""
    sizes = ("n_layer", "n_head", "n_embd", "head_dim", "n_positions", "vocab_size")
    return {
        "format": "gpt2 model folder",
        "graph_version": graph_version,
        "precision": precision,
        "model": {name: getattr(config, name) for name in sizes},
        "tokenizer": {
            "vocab_size": facts.vocab_size,
            "missing_ids": facts.missing_ids,
            "start_ids": list(facts.start_ids),
            "bos_token_id": facts.special.bos_token_id,
            "eos_token_ids": list(facts.special.eos_token_ids),
            "special_tokens": facts.special.as_rows(),
            "names": facts.chat.names,
        },
        "files": {
            path.relative_to(folder).as_posix(): _fingerprint(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        },
    }


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write `export.json`, or raise OSError."""
    (folder / MANIFEST_FILE).write_bytes(as_bytes(manifest))


def as_bytes(manifest: Mapping[str, Any]) -> bytes:
    """Return what a JSON file of a model folder holds."""
    return (json.dumps(manifest, indent=1) + "\n").encode()


def _fingerprint(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"size": path.stat().st_size, "sha256": digest}
