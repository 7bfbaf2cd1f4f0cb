"""Constraints: whatever is drawn among what they allow, a finished text is what was asked for.

Texts are drawn at random from GPT-2's real vocabulary; Python's `re` and `jsonschema` judge them.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import jsonschema
import numpy as np
import pytest

from gpt2cli.config import ConstraintConfig
from gpt2cli.errors import PackageError, PromptError, UsageError
from gpt2cli.sampling.constraints import Constraint, ConstraintCompiler
from gpt2cli.tokenizer import Tokenizer

_LONGEST: Final = 400  # ids; none of the texts needs as many
_ENDS: Final = 0.2  # how often a text ends where it may

# Without \\d and \\w: what else than ASCII they match differs between Rust and Python's Unicode.
_REGEXES: Final = [
    "", "a", " (yes|no)", "(?i:yes|no)", "(foo|bar)+", "a*", "a{2,5}", "(ab){3,40}", "[^a]{0,6}",
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}", r"-?[0-9]{1,3}(\.[0-9]{1,2})?", r"#[0-9a-f]{6}",
    r"[A-Z][a-z]{1,5}( [a-z]{1,5}){0,3}\.", r"https?://[a-z]{1,8}\.org(/[a-z]{1,5})?",
    ".", ".{3,10}", r"\.\*\+\?\{\}\[\]\\", r"\s{1,3}x", "[^a-zA-Z]", "[^ ]{2,5}",
    "日本?", "[日月]{1,3}", "👩‍🚀 ok", r"[à-ü]{1,4}", "a\nb", r"(a|ab)(c|bcd)", r"x(y(z)?)?",
    '"[^"]{0,8}"',
]  # fmt: skip


def _object(required: Sequence[str] = (), **properties: Any) -> Any:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_SCHEMAS: Final[list[Any]] = [
    {"type": "null"},
    {"type": "boolean"},
    {"type": "integer", "minimum": 0, "maximum": 120},
    {"type": "number", "minimum": -1, "maximum": 1},
    {"type": "string", "minLength": 2, "maxLength": 4},
    {"type": "string", "pattern": "^[a-c]{1,3}$"},
    {"type": "string", "format": "date"},
    {"enum": ["red", 3, None]},
    {"const": {"a": [1, 2]}},
    {"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 1, "maxItems": 3},
    {"type": "array", "prefixItems": [{"const": 1}, {"const": "b"}], "items": False, "minItems": 2},
    _object(["name", "age"], name={"type": "string", "maxLength": 6}, age={"enum": [1, 2]}),
    _object(a={"type": "boolean"}, b={"type": "null"}),
    _object(["in"], **{"in": _object(x={"const": 1})}),
    {"anyOf": [{"type": "boolean"}, {"type": "string", "maxLength": 2}]},
    {
        "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 1}},
        "$ref": "#/$defs/tree",
    },
]


@pytest.fixture(scope="module")
def pieces(gpt2_tokenizer: Tokenizer) -> list[bytes]:
    """Return the bytes of each token of GPT-2's vocabulary."""
    return [gpt2_tokenizer.token_bytes(token_id) for token_id in range(50257)]


@pytest.fixture(scope="module")
def compiler(gpt2_tokenizer: Tokenizer, pieces: list[bytes]) -> ConstraintCompiler:
    return ConstraintCompiler(pieces, gpt2_tokenizer.encode)


def draw_texts(constraint: Constraint, pieces: list[bytes], *, count: int) -> Iterator[str]:
    """Yield texts that ended as the constraint allows, each id drawn evenly among the allowed."""
    rng = np.random.default_rng(7)
    for _ in range(count):
        state, ids = constraint.fork(), list[int]()
        while not state.complete and not (state.satisfied and rng.random() < _ENDS):
            allowed = np.flatnonzero(~state.find_mask())
            if not len(allowed):
                assert state.satisfied, "nothing may follow, and it may not end"
                break
            assert len(ids) < _LONGEST
            ids.append(int(rng.choice(allowed)))
            state.append(ids[-1])
        yield b"".join(pieces[token_id] for token_id in ids).decode()


@pytest.mark.parametrize("regex", _REGEXES)
def test_a_finished_text_matches_from_end_to_end(
    compiler: ConstraintCompiler, pieces: list[bytes], regex: str
) -> None:
    texts = list(draw_texts(compiler.compile(ConstraintConfig(regex=regex)), pieces, count=10))
    assert [text for text in texts if not re.fullmatch(regex, text)] == []


@pytest.mark.parametrize("schema", _SCHEMAS, ids=json.dumps)
def test_a_finished_text_is_valid_under_the_schema(
    compiler: ConstraintCompiler, pieces: list[bytes], schema: Any
) -> None:
    """As the jsonschema package sees it; on one line, so that records stay lines."""
    constraint = compiler.compile(ConstraintConfig(json_schema=json.dumps(schema)))
    for text in draw_texts(constraint, pieces, count=10):
        jsonschema.validate(json.loads(text), schema, cls=jsonschema.Draft202012Validator)
        assert "\n" not in text


@pytest.mark.parametrize(
    "choice",
    [
        (" yes", " no"),
        ("yes", "yes please"),
        ("a\nb", '"q\\'),
        ("日本", "日"),
        ("only",),
        ("a", "a"),
    ],
    ids=str,
)
def test_a_finished_text_is_one_of_the_choices(
    compiler: ConstraintCompiler, pieces: list[bytes], choice: tuple[str, ...]
) -> None:
    """And every one of them can be, also where one begins another, and beside thousands."""
    constraint = compiler.compile(ConstraintConfig(choice=choice))
    assert set(draw_texts(constraint, pieces, count=60)) == set(choice)
    many = (*choice, *(f" word{number}" for number in range(5000)))
    constraint = compiler.compile(ConstraintConfig(choice=many))
    assert set(draw_texts(constraint, pieces, count=5)) <= set(many)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (ConstraintConfig(regex="("), "regex: unclosed group"),
        (ConstraintConfig(regex=r"[^\x00-\x{10ffff}]"), "regex: expected a pattern that some text"),
        (ConstraintConfig(regex="(?=a)b"), "regex: look-around, including"),
        (ConstraintConfig(regex=r"(a)\1"), "regex: backreferences are not supported"),
        (ConstraintConfig(json_schema="{"), "json_schema: "),
        (ConstraintConfig(json_schema="[]"), "json_schema: "),
        (ConstraintConfig(json_schema='{"type": "foo"}'), "json_schema: Invalid type: foo"),
        (ConstraintConfig(json_schema='{"not": {}}'), "json_schema: Unimplemented keys"),
    ],
    ids=str,
)
def test_what_cannot_be_compiled_is_a_usage_error_in_one_line(
    compiler: ConstraintCompiler, config: ConstraintConfig, told: str
) -> None:
    """It names the option, and what is wrong or not supported."""
    with pytest.raises(UsageError) as caught:
        compiler.compile(config)
    assert str(caught.value).startswith(told)
    assert "\n" not in str(caught.value)


def test_without_llguidance_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(PackageError, match="pip install llguidance"):
        ConstraintCompiler([b"a"], lambda text: [0])


# A vocabulary of single bytes, without some of them.


def compile_without(lacking: bytes, **given: Any) -> tuple[Constraint, list[bytes]]:
    pieces = [bytes([byte]) for byte in range(256) if byte not in lacking]

    def spell(text: str) -> list[int]:
        return [pieces.index(piece) for byte in text.encode() if (piece := bytes([byte])) in pieces]

    compiler = ConstraintCompiler(pieces, spell)
    return compiler.compile(ConstraintConfig(**given)), pieces


@pytest.mark.parametrize(
    ("lacking", "given", "told"),
    [
        (b" ", {"choice": ("a", "b c")}, "choice: needs ' '"),
        (b" \n", {"regex": "a b\n"}, r"regex: needs ' ', '\n'"),
        (b"0123456789", {"regex": "[0-9]"}, "regex: needs '0', '9'"),
        (b"p", {"regex": r"\x70"}, "regex: needs characters"),
        ("é".encode(), {"regex": "(é)+"}, r"regex: needs '\xe9'"),
        (b" ", {"json_schema": '{"type": "null"}'}, "json_schema: needs ' '"),
        ("é".encode(), {"json_schema": '{"const": "\\u00e9"}'}, r"json_schema: needs '\xe9'"),
    ],
)
def test_a_constraint_that_needs_what_the_vocabulary_lacks_is_refused(
    lacking: bytes, given: dict[str, Any], told: str
) -> None:
    """Before anything is drawn, naming the characters where the constraint has them."""
    with pytest.raises(UsageError) as caught:
        compile_without(lacking, **given)
    assert str(caught.value) == f"{told}, which no token of the model can write"


@pytest.mark.parametrize("regex", ["[a-d]{2,6}", "(a b|d+b)", "[^x]{3}", ".{1,4}", "[à-ü]{2}|z"])
def test_a_constraint_goes_round_what_the_vocabulary_lacks(regex: str) -> None:
    """Without space, c and some bytes of longer characters it never comes to a dead end."""
    lacking = b" c" + bytes(range(0xA0, 0xB0)) + bytes(range(0xE0, 0xF5))
    constraint, pieces = compile_without(lacking, regex=regex)
    for text in draw_texts(constraint, pieces, count=40):
        assert re.fullmatch(regex, text)
        assert not set(text.encode()) & set(lacking)


def test_a_schema_that_describes_itself_in_other_characters_is_taken() -> None:
    schema = json.dumps({"type": "object", "description": "é", "properties": {}})
    compile_without("é".encode(), json_schema=schema)


def test_a_place_where_no_token_fits_is_told_in_our_words() -> None:
    """After the first byte of a character whose other bytes no token has."""
    constraint, pieces = compile_without(bytes(range(0x80, 0xC0)), json_schema='{"type": "string"}')
    for piece in (b'"', b"\xe3"):
        constraint.append(pieces.index(piece))
    with pytest.raises(PromptError, match="followed: no token of the model can come next"):
        constraint.find_mask()
