"""Text to ids: prompts, special tokens, what a model cannot take, and long texts in pieces."""

import json
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.cutter import Cutter, make_cutter
from gpt2cli.errors import ModelError, PromptError
from gpt2cli.model_folder import ModelFolder
from gpt2cli.tokenizer import Tokenizer
from tests.checkpoints import END_OF_TEXT, gpt2_byte_alphabet, write_tokenizer
from tests.gpt2cli.folders import bare_folder

Change: TypeAlias = Callable[[dict[str, Any]], object]


def change_tokenizer(folder: pathlib.Path, change: Change, kind: Any = "bytes") -> None:
    """Write a tokenizer.json of single bytes, or of ASCII, in which something is changed."""
    write_tokenizer(folder, {"bytes": 257, "ascii": 97}[kind], kind=kind)
    path = folder / "tokenizer.json"
    raw = json.loads(path.read_text("utf-8"))
    change(raw)
    path.write_text(json.dumps(raw), "utf-8")


def make_changed(folder: pathlib.Path, change: Change, *, vocab_size: int = 257) -> Tokenizer:
    """Return a tokenizer of single bytes in which something is changed."""
    change_tokenizer(folder, change)
    return Tokenizer(bare_folder(folder, vocab_size=vocab_size, eos_token_id=256))


def add(content: str, *, special: bool = True) -> Change:
    """Return what adds a token with the id 257."""
    return lambda raw: raw["added_tokens"].append(
        raw["added_tokens"][0] | {"id": 257, "content": content, "special": special}
    )


def test_encode_gives_the_published_ids_of_gpt2(gpt2_tokenizer: Tokenizer) -> None:
    """The ids are those of OpenAI's encoder.json: `Hello` 15496, ` world` 995, newline 198."""
    assert gpt2_tokenizer.encode("Hello world\n") == [15496, 995, 198]


def test_a_special_token_is_read_as_one_only_where_allowed(byte_tokenizer: Tokenizer) -> None:
    """Else as its 13 characters; what one call allows the next does not."""
    a, b = byte_tokenizer.encode("a"), byte_tokenizer.encode("b")
    for _ in range(2):
        text = f"a{END_OF_TEXT}b"
        assert byte_tokenizer.encode(text, allow_special=True) == [*a, 256, *b]
        ids = byte_tokenizer.encode(text)
        assert len(ids) == 15
        assert byte_tokenizer.decode(ids).decode() == text


def test_an_empty_prompt_is_bos(byte_tokenizer: Tokenizer, tmp_path: pathlib.Path) -> None:
    """A model without one cannot start from nothing."""
    assert byte_tokenizer.encode("") == [256]
    write_tokenizer(tmp_path, 257, kind="bytes")
    with pytest.raises(PromptError, match="no BOS"):
        Tokenizer(bare_folder(tmp_path, vocab_size=257)).encode("")


def test_a_lone_surrogate_is_a_prompt_error(byte_tokenizer: Tokenizer) -> None:
    """What Python makes of argv that is no UTF-8: its index is told, in words that are UTF-8."""
    with pytest.raises(PromptError, match=r"not valid Unicode \(at character 2") as caught:
        byte_tokenizer.encode("hi\udcff")
    assert b"\n" not in str(caught.value).encode()


def test_an_id_beyond_the_vocabulary_is_a_prompt_error(tmp_path: pathlib.Path) -> None:
    """A tokenizer wider than its model is found out before the model is run; the id is named."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    tokenizer = Tokenizer(bare_folder(tmp_path, vocab_size=90))
    assert tokenizer.encode("z") == [89]
    with pytest.raises(PromptError, match=r"'\{' has the id 90, .* ends at 89"):
        tokenizer.encode("z{")


def test_what_the_tokenizer_puts_before_a_prompt_stands_there(tmp_path: pathlib.Path) -> None:
    """Before a prompt, even an empty one, but before no other text."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    folder = replace(bare_folder(tmp_path, vocab_size=257, eos_token_id=256), start_ids=(7,))
    tokenizer = Tokenizer(folder)
    assert [tokenizer.encode(text) for text in ("", "!")] == [[7], [7, 0]]
    assert tokenizer.encode_text("!") == [0]
    assert tokenizer.context_id == 7


def test_a_space_that_the_tokenizer_wants_stands_where_a_text_begins(
    tmp_path: pathlib.Path,
) -> None:
    """Not before what goes on with one, nor before a space, nor between a long text's pieces."""
    tokenizer = make_changed(
        tmp_path, lambda raw: raw["pre_tokenizer"].update(add_prefix_space=True)
    )
    for _ in range(2):
        assert tokenizer.decode(tokenizer.encode("a")) == b" a"
        assert tokenizer.decode(tokenizer.encode(" a")) == b" a"
        assert tokenizer.decode(tokenizer.encode_text("a")) == b"a"
    text = "a\n" * (1 << 17)
    assert tokenizer.decode(tokenizer.encode(text)) == b" " + text.encode()


def test_a_panic_while_encoding_is_a_model_error(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An index past the table of a normalizer; the library's own report is not shown."""
    bad = {"type": "Precompiled", "precompiled_charsmap": "BAAAAP////9hYmM="}
    tokenizer = make_changed(tmp_path, lambda raw: raw.update(normalizer=bad))
    damaged = r"tokenizer\.json is damaged \(index out of bounds"
    with pytest.raises(ModelError, match=damaged) as told:
        tokenizer.encode("hello")
    assert "\n" not in str(told.value)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("content", [None, b"", b'{"model": 1}'])
def test_an_unreadable_tokenizer_is_a_model_error(
    tmp_path: pathlib.Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ModelError, match=r"tokenizer\.json cannot be read"):
        Tokenizer(bare_folder(tmp_path, vocab_size=257))


def test_special_and_unknown_ids_have_no_bytes(tmp_path: pathlib.Path) -> None:
    """<|endoftext|> and an id of a padded vocabulary; a word that is EOS has its text."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    tokenizer = Tokenizer(bare_folder(tmp_path, vocab_size=300, eos_token_id=1))
    assert [tokenizer.token_bytes(i) for i in (0, 1, 256, 257, 299)] == [b"!", b'"', b"", b"", b""]


@pytest.mark.parametrize("content", ["café", "a b"])
def test_an_added_token_reads_as_it_is(tmp_path: pathlib.Path, content: str) -> None:
    """Not in GPT-2's alphabet, where é is the byte E9 and a space is another letter."""
    tokenizer = make_changed(tmp_path, add(content, special=False), vocab_size=258)
    ids = tokenizer.encode_text(f"x {content}", allow_special=True)
    assert ids[-1] == 257
    assert tokenizer.token_bytes(257) == content.encode()
    assert tokenizer.decode(ids).decode() == f"x {content}"


# Characters that the vocabulary cannot write


def make_telling(folder: pathlib.Path, change: Change) -> tuple[Tokenizer, list[str]]:
    """Return a changed tokenizer of printable ASCII, and its notes."""
    change_tokenizer(folder, change, "ascii")
    notes: list[str] = []
    return Tokenizer(bare_folder(folder, vocab_size=97, eos_token_id=96), notes.append), notes


def drop_space(raw: dict[str, Any]) -> None:
    del raw["model"]["vocab"]["\u0120"]


def test_characters_without_a_token_are_told_once(tmp_path: pathlib.Path) -> None:
    """However many texts have them; of an option by its name: it would never end a text."""
    tokenizer, notes = make_telling(tmp_path, drop_space)
    for text in ("ab\n", "a b", " ", "é b"):
        tokenizer.encode(text)
    tokenizer.note_unwritable("--stop", ["a", "\n \t"])
    assert notes == [
        "the text has ' ', which no token of the model can write",
        r"the text has '\xe9', which no token of the model can write",
        r"--stop has ' ', '\t', which no token of the model can write",
    ]


def split_at_spaces(raw: dict[str, Any]) -> None:
    steps = [{"type": "WhitespaceSplit"}, raw["pre_tokenizer"]]
    raw.update(pre_tokenizer={"type": "Sequence", "pretokenizers": steps})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda raw: raw.update(normalizer={"type": "Lowercase"}), False),
        (split_at_spaces, True),
        (lambda raw: raw["added_tokens"][0].update(lstrip=True, special=False), True),
    ],
    ids=["normalizer", "white space", "lstrip"],
)
def test_what_a_step_of_the_tokenizer_drops_is_told(
    tmp_path: pathlib.Path, change: Change, told: bool
) -> None:
    """But not what its normalizer changes, which is asked for."""
    tokenizer, notes = make_telling(tmp_path, change)
    tokenizer.encode(f"A b {END_OF_TEXT}")
    assert notes == ["the text has ' ', which no token of the model can write"] * told


# Long texts are encoded in pieces, to the same ids

BYTE_OF = {character: byte for byte, character in gpt2_byte_alphabet().items()}
# What GPT-2's pattern and libraries' notions of a space meet at.
CHARACTERS = st.sampled_from("aZ9'.!~ \n\t\r\u00a0\u2003\u3000\x1c\x85é日👩\u200d\u0301<|>s")


@pytest.fixture(scope="module")
def whole(gpt2_folder: ModelFolder) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(gpt2_folder.tokenizer_file))


@pytest.fixture(scope="module")
def cutter(whole: tokenizers.Tokenizer) -> Cutter:
    return cutter_of(whole)


def cutter_of(tokenizer: tokenizers.Tokenizer) -> Cutter:
    """Return what cuts for a tokenizer that can be cut for."""
    cutter = make_cutter(tokenizer)
    assert cutter is not None
    return cutter


def assert_same_ids(
    cutter: Cutter, tokenizer: tokenizers.Tokenizer, text: str, length: int
) -> None:
    """Fail if pieces of about that length lose or double anything, or have other ids."""
    pieces = list(cutter.cut(text, length))
    assert "".join(pieces) == text
    ids, *some = (tokenizer.encode(t, add_special_tokens=False).ids for t in [text, *pieces])
    assert [i for part in some for i in part] == ids


@given(st.lists(CHARACTERS, max_size=60).map("".join) | st.text(max_size=40), st.integers(1, 9))
def test_pieces_give_the_ids_of_the_whole(
    cutter: Cutter, whole: tokenizers.Tokenizer, text: str, length: int
) -> None:
    """Wherever it is cut, with GPT-2's vocabulary; of all of Unicode as well."""
    assert_same_ids(cutter, whole, text, length)


def make_tokenizer(
    tokens: Sequence[str],
    merges: list[tuple[str, str]],
    added: list[tokenizers.AddedToken],
    *,
    prefixed: bool = False,
) -> tokenizers.Tokenizer:
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=prefixed)
    tokenizer.add_tokens(added)
    return tokenizer


@st.composite
def vocabularies(draw: st.DrawFn) -> tokenizers.Tokenizer:
    """Draw a tokenizer of all bytes, and merges of what there is by then in any order."""
    tokens = sorted(BYTE_OF)
    parts = [character for character, byte in BYTE_OF.items() if byte in b"'lsa1! \n\xe6\x97\xa5"]
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
    tokens = [*sorted(BYTE_OF), merge]
    tokenizer = make_tokenizer(tokens, [(merge[0], merge[1])], [added] if added else [])
    for length in range(1, len(text)):
        assert_same_ids(cutter_of(tokenizer), tokenizer, text, length)


def test_texts_are_cut_at_spaces_and_where_no_token_reaches_over(cutter: Cutter) -> None:
    """A piece begins with its space; letters and punctuation of any script, but no run of one."""
    cut = cutter.cut
    assert list(cut("one two\n\nthree  four", 3)) == ["one", " two", "\n\nthree", "  four"]
    assert len(list(cut("日本語、中文。" * 100, 7))) > 50
    assert len(list(cut("a1;" * 100, 3))) > 50
    assert list(cut("a" * 100, 10)) == ["a" * 100]
    assert list(cut("", 1)) == [""]


@pytest.mark.parametrize("character", "a-\n")
def test_what_cannot_be_cut_has_a_longest_length(cutter: Cutter, character: str) -> None:
    """The error has the number, and where it begins; what is as long is encoded."""
    cut = cutter.cut
    assert list(cut("a" * 100 + " b" * 9, 100, 100)) == ["a" * 100, " b" * 9]
    assert list(cut(character * 100, 10, 100)) == [character * 100]
    with pytest.raises(PromptError, match=r"more than 100 characters in a row .* character 0 on"):
        list(cut(character * 101, 10, 100))


@pytest.mark.parametrize("special", [False, True])
def test_a_long_text_gives_the_ids_that_it_gives_in_one(
    gpt2_tokenizer: Tokenizer, whole: tokenizers.Tokenizer, special: bool
) -> None:
    """More than a hundred thousand characters, with words of special tokens."""
    text = "It's <|endoftext|> 1 day,\n\n  then  日本 two. " * 4000
    whole.encode_special_tokens = not special
    ids = gpt2_tokenizer.encode_text(text, allow_special=special)
    assert ids == whole.encode(text, add_special_tokens=False).ids
    assert gpt2_tokenizer.decode(ids).decode() == text


@pytest.mark.parametrize(
    ("change", "cuts"),
    [
        (lambda raw: None, True),
        (lambda raw: raw.update(normalizer={"type": "NFC"}), False),
        (lambda raw: raw["pre_tokenizer"].update(use_regex=False), False),
        (lambda raw: raw["added_tokens"][0].update(rstrip=True), False),
        (lambda raw: raw["added_tokens"][0].update(lstrip=True), False),
    ],
)
def test_where_a_cut_could_be_seen_nothing_is_cut(
    tmp_path: pathlib.Path, change: Change, cuts: bool
) -> None:
    """Another pattern, or an added token that takes the spaces beside it."""
    change_tokenizer(tmp_path, change)
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert (make_cutter(tokenizer) is not None) is cuts
