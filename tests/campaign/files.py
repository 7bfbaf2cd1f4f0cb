"""Files that are read: each damaged in some way, and then a command that reads it."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from export.checkpoint import WEIGHTS_FILES
from tests.campaign import hostile
from tests.campaign.lab import Lab
from tests.checkpoints import make_tensors
from tests.export import torch_files
from tests.export.weights_files import write_weights
from tests.model_folders import SMALL_SHAPE

_MODEL_FILES: Final = (
    "export.json", "config.json", "tokenizer.json", "model.onnx", "model.onnx.data",
)  # fmt: skip
_SMALL_FILES: Final = (
    "config.json", "generation_config.json", "tokenizer.json", "vocab.json", "merges.txt",
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
)  # fmt: skip


def attempt(lab: Lab) -> None:
    """Damage one file of one kind, and read it by some command."""
    kinds: dict[Callable[[Lab], None], int] = {
        **{_try_checkpoint: 30, _try_weights: 25, _try_model: 20, _try_settings: 8},
        **{_try_session: 8, _try_schema: 8, _try_state: 6},
    }
    lab.rng.choices(list(kinds), list(kinds.values()))[0](lab)


def _spoil(lab: Lab, path: Path) -> None:
    lab.told.append(hostile.spoil(lab.rng, path))


def _copy(source: Path, to: Path) -> Path:
    return Path(shutil.copytree(source, to, copy_function=os.link))


def _lay_checkpoint(lab: Lab) -> Path:
    """Lay all small files that a checkpoint may have, so that each is read."""
    folder = _copy(lab.place.checkpoint, lab.folder / "source")
    token = "<|endoftext|>"
    maps: dict[str, Any] = {
        "generation_config.json": {"temperature": 0.7, "top_k": 5, "eos_token_id": [288, 3]},
        "tokenizer_config.json": {
            "eos_token": token,
            "add_prefix_space": False,
            "added_tokens_decoder": {"288": {"content": token, "special": True}},
        },
        "special_tokens_map.json": {"eos_token": {"content": token, "lstrip": False}},
        "added_tokens.json": {token: 288},
    }
    for name, value in maps.items():
        (folder / name).write_text(json.dumps(value))
    whole = json.loads((folder / "tokenizer.json").read_text())
    vocabulary, merges = whole["model"]["vocab"], whole["model"]["merges"]
    pairs = [pair if isinstance(pair, str) else " ".join(pair) for pair in merges]
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *pairs, ""]))
    if lab.rng.random() < 0.5:
        (folder / "tokenizer.json").unlink()
    return folder


def _try_checkpoint(lab: Lab) -> None:
    folder = _lay_checkpoint(lab)
    names = [name for name in _SMALL_FILES if (folder / name).exists()]
    for name in lab.rng.sample(names, lab.rng.choice((1, 1, 1, 2))):
        _spoil(lab, folder / name)
    _export_or_run(lab)


def _export_or_run(lab: Lab) -> None:
    if lab.rng.random() < 0.6:
        done = lab.run("export", "source", "out", may_write=("out",))
        lab.claim((done.code == 0) == (lab.folder / "out").exists(), "code and OUT disagree")
        if done.code:
            return
        lab.run("generate", "-m", "out", "-n", "3", "--seed", "1", "ab c", codes=(0, 1))
    else:
        command = lab.some("generate", "score", "tokens", "tokens", "batch")
        more = ("-n", "2", "ab c") if command == "generate" else ()
        lab.run(command, "-m", "source", *more, stdin=b"ab c")


def _try_weights(lab: Lab) -> None:
    folder = _copy(lab.place.checkpoint, lab.folder / "source")
    tensors = make_tensors(SMALL_SHAPE)
    (folder / "model.safetensors").unlink()
    name = lab.some(*WEIGHTS_FILES, "old")
    path = folder / (name if name != "old" else "pytorch_model.bin")
    if name == "old":
        path.write_bytes(torch_files.stream(*torch_files.lay_out(tensors, b"N")))
    else:
        index = write_weights(folder, name, tensors)
        shards = sorted(set(index.get("weight_map", {}).values()))
        path = lab.rng.choice((path, path, *(folder / shard for shard in shards[:1])))
    if path.suffix == ".safetensors" and lab.rng.random() < 0.6:
        _change_header(lab, path)
    else:
        _spoil(lab, path)
    _export_or_run(lab)


def _change_header(lab: Lab, path: Path) -> None:
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    changed = hostile.change(lab.rng, header)
    new = json.dumps(changed).encode("utf-8", "surrogatepass")
    told = len(new) if lab.rng.random() < 0.9 else lab.rng.choice((0, 2**32, 2**63, 2**64 - 1))
    path.write_bytes(told.to_bytes(8, "little") + new + content[8 + size :])
    lab.told.append(f"{path.name}: header {new[:3000]!r}, told size {told}")


def _try_model(lab: Lab) -> None:
    """Run a model folder; a result from damaged graphs is allowed, since a start compares sizes."""
    folder = _copy(lab.place.model, lab.folder / "source")
    weights = {"export.json": 6, "config.json": 1, "tokenizer.json": 2}
    name = lab.rng.choices(_MODEL_FILES, [weights.get(name, 1) for name in _MODEL_FILES])[0]
    _spoil(lab, folder / name)
    if name != "export.json" and lab.rng.random() < 0.5:  # as if written so
        _correct_sizes(folder)
        lab.told.append("sizes corrected in export.json")
    command = lab.some("generate", "score", "tokens", "show", "doctor", "chat")
    others = {
        "show": "models show source",
        "doctor": "doctor --verify --device cpu source",
        "generate": "generate -m source -n 2 ab",
    }
    lab.run(*others.get(command, f"{command} -m source").split(), stdin=b"ab c\n")


def _correct_sizes(folder: Path) -> None:
    manifest = json.loads((folder / "export.json").read_text())
    for name, facts in manifest.get("files", {}).items():
        path = folder / name
        if isinstance(facts, dict) and path.is_file():
            facts["size"] = path.stat().st_size
    path = folder / "export.json"
    path.unlink()
    path.write_text(json.dumps(manifest))


def _read_small(path: Path) -> bytes | None:
    small = path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 20
    return path.read_bytes() if small else None


def _try_settings(lab: Lab) -> None:
    path = lab.home / "config" / "gpt2" / "config.toml"
    path.parent.mkdir()
    path.write_text('# mine\ntop_k = 5\nstop = ["a", "b"]\ngreedy = true\nseed = 1\n')
    _spoil(lab, path)
    before = _read_small(path)
    chosen = lab.some("show", "set", "unset", "generate", "path")
    if chosen == "generate":
        lab.run("generate", "-m", str(lab.place.model), "-n", "2", "ab")
    else:
        more = {"set": ("temperature", "0.5"), "unset": ("top_k",)}.get(chosen, ())
        done = lab.run("config", chosen, *more)
        if done.code and before is not None:
            lab.claim(path.read_bytes() == before, "config.toml changed by what failed")


def _try_session(lab: Lab) -> None:
    path = lab.folder / "talk.json"
    chat = ("chat", "-m", str(lab.place.model), "-n", "3")
    kept = (*chat, "--session", "talk.json")
    lab.run(*kept, stdin=b"hi\nho\n", may_write=("talk.json",))
    assert path.is_file()
    _spoil(lab, path)
    broken = _read_small(path)
    if lab.rng.random() < 0.5:
        done = lab.run(*kept, stdin=b"more\n", may_write=None)
    else:
        script = b"/load talk.json\nmore\n/save new.json\n"
        done = lab.run(*chat, stdin=script, may_write=("new.json",))
    if "talk.json" in done.err and broken is not None:
        lab.claim(path.read_bytes() == broken, "a session that could not be read was written")


def _try_schema(lab: Lab) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 3}, "b": {"enum": [1, "x", None]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    path = lab.folder / "schema.json"
    path.write_text(json.dumps(schema))
    _spoil(lab, path)
    if path.is_fifo():
        return  # it is read, as `<(…)` of a shell is, so it waits for who writes
    options = ("-n", "12", "--json-schema", "schema.json", "--no-echo")
    lab.run("generate", "-m", str(lab.place.model), *options, "ab")


def _try_state(lab: Lab) -> None:
    """Damage what the program keeps for itself: whatever is wrong there, it goes on."""
    lab.run("generate", "-m", "starter", "-n", "1", "--device", "auto", "a")
    lab.run("generate", "-n", "1", "a", codes=(0,))  # the default cannot be had
    kept = [p for top in ("cache", "state", "hub") for p in (lab.home / top).rglob("*.json")]
    kept = [path for path in kept if path.is_file() and path.name not in _MODEL_FILES[2:]]
    _spoil(lab, lab.rng.choice(sorted(kept)))
    commands = (
        *("models list", "models list --json", "models rm starter -y", "models show starter"),
        *("doctor --device cpu", "generate -m starter -n 1 a", "generate -n 1 a"),
    )
    lab.run(*lab.some(*commands).split())
