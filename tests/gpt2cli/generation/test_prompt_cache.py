"""Claims about the slot that stays open between runs; each character is a token here."""

from collections.abc import Sequence
from typing import Any, Final

import pytest

from gpt2cli.config import GenerationConfig, Overflow, SamplingConfig
from gpt2cli.generation.interfaces import Counts
from gpt2cli.generation.loop import generate
from gpt2cli.generation.prompt_cache import PromptCache
from gpt2cli.generation.requests import PreparedRequest, Request, prepare
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.scripted import ScriptedEngine, prefer

_X: Final = ord("x") - 32  # what the model always says


@pytest.fixture
def engine() -> ScriptedEngine:
    """Return an engine with one slot that always says x."""
    return ScriptedEngine(lambda ids: prefer(97, _X), n_positions=24, vocab_size=97, max_slots=1)


class Runs:
    """Runs one after the other in a slot that stays open."""

    def __init__(self, engine: ScriptedEngine, tokenizer: Tokenizer) -> None:
        self.engine = engine
        self.cache = PromptCache()
        self._tokenizer = tokenizer

    def prepare(self, prompt: str, **limits: Any) -> PreparedRequest:
        """Prepare a greedy request for three tokens, if nothing else is said."""
        request = Request(
            prompt=prompt,
            sampling=SamplingConfig(temperature=0),
            generation=GenerationConfig(**{"max_new_tokens": 3, **limits}),
            seed=0,
        )
        return prepare(request, self._tokenizer, self.engine.shape)

    def run(self, prompt: str, *, interrupted: bool = False, **limits: Any) -> str:
        """Return what is said after a prompt; forget the calls before."""
        self.engine.calls.clear()
        counts = Counts()
        chunks = generate(
            self.engine,
            self._tokenizer,
            Sampler(),
            [self.prepare(prompt, **limits)],
            counts=counts,
            interrupted=lambda: interrupted,
            prompt_cache=self.cache,
        )
        text = "".join(chunk.text for chunk in chunks)
        assert counts.prefill_tokens == sum(len(ids) for ids in self.extended)
        return text

    @property
    def extended(self) -> list[tuple[int, ...]]:
        """The ids of each prefill of the last run."""
        return [call[2] for call in self.engine.calls if call[0] == "extend"]

    @property
    def rewound(self) -> list[int]:
        """To which lengths the last run rewound the slot."""
        return [call[2] for call in self.engine.calls if call[0] == "rewind"]


@pytest.fixture
def runs(engine: ScriptedEngine, ascii_tokenizer: Tokenizer) -> Runs:
    """Return what runs one prompt after the other."""
    return Runs(engine, ascii_tokenizer)


def ids_of(text: str) -> tuple[int, ...]:
    """Return the ids of printable ASCII."""
    return tuple(ord(character) - 32 for character in text)


def test_a_prompt_that_goes_on_is_prefilled_from_there(runs: Runs) -> None:
    """The last token of the completion was never fed: nothing was drawn after it."""
    assert runs.run("ab") == "xxx"
    assert runs.extended == [ids_of("ab")]

    assert runs.run("abxxxcd") == "xxx"
    assert (runs.rewound, runs.extended) == ([4], [ids_of("xcd")])
    assert runs.engine.count("free") == 0


def test_the_same_prompt_is_not_prefilled_at_all(runs: Runs) -> None:
    """The logits after it were kept; also a third time, and after a run that drew less."""
    runs.run("ab")
    for count in (3, 1, 2):
        assert runs.run("ab", max_new_tokens=count) == "x" * count
        assert (runs.rewound, runs.extended) == ([2], [])


def test_a_prefill_is_used_again_whole_or_not_at_all(runs: Runs) -> None:
    """Though the slot holds four tokens of this prompt, they were computed with others."""
    runs.run("ab")
    runs.run("abxxxcdef")

    runs.run("abxxxcdeg")

    assert (runs.rewound, runs.extended) == ([4], [ids_of("xcdeg")])


def test_of_the_first_prefill_nothing_is_used_in_part(runs: Runs) -> None:
    """Then all is prefilled."""
    runs.run("abc")
    runs.run("abd")

    assert (runs.rewound, runs.extended) == ([0], [ids_of("abd")])


def test_what_was_decoded_is_used_token_by_token(runs: Runs) -> None:
    """Each was computed by itself."""
    runs.run("ab", max_new_tokens=9)
    runs.run("abxxxc")

    assert (runs.rewound, runs.extended) == ([5], [ids_of("c")])


def test_a_prompt_that_ends_within_what_is_there_has_its_last_token_prefilled(runs: Runs) -> None:
    """The logits after it are wanted."""
    runs.run("ab", max_new_tokens=9)
    runs.run("abxxx")

    assert (runs.rewound, runs.extended) == ([4], [ids_of("x")])


def test_after_a_detour_the_slot_is_as_without_it(runs: Runs) -> None:
    """The tokens of the detour are gone, and so are the places that its prefill has filled."""
    runs.run("ab")
    runs.run("abxxxcdef")
    runs.run("abxxxcdeg")
    runs.run("abxxxcdegxxxh")

    assert (runs.rewound, runs.extended) == ([11], [ids_of("xh")])


def test_nothing_shared_is_prefilled_whole(runs: Runs) -> None:
    """The slot stays open all the same."""
    runs.run("ab")
    runs.run("cd")

    assert (runs.rewound, runs.extended) == ([0], [ids_of("cd")])


def test_a_run_that_draws_nothing_leaves_the_slot_alone(runs: Runs) -> None:
    """And nothing was drawn after its prompt, whatever was before."""
    runs.run("ab")
    assert runs.run("cd", max_new_tokens=0) == ""
    assert runs.engine.calls == []
    assert runs.cache.completion_of(ids_of("cd")) == ()

    runs.run("ab")
    assert runs.extended == []


def test_a_run_that_was_interrupted_before_it_began_leaves_it_alone_too(runs: Runs) -> None:
    """The first of all as well: then the slot is still closed."""
    assert runs.run("ab", interrupted=True) == ""
    assert runs.run("ab") == "xxx"
    assert runs.run("cd", interrupted=True) == ""
    assert runs.run("ab") == "xxx"
    assert runs.extended == []


def test_what_was_drawn_is_told(runs: Runs) -> None:
    """After its prompt, all of it, also what was not fed; EOS is no part of it."""
    runs.run("ab")
    assert runs.cache.completion_of(ids_of("ab")) == ids_of("xxx")
    runs.run("abxxxc", max_new_tokens=1)
    assert runs.cache.completion_of(ids_of("abxxxc")) == ids_of("x")


def test_after_sliding_it_is_not_known(runs: Runs) -> None:
    """And the next prompt is prefilled whole."""
    runs.run("ab", max_new_tokens=40, overflow=Overflow.SLIDE)
    assert runs.cache.completion_of(ids_of("ab")) is None

    runs.run("ab")
    assert (runs.rewound, runs.extended) == ([0], [ids_of("ab")])


@pytest.mark.parametrize("prompt", ["ab", "abxxxcd", "zz"])
@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("name", ["rewind", "extend", "decode"])
def test_a_run_that_is_cut_off_anywhere_leaves_what_can_be_gone_on_with(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, name: str, place: str, prompt: str
) -> None:
    """Before or after the engine has done a step: what the slot holds is never less than told."""
    runs.run("ab")
    runs.run("abxxxcdef")
    work = getattr(runs.engine, name)

    def cut(*arguments: Any) -> Any:
        if place == "after":
            work(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(runs.engine, name, cut)
    with pytest.raises(KeyboardInterrupt):
        runs.run(prompt)
    monkeypatch.undo()

    assert runs.run("abxxxcdef") == "xxx"
    assert runs.engine.slots == [[*ids_of("abxxxcdefxx")]]


def test_without_a_kept_slot_every_run_frees_its_own(
    engine: ScriptedEngine, ascii_tokenizer: Tokenizer
) -> None:
    """As generate and batch do."""
    prepared = Runs(engine, ascii_tokenizer).prepare("ab")
    for _ in range(2):
        list(generate(engine, ascii_tokenizer, Sampler(), [prepared]))
        assert engine.slots == []


def test_a_new_one_has_nothing() -> None:
    """It never told of a completion."""
    nothing: Sequence[int] = ()
    assert PromptCache().completion_of([1]) == nothing
