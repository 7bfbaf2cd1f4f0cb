"""Text to ids: prompts, special tokens, and what a model cannot take."""

import json
import pathlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from gpt2cli.errors import ModelError, PromptError
from gpt2cli.tokenizer import Tokenizer
from tests.checkpoints import END_OF_TEXT, write_tokenizer
from tests.gpt2cli.folders import bare_folder

Telling: TypeAlias = tuple[Tokenizer, list[str]]


def test_encode_gives_the_published_ids_of_gpt2(gpt2_tokenizer: Tokenizer) -> None:
    """The ids are those of OpenAI's encoder.json: `Hello` 15496, ` world` 995, newline 198."""
    assert gpt2_tokenizer.encode("Hello world\n") == [15496, 995, 198]


def test_a_special_token_in_text_is_text(byte_tokenizer: Tokenizer) -> None:
    """Unasked, <|endoftext|> in a prompt is read as its 13 characters."""
    ids = byte_tokenizer.encode(END_OF_TEXT)
    assert b"".join(map(byte_tokenizer.token_bytes, ids)).decode() == END_OF_TEXT
    assert len(ids) == 13


def test_a_special_token_is_read_as_one_where_allowed(byte_tokenizer: Tokenizer) -> None:
    """With allow_special <|endoftext|> is its id, and the text around it stays."""
    a, b = byte_tokenizer.encode("a"), byte_tokenizer.encode("b")
    assert byte_tokenizer.encode(f"a{END_OF_TEXT}b", allow_special=True) == [*a, 256, *b]


def test_allow_special_holds_for_one_call_only(byte_tokenizer: Tokenizer) -> None:
    """What one prompt allows the next does not."""
    byte_tokenizer.encode(END_OF_TEXT, allow_special=True)
    assert 256 not in byte_tokenizer.encode(END_OF_TEXT)


def test_an_empty_prompt_is_bos(byte_tokenizer: Tokenizer) -> None:
    """A model starts from its BOS where there is no text."""
    assert byte_tokenizer.encode("") == [256]


def test_an_empty_prompt_without_bos_is_an_error(tmp_path: pathlib.Path) -> None:
    """A model without BOS cannot start from nothing."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    tokenizer = Tokenizer(bare_folder(tmp_path, vocab_size=257))
    with pytest.raises(PromptError, match="no BOS"):
        tokenizer.encode("")


def test_a_lone_surrogate_is_a_prompt_error(byte_tokenizer: Tokenizer) -> None:
    """What Python makes of argv that is no UTF-8 is refused with its place."""
    with pytest.raises(PromptError, match=r"not valid Unicode \(at character 2"):
        byte_tokenizer.encode("hi\udcff")


def test_the_error_for_a_surrogate_is_printable(byte_tokenizer: Tokenizer) -> None:
    """Its message can itself be written as UTF-8, on one line."""
    with pytest.raises(PromptError) as caught:
        byte_tokenizer.encode("\udcff")
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


def write_with_prefix_space(folder: pathlib.Path) -> Tokenizer:
    write_tokenizer(folder, 257, kind="bytes")
    path = folder / "tokenizer.json"
    raw = json.loads(path.read_text("utf-8"))
    raw["pre_tokenizer"]["add_prefix_space"] = True
    path.write_text(json.dumps(raw), "utf-8")
    return Tokenizer(bare_folder(folder, vocab_size=257, eos_token_id=256))


def test_a_space_that_the_tokenizer_wants_stands_where_a_text_begins(
    tmp_path: pathlib.Path,
) -> None:
    """Not before what goes on with one, and not before a space; whichever was encoded last."""
    tokenizer = write_with_prefix_space(tmp_path)
    for _ in range(2):
        assert tokenizer.decode(tokenizer.encode("a")) == b" a"
        assert tokenizer.decode(tokenizer.encode(" a")) == b" a"
        assert tokenizer.decode(tokenizer.encode_text("a")) == b"a"


def test_such_a_space_stands_in_a_long_text_once(tmp_path: pathlib.Path) -> None:
    """A text that is long enough to be cut has none between its pieces."""
    text = "a\n" * (1 << 17)
    tokenizer = write_with_prefix_space(tmp_path)
    assert tokenizer.decode(tokenizer.encode(text)) == b" " + text.encode()


def test_a_panic_while_encoding_is_a_model_error(
    tmp_path: pathlib.Path, byte_tokenizer: Tokenizer, capfd: pytest.CaptureFixture[str]
) -> None:
    """An index past the table of a normalizer; the library's own report is not shown."""
    raw = json.loads(byte_tokenizer._tokenizer.to_str())
    raw["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "BAAAAP////9hYmM="}
    (tmp_path / "tokenizer.json").write_text(json.dumps(raw))
    tokenizer = Tokenizer(bare_folder(tmp_path, vocab_size=257))
    with pytest.raises(
        ModelError, match=r"tokenizer\.json is damaged \(index out of bounds"
    ) as told:
        tokenizer.encode("hello")
    assert "\n" not in str(told.value)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("content", [None, b"", b'{"model": 1}'])
def test_an_unreadable_tokenizer_is_a_model_error(
    tmp_path: pathlib.Path, content: bytes | None
) -> None:
    """A missing or damaged tokenizer.json is named."""
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ModelError, match=r"tokenizer\.json cannot be read"):
        Tokenizer(bare_folder(tmp_path, vocab_size=257))


def test_eos_and_bos_are_those_of_the_model_folder(byte_tokenizer: Tokenizer) -> None:
    """The loop asks the tokenizer, the tokenizer tells what `export` recorded."""
    assert byte_tokenizer.bos_token_id == 256
    assert byte_tokenizer.eos_token_ids == {256}


def test_an_added_token_with_letters_that_stand_for_bytes_reads_as_it_is(
    tmp_path: pathlib.Path,
) -> None:
    """The é of GPT-2's alphabet is the byte E9; that of an added token is an é."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    path = tmp_path / "tokenizer.json"
    raw = json.loads(path.read_text("utf-8"))
    raw["added_tokens"].append(raw["added_tokens"][0] | {"id": 257, "content": "café"})
    path.write_text(json.dumps(raw), "utf-8")
    tokenizer = Tokenizer(bare_folder(tmp_path, vocab_size=258))
    ids = tokenizer.encode_text("a café", allow_special=True)
    assert ids[-1] == 257
    assert tokenizer.decode(ids).decode() == "a café"


def test_special_and_unknown_ids_have_no_bytes(tmp_path: pathlib.Path) -> None:
    """<|endoftext|> and an id of a padded vocabulary; a word that is EOS has its text."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    tokenizer = Tokenizer(bare_folder(tmp_path, vocab_size=300, eos_token_id=1))
    assert [tokenizer.token_bytes(i) for i in (0, 1, 256, 257, 299)] == [b"!", b'"', b"", b"", b""]


def test_an_added_token_has_the_bytes_of_its_text(tmp_path: pathlib.Path) -> None:
    """A token added later is stored as it reads, not in the byte alphabet: `a b` has a space."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    path = tmp_path / "tokenizer.json"
    raw = json.loads(path.read_text("utf-8"))
    raw["added_tokens"].append(raw["added_tokens"][0] | {"id": 257, "content": "a b"})
    raw["added_tokens"][-1]["special"] = False
    path.write_text(json.dumps(raw), "utf-8")
    tokenizer = Tokenizer(bare_folder(tmp_path, vocab_size=258, eos_token_id=256))
    assert tokenizer.token_bytes(257) == b"a b"


def test_every_byte_has_its_own_token_in_gpt2(gpt2_tokenizer: Tokenizer) -> None:
    """The 256 first ids of GPT-2 stand for the 256 bytes."""
    assert sorted(map(gpt2_tokenizer.token_bytes, range(256))) == [bytes([b]) for b in range(256)]


# Characters that the vocabulary cannot write.


def make_telling(folder: pathlib.Path, change: Callable[[dict[str, Any]], object]) -> Telling:
    """Return a tokenizer of printable ASCII and newline in which something is changed."""
    write_tokenizer(folder, 97, kind="ascii")
    path = folder / "tokenizer.json"
    raw = json.loads(path.read_text("utf-8"))
    change(raw)
    path.write_text(json.dumps(raw), "utf-8")
    notes: list[str] = []
    return Tokenizer(bare_folder(folder, vocab_size=97, eos_token_id=96), notes.append), notes


def drop_space(raw: dict[str, Any]) -> None:
    del raw["model"]["vocab"]["\u0120"]


def test_characters_without_a_token_are_told_once(tmp_path: pathlib.Path) -> None:
    """However many texts have them; others later by themselves."""
    tokenizer, notes = make_telling(tmp_path, drop_space)
    for text in ("a b", " ", "é b"):
        tokenizer.encode(text)
    assert notes == [
        "the text has ' ', which no token of the model spells",
        r"the text has '\xe9', which no token of the model spells",
    ]


def test_the_text_of_an_option_is_told_by_its_name(tmp_path: pathlib.Path) -> None:
    """A stop sequence that the model cannot write never ends a text."""
    tokenizer, notes = make_telling(tmp_path, drop_space)
    tokenizer.note_unwritable("--stop", ["a", "\n \t"])
    assert notes == [r"--stop has ' ', '\t', which no token of the model spells"]


def test_what_is_written_whole_is_not_told(tmp_path: pathlib.Path) -> None:
    """Nothing is said of a text of which nothing is lost."""
    tokenizer, notes = make_telling(tmp_path, drop_space)
    tokenizer.encode("ab\n")
    assert notes == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda raw: raw.update(normalizer={"type": "Lowercase"}), []),
        (
            lambda raw: raw.update(
                pre_tokenizer={
                    "type": "Sequence",
                    "pretokenizers": [{"type": "WhitespaceSplit"}, raw["pre_tokenizer"]],
                }
            ),
            ["the text has ' ', which no token of the model spells"],
        ),
        (
            lambda raw: raw["added_tokens"][0].update(lstrip=True, special=False),
            ["the text has ' ', which no token of the model spells"],
        ),
    ],
    ids=["normalizer", "white space", "lstrip"],
)
def test_what_a_step_of_the_tokenizer_drops_is_told(
    tmp_path: pathlib.Path, change: Callable[[dict[str, Any]], object], told: list[str]
) -> None:
    """But not what its normalizer changes, which is asked for."""
    tokenizer, notes = make_telling(tmp_path, change)
    tokenizer.encode(f"A b {END_OF_TEXT}")
    assert notes == told
