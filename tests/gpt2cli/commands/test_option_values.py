"""Claims about values that are read from text by an option's declaration."""

from typing import Any

import pytest

from gpt2cli.commands.option_values import DeclaredOption, declared_options
from gpt2cli.commands.options import LimitOptions, ModelOptions, SamplingOptions
from gpt2cli.errors import UsageError


def find(name: str) -> DeclaredOption:
    """Return the option of this name."""
    groups = (SamplingOptions, LimitOptions, ModelOptions)
    options = [option for group in groups for option in declared_options(group)]
    return next(option for option in options if option.name == name)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("temperature", "0.5", 0.5),
        ("temperature", '"0.5"', 0.5),
        ("top-k", "7", 7),
        ("greedy", "on", True),
        ("greedy", "OFF", False),
        ("greedy", "true", True),
        ("greedy", "0", False),
        ("overflow", "slide", "slide"),
        ("stop", "a", ["a"]),
        ("stop", r"\n", ["\n"]),
        ("stop", r"\\n", [r"\n"]),
        ("stop", '" a "', [" a "]),
        ("stop", '"', ['"']),
        ("stop", '""', [""]),
        ("stop", '"""', ['"']),
        ("stop", "a b", ["a b"]),
        ("stop", "é🦊\udcff", ["é🦊\udcff"]),
        ("stop", "[]", []),
        ("stop", '["a", "b"]', ["a", "b"]),
        ("stop", r'["\n"]', ["\n"]),
        ("stop", r'["\\n"]', [r"\n"]),  # JSON has its own escapes
        ("stop", "[", ["["]),
        ("stop", "[1]", ["[1]"]),
        ("stop", "[a]", ["[a]"]),
        ("stop", "[" * 100_000, ["[" * 100_000]),
        ("logit-bias", "a=1", ["a=1"]),
        ("model", "gpt2", "gpt2"),
        ("model", r"a\n", r"a\n"),  # a path is no text with escapes
    ],
)
def test_a_text_means_what_it_means_on_the_command_line(
    name: str, text: str, expected: object
) -> None:
    """In quotes where it has white space at its ends; a JSON array for several."""
    assert find(name).parse(text) == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("temperature", "0.5", 0.5),
        ("greedy", "off", False),
        ("overflow", "slide", "slide"),
        ("stop", '"a"', ['"a"']),
        ("stop", r"\n", ["\n"]),
        ("stop", '["a", "b"]', ["a", "b"]),
        ("model", '"x"', '"x"'),
    ],
)
def test_a_variable_means_the_same_without_quotes_of_its_own(
    name: str, text: str, expected: object
) -> None:
    """The shell has taken its own away already."""
    assert find(name).parse_plain(text) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("temperature", 1, 1.0),
        ("temperature", 0.5, 0.5),
        ("top-k", 7, 7),
        ("top-k", "7", 7),
        ("greedy", True, True),
        ("greedy", "off", False),
        ("overflow", "slide", "slide"),
        ("stop", r"\n", [r"\n"]),
        ("stop", ["a", '["b"]'], ["a", '["b"]']),
        ("stop", [], []),
        ("model", "a b", "a b"),
    ],
)
def test_a_value_of_toml_has_its_kind_already(name: str, value: object, expected: object) -> None:
    """A text in it has its escapes behind it."""
    assert find(name).read(value) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", True),
        ("top-k", 1.5),
        ("top-k", [7]),
        ("greedy", 2),
        ("model", 124),
        ("stop", 5),
        ("stop", [["a"]]),
        ("overflow", False),
    ],
)
def test_a_value_of_another_kind_is_an_error_that_names_the_option(
    name: str, value: object
) -> None:
    """It is not made to fit."""
    with pytest.raises(UsageError, match=f"^--{name}: expected "):
        find(name).read(value)


@pytest.mark.parametrize(
    ("name", "usual"),
    [
        ("top-k", "40, or the model's own"),
        ("stop", "none"),
        ("greedy", "off"),
        ("overflow", "stop"),
    ],
)
def test_what_is_built_in_is_told_in_the_words_of_the_help(name: str, usual: str) -> None:
    """For `gpt2 config show`."""
    assert find(name).usual == usual


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("temperature", "x", "--temperature: expected a number 0 or more, found 'x'"),
        ("temperature", "", "--temperature"),
        ("top-k", "1.5", "--top-k: expected a whole number"),
        ("top-k", "1" * 5000, "--top-k: expected a whole number"),
        ("greedy", "maybe", "--greedy: expected on or off, found 'maybe'"),
        ("overflow", "x", "--overflow: expected stop, slide, error, found 'x'"),
        ("ban", r'["a", "\ud83d"]', r"--ban: .ud83d is half of a surrogate pair"),
    ],
)
def test_what_is_no_value_is_an_error_that_names_the_option(
    name: str, text: str, reason: str
) -> None:
    """In the words of the command line."""
    with pytest.raises(UsageError, match=reason):
        find(name).parse(text)


def test_it_does_not_depend_on_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is typed was read as UTF-8, whatever the command line's arguments were."""
    monkeypatch.setattr("os.fsencode", lambda text: text.encode("latin-1"))
    assert find("stop").parse("é") == ["é"]


@pytest.mark.parametrize(
    ("name", "field", "kind", "repeatable", "default"),
    [
        ("top-k", "top_k", int, False, None),
        ("stop", "stop", str, True, None),
        ("greedy", "greedy", bool, False, False),
        ("offline", "offline", bool, False, False),
    ],
)
def test_a_declaration_is_understood(
    name: str, field: str, kind: Any, repeatable: bool, default: Any
) -> None:
    """As Typer understands it."""
    option = find(name)
    assert (option.field, option.kind) == (field, kind)
    assert (option.repeatable, option.default) == (repeatable, default)
    assert option.help.endswith(".")
