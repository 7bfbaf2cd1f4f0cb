"""Claims about `gpt2 tokens`, in this process: text to tokens, and back byte for byte."""

import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.errors import PromptError
from gpt2cli.model_folder import ModelFolder
from gpt2cli.tokenizer import Tokenizer
from gpt2cli.tokens import parse_ids
from tests.checkpoints import END_OF_TEXT, write_tokenizer
from tests.gpt2cli.folders import bare_folder
from tests.gpt2cli.runner import error_line, invoke

HOSTILE = '[/red] [bold]x \x1b[31m\u2028a\u202eb\r\nc\t"\\ 👩‍🚀 日本\x00\x85'


def run(model: pathlib.Path, *arguments: str | pathlib.Path) -> bytes:
    """Return the output of a run that must succeed in silence."""
    result = invoke("tokens", "-m", model, *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout_bytes


@pytest.fixture
def gpt2(gpt2_folder: ModelFolder) -> pathlib.Path:
    return gpt2_folder.path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # OpenAI's encoder.json: `Hello` 15496, ` world` 995, newline 198.
        (["Hello world\n"], b'15496\t"Hello"\n995\t" world"\n198\t"\\n"\n'),
        (["Hello world", "--ids"], b"15496 995\n"),
        (["Hello world", "--count"], b"2\n"),
        # An empty text has not even BOS, which only a model needs.
        ([""], b""),
        (["", "--ids"], b"\n"),
        (["", "--count"], b"0\n"),
        # A part of a character, which a pipe may join with what follows.
        (["--decode", "33768"], b"\xe6\x97"),
    ],
    ids=str,
)
def test_lines_ids_their_number_or_a_text_is_what_is_printed(
    gpt2: pathlib.Path, arguments: list[str], expected: bytes
) -> None:
    assert run(gpt2, *arguments) == expected


def test_a_record_has_ids_texts_and_the_model(gpt2: pathlib.Path) -> None:
    """And the bytes of what is no character by itself: `日` is three bytes, in two tokens."""
    record = json.loads(run(gpt2, "a日", "--json"))
    assert list(record) == ["ids", "tokens", "model", "revision"]
    assert record["tokens"] == [
        {"id": 64, "text": "a"},
        {"id": 33768, "text": "�", "bytes": [0xE6, 0x97]},
        {"id": 98, "text": "�", "bytes": [0xA5]},
    ]
    assert record["ids"] == [64, 33768, 98]


def test_every_line_is_one_token_whatever_the_text_holds(gpt2: pathlib.Path) -> None:
    """Nothing in it breaks the line for any reader, or controls a terminal."""
    shown = run(gpt2, HOSTILE).decode()
    assert len(shown.splitlines()) == int(run(gpt2, HOSTILE, "--count"))
    assert all(c.isprintable() for c in shown.replace("\n", "").replace("\t", ""))


@pytest.mark.parametrize("text", ["", "a", "a\n", "\r\n", HOSTILE, END_OF_TEXT, "é" * 300])
def test_ids_become_the_text_again(
    starter_folder: pathlib.Path, tmp_path: pathlib.Path, text: str
) -> None:
    """Byte for byte, without a newline that was not there; from a file and from arguments."""
    file = tmp_path / "ids"
    ids = run(starter_folder, text, "--ids")
    file.write_bytes(ids)
    assert run(starter_folder, "--decode", "-f", file) == text.encode()
    assert run(starter_folder, "--decode", "--", *ids.decode().split(), "") == text.encode()


def test_a_special_token_becomes_its_name_again(gpt2: pathlib.Path) -> None:
    """Where it was allowed as one, and its id stands alone."""
    assert run(gpt2, f"a{END_OF_TEXT}b", "--allow-special", "--ids") == b"64 50256 65\n"
    assert run(gpt2, "--decode", "64 50256 65") == f"a{END_OF_TEXT}b".encode()


@pytest.mark.parametrize("ids", ["15496 995", "15496,995", "[15496, 995]", "15496\n\t995\r\n"])
def test_ids_stand_apart_by_space_or_commas_or_are_a_json_list(
    gpt2: pathlib.Path, ids: str
) -> None:
    assert run(gpt2, "--decode", ids) == b"Hello world"


@given(st.lists(st.integers(0, 10**17)))
def test_a_list_of_ids_is_read_as_json_would(ids: list[int]) -> None:
    assert list(parse_ids(json.dumps(ids))) == ids


@pytest.mark.parametrize("word", ["x", "-1", "1.5", "1e3", "０", "1" * 5000, '"1"', "{}"])
def test_what_is_no_id_is_an_error_of_one_line(word: str) -> None:
    with pytest.raises(PromptError, match="expected token ids, whole numbers") as caught:
        parse_ids(f"1 {word} 2")
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize("token_id", ["50257", "99999999999999999"])
def test_an_id_beyond_the_vocabulary_is_an_error_that_names_the_range(
    gpt2: pathlib.Path, token_id: str
) -> None:
    result = invoke("tokens", "-m", gpt2, "--decode", "0", token_id)
    assert result.exit_code == 1
    assert error_line(result) == f"no token has the id {token_id}: expected ids 0 to 50256"


def test_a_padded_vocabulary_ends_with_the_last_token(tmp_path: pathlib.Path) -> None:
    """The model has 300 ids, its tokenizer 257: the others stand for nothing."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    tokenizer = Tokenizer(bare_folder(tmp_path, vocab_size=300, eos_token_id=256))
    assert tokenizer.decode([0, 256]) == b"!<|endoftext|>"
    with pytest.raises(PromptError, match="id 280: expected ids 0 to 256"):
        tokenizer.decode([280])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["a", "b"], "expected one text, found 2 words; put the text in quotes"),
        (["a", "--ids", "--json"], "--json: expected no --ids together with it"),
        (
            ["--decode", "1", "--count"],
            "--count: expected no --decode together with it, which prints only text",
        ),
        (["a", "-f", "b"], "no text argument together with it"),
    ],
    ids=" ".join,
)
def test_a_wrong_use_is_one_line_that_says_what_would_be_right(
    arguments: list[str], expected: str
) -> None:
    """Before any model is looked for: the one named here does not exist."""
    result = invoke("tokens", "-m", "/missing", *arguments)
    assert result.exit_code == 2
    assert expected in error_line(result)
