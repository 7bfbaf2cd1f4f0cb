"""Claims about the forms in which a model sees a conversation."""

import json
import pathlib
from dataclasses import replace
from typing import Any

import pytest

from gpt2cli.chat.context import DialoGPT, Transcript, choose_template
from gpt2cli.chat.conversation import Conversation
from gpt2cli.errors import UsageError
from gpt2cli.tokenizer import Tokenizer
from tests.checkpoints import write_tokenizer
from tests.gpt2cli.folders import bare_folder

EOS = 96  # of the tokenizer of printable ASCII
NAMED = Conversation(user_name="Ann", bot_name="Fox", system="A wood.")


def test_a_transcript_is_lines_that_begin_with_names(ascii_tokenizer: Tokenizer) -> None:
    """The system text is a paragraph of its own; the reply's text begins with the space."""
    form = Transcript(NAMED, ascii_tokenizer, allow_special=False)

    ids = form.begin() + form.ask("Hi", first=True) + form.answer("Yes?") + form.close()
    ids += form.ask("Bye", first=False)

    assert ascii_tokenizer.show(ids) == "A wood.\n\nAnn: Hi\nFox: Yes?\nAnn: Bye\nFox:"
    assert form.stop == ("\nAnn:",)


def test_a_transcript_without_a_system_text_begins_with_the_user(
    ascii_tokenizer: Tokenizer,
) -> None:
    """There is no empty line, and no BOS, before it; an empty reply adds nothing."""
    form = Transcript(Conversation(), ascii_tokenizer, allow_special=False)

    assert form.begin() == []
    assert ascii_tokenizer.show(form.ask("Hi", first=True)) == "User: Hi\nBot:"
    assert form.answer("") == []


def test_dialogpt_ends_all_that_was_said_with_eos(ascii_tokenizer: Tokenizer) -> None:
    """No names, no newlines: as its authors trained it."""
    form = DialoGPT(NAMED, ascii_tokenizer, allow_special=False)
    h, i, y = (ord(letter) - 32 for letter in "HiY")

    assert form.ask("Hi", first=True) == form.ask("Hi", first=False) == [h, i, EOS]
    assert form.answer("Y") + form.close() == [y, EOS]
    assert form.begin() == [*ascii_tokenizer.encode("A wood."), EOS]
    assert form.stop == ()


@pytest.mark.parametrize("form", [Transcript, DialoGPT])
@pytest.mark.parametrize("system", ["", "A wood."])
def test_what_the_tokenizer_puts_before_a_text_begins_the_conversation(
    tmp_path: pathlib.Path, form: type[Transcript] | type[DialoGPT], system: str
) -> None:
    """Its ids once, and its space before the first words but not before the reply's."""
    write_tokenizer(tmp_path, 97, kind="ascii")
    path = tmp_path / "tokenizer.json"
    raw = json.loads(path.read_text("utf-8"))
    raw["pre_tokenizer"]["add_prefix_space"] = True
    path.write_text(json.dumps(raw), "utf-8")
    folder = replace(bare_folder(tmp_path, vocab_size=97, eos_token_id=EOS), start_ids=(EOS,))
    tokenizer = Tokenizer(folder)
    talk = form(Conversation(system=system), tokenizer, allow_special=False)

    ids = talk.begin() + talk.ask("Hi", first=True) + talk.answer("Y")

    assert ids[:2] == [EOS, 0]
    assert ids[2] != 0
    assert EOS not in talk.answer("Y") + talk.ask("Hi", first=False)[:-1]


@pytest.mark.parametrize("form", [Transcript, DialoGPT])
def test_only_the_users_words_can_be_special(
    ascii_tokenizer: Tokenizer, form: type[Transcript] | type[DialoGPT]
) -> None:
    """With --allow-special; what a model said stays text, however it reads."""
    text = "<|endoftext|>"
    plain = form(Conversation(), ascii_tokenizer, allow_special=False)
    special = form(Conversation(), ascii_tokenizer, allow_special=True)

    assert len(plain.ask("", first=True)) + 1 == len(special.ask(text, first=True))
    assert EOS in special.ask(text, first=True)
    assert len(plain.ask(text, first=True)) > len(special.ask(text, first=True))
    assert EOS not in special.answer(text)


def test_dialogpt_needs_an_eos(tmp_path: pathlib.Path) -> None:
    """Without one nothing would end what was said."""
    write_tokenizer(tmp_path, 97, kind="ascii")
    tokenizer = Tokenizer(bare_folder(tmp_path, vocab_size=97))

    with pytest.raises(UsageError, match=r"template: expected a model with an EOS"):
        DialoGPT(Conversation(), tokenizer, allow_special=False)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # microsoft/DialoGPT-medium's config.json, and openai-community/gpt2's
        ('{"task_specific_params": {"conversational": {"max_length": 1000}}}', "dialogpt"),
        (
            '{"task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}}',
            "transcript",
        ),
        ('{"task_specific_params": null}', "transcript"),
        ('{"task_specific_params": "conversational"}', "transcript"),
        ("{}", "transcript"),
    ],
)
def test_the_models_own_config_chooses_the_form(config: str, expected: str) -> None:
    """Whatever stands there, something is chosen."""
    value: dict[str, Any] = json.loads(config)
    assert choose_template(value) == expected
