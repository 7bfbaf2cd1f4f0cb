"""The decode loop: requests → slots → prefill → (sample, decode)* → chunks."""

from gpt2cli.generation.loop import (
    Counts,
    LogitsEngine,
    SampleSource,
    generate,
    generate_from,
)
from gpt2cli.generation.ordering import in_sample_order
from gpt2cli.generation.requests import (
    Chunk,
    Finish,
    FinishReason,
    GenerationConfig,
    Overflow,
    PreparedRequest,
    Request,
    prepare,
    seed_of,
)

__all__ = [
    "Chunk",
    "Counts",
    "Finish",
    "FinishReason",
    "GenerationConfig",
    "LogitsEngine",
    "Overflow",
    "PreparedRequest",
    "Request",
    "SampleSource",
    "generate",
    "generate_from",
    "in_sample_order",
    "prepare",
    "seed_of",
]
