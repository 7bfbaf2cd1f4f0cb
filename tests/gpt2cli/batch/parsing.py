"""Parses records with the defaults of a command line that says nothing."""

from collections.abc import Mapping
from typing import Any, Final

from gpt2cli.batch import BatchItem, InputReader, ItemDefaults, ItemParser, ItemSource
from gpt2cli.model_folder import ModelShape
from gpt2cli.tokenizer import Tokenizer

SHAPE: Final = ModelShape(1, 1, 8, 8, 16, 97)  # 16 positions, printable ASCII
RUN_SEED: Final = 1000


def make_parser(
    tokenizer: Tokenizer,
    *,
    jsonl: bool = True,
    given: Mapping[str, Any] | None = None,
    own: Mapping[str, Any] | None = None,
    samples: int = 1,
    allow_special: bool = False,
    logprobs: int | None = None,
    max_slots: int = 4,
) -> ItemParser:
    """Return a parser; `given` is the command line's, `own` the model's generation_config."""
    defaults = ItemDefaults(given or {}, own or {}, RUN_SEED, samples, allow_special, logprobs)
    return ItemParser(defaults, tokenizer, SHAPE, jsonl=jsonl, max_slots=max_slots)


def make_source(descriptor: int, tokenizer: Tokenizer, **options: Any) -> ItemSource:
    """Return the items of a descriptor's records; `options` are those of `make_parser`."""
    return ItemSource(InputReader(descriptor), make_parser(tokenizer, **options))


def take_all(source: ItemSource) -> list[BatchItem]:
    """Return all items that come."""
    return list(iter(source.take_next, None))
