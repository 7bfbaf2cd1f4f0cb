"""Claims about prompts that begin alike: they are read once, and no bit tells it."""

import pathlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.storage import Precision
from gpt2cli.config import Overflow, SamplingConfig
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.generation.interfaces import Counts
from gpt2cli.generation.loop import Loop, generate
from gpt2cli.generation.requests import PreparedRequest, Request, prepare
from gpt2cli.model_folder import read_model_folder
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.generation.runs import (
    PLAIN,
    VOCAB_SIZE,
    Joined,
    ScriptedSource,
    join,
    make_engine,
    make_request,
)
from tests.gpt2cli.scripted import ScriptedEngine, scatter
from tests.model_folders import ModelFolders

STARTER = pathlib.Path(__file__).parents[3] / "gpt2cli" / "starter"
B = 66
COMMON = "in a wood there lived "  # 22 tokens of one character
OTHER = "the sea was blue and calm "


def calls_of(engine: ScriptedEngine, name: str) -> list[tuple[Any, ...]]:
    """Return the arguments of each call of a method."""
    return [call[1:] for call in engine.calls if call[0] == name]


def read_texts(engine: ScriptedEngine) -> list[str]:
    """Return the text of each prefill."""
    return ["".join(chr(32 + i) for i in ids) for _, ids in calls_of(engine, "extend")]


def run_one_by_one(
    tokenizer: Tokenizer, engine: ScriptedEngine, *prompts: str, counts: Counts | None = None
) -> None:
    """Run prompts of which each comes when nothing runs any more: no slot holds anything."""
    entries: list[tuple[PreparedRequest, int] | None] = []
    for index, prompt in enumerate(prompts):
        request = make_request(prompt, index=index, max_new_tokens=1)
        entries += [(prepare(request, tokenizer, engine.shape), 0), None]
    loop = Loop(engine, tokenizer, Sampler(), counts or Counts())
    assert len(list(loop.run(ScriptedSource(*entries)))) >= len(prompts)


def test_what_a_slot_has_of_a_prompt_is_copied(ascii_tokenizer: Tokenizer) -> None:
    """As much as both begin with; what is left is read."""
    engine, counts = make_engine(B, max_slots=3, n_positions=64), Counts()
    requests = [
        prepare(
            make_request(COMMON + end, index=i, max_new_tokens=4), ascii_tokenizer, engine.shape
        )
        for i, end in enumerate(("fox", "wolf", "bear"))
    ]
    join(generate(engine, ascii_tokenizer, Sampler(), requests, counts=counts))
    assert read_texts(engine) == [COMMON + "fox", "wolf", "bear"]
    assert (counts.prefill_tokens, counts.shared_tokens) == (33, 2 * 22)


def test_a_few_tokens_are_not_worth_a_copy(ascii_tokenizer: Tokenizer) -> None:
    """But in the slot of a sample that has ended they are there."""
    engine = make_engine(B, max_slots=2, n_positions=64)
    requests = [
        prepare(make_request(text, index=i, max_new_tokens=i + 1), ascii_tokenizer, engine.shape)
        for i, text in enumerate(("abcde", "abcfg", "abchi"))
    ]
    join(generate(engine, ascii_tokenizer, Sampler(), requests))
    assert read_texts(engine) == ["abcde", "fg", "abchi"]
    assert calls_of(engine, "fork") == []


def test_what_two_prompts_began_with_is_kept(ascii_tokenizer: Tokenizer) -> None:
    """The third finds it, though no slot is open and another prompt came in between."""
    engine, counts = make_engine(max_slots=1, n_positions=64), Counts()
    prompts = (COMMON + "fox", OTHER, COMMON + "wolf", OTHER, COMMON + "bear", COMMON)
    run_one_by_one(ascii_tokenizer, engine, *prompts, counts=counts)
    assert read_texts(engine) == [COMMON + "fox", OTHER, COMMON + "wolf", OTHER, "bear", "d "]
    assert calls_of(engine, "save") == [(0, len(COMMON)), (0, len(OTHER))]
    assert counts.kept_bytes == len(COMMON) + len(OTHER)
    assert calls_of(engine, "drop") == [(len(OTHER),), (len(COMMON),)]  # at the end


def test_a_longer_prefix_takes_the_place_of_its_own_beginning(ascii_tokenizer: Tokenizer) -> None:
    """If it is longer by enough to pay."""
    engine = make_engine(B, max_slots=1, n_positions=99)
    long = COMMON + OTHER
    run_one_by_one(ascii_tokenizer, engine, COMMON + "x", COMMON + "y", long + "x", long + "y")
    assert calls_of(engine, "save") == [(0, len(COMMON)), (0, len(long))]
    assert calls_of(engine, "drop") == [(len(COMMON),), (len(long),)]


def test_where_there_is_no_room_the_one_not_used_for_longest_goes(
    ascii_tokenizer: Tokenizer,
) -> None:
    """Three prefixes, of which two find room."""
    engine = make_engine(B, max_slots=1, n_positions=64)
    engine.saved_room = 3 * 20 - 1
    first, second, third = ("1" * 20, "2" * 20, "3" * 20)
    pairs = [each + end for each in (first, second) for end in "ab"]
    run_one_by_one(
        ascii_tokenizer, engine, *pairs, first + "c", third + "a", third + "b", first + "d", second
    )
    assert read_texts(engine)[-2:] == ["1d", second]
    assert engine.saved_room == 3 * 20 - 1


def test_what_finds_no_room_at_all_is_not_kept(ascii_tokenizer: Tokenizer) -> None:
    """And the run goes on."""
    engine = make_engine(B, max_slots=1, n_positions=64)
    engine.saved_room = 4
    run_one_by_one(ascii_tokenizer, engine, COMMON + "fox", COMMON + "wolf", COMMON + "bear")
    assert read_texts(engine) == [COMMON + end for end in ("fox", "wolf", "bear")]


def test_where_pieces_change_the_bits_nothing_is_shared_but_equal_prompts(
    ascii_tokenizer: Tokenizer,
) -> None:
    """Each other one is read as a whole."""
    engine = make_engine(B, max_slots=3, n_positions=64)
    engine.keeps_cuts = False
    requests = [
        prepare(
            make_request(COMMON + end, index=i, max_new_tokens=4), ascii_tokenizer, engine.shape
        )
        for i, end in enumerate(("fox", "wolf", "fox"))
    ]
    join(generate(engine, ascii_tokenizer, Sampler(), requests))
    assert read_texts(engine) == [COMMON + "fox", COMMON + "wolf"]
    assert calls_of(engine, "save") == []


class FlagEngine(ScriptedEngine):
    """A scripted engine whose logits tell which ids were stepped, as a real one's bits do."""

    def extend(self, slot: int, ids: Sequence[int], positions: Sequence[int]) -> Any:
        """Append ids; a single one after others is stepped."""
        is_stepped = len(ids) == 1 and slot < len(self.slots) and len(self.slots[slot]) > 0
        marked = [token_id + VOCAB_SIZE * is_stepped for token_id in ids]
        return super().extend(slot, marked, positions)

    def decode(self, ids: Sequence[int]) -> Any:
        """Step one id of each slot."""
        return super().decode([token_id + VOCAB_SIZE for token_id in ids])

    def verify(self, slot: int, ids: Sequence[int]) -> Any:
        """Step through several of one slot."""
        return super().verify(slot, [token_id + VOCAB_SIZE for token_id in ids])


PARTS = st.lists(st.sampled_from(["a", "b", COMMON, OTHER, "x" * 9]), max_size=4).map("".join)


@settings(max_examples=40)
@given(
    prompts=st.lists(PARTS, min_size=1, max_size=9),
    max_slots=st.integers(1, 4),
    new=st.lists(st.integers(1, 9), min_size=9, max_size=9),
    search=st.booleans(),
    room=st.integers(0, 150),
)
def test_any_prompts_that_begin_alike_give_what_they_give_alone(
    ascii_tokenizer: Tokenizer,
    prompts: list[str],
    max_slots: int,
    new: list[int],
    search: bool,
    room: int,
) -> None:
    """Any slots, any room for prefixes, sliding, samples and searches: as without sharing."""
    found: list[Joined] = []
    for keeps_cuts in (True, False):
        engine = FlagEngine(
            scatter(VOCAB_SIZE, often=[65, 66]),
            n_positions=60,
            vocab_size=VOCAB_SIZE,
            max_slots=max_slots if keeps_cuts else 1,
            slot_limit=4,
        )
        engine.keeps_cuts, engine.saved_room = keeps_cuts, room
        requests = [
            make_request(
                prompt[:60] if search and index == 1 else prompt,  # a search does not slide
                sampling=PLAIN,
                index=index,
                samples=1 + index % 2,
                max_new_tokens=new[index],
                **({"beams": 2} if search and index == 1 else {"overflow": Overflow.SLIDE}),
            )
            for index, prompt in enumerate(prompts)
        ]
        prepared = [prepare(request, ascii_tokenizer, engine.shape) for request in requests]
        found.append(join(generate(engine, ascii_tokenizer, Sampler(), prepared)))
        assert (engine.slots, engine.saved_room) == ([], room)
    assert found[0] == found[1]


# With the real engine


class Unshared(Engine):
    """An engine that is told that pieces change its bits."""

    keeps_cuts = False


BEGINNINGS = (
    "Once upon a time there was a little fox who lived in a deep green wood with his mother. ",
    "Once upon a time there was a little fox who lived in a deep green wood with a bear. " * 2,
    "The sea was blue and calm, and the boat was small. " * 5,
)
ENDS = ("He", "One day he went out to play, and", "", "They were sad because the")


@pytest.fixture(scope="module")
def requests() -> list[Request]:
    """Return requests whose prompts share 20 to 90 tokens, in an order that mixes them."""
    return [
        make_request(
            BEGINNINGS[index % 3] + ENDS[index // 3 % 4],
            sampling=SamplingConfig(top_k=0),
            index=index,
            seed=index,
            max_new_tokens=1 + index % 3,
            ignore_eos=True,
        )
        for index in range(12)
    ]


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.INT8], ids=str)
def test_records_are_the_same_with_and_without_sharing(
    model_folders: ModelFolders, requests: list[Request], precision: Precision
) -> None:
    """With their log-probabilities, side by side and one after the other."""
    folder = read_model_folder(model_folders.convert(STARTER, precision))
    tokenizer = Tokenizer(folder)
    prepared = [
        prepare(replace(request, logprobs=2), tokenizer, folder.shape) for request in requests
    ]
    found: list[tuple[Joined, int]] = []
    for kind, slots in ((Unshared, 7), (Engine, 1), (Engine, 32)):
        engine, counts = kind(folder, Device("cpu"), max_slots=slots, threads=1), Counts()
        made = join(generate(engine, tokenizer, Sampler(), prepared, counts=counts))
        found.append((made, counts.prefill_tokens))
    (without, all_tokens), *shared = found
    for made, tokens in shared:
        assert made == without
        assert tokens < all_tokens / 2
