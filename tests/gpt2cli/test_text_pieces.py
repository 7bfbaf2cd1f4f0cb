"""Long texts are encoded in pieces, to the same ids."""

import json
import pathlib

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.text_pieces import can_be_cut, cut
from gpt2cli.tokenizer import Tokenizer
from tests.checkpoints import write_tokenizer
from tests.gpt2cli.folders import bare_folder

_FORM = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
_NO_PATTERN = {**_FORM, "use_regex": False}
# What GPT-2's pattern and libraries' notions of a space meet at.
_CHARACTERS = st.sampled_from("aZ9'.!~ \n\t\r\u00a0\u2003\u3000\x1c\x85é日👩\u200d\u0301<|>s")


@pytest.fixture(scope="module")
def whole(gpt2_tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """Return the library's own tokenizer of GPT-2's vocabulary."""
    return gpt2_tokenizer._tokenizer


@given(st.lists(_CHARACTERS, max_size=60), st.integers(1, 9))
def test_pieces_give_the_ids_of_the_whole(
    whole: tokenizers.Tokenizer, characters: list[str], length: int
) -> None:
    """Wherever it is cut; nothing is lost or doubled."""
    text = "".join(characters)
    pieces = list(cut(text, length))
    assert "".join(pieces) == text
    ids = [i for piece in pieces for i in whole.encode(piece, add_special_tokens=False).ids]
    assert ids == whole.encode(text, add_special_tokens=False).ids


def test_prose_is_cut_and_what_has_no_space_is_not() -> None:
    """At spaces, each piece with the one it begins with."""
    assert list(cut("one two\n\nthree  four", 2)) == ["one", " two", "\n\nthree", "  four"]
    assert list(cut("日本" * 100, 10)) == ["日本" * 100]
    assert list(cut("", 1)) == [""]


def test_a_long_text_gives_the_ids_that_it_gives_in_one(
    gpt2_tokenizer: Tokenizer, whole: tokenizers.Tokenizer
) -> None:
    """Some hundred thousand characters, with words of special tokens."""
    text = "It's <|endoftext|> 1 day,\n\n  then  日本 two. " * 9000
    for special in (False, True):
        ids = gpt2_tokenizer.encode_text(text, allow_special=special)
        assert ids == whole.encode(text, add_special_tokens=False).ids
        assert gpt2_tokenizer.decode(ids).decode() == text


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "NFC"}},
        {"pre_tokenizer": _NO_PATTERN},
        {"content": "two words"},
        {"rstrip": True},
        {"lstrip": True},
    ],
    ids=str,
)
def test_where_a_cut_could_be_seen_nothing_is_cut(
    tmp_path: pathlib.Path, change: dict[str, object]
) -> None:
    """Another pattern, or an added token that reaches over a space."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    path = tmp_path / "tokenizer.json"
    assert can_be_cut(Tokenizer(bare_folder(tmp_path, vocab_size=257))._tokenizer)

    raw = json.loads(path.read_text("utf-8"))
    part = raw if change.keys() & raw.keys() else raw["added_tokens"][0]
    part |= change
    path.write_text(json.dumps(raw), "utf-8")
    assert not can_be_cut(tokenizers.Tokenizer.from_file(str(path)))
