"""Finds the published names of weights in the names that files store them under.

Published names are those without the `transformer.` prefix: `wte.weight`, `h.0.ln_1.weight`, …
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# Heads of other tasks, beside the language model's: those of transformers' GPT2DoubleHeadsModel,
# GPT2ForSequenceClassification, …TokenClassification and …QuestionAnswering, and of trl and its
# like. A list, since of an unknown name nobody can say that the text does not depend on it.
_OTHER_HEAD: Final = re.compile(
    r"(multiple_choice_head|score|classifier|qa_outputs|v_head|value_head|reward_head)\..+"
)
_OLDER_NAMES: Final[Mapping[str, str]] = {"lm_head.decoder.weight": "lm_head.weight"}  # DialoGPT
_NAMES_SHOWN: Final = 4


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
        if head := _OTHER_HEAD.fullmatch(bare):
            heads.add(f"{head[1]}.*")
            continue
        published = _OLDER_NAMES.get(bare, bare.removeprefix("transformer."))
        if bare in _OLDER_NAMES:
            renamed.append(f"{bare} was read as {published}")
        if published in stored:
            faults.append(f"{published} is there twice, as {stored[published]} and as {name}")
        stored[published] = name
    notes = [f"{prefix} was left off the names of all weights"] if prefix else []
    if heads:
        listed = list_some(sorted(heads))
        notes.append(f"{listed} was left out, since the language model has no use for it")
    return WeightNames(stored, faults, notes + renamed)


def list_some(names: Sequence[str]) -> str:
    """Return the first of some names in words, and how many more there are."""
    shown = ", ".join(names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _find_prefix(names: Collection[str]) -> str:
    """Return what stands before every name, as told by that of the one token embedding."""
    embeddings = [name.split(".") for name in names if f".{name}".endswith(".wte.weight")]
    if len(embeddings) != 1:
        return ""
    *outer, _, _ = embeddings[0]
    if outer and outer[-1] == "transformer":
        outer.pop()
    prefix = "".join(f"{part}." for part in outer)
    return prefix if all(name.startswith(prefix) for name in names) else ""
