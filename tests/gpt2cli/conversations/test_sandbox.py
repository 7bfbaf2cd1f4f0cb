"""Claims about chat templates as code of strangers: what they find, and what they cannot do."""

import json
from typing import Any, Final

import pytest

from gpt2cli.conversations.sandbox import ChatTemplate
from gpt2cli.errors import PromptError
from tests.vectors.chat_cases import CASES, CHATML, STORED_FILE

_NAMES: Final = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    """Return what transformers made of the cases."""
    made: dict[str, Any] = json.loads(STORED_FILE.read_text(encoding="utf-8"))
    return made


@pytest.mark.parametrize("name", CASES)
def test_the_text_is_that_of_transformers(stored: dict[str, Any], name: str) -> None:
    """By vectors; a case without a template of its own has CHATML in another file."""
    template = ChatTemplate(CASES[name].template or CHATML, _NAMES)
    assert template.render(CASES[name].said, prompting=True) == stored[name]["text"]


def render(source: str) -> str:
    return ChatTemplate(source, _NAMES).render([("user", "x")], prompting=False)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("{% if %}", "cannot be read: Expected an expression"),
        ("{{ " + 9000 * "(" + "1" + 9000 * ")" + " }}", "cannot be read: maximum recursion depth"),
        ("{{ raise_exception('no\nsystem') }}", r"fails: no\nsystem"),
        ("{{ none_such.x }}", "fails: 'none_such' is undefined"),
        ("{{ 1 / 0 }}", "fails: division by zero"),
        ("{% include '/etc/passwd' %}", "fails: no loader"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "fails: maximum recursion depth"),
        (
            "{{ ''.__class__.x }}",
            "fails: access to attribute '__class__' of 'str' object",
        ),
        ("{{ strftime_now.__globals__.x }}", "fails: access to attribute '__globals__'"),
        ("{{ messages.append(1) }}", "fails: access to attribute 'append'"),
        ("{{ namespace(_x=1) }}", "fails: a namespace cannot hold '_x'"),
        ("{{ range(10**9) | list }}", "fails: Range too big"),
    ],
)
def test_a_template_that_goes_wrong_is_told_in_one_line(source: str, told: str) -> None:
    with pytest.raises(PromptError) as caught:
        render(source)
    line = str(caught.value)
    assert line.startswith(f"the model's chat template {told}")
    assert line.isprintable()


def test_the_same_conversation_is_written_once() -> None:
    """The date too stays what it was: what the model has read need not be read again."""
    template = ChatTemplate("{{ strftime_now('%f') }}", {})
    assert len({template.render([("user", "x")], prompting=True) for _ in range(3)}) == 1
