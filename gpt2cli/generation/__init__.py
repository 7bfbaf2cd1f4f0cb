"""The decode loop: requests → slots → prefill → (sample, decode)* → chunks."""

from gpt2cli.generation.interfaces import Counts, LogitsEngine, SampleSource
from gpt2cli.generation.kept import KeptSlot
from gpt2cli.generation.ordering import in_sample_order
from gpt2cli.generation.requests import (
    Chunk,
    Finish,
    FinishReason,
    PreparedRequest,
    Request,
    choose_seed,
    draw_seed,
    make_request,
    prepare,
    seed_of,
)
from gpt2cli.generation.run import generate, generate_from
from gpt2cli.generation.sample import slide

__all__ = [
    "Chunk",
    "Counts",
    "Finish",
    "FinishReason",
    "KeptSlot",
    "LogitsEngine",
    "PreparedRequest",
    "Request",
    "SampleSource",
    "choose_seed",
    "draw_seed",
    "generate",
    "generate_from",
    "in_sample_order",
    "make_request",
    "prepare",
    "seed_of",
    "slide",
]
