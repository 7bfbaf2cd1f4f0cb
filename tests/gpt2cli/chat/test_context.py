"""Claims about what the model sees of a conversation; each character is a token here."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.chat.context import Room, Transcript, build_history, fit, ids_that_spell
from gpt2cli.chat.conversation import Conversation, Turn
from gpt2cli.detokenizer import Detokenizer
from gpt2cli.generation.interfaces import FinishReason
from gpt2cli.model_folder import ModelFolder
from gpt2cli.tokenizer import Tokenizer

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
    first, ids = fit(conversation, message, template, Room(n_positions, 10))
    return first, tokenizer.show(ids)


def test_all_turns_stay_while_they_fit(ascii_tokenizer: Tokenizer) -> None:
    """To the last token beside the room."""
    exact = 4 * TURN - 1 + ASKED + 10
    first, text = fit_text(ascii_tokenizer, talk(4), n_positions=exact)

    assert first == 0
    assert text == "User: a\nBot: A" + 3 * "\nUser: a\nBot: A" + "\nUser: b\nBot:"


def test_when_they_do_not_those_that_stay_take_half_the_place(ascii_tokenizer: Tokenizer) -> None:
    """Of 4 turns that lack one token, 59 of them their place: half of it has one turn of 15."""
    exact = 4 * TURN - 1 + ASKED + 10
    first, text = fit_text(ascii_tokenizer, talk(4), n_positions=exact - 1)

    assert first == 3
    assert text == "User: a\nBot: A\nUser: b\nBot:"


def test_turns_that_went_before_do_not_come_again(ascii_tokenizer: Tokenizer) -> None:
    """Though there is place: what the model sees changes as seldom as can be."""
    first, text = fit_text(ascii_tokenizer, talk(4, first=3), n_positions=500)

    assert first == 3
    assert text.count("User: a") == 1


def test_the_system_text_stays(ascii_tokenizer: Tokenizer) -> None:
    """Even one that takes more than half of all."""
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
    drawn = Turn("x", "aa", FinishReason.STOP, 0, reply_ids=(*a, *a))
    template = Transcript(Conversation(), small_tokenizer, allow_special=False)

    assert build_history([drawn], template)[-2:] == [*a, *a]


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

    ids = ids_that_spell(text[:length], drawn, small_tokenizer)

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

    assert ids_that_spell(text, drawn, small_tokenizer) == tuple(wanted)


def test_where_the_text_ends_within_a_token_its_rest_is_encoded(small_tokenizer: Tokenizer) -> None:
    """What was drawn before that token is kept."""
    a, aa = small_tokenizer.encode("a"), small_tokenizer.encode("aa")

    assert ids_that_spell("aaa", [*a, *aa, *aa], small_tokenizer) == (*a, *aa)
    assert ids_that_spell("aa", [*a, *aa, *aa], small_tokenizer) == (*a, *a)
