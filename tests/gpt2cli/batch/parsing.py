"""Parses records with the defaults of a command line that says nothing."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from gpt2cli.batch.items import BatchItem, ItemParser
from gpt2cli.config import OF_A_PROMPT
from gpt2cli.declarations import options_of
from gpt2cli.model_folder import ModelShape
from gpt2cli.resumable.input import InputReader, ItemSource
from gpt2cli.settings import Given, Settings
from gpt2cli.tokenizer import Tokenizer

SHAPE: Final = ModelShape(1, 1, 8, 8, 16, 97)  # 16 positions, printable ASCII
RUN_SEED: Final = 1000
OPTIONS: Final = {option.field: option for group in OF_A_PROMPT for option in options_of(group)}


def make_parser(
    tokenizer: Tokenizer,
    *,
    jsonl: bool = True,
    given: Mapping[str, Any] | None = None,
    own: Mapping[str, Any] | None = None,
    most_beams: int = 4,
    as_text: bool = False,
    **options: Any,
) -> ItemParser:
    """Return a parser; `given` and `options` are the command line's, `own` the model's."""
    said = {name: Given(value) for name, value in (dict(given or {}) | options).items()}
    settings = Settings(OPTIONS, (said,)).with_model(own or {})
    return ItemParser(
        settings=settings,
        tokenizer=tokenizer,
        shape=SHAPE,
        run_seed=RUN_SEED,
        jsonl=jsonl,
        most_beams=most_beams,
        model_names=frozenset({"small"}),
        as_text=as_text,
        open_chat=lambda: pytest.fail("no record is of a chat"),
    )


def make_source(descriptor: int, tokenizer: Tokenizer, **options: Any) -> ItemSource[BatchItem]:
    """Return the items of a descriptor's records; `options` are those of `make_parser`."""
    return ItemSource(InputReader(descriptor), make_parser(tokenizer, **options))


def take_all(source: ItemSource[BatchItem]) -> list[BatchItem]:
    return list(iter(source.take_next, None))
