"""Reads the `adapter_config.json` of an adapter that peft trained.

Fields and meanings are those of peft 0.21.2's LoraConfig. A field that is not known here and is set
is refused by its name: what it changes cannot be told.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from export.config import read_object
from export.errors import CheckpointError

CONFIG_FILE: Final = "adapter_config.json"

# Fields that are read here, and those that change nothing of what a finished adapter computes:
# about training, about what the file's tensors tell by themselves, or in force only by another one.
_KNOWN: Final = frozenset(
    {
        *("peft_type", "base_model_name_or_path", "r", "lora_alpha", "use_rslora"),
        *("rank_pattern", "alpha_pattern", "modules_to_save", "ensure_weight_tying"),
        *("init_lora_weights", "bias", "lora_bias", "fan_in_fan_out", "target_modules"),
        *("exclude_modules", "layers_to_transform", "layers_pattern", "task_type", "revision"),
        *("peft_version", "auto_mapping", "inference_mode", "lora_dropout", "runtime_config"),
        *("megatron_core", "qalora_group_size", "loftq_config", "eva_config", "corda_config"),
        *("lora_ga_config", "velora_config"),
    }
)
# Ways to begin a training that leave the base as it is. Others change it too: what they trained
# belongs to a base that is not the published one.
_PLAIN_STARTS: Final = (None, True, False, "gaussian", "orthogonal", "eva", "mica")
_LARGEST_RANK: Final = 2**20
# A pattern of a few plain parts; others can take for ever to match.
_MOST_REPEATS: Final = 3
_REPEATED_GROUP: Final = re.compile(r"\)[*+{?]")
_REPEAT: Final = re.compile(r"[*+{]")


@dataclass(frozen=True, slots=True)
class AdapterConfig:
    """How the tensors of an adapter are merged; modules are named with `transformer.`."""

    rank: int
    alpha: float
    ranks: Mapping[str, int]  # by pattern: other ranks of some modules
    alphas: Mapping[str, float]
    divides_by_root: bool  # rsLoRA: alpha / sqrt(rank), not alpha / rank
    saves_wte: bool  # a wte in the file is not also lm_head, though they were one matrix
    base: str  # the name or path of the model that it was trained for; "": not known

    def find_rank(self, module: str) -> int:
        """Return the rank of a module, r."""
        return self.ranks.get(_find_pattern(self.ranks, module), self.rank)

    def find_scale(self, module: str) -> float:
        """Return the factor of a module's product."""
        rank = self.find_rank(module)
        alpha = self.alphas.get(_find_pattern(self.alphas, module), self.alpha)
        return alpha / (math.sqrt(rank) if self.divides_by_root else rank)


def _find_pattern(patterns: Mapping[str, Any], module: str) -> str:
    """Return the first pattern that a module's name ends with, as peft's get_pattern_key."""
    found = (key for key in patterns if re.match(rf"(.*\.)?({key})$", module))
    return next(found, "")


def read_adapter_config(folder: Path) -> AdapterConfig:
    """Read what an adapter folder says of its tensors.

    Raises:
        CheckpointError: if it is no adapter, is damaged, or asks for what is not implemented.
    """
    raw = read_object(folder / CONFIG_FILE)
    faults: list[str] = []
    method = raw.get("peft_type")
    if method != "LORA":
        faults = [f"peft_type is {_show(method)}, only LORA can be merged"]
        raise CheckpointError(folder, faults)
    for name, value in raw.items():
        if name not in _KNOWN and value not in (None, False, "", [], {}):
            faults.append(f"{CONFIG_FILE} field {name} is {_show(value)}: not implemented")
    start = raw.get("init_lora_weights")
    if start not in _PLAIN_STARTS:
        fault = f"init_lora_weights is {_show(start)}: not implemented, since it changes the base"
        faults.append(f"{fault}; save the adapter anew as plain LoRA")
    fields = _Fields(raw, faults)
    saved = fields.texts("modules_to_save")
    config = AdapterConfig(
        rank=fields.rank("r", raw.get("r", 8)),
        alpha=fields.number("lora_alpha", raw.get("lora_alpha", 8)),
        ranks=fields.pattern("rank_pattern", fields.rank),
        alphas=fields.pattern("alpha_pattern", fields.number),
        divides_by_root=fields.flag("use_rslora"),
        saves_wte=any(f".{name}".endswith(".wte") for name in saved),
        base=str(raw.get("base_model_name_or_path") or ""),
    )
    if faults:
        raise CheckpointError(folder, faults)
    return config


class _Fields:
    """Typed access to the fields; what is wrong with them is added to `faults`."""

    def __init__(self, raw: Mapping[str, Any], faults: list[str]) -> None:
        self._raw = raw
        self._faults = faults

    def rank(self, name: str, value: Any) -> int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if whole and 0 < value <= _LARGEST_RANK:
            return int(value)
        self._expect(name, f"an integer from 1 to {_LARGEST_RANK}", value)
        return 1

    def number(self, name: str, value: Any) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        self._expect(name, "a number", value)
        return 0.0

    def flag(self, name: str) -> bool:
        value = self._raw.get(name) or False
        if not isinstance(value, bool):
            self._expect(name, "true or false", value)
        return value is True

    def texts(self, name: str) -> list[str]:
        value = self._raw.get(name) or []
        if isinstance(value, list) and all(isinstance(text, str) for text in value):
            return value
        self._expect(name, "a list of names", value)
        return []

    def pattern(self, name: str, read: Any) -> dict[str, Any]:
        value = self._raw.get(name) or {}
        if not isinstance(value, dict):
            self._expect(name, "an object", value)
            return {}
        for key in value:
            self._check_pattern(name, key)
        return {key: read(f"{name} {_show(key)}", entry) for key, entry in value.items()}

    def _check_pattern(self, name: str, key: str) -> None:
        if len(_REPEAT.findall(key)) > _MOST_REPEATS or _REPEATED_GROUP.search(key):
            self._expect(name, "simple patterns", key)
            return
        try:
            re.compile(rf"(.*\.)?({key})$")
        except (re.error, OverflowError, RecursionError):
            self._expect(name, "patterns", key)

    def _expect(self, name: str, what: str, found: Any) -> None:
        self._faults.append(f"{CONFIG_FILE} field {name}: expected {what}, found {_show(found)}")


def _show(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value)[:80]
