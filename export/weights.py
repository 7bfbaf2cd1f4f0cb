"""Which weights a GPT-2 has, and the names that files store them under.

Names are the published ones without the `transformer.` prefix: `wte.weight`,
`h.0.attn.c_attn.weight`, … Conv1D weights stay as stored, [in, out].
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from export.config import GPT2Config
from export.errors import list_some

Array = NDArray[np.float32]
Shape = tuple[int, ...]

# Heads of other tasks, beside the language model's: those of transformers' GPT2DoubleHeadsModel,
# GPT2ForSequenceClassification, …TokenClassification and …QuestionAnswering, and of trl and its
# like. A list, since of an unknown name nobody can say that the text does not depend on it.
OTHER_HEAD: Final = re.compile(
    r"(multiple_choice_head|score|classifier|qa_outputs|v_head|value_head|reward_head)\..+"
)
_OLDER_NAMES: Final[Mapping[str, str]] = {"lm_head.decoder.weight": "lm_head.weight"}  # DialoGPT


class Weights(Protocol):
    """What the graph's writer and the oracle need of a source of weights."""

    def read(self, name: str) -> Array:
        """Return one weight as float32, in its published shape."""
        ...


def expected_weights(config: GPT2Config) -> dict[str, Shape]:
    """Return the name and shape of every weight that `config` calls for, in the model's order."""
    embd, inner = config.n_embd, config.n_inner
    block: dict[str, Shape] = {
        "ln_1.weight": (embd,),
        "ln_1.bias": (embd,),
        "attn.c_attn.weight": (embd, 3 * embd),
        "attn.c_attn.bias": (3 * embd,),
        "attn.c_proj.weight": (embd, embd),
        "attn.c_proj.bias": (embd,),
        "ln_2.weight": (embd,),
        "ln_2.bias": (embd,),
        "mlp.c_fc.weight": (embd, inner),
        "mlp.c_fc.bias": (inner,),
        "mlp.c_proj.weight": (inner, embd),
        "mlp.c_proj.bias": (embd,),
    }
    shapes: dict[str, Shape] = {
        "wte.weight": (config.vocab_size, embd),
        "wpe.weight": (config.n_positions, embd),
    }
    for layer in range(config.n_layer):
        shapes |= {f"h.{layer}.{name}": shape for name, shape in block.items()}
    shapes |= {"ln_f.weight": (embd,), "ln_f.bias": (embd,)}
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, embd)
    return shapes


@dataclass(frozen=True, slots=True)
class WeightNames:
    """What the names in a file mean."""

    stored: Mapping[str, str]  # by the published name; heads of other tasks are not among them
    faults: Sequence[str]
    notes: Sequence[str]  # what the user should know of names that were changed or left out


def find_published(names: Collection[str]) -> WeightNames:
    """Return the published names of what a file calls `names`.

    What stands before all of them alike, as the `module.` or `_orig_mod.` of what wrapped the model
    in training, is left off.
    """
    prefix = _find_prefix(names)
    stored: dict[str, str] = {}
    faults: list[str] = []
    heads: set[str] = set()
    renamed: list[str] = []
    for name in sorted(names):
        bare = name.removeprefix(prefix)
        if head := OTHER_HEAD.fullmatch(bare):
            heads.add(f"{head[1]}.*")
            continue
        published = _OLDER_NAMES.get(bare, bare.removeprefix("transformer."))
        if bare in _OLDER_NAMES:
            renamed.append(f"{bare} was read as {published}")
        if published in stored:
            faults.append(f"{published} occurs twice, as {stored[published]} and as {name}")
        stored[published] = name
    notes = [f"{prefix} was left off the names of all weights"] if prefix else []
    if heads:
        listed = list_some(sorted(heads))
        notes.append(f"{listed} was left out; the language model does not use it")
    return WeightNames(stored, faults, notes + renamed)


def _find_prefix(names: Collection[str]) -> str:
    """Return the prefix of all names, found by the one token embedding."""
    embeddings = [name.split(".") for name in names if f".{name}".endswith(".wte.weight")]
    if len(embeddings) != 1:
        return ""
    *outer, _, _ = embeddings[0]
    if outer and outer[-1] == "transformer":
        outer.pop()
    prefix = "".join(f"{part}." for part in outer)
    return prefix if all(name.startswith(prefix) for name in names) else ""
