"""Claims about what a JSON record may say."""

from typing import Any

import pytest

from gpt2cli.batch.fields import read_id, read_object, read_options, read_prompt
from gpt2cli.config import Overflow
from gpt2cli.errors import PromptError, UsageError


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "{", "{}}", "{bad", "{'prompt': 'x'}", '{"prompt": "x",}', '{"prompt": "x'),
        *("nul", '{"a": NaN}', '{"a": Infinity}', '{"a": -Infinity}', '{"a": 1e999}'),
        *('{"a": -1e999}', '{"a": ' + "9" * 5000 + "}", '{"a": "\t"}', "\ufeff{}", '{"a": 01}'),
        *("[" * 100_000, '{"a":' * 100_000),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_json_is_an_error(text: str) -> None:
    """Also what only Python takes for JSON, and what nothing could write again."""
    with pytest.raises(
        PromptError, match=r"the record (is not JSON: .|is nested too|is empty|has a number)"
    ):
        read_object(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{bad", r"Expecting property name .* \(character 2\)"),
    ],
    ids=["syntax"],
)
def test_what_is_wrong_with_json_is_told_for_people(text: str, told: str) -> None:
    """Where in the record, without lines that it has not; and no advice for programmers."""
    with pytest.raises(PromptError, match=f"the record is not JSON: {told}$"):
        read_object(text)


@pytest.mark.parametrize("text", ["[]", '["prompt"]', '"prompt"', "1", "null", "true"])
def test_a_record_is_an_object(text: str) -> None:
    """Other JSON is told so, with the form that is expected."""
    with pytest.raises(PromptError, match=r'no JSON object; expected \{"prompt": …\}'):
        read_object(text)


def test_null_is_not_given() -> None:
    """As an option that the command line has not."""
    assert read_object('{"a": 2, "b": null}') == {"a": 2}


@pytest.mark.parametrize("identity", [0, -1.5, False, True, "", "a", [], [None], {}, {"a": [1]}])
def test_an_id_is_anything(identity: object) -> None:
    """What counts as false in Python is an id too."""
    assert read_id({"id": identity}) == identity


@pytest.mark.parametrize("prompt", [None, 1, True, ["x"], {"text": "x"}])
def test_a_prompt_is_a_text(prompt: object) -> None:
    """A record without one is told what is expected."""
    with pytest.raises(PromptError, match=r'no prompt; expected "prompt" with a text'):
        read_prompt({} if prompt is None else {"prompt": prompt})


@pytest.mark.parametrize("prompt", ["", "x", "\ud800", "a\0b\n"])
def test_any_text_is_a_prompt(prompt: str) -> None:
    """Whether it can be encoded, the tokenizer says."""
    assert read_prompt({"prompt": prompt}) == prompt


def values(record: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a record's options."""
    return {name: given.value for name, given in read_options(record).items()}


def test_options_have_the_types_of_the_configurations() -> None:
    """One stop is a list of one; prompt and id are no options."""
    own = {
        "prompt": "x",
        "id": 1,
        "temperature": 1,
        "greedy": True,
        "top_k": 3,
        "stop": "\n",
        "overflow": "slide",
        "ignore_eos": False,
        "samples": 2,
        "seed": 7,
        "allow_special": True,
    }
    assert values(own) == {
        "temperature": 1.0,
        "greedy": True,
        "top_k": 3,
        "stop": ("\n",),
        "overflow": Overflow.SLIDE,
        "ignore_eos": False,
        "samples": 2,
        "seed": 7,
        "allow_special": True,
    }
    assert values({"stop": ["a", "b"]}) == {"stop": ("a", "b")}
    assert values({"stop": [], "greedy": False}) == {"stop": (), "greedy": False}


def test_bans_are_texts_and_biases_an_object() -> None:
    """A ban as a stop, without escapes; a bias by id or by text, as any number."""
    assert values({"ban": "a\\n"}) == {"ban": ("a\\n",)}
    assert values({"ban": ["a", "b"]}) == {"ban": ("a", "b")}
    assert values({"ban": [], "logit_bias": {}}) == {"ban": (), "logit_bias": ()}
    assert values({"logit_bias": {"262": -1, " the": 0.5, "a=b": 1e1}}) == {
        "logit_bias": (("262", -1), (" the", 0.5), ("a=b", 10.0))
    }


_WRONG: dict[str, tuple[Any, ...]] = {
    "temperature": (True, "1", [1.0], {}),
    "top_k": (True, 1.0, "1", []),
    "top_p": (False, "x"),
    "min_p": (True,),
    "repetition_penalty": ([[]],),
    "max_new_tokens": (True, 1.5, "3"),
    "ignore_eos": (0, "true"),
    "seed": (True, 7.0, "7"),
    "samples": (True, 1.0, []),
    "allow_special": (1, "yes"),
    "greedy": (0, 1, "true", []),
    "stop": (1, True, {}, ["a", 1], [["a"]], [None]),
    "ban": (1, True, {}, ["a", 1], [["a"]], [None]),
    "logit_bias": (1, "a", ["a"], [["a", 1]], {"a": "1"}, {"a": True}, {"a": [1]}),
    "typical_p": (True, "1", []),
    "presence_penalty": (True, "1"),
    "frequency_penalty": (False, {}),
    "no_repeat_ngram": (True, 2.0, "2"),
    "min_new_tokens": (True, 1.5, "3"),
    "beams": (True, 2.0, "2"),
    "length_penalty": (True, "1", []),
    "logprobs": (True, 2.0, "2", []),
    "overflow": ("Slide", "", 1, True, ["stop"], {}),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in _WRONG.items() for value in values]
)
def test_a_wrong_type_is_an_error_that_names_the_option(name: str, value: object) -> None:
    """True is no number, 1 is not true, 7.0 is not 7, and a number in quotes is a text."""
    with pytest.raises(UsageError, match=f"^{name}: expected "):
        read_options({name: value})


@pytest.mark.parametrize(
    "name", ["temprature", "top-k", "--seed", "index", "completion", "", "\ud800", "PROMPT"]
)
def test_an_unknown_option_is_an_error_that_tells_the_known_ones(name: str) -> None:
    """A misspelt option would else be ignored in silence."""
    with pytest.raises(UsageError) as error:
        read_options({"prompt": "x", name: 1})
    assert str(error.value).startswith(f"unknown option {name}; known are allow_special, ban, ")
    assert " temperature, " in str(error.value)


def test_many_unknown_options_do_not_fill_the_screen() -> None:
    """Their names are cut."""
    with pytest.raises(UsageError) as error:
        read_options({f"unknown{i}": 1 for i in range(10_000)})
    assert len(str(error.value)) < 500
