"""Names the programs that are compared, in each precision, and which of them compete."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

OURS: Final = "gpt2"


@dataclass(frozen=True, slots=True)
class Variant:
    """One program in one precision; variants of a class are measured against each other."""

    program: str
    precision: str  # as the program itself calls it
    precision_class: str

    def __str__(self) -> str:
        return f"{self.program} {self.precision}"


VARIANTS: Final[Sequence[Variant]] = (
    Variant(OURS, "fp32", "fp32"),
    Variant("transformers", "float32", "fp32"),
    Variant("ctranslate2", "float32", "fp32"),
    Variant("llama_cpp", "F32", "fp32"),
    Variant("transformers", "bfloat16", "16 bit"),
    Variant("llama_cpp", "F16", "16 bit"),
    Variant(OURS, "int8", "int8"),
    Variant("ctranslate2", "int8", "int8"),
    Variant("llama_cpp", "Q8_0", "int8"),
    Variant(OURS, "int4", "int4"),
    Variant("llama_cpp", "Q4_0", "int4"),
)
PROGRAMS: Final = tuple(dict.fromkeys(variant.program for variant in VARIANTS))
