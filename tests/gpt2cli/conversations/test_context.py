"""Claims about what the model sees of a conversation; each character is a token here."""

import json
import pathlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.conversations.context import Room, fit, ids_that_spell
from gpt2cli.conversations.conversation import Conversation, Turn
from gpt2cli.conversations.templates import DialoGPT, Transcript, choose_template
from gpt2cli.detokenizer import Detokenizer
from gpt2cli.errors import UsageError
from gpt2cli.generation.interfaces import FinishReason
from gpt2cli.model_folder import ModelFolder
from gpt2cli.tokenizer import Tokenizer
from tests.checkpoints import write_tokenizer
from tests.gpt2cli.folders import bare_folder

TURN = len("\nUser: a\nBot: A")  # 15 tokens; the first that is seen has no newline
ASKED = len("\nUser: b\nBot:")  # 13


def talk(count: int, *, first: int = 0, system: str = "") -> Conversation:
    """Return a conversation of turns of 15 tokens each."""
    turn = Turn("a", "A", FinishReason.STOP, 0, first)
    return Conversation(system=system, turns=(turn,) * count)


def fit_text(
    tokenizer: Tokenizer, conversation: Conversation, *, n_positions: int, message: str = "b"
) -> tuple[int, str]:
    """Return what `fit` does with ten tokens of room, as text."""
    template = Transcript(conversation, tokenizer, allow_special=False)
    first, prompt = fit(conversation, message, template, Room(n_positions, 10))
    return first, tokenizer.show(prompt.ids)


def test_all_turns_stay_while_they_fit(ascii_tokenizer: Tokenizer) -> None:
    exact = 4 * TURN - 1 + ASKED + 10
    first, text = fit_text(ascii_tokenizer, talk(4), n_positions=exact)
    assert first == 0
    assert text == "User: a\nBot: A" + 3 * "\nUser: a\nBot: A" + "\nUser: b\nBot:"


def test_when_they_do_not_those_that_stay_take_half_the_place(ascii_tokenizer: Tokenizer) -> None:
    """Of 4 turns that lack one token, 59 of them their room: half of it has one turn of 15."""
    exact = 4 * TURN - 1 + ASKED + 10
    first, text = fit_text(ascii_tokenizer, talk(4), n_positions=exact - 1)
    assert first == 3
    assert text == "User: a\nBot: A\nUser: b\nBot:"


def test_turns_that_went_before_do_not_come_again(ascii_tokenizer: Tokenizer) -> None:
    """Though there is room: what the model sees changes as seldom as can be."""
    first, text = fit_text(ascii_tokenizer, talk(4, first=3), n_positions=500)
    assert first == 3
    assert text.count("User: a") == 1


def test_the_system_text_stays(ascii_tokenizer: Tokenizer) -> None:
    system = 60 * "s"
    first, text = fit_text(ascii_tokenizer, talk(4, system=system), n_positions=120)
    assert text == f"{system}\n\nUser: a\nBot: A\nUser: b\nBot:"
    assert first == 3


@pytest.mark.parametrize("length", [60, 100, 200])
def test_the_message_stays_whether_it_fits_or_not(ascii_tokenizer: Tokenizer, length: int) -> None:
    """Who asks is told if it does not; with no turn left it stands first."""
    message = length * "m"
    first, text = fit_text(ascii_tokenizer, talk(4), n_positions=90, message=message)
    assert first == 4
    assert text == f"User: {message}\nBot:"


def test_a_reply_that_was_drawn_is_seen_as_it_was_drawn(small_tokenizer: Tokenizer) -> None:
    """Not as the tokenizer would cut the same text."""
    a = small_tokenizer.encode("a")
    assert len(small_tokenizer.encode("aa")) == 1
    drawn = Turn("x", "aa", FinishReason.STOP, 0, reply_ids=(*a, *a), drawn=2)
    template = Transcript(Conversation(), small_tokenizer, allow_special=False)
    assert template.history([drawn], first=0).ids[-2:] == [*a, *a]


def test_what_was_drawn_is_stepped_where_it_stands_as_it_was_drawn(
    ascii_tokenizer: Tokenizer,
) -> None:
    """Two of three ids were drawn; a turn that saw older ones, which have gone, is read."""
    template = DialoGPT(Conversation(), ascii_tokenizer, allow_special=False)
    turns = [
        Turn(
            "a",
            "bcd",
            FinishReason.STOP,
            0,
            first,
            reply_ids=ascii_tokenizer.encode("bcd"),
            drawn=2,
        )
        for first in (0, 3)
    ]
    prompt = template.history(turns, first=3)
    assert ascii_tokenizer.show(prompt.ids) == 2 * "a<|endoftext|>bcd<|endoftext|>"
    assert [place for place, stepped in enumerate(prompt.stepped) if stepped] == [8, 9]
    assert len(prompt.stepped) == len(prompt.ids)


@pytest.fixture(scope="module")
def small_tokenizer(small: ModelFolder) -> Tokenizer:
    """Return a tokenizer of bytes and a few merges: most texts can be cut in several ways."""
    return Tokenizer(small)


PIECES = st.lists(st.sampled_from([*"ab e", "aa", " a", "é", "👩‍🚀", "日"]), max_size=8).map(
    "".join
)


@given(drawn=st.lists(st.integers(0, 288), max_size=12), length=st.integers(0, 12))
def test_whatever_was_drawn_the_ids_spell_the_text(
    small_tokenizer: Tokenizer, drawn: list[int], length: int
) -> None:
    """Any ids, also of bytes that are no UTF-8, and any beginning of their text."""
    detokenizer = Detokenizer(small_tokenizer)
    text = "".join(map(detokenizer.add, drawn)) + detokenizer.finish()
    ids, kept = ids_that_spell(text[:length], drawn, small_tokenizer)
    assert ids[:kept] == tuple(drawn[:kept])
    assert b"".join(map(small_tokenizer.token_bytes, ids)).decode() == text[:length]


@given(text=PIECES, rest=PIECES, cut=st.data())
def test_ids_that_spell_the_text_are_kept(
    small_tokenizer: Tokenizer, text: str, rest: str, cut: st.DataObject
) -> None:
    """However the model cut it into tokens, as long as one ends where the text does."""

    def draw_ids(part: str) -> list[int]:
        """Return ids of one text, in two parts that were encoded by themselves, or by bytes."""
        place = cut.draw(st.integers(0, len(part)))
        if cut.draw(st.booleans()):
            return [token_id for byte in part.encode() for token_id in by_byte(byte)]
        encode = small_tokenizer.encode_text
        return encode(part[:place]) + encode(part[place:])

    def by_byte(byte: int) -> list[int]:
        return [i for i in range(256) if small_tokenizer.token_bytes(i) == bytes([byte])]

    wanted = draw_ids(text)
    drawn = wanted + draw_ids(rest)
    assert ids_that_spell(text, drawn, small_tokenizer) == (tuple(wanted), len(wanted))


def test_where_the_text_ends_within_a_token_its_rest_is_encoded(small_tokenizer: Tokenizer) -> None:
    a, aa = small_tokenizer.encode("a"), small_tokenizer.encode("aa")
    assert ids_that_spell("aaa", [*a, *aa, *aa], small_tokenizer) == ((*a, *aa), 2)
    assert ids_that_spell("aa", [*a, *aa, *aa], small_tokenizer) == ((*a, *a), 1)


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
        ('{"task_specific_params": {"conversational": {"max_length": 1000}}}', "dialogpt"),
        (
            '{"task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}}',
            "transcript",
        ),
        ('{"task_specific_params": "conversational"}', "transcript"),
        ("{}", "transcript"),
    ],
)
def test_the_models_own_config_chooses_the_form(config: str, expected: str) -> None:
    value: dict[str, Any] = json.loads(config)
    assert choose_template(value) == expected
