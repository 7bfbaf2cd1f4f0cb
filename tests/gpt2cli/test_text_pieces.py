"""Long texts are encoded in pieces, to the same ids."""

import json
import pathlib
from collections.abc import Sequence

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.errors import PromptError
from gpt2cli.tokenizer import _BYTE_OF, Cutter, Tokenizer, make_cutter
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


@pytest.fixture(scope="module")
def cutter(whole: tokenizers.Tokenizer) -> Cutter:
    """Return what cuts for it."""
    return cutter_of(whole)


def cutter_of(tokenizer: tokenizers.Tokenizer) -> Cutter:
    """Return what cuts for a tokenizer that can be cut for."""
    cutter = make_cutter(tokenizer)
    assert cutter is not None
    return cutter


def encode(tokenizer: tokenizers.Tokenizer, text: str) -> list[int]:
    """Return the library's ids."""
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


def assert_same_ids(
    cutter: Cutter, tokenizer: tokenizers.Tokenizer, text: str, length: int
) -> None:
    """Fail if pieces of about that length lose or double anything, or have other ids."""
    pieces = list(cutter.cut(text, length))
    assert "".join(pieces) == text
    assert [i for piece in pieces for i in encode(tokenizer, piece)] == encode(tokenizer, text)


@given(st.lists(_CHARACTERS, max_size=60), st.integers(1, 9))
def test_pieces_give_the_ids_of_the_whole(
    cutter: Cutter, whole: tokenizers.Tokenizer, characters: list[str], length: int
) -> None:
    """Wherever it is cut, with GPT-2's vocabulary."""
    assert_same_ids(cutter, whole, "".join(characters), length)


@given(st.text(max_size=40), st.integers(1, 3))
def test_pieces_of_any_text_give_the_ids_of_the_whole(
    cutter: Cutter, whole: tokenizers.Tokenizer, text: str, length: int
) -> None:
    """All of Unicode, whatever a library takes for letters, digits and spaces."""
    assert_same_ids(cutter, whole, text, length)


@st.composite
def vocabularies(draw: st.DrawFn) -> tokenizers.Tokenizer:
    """Draw a tokenizer of all bytes, and merges of what there is by then in any order."""
    tokens = sorted(_BYTE_OF)
    parts = [character for character, byte in _BYTE_OF.items() if byte in b"'lsa1! \n\xe6\x97\xa5"]
    merges: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(0, 12))):
        pair = (draw(st.sampled_from(parts)), draw(st.sampled_from(parts)))
        if "".join(pair) not in tokens:
            tokens.append("".join(pair))
            parts.append("".join(pair))
            merges.append(pair)
    added = draw(st.lists(st.sampled_from(["<|e|>", "a1", "s ", "l's"]), max_size=2, unique=True))
    return make_tokenizer(
        tokens,
        merges,
        [tokenizers.AddedToken(text, single_word=draw(st.booleans())) for text in added],
        prefixed=draw(st.booleans()),
    )


def make_tokenizer(
    tokens: Sequence[str],
    merges: list[tuple[str, str]],
    added: list[tokenizers.AddedToken],
    *,
    prefixed: bool = False,
) -> tokenizers.Tokenizer:
    """Return a tokenizer with GPT-2's pattern."""
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=prefixed)
    tokenizer.add_tokens(added)
    return tokenizer


@pytest.mark.parametrize(
    ("text", "merge", "added"),
    [
        ("a'lla", "'l", None),
        ("!'s", "'s", None),
        ("a'ss", "'s", None),
        ("aa<|e|>aa", "aa", tokenizers.AddedToken("<|e|>")),
        ("xa1", "aa", tokenizers.AddedToken("a1", single_word=True)),
        ("a1x", "aa", tokenizers.AddedToken("a1", single_word=True)),
    ],
    ids=["within", "before", "after", "added", "word", "word-end"],
)
def test_nothing_is_cut_where_it_would_be_read_otherwise(
    text: str, merge: str, added: tokenizers.AddedToken | None
) -> None:
    """Beside an apostrophe, and in or beside an added token."""
    tokens = [*sorted(_BYTE_OF), merge]
    tokenizer = make_tokenizer(tokens, [(merge[0], merge[1])], [added] if added else [])
    for length in range(1, len(text)):
        assert_same_ids(cutter_of(tokenizer), tokenizer, text, length)


@given(
    tokenizer=vocabularies(),
    characters=st.lists(st.sampled_from([*"'lsa1! \n日é<|e>", "'ll", "<|e|>"]), max_size=40),
    length=st.integers(1, 3),
)
def test_pieces_give_the_ids_of_the_whole_with_any_vocabulary(
    tokenizer: tokenizers.Tokenizer, characters: list[str], length: int
) -> None:
    """Whatever is merged, with added tokens, and with a space put before each text."""
    assert_same_ids(cutter_of(tokenizer), tokenizer, "".join(characters), length)


def test_texts_are_cut_at_spaces_and_where_no_token_reaches_over(cutter: Cutter) -> None:
    """A piece begins with its space; letters and punctuation of any script, but no run of one."""
    cut = cutter.cut
    assert list(cut("one two\n\nthree  four", 3)) == ["one", " two", "\n\nthree", "  four"]
    assert len(list(cut("日本語、中文。" * 100, 7))) > 50
    assert len(list(cut("a1;" * 100, 3))) > 50
    assert list(cut("a" * 100, 10)) == ["a" * 100]
    assert list(cut("", 1)) == [""]


@pytest.mark.parametrize("character", "a 7-\n")
def test_what_cannot_be_cut_has_a_longest_length(cutter: Cutter, character: str) -> None:
    """The error has the number, and where it begins; what is as long is encoded."""
    cut = cutter.cut
    assert list(cut("a" * 100 + " b" * 9, 100, 100)) == ["a" * 100, " b" * 9]
    assert list(cut(character * 100, 10, 100)) == [character * 100]
    with pytest.raises(PromptError, match=r"more than 100 characters in a row .* character 0 on"):
        list(cut(character * 101, 10, 100))


def test_a_long_text_gives_the_ids_that_it_gives_in_one(
    gpt2_tokenizer: Tokenizer, whole: tokenizers.Tokenizer
) -> None:
    """More than a hundred thousand characters, with words of special tokens."""
    text = "It's <|endoftext|> 1 day,\n\n  then  日本 two. " * 4000
    for special in (False, True):
        ids = gpt2_tokenizer.encode_text(text, allow_special=special)
        assert ids == whole.encode(text, add_special_tokens=False).ids
        assert gpt2_tokenizer.decode(ids).decode() == text


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "NFC"}},
        {"pre_tokenizer": _NO_PATTERN},
        {"rstrip": True},
        {"lstrip": True},
    ],
    ids=str,
)
def test_where_a_cut_could_be_seen_nothing_is_cut(
    tmp_path: pathlib.Path, change: dict[str, object]
) -> None:
    """Another pattern, or an added token that takes the spaces beside it."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    path = tmp_path / "tokenizer.json"
    assert make_cutter(Tokenizer(bare_folder(tmp_path, vocab_size=257))._tokenizer)

    raw = json.loads(path.read_text("utf-8"))
    part = raw if change.keys() & raw.keys() else raw["added_tokens"][0]
    part |= change
    path.write_text(json.dumps(raw), "utf-8")
    assert make_cutter(tokenizers.Tokenizer.from_file(str(path))) is None
