"""What a declaration of an option makes of texts, of JSON and TOML, and of its help."""

from typing import Any

import pytest

from gpt2cli.config import LIMITS, ConstraintConfig, GenerationConfig, ModelConfig, SamplingConfig
from gpt2cli.declarations import Option, options_of
from gpt2cli.errors import UsageError
from gpt2cli.option_kinds import SWITCH, WHOLE, Range, from_bytes, unescape

OPTIONS = {
    option.field: option
    for group in (ModelConfig, SamplingConfig, GenerationConfig, ConstraintConfig)
    for option in options_of(group)
}


@pytest.mark.parametrize(
    ("field", "text", "expected"),
    [
        ("temperature", "0.5", 0.5),
        ("top_k", "7", 7),
        ("greedy", "on", True),
        ("greedy", "OFF", False),
        ("greedy", "true", True),
        ("greedy", "0", False),
        ("overflow", "slide", "slide"),
        ("stop", "a", ("a",)),
        ("stop", r"\n", ("\n",)),
        ("stop", r"\\n", (r"\n",)),
        ("stop", '"', ('"',)),
        ("stop", "a b", ("a b",)),
        ("stop", "[]", ()),
        ("stop", '["a", "b"]', ("a", "b")),
        ("stop", r'["\n"]', ("\n",)),
        ("stop", r'["\\n"]', (r"\n",)),  # JSON has its own escapes
        ("stop", "[", ("[",)),
        ("stop", "[1]", ("[1]",)),
        ("stop", "[" * 100_000, ("[" * 100_000,)),
        ("logit_bias", "a=1", (("a", 1.0),)),
        ("logit_bias", "a=b=-1e1", (("a=b", -10.0),)),
        ("regex", r"\d\n", r"\d\n"),  # a backslash is the pattern's own
        ("model", r"a\n", r"a\n"),  # a path is no text with escapes
        ("device", "cuda:1", "cuda:1"),
    ],
)
def test_a_text_means_what_it_means_on_the_command_line(
    field: str, text: str, expected: object
) -> None:
    """A repeatable option takes one value, or a JSON array of them."""
    assert OPTIONS[field].parse(text) == expected


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("temperature", 1, 1),
        ("temperature", 0.5, 0.5),
        ("top_k", 10**30, 10**30),
        ("greedy", True, True),
        ("overflow", "slide", "slide"),
        ("stop", r"\n", (r"\n",)),
        ("stop", ["a", '["b"]'], ("a", '["b"]')),
        ("stop", [], ()),
        ("model", "a b", "a b"),
        ("logit_bias", {"262": -1, "a=b": 1e1}, (("262", -1), ("a=b", 10.0))),
        ("logit_bias", ["a=1"], (("a", 1.0),)),
        ("json_schema", {"type": "é"}, '{"type": "é"}'),
    ],
)
def test_a_value_of_json_or_toml_has_its_kind_already(
    field: str, value: object, expected: object
) -> None:
    assert OPTIONS[field].read(value) == expected


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("temperature", True, "expected a number 0 or more, found true"),
        ("temperature", "1", "expected a number 0 or more, found '1'"),
        ("temperature", 10**400, "expected a number 0 or more, found 1000"),
        ("top_k", 1.0, "expected a whole number 0 or more, found 1.0"),
        ("top_k", [7], "expected a whole number 0 or more, found [7]"),
        ("greedy", 1, "expected true or false, found 1"),
        ("model", 124, "expected a text, found 124"),
        ("stop", 5, "expected a text, found 5"),
        ("stop", [["a"]], 'expected a text, found ["a"]'),
        ("stop", ["a", ""], "expected some text, found an empty one"),
        ("overflow", "x", "expected stop, slide or error, found 'x'"),
        ("overflow", False, "expected stop, slide or error, found false"),
        ("logit_bias", {"a": True}, 'expected an object {"ID_OR_TEXT": number, …}, found true'),
        ("json_schema", "{}", "expected a JSON schema, an object, found '{}'"),
        ("ban", ["\ud800"], "expected valid Unicode, found"),
        ("model", "\ud800", "expected valid Unicode, found"),
    ],
)
def test_a_value_of_another_kind_is_an_error_that_names_the_option(
    field: str, value: object, told: str
) -> None:
    with pytest.raises(UsageError) as caught:
        OPTIONS[field].read(value)
    assert str(caught.value).startswith(f"{field}: {told}")


@pytest.mark.parametrize(
    ("field", "text", "told"),
    [
        ("temperature", "x", "expected a number 0 or more, found 'x'"),
        ("temperature", "nan", "expected a number 0 or more, found nan"),
        ("top_p", "1.1", "expected a number between 0 and 1, found 1.1"),
        ("top_k", "1.5", "expected a whole number 0 or more, found '1.5'"),
        ("top_k", "1" * 5000, "expected a whole number 0 or more, found '1111"),
        ("threads", "0", "expected a whole number 1 to 1024, found 0"),
        ("greedy", "maybe", "expected on or off, found 'maybe'"),
        ("overflow", "x", "expected stop, slide or error, found 'x'"),
        ("precision", "int3", "expected auto, fp32, fp16, int8 or int4, found 'int3'"),
        ("device", "gpu", "expected auto, cpu, cuda or cuda:N, found 'gpu'"),
        ("ban", r'["a", "\ud83d"]', "expected valid Unicode, found '"),
        ("logit_bias", "a", "expected ID_OR_TEXT=NUMBER, found 'a'"),
        ("logit_bias", "a=101", "expected a number between -100 and 100, found 101.0 for 'a'"),
        ("logit_bias", "a=-inf", "expected a number between -100 and 100, found -inf for 'a'"),
        ("logit_bias", "=1", "expected some text, found an empty one"),
    ],
)
def test_a_text_that_is_no_value_is_an_error_that_names_the_option(
    field: str, text: str, told: str
) -> None:
    with pytest.raises(UsageError) as caught:
        OPTIONS[field].parse(text)
    assert str(caught.value).startswith(f"{field}: {told}")
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Range(0), "0 or more"),
        (Range(0, above=True), "above 0"),
        (Range(0, 1, above=True), "above 0, up to 1"),
        (Range(1, 256), "1 to 256"),
        (Range(0, 9, words="few"), "few"),
    ],
)
def test_a_range_is_told_in_words(given: Range, words: str) -> None:
    assert str(given) == words


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("top_k", " 0 or more; 0: off. Default 40, or the model's own."),
        ("top_p", " Between 0 and 1; 1: off. Default 1.0, or the model's own."),
        ("stop", " Default none."),
        ("greedy", " Default --no-greedy."),
        ("offline", " Default --no-offline: only if needed."),
        ("overflow", " Default stop."),
        ("threads", " 1 to 1024. Default all cores."),
    ],
)
def test_the_help_says_range_off_value_and_default(field: str, told: str) -> None:
    assert OPTIONS[field].told == OPTIONS[field].help + told


def test_a_word_for_the_default_is_as_if_nothing_were_given() -> None:
    option = Option(
        kind=WHOLE, help="x", panel=LIMITS, default=None, within=Range(1), auto="auto", field="size"
    )
    assert option.parse("auto") is None
    assert option.parse("3") == 3
    with pytest.raises(UsageError, match="expected a whole number 1 or more, or auto, found 'x'"):
        option.parse("x")


@pytest.mark.parametrize(
    ("options", "negatable"),
    [({"settable": True}, True), ({}, False), ({"default": True}, True), ({"default": None}, True)],
)
def test_a_switch_that_may_be_on_already_can_be_turned_off(
    options: dict[str, Any], negatable: bool
) -> None:
    """By the user's settings, since that is its default, or since it has no default."""
    given = {"kind": SWITCH, "help": "x", "panel": LIMITS, "default": False, **options}
    assert Option(**given).negatable is negatable


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (r"a\nb\tc\rd", "a\nb\tc\rd"),
        (r"\\\n", "\\\n"),
        (r"\d", r"\d"),
        (r"\\n", r"\n"),
        (r"\x \u0041 \0", r"\x \u0041 \0"),
        ("\\", "\\"),
        ("é", "é"),
    ],
)
def test_escapes_are_the_four_that_are_known(text: str, meant: str) -> None:
    """Everything else stands for itself."""
    assert unescape(text) == meant


def test_bytes_that_are_no_utf_8_are_refused() -> None:
    """Python hands them over as lone surrogates."""
    assert from_bytes("é", "stop") == "é"
    with pytest.raises(UsageError, match=r"^stop: it is not valid UTF-8"):
        from_bytes("\udcff", "stop")
