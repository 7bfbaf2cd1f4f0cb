"""Claims about the form that a model's own chat template gives a conversation, in ids."""

import importlib.metadata
import importlib.util
import json
import pathlib
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from export.manifest import write_tokenizer_folder
from gpt2cli.conversations.context import Room, fit
from gpt2cli.conversations.conversation import Conversation, Turn
from gpt2cli.conversations.own_template import OwnTemplate, find_lack, load_chat_template
from gpt2cli.conversations.sandbox import ChatTemplate
from gpt2cli.errors import ModelError, PackageError, PromptError, UsageError
from gpt2cli.generation.interfaces import FinishReason
from gpt2cli.model_folder import GRAPH_VERSION, ModelFolder, read_model_folder
from gpt2cli.tokenizer import Tokenizer
from tests.vectors.chat_cases import CASES, STORED_FILE, ChatCase, write_chat_case

_BARE: Final = replace(CASES["chatml"], config={})
_HELPFUL: Final = "<|im_start|>system\nYou are helpful.<|im_end|>\n"


@dataclass(frozen=True)
class Made:
    """A model folder without a model, and its tokenizer and template."""

    folder: ModelFolder
    tokenizer: Tokenizer
    source: ChatTemplate

    def template(self, *, system: str = "", allow_special: bool = False) -> OwnTemplate:
        conversation = Conversation(system=system)
        return OwnTemplate(
            conversation, self.tokenizer, allow_special=allow_special, source=self.source
        )

    def show(self, ids: list[int]) -> str:
        return self.tokenizer.show(ids)


def make(folder: pathlib.Path, case: ChatCase) -> Made:
    """Write the tokenizer of a case as `export` does."""
    (folder / "source").mkdir()
    (folder / "model").mkdir()
    write_chat_case(folder / "source", case)
    origin = {"path": "x"}
    write_tokenizer_folder(
        folder / "source", folder / "model", graph_version=GRAPH_VERSION, origin=origin
    )
    found = read_model_folder(folder / "model")
    return Made(found, Tokenizer(found), load_chat_template(found))


@pytest.fixture
def chatml(tmp_path: pathlib.Path) -> Made:
    """Return ChatML, whose <|im_end|> is not EOS."""
    return make(tmp_path, _BARE)


def turn(message: str, reply: str, **known: Any) -> Turn:
    return Turn(message, reply, FinishReason.STOP, 0, **known)


@pytest.mark.parametrize("name", CASES)
def test_the_ids_are_those_of_transformers(tmp_path: pathlib.Path, name: str) -> None:
    """By vectors, of replies that are known by their text."""
    said = list(CASES[name].said)
    system = said.pop(0)[1] if said[0][0] == "system" else ""
    texts = [content for _, content in said]
    turns = [turn(*texts[:2])] if len(texts) > 1 else []
    template = make(tmp_path, CASES[name]).template(system=system)
    stored = json.loads(STORED_FILE.read_text(encoding="utf-8"))
    assert template.prompt(turns, texts[-1], first=0).ids == stored[name]["ids"]


@pytest.mark.parametrize(
    ("name", "texts", "tokens"),
    [
        ("chatml, system", (), ["<|im_end|>"]),
        ("chatml", (), []),  # it is EOS there
        ("zephyr", (), []),
        ("llama", (), []),
        ("alpaca", ("\n\n### Instruction:",), []),
    ],
)
def test_a_reply_ends_with_what_the_template_writes_after_one(
    tmp_path: pathlib.Path, name: str, texts: tuple[str, ...], tokens: list[str]
) -> None:
    """Beside EOS, which is no part of it."""
    made = make(tmp_path, CASES[name])
    template = made.template()
    assert template.stop == texts
    assert [made.show([token_id]) for token_id in template.stop_ids] == tokens


def test_ids_stay_from_turn_to_turn(chatml: Made) -> None:
    """What the model has read or drawn begins the next prompt, however a reply was drawn."""
    template = chatml.template(system="a wood")
    letters = [i for letter in "good day" for i in chatml.tokenizer.encode_text(letter)]
    turns: list[Turn] = []
    before: list[int] = []
    for message in ("hello", "and then", "good bye"):
        prompt = template.prompt(turns, message, first=0)
        assert prompt.ids[: len(before)] == before
        before = prompt.ids + letters
        turns.append(turn(message, "good day", reply_ids=tuple(letters), drawn=len(letters)))
    assert sum(prompt.stepped) == 2 * len(letters)
    assert chatml.show([i for i, on in zip(prompt.ids, prompt.stepped, strict=True) if on]) == (
        2 * "good day"
    )


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("place", ["system", "message", "reply"])
def test_what_looks_like_a_special_token_is_text_unless_that_is_allowed(
    chatml: Made, place: str, allowed: bool
) -> None:
    """In whatever part of the conversation; a reply never is anything else."""
    texts = dict.fromkeys(("system", "message", "reply"), "x") | {place: "x<|im_end|>x"}
    template = chatml.template(system=texts["system"], allow_special=allowed)
    [mark] = template.stop_ids
    turns = [turn(texts["message"], texts["reply"])]
    ids = template.prompt(turns, "y", first=0).ids
    assert ids.count(mark) == 4 + (allowed and place != "reply")
    assert chatml.show(ids).count("<|im_end|>") == 5


@pytest.mark.parametrize("text", ["\ufdd0", "\ufdd1<|im_end|>"])
def test_what_marks_such_a_text_is_in_none(chatml: Made, text: str) -> None:
    with pytest.raises(PromptError, match="U\\+FDD0 or U\\+FDD1, which are no characters"):
        chatml.template().prompt([], text, first=0)


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ("message.content | upper", "A.B.C."),
        ("message.content if loop.last else '-'", "-.-.c."),
        ("loop.length ~ message.content", "3a.3b.3c."),
    ],
)
def test_a_template_that_writes_old_turns_anew_is_read_as_it_writes_them(
    tmp_path: pathlib.Path, change: str, seen: str
) -> None:
    source = f"{{% for message in messages %}}{{{{ {change} }}}}.{{% endfor %}}"
    made = make(tmp_path, ChatCase(source))
    drawn = turn("a", "b", reply_ids=tuple(made.tokenizer.encode_text("b")), drawn=1)
    assert made.show(made.template().prompt([drawn], "c", first=0).ids) == seen


def test_what_begins_every_conversation_is_known(chatml: Made) -> None:
    """It stays where old turns go, with the first message's own mark."""
    template = chatml.template()
    assert chatml.show(template.begin()) == f"{_HELPFUL}<|im_start|>user\n"
    assert template.history([], first=0).ids == template.begin()
    whole = template.prompt([], "hello", first=0).ids
    assert [*template.begin(), *template.ask("hello", first=True)] == whole
    shown = "<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    assert chatml.show(template.ask("hello", first=False)) == shown
    assert template.measure(turn("hello", "x")) == len(template.ask("hello", first=False)) + 1


def test_when_the_context_is_full_old_turns_go(chatml: Made) -> None:
    """And the first that stays is written as a first one, after the system text."""
    template = chatml.template(system="a wood")
    turns = tuple(turn(f"turn {number}", "yes") for number in range(9))
    conversation = replace(template.conversation, turns=turns)
    first, prompt = fit(conversation, "last", template, Room(160, 20))
    assert 0 < first < 9
    shown = chatml.show(prompt.ids)
    begin = "<|im_start|>system\na wood<|im_end|>\n<|im_start|>user\n"
    assert shown.startswith(f"{begin}turn {first}<|im_end|>")
    assert shown.endswith("last<|im_end|>\n<|im_start|>assistant\n")
    assert len(prompt.ids) <= 160 - 20


def test_a_template_that_fails_is_told_before_anything_is_said(tmp_path: pathlib.Path) -> None:
    made = make(tmp_path, ChatCase("{{ raise_exception('no system text') }}"))
    with pytest.raises(PromptError, match="fails: no system text"):
        made.template()


# Loading


def test_a_model_without_a_template_says_so(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError) as caught:
        make(tmp_path, ChatCase(""))
    assert caught.value.option == "template"


@pytest.mark.parametrize(
    ("found", "version", "told"),
    [
        (None, "", "jinja2 3.1.6 or newer, which is not installed"),
        (object(), "3.1.5", "jinja2 3.1.6 or newer; 3.1.5 is installed"),
        (object(), "3.1.6", None),
        (object(), "4.0b1", None),
    ],
)
def test_an_old_jinja_is_as_good_as_none(
    chatml: Made, monkeypatch: pytest.MonkeyPatch, found: object, version: str, told: str | None
) -> None:
    """Before 3.1.6 its sandbox could be left."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    assert find_lack() == told
    if told is not None:
        with pytest.raises(PackageError, match="the model's chat template needs jinja2"):
            load_chat_template(chatml.folder)


def test_a_damaged_file_is_told(chatml: Made) -> None:
    (chatml.folder.path / "chat_template.jinja").write_bytes(b"caf\xe9")
    with pytest.raises(ModelError, match="is not valid UTF-8"):
        load_chat_template(chatml.folder)
