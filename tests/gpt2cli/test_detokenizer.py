"""Ids to text: whole characters, whatever ids come and however they are cut."""

import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from pytest import fixture

from gpt2cli.detokenizer import Detokenizer
from gpt2cli.model_folder import ModelFolder, read_model_folder
from gpt2cli.tokenizer import Tokenizer
from tests.checkpoints import GPT2_VOCAB_SIZE, CheckpointShape
from tests.model_folders import ModelFolders

ASTRONAUT = "👩‍🚀 日本"
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
STARTER_VOCAB_SIZE = 4096

# Ids of single bytes are drawn often: broken UTF-8 is what they make.
GPT2_IDS = st.lists(st.integers(0, 255) | st.integers(0, GPT2_VOCAB_SIZE - 1), max_size=12)
STARTER_IDS = st.lists(st.integers(0, 256) | st.integers(0, STARTER_VOCAB_SIZE - 1), max_size=12)


@fixture(scope="module")
def gpt2(model_folders: ModelFolders) -> ModelFolder:
    """Return a model folder with GPT-2's real vocabulary."""
    return read_model_folder(
        model_folders(CheckpointShape(1, 1, 16, 8, GPT2_VOCAB_SIZE), tokenizer="gpt2")
    )


@fixture(scope="module")
def gpt2_oracle(gpt2: ModelFolder) -> tokenizers.Tokenizer:
    """Return the same vocabulary as the tokenizers library decodes it."""
    return tokenizers.Tokenizer.from_file(str(gpt2.tokenizer_file))


@fixture(scope="module")
def starter_tokenizer(starter: ModelFolder) -> Tokenizer:
    """Return the starter's tokenizer."""
    return Tokenizer(starter)


@fixture(scope="module")
def starter_oracle(starter: ModelFolder) -> tokenizers.Tokenizer:
    """Return the starter's vocabulary as the tokenizers library decodes it."""
    return tokenizers.Tokenizer.from_file(str(starter.tokenizer_file))


def stream(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    """Return the pieces that the detokenizer gives for ids one at a time."""
    detokenizer = Detokenizer(tokenizer)
    return [*map(detokenizer.add, ids), detokenizer.finish()]


def check_stream(tokenizer: Tokenizer, oracle: tokenizers.Tokenizer, ids: list[int]) -> None:
    """Compare the joined stream with the two decodings of all ids at once."""
    text = "".join(stream(tokenizer, ids))
    assert text == b"".join(map(tokenizer.token_bytes, ids)).decode("utf-8", "replace")
    assert text == oracle.decode(ids, skip_special_tokens=True)


@given(ids=GPT2_IDS)
def test_any_ids_of_gpt2_stream_as_they_decode(
    gpt2_tokenizer: Tokenizer, gpt2_oracle: tokenizers.Tokenizer, ids: list[int]
) -> None:
    """Any ids of the real vocabulary, broken UTF-8 too: joined stream equals whole decode."""
    check_stream(gpt2_tokenizer, gpt2_oracle, ids)


@given(ids=STARTER_IDS)
def test_any_ids_of_the_starter_stream_as_they_decode(
    starter_tokenizer: Tokenizer, starter_oracle: tokenizers.Tokenizer, ids: list[int]
) -> None:
    """The same for the bundled vocabulary, whose <|endoftext|> is the first id."""
    check_stream(starter_tokenizer, starter_oracle, ids)


@given(text=st.text(max_size=12))
def test_valid_text_streams_without_a_replacement(gpt2_tokenizer: Tokenizer, text: str) -> None:
    """No piece of valid text holds a U+FFFD that the text does not have."""
    pieces = stream(gpt2_tokenizer, gpt2_tokenizer.encode(text) if text else [])
    assert "".join(pieces) == text
    assert REPLACEMENT in text or not any(REPLACEMENT in piece for piece in pieces)


def test_an_emoji_comes_in_whole_characters(gpt2_tokenizer: Tokenizer) -> None:
    """👩‍🚀 日本, one id at a time: what has been shown is always a beginning of the text."""
    detokenizer, shown = Detokenizer(gpt2_tokenizer), ""
    ids = gpt2_tokenizer.encode(ASTRONAUT)
    assert len(ids) > len(ASTRONAUT)  # else nothing is cut
    for token_id in ids:
        shown += detokenizer.add(token_id)
        assert ASTRONAUT.startswith(shown)
    assert shown + detokenizer.finish() == ASTRONAUT


def test_a_cut_emoji_leaves_what_the_whole_decode_leaves(gpt2_tokenizer: Tokenizer) -> None:
    """Cut at every place, the stream equals the decoding of the bytes so far."""
    ids = gpt2_tokenizer.encode(ASTRONAUT)
    for count in range(len(ids) + 1):
        whole = b"".join(map(gpt2_tokenizer.token_bytes, ids[:count]))
        assert "".join(stream(gpt2_tokenizer, ids[:count])) == whole.decode("utf-8", "replace")


def test_a_character_is_given_as_soon_as_it_is_whole(byte_tokenizer: Tokenizer) -> None:
    """Of é's two bytes the first gives nothing, the second the character; nothing is left."""
    assert stream(byte_tokenizer, byte_tokenizer.encode("é")) == ["", "é", ""]


def test_an_unfinished_character_becomes_one_replacement(byte_tokenizer: Tokenizer) -> None:
    """Three of the four bytes of an emoji are one U+FFFD at the end, none before."""
    ids = byte_tokenizer.encode("🚀")[:3]
    assert stream(byte_tokenizer, ids) == ["", "", "", REPLACEMENT]


def test_no_ids_give_no_text(byte_tokenizer: Tokenizer) -> None:
    """An empty completion is an empty text."""
    assert stream(byte_tokenizer, []) == [""]


def test_a_silent_id_within_a_character_does_not_break_it(byte_tokenizer: Tokenizer) -> None:
    """<|endoftext|> between the bytes of a character adds nothing (--ignore-eos)."""
    first, second = byte_tokenizer.encode("é")
    assert "".join(stream(byte_tokenizer, [first, 256, second])) == "é"
