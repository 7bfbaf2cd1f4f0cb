"""Claims about the slot that stays open between runs; each character is a token here."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from gpt2cli.config import Overflow
from gpt2cli.generation.interfaces import Counts
from gpt2cli.generation.loop import generate
from gpt2cli.generation.prompt_cache import PromptCache
from gpt2cli.generation.requests import prepare
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.generation.runs import make_engine, make_request


class Runs:
    """Runs one after the other in a slot that stays open; the model always says x."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.engine = make_engine(ord("x") - 32, n_positions=24)
        self.cache = PromptCache()
        self._tokenizer = tokenizer

    def run(
        self, prompt: str, *, interrupted: Callable[[], bool] = lambda: False, **limits: Any
    ) -> str:
        """Return what is said after a prompt: three tokens, if nothing else is asked for.

        What stands between brackets was drawn in a run before.
        """
        self.engine.calls.clear()
        parts = re.split(r"[][]", prompt)
        stepped = [place % 2 == 1 for place, part in enumerate(parts) for _ in part]
        prompt = "".join(parts)
        request = make_request(prompt, **{"max_new_tokens": 3, **limits})
        counts = Counts()
        chunks = generate(
            self.engine,
            self._tokenizer,
            Sampler(),
            [prepare(request, self._tokenizer, self.engine.shape, stepped=stepped)],
            counts=counts,
            interrupted=interrupted,
            prompt_cache=self.cache,
        )
        text = "".join(chunk.text for chunk in chunks)
        assert counts.prefill_tokens == sum(map(len, self.extended))
        return text

    @property
    def extended(self) -> list[str]:
        """The text of each prefill of the last run."""
        ids = [call[2] for call in self.engine.calls if call[0] in ("extend", "verify")]
        return [self._tokenizer.decode(some).decode() for some in ids]

    @property
    def rewound(self) -> list[int]:
        """To which lengths the last run rewound the slot."""
        return [call[2] for call in self.engine.calls if call[0] == "rewind"]


@pytest.fixture
def runs(ascii_tokenizer: Tokenizer) -> Runs:
    """Return what runs one prompt after the other."""
    return Runs(ascii_tokenizer)


def ids_of(text: str) -> tuple[int, ...]:
    """Return the ids of printable ASCII."""
    return tuple(ord(character) - 32 for character in text)


@pytest.mark.parametrize(
    ("prompts", "rewound", "extended"),
    [
        (("ab", "ab"), 2, []),  # the logits after it were kept
        (("ab", "cd"), 0, ["cd"]),
        # Of what is read at least two ids are read together.
        (("abc", "abd"), 1, ["bd"]),
        (("abcdef", "abcxyz"), 3, ["xyz"]),
        (("abcdef", "abcd"), 2, ["cd"]),
        (("a", "ab"), 0, ["ab"]),
        # What was drawn was stepped, and is read where it is said.
        (("ab", "abxxxcd"), 2, ["xxxcd"]),
        (("ab", "ab[xxx]cd"), 4, ["x", "cd"]),  # the last of it was never fed
        (("ab", "ab[xxx]c"), 4, ["xc"]),
        (("ab", "ab[xxx]"), 4, ["x"]),
        (("ab", "ab[xx]"), 3, ["x"]),
        (("ab", "ab[xxy]cd"), 4, ["y", "cd"]),
        (("ab", "ab[xxx]cdef", "ab[xxx]cdeg"), 7, ["eg"]),
        # After a detour the slot is as without it.
        (("ab", "ab[xxx]cdef", "ab[xxx]cdeg", "ab[xxx]cdeg[xxx]hi"), 11, ["x", "hi"]),
    ],
)
def test_a_prompt_that_begins_as_the_slot_is_prefilled_from_there(
    runs: Runs, prompts: tuple[str, ...], rewound: int, extended: list[str]
) -> None:
    """By hand: to what length the slot is rewound, and what is prefilled; brackets hold replies."""
    for prompt in prompts:
        assert runs.run(prompt) == "xxx"
        assert runs.engine.count("free") == 0
    assert (runs.rewound, runs.extended) == ([rewound], extended)


def test_the_same_prompt_may_come_again_and_again(runs: Runs) -> None:
    """Also after a run that drew less."""
    runs.run("ab")
    for count in (3, 1, 2):
        assert runs.run("ab", max_new_tokens=count) == "x" * count
        assert (runs.rewound, runs.extended) == ([2], [])


def test_a_run_that_draws_nothing_leaves_the_slot_alone(runs: Runs) -> None:
    """And nothing was drawn after its prompt, whatever was before."""
    runs.run("ab")
    assert runs.run("cd", max_new_tokens=0) == ""
    assert runs.engine.calls == []
    assert runs.cache.completion_of(ids_of("cd")) == ()
    runs.run("ab")
    assert runs.extended == []


def test_a_run_that_was_interrupted_before_it_began_leaves_it_alone_too(runs: Runs) -> None:
    """The first of all as well: then the slot is still closed, and nothing was drawn."""
    assert runs.run("ab", interrupted=lambda: True) == ""
    assert runs.cache.completion_of([1]) == ()
    assert runs.run("ab") == "xxx"
    assert runs.run("cd", interrupted=lambda: True) == ""
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
    assert (runs.rewound, runs.extended) == ([0], ["ab"])


@pytest.mark.parametrize("prompt", ["ab", "abxxxcd", "zz"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", ["rewind", "extend", "decode"])
def test_a_run_that_is_cut_off_anywhere_leaves_what_can_be_gone_on_with(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, name: str, when: str, prompt: str
) -> None:
    """Before or after the engine has done a step: what the slot holds is never less than told."""
    runs.run("ab")
    runs.run("abxxxcdef")
    work = getattr(runs.engine, name)

    def cut(*arguments: Any) -> Any:
        if when == "after":
            work(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(runs.engine, name, cut)
    with pytest.raises(KeyboardInterrupt):
        runs.run(prompt)
    monkeypatch.undo()

    assert runs.run("abxxxcdef") == "xxx"
    assert runs.engine.slots == [[*ids_of("abxxxcdefxx")]]


def test_what_was_drawn_before_is_stepped_until_it_is_interrupted(runs: Runs) -> None:
    """Nothing is said then; the next run goes on from there."""
    runs.engine.most_steps = 1
    answers = iter([False] * 5)
    assert runs.run("ab[cdefg]hi", interrupted=lambda: next(answers, True)) == ""
    begun = runs.extended
    assert begun[:2] == ["ab", "c"]
    assert runs.run("ab[cdefg]hi") == "xxx"
    assert "".join([*begun, *runs.extended]) == "abcdefghi"
