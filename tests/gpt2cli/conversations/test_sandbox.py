"""Claims about chat templates as code of strangers: what they find, and what they cannot do."""

import json
import sys
from typing import Any, Final

import pytest

from gpt2cli.conversations.sandbox import ChatTemplate
from gpt2cli.errors import PromptError
from tests.vectors.chat_cases import CASES, CHATML, STORED_FILE

_NAMES: Final = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
_LOOP: Final = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
_DOUBLING: Final = (
    "{% set ns = namespace(x=START) %}{% for i in range(99) %}{% set ns.x = STEP %}{% endfor %}"
)


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
    return ChatTemplate(source, _NAMES, most_seconds=0.1).render([("user", "x")], prompting=False)


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
        (_LOOP, "takes too much: more than 0.1 s"),
        ("{{ range(10**9) | list }}", "fails: Range too big"),
        ("{{ 'a' * 10**9 }}", "takes too much: a text, list or number of 1000000000"),
        ("{{ 10**9 * [1] }}", "takes too much"),
        ("{{ 9**(9**9) }}", "takes too much"),
        ("{{ 'a' | center(10**15) }}", "fails: MemoryError"),
        (
            "{% for i in range(99) %}{{ 'a' * 100000 }}{% endfor %}",
            "takes too much: a text, list or number of 9900000",
        ),
        *(
            (_DOUBLING.replace("START", start).replace("STEP", step), "takes too much")
            for start, step in (
                ("'a'", "ns.x ~ ns.x"),
                ("'a'", "ns.x + ns.x"),
                ("[1]", "ns.x + ns.x"),
                ("2", "ns.x * ns.x"),
            )
        ),
    ],
)
def test_a_template_that_goes_wrong_is_told_in_one_line(source: str, told: str) -> None:
    """And the trace function that bounds it is gone."""
    before = sys.gettrace()
    with pytest.raises(PromptError) as caught:
        render(source)
    line = str(caught.value)
    assert line.startswith(f"the model's chat template {told}")
    assert line.isprintable()
    assert sys.gettrace() is before


def test_ordinary_sums_are_let_through() -> None:
    source = "{{ 2 ** 3 * 4 + 1 }} {{ 'ab' * 2 + 'c' }} {{ 1 ~ ([2] + [3]) }} {{ 2 ** 0.5 > 1 }}"
    assert render(source) == "33 ababc 1[2, 3] True"


def test_the_same_conversation_is_written_once() -> None:
    """The date too stays what it was: what the model has read need not be read again."""
    template = ChatTemplate("{{ strftime_now('%f') }}", {})
    assert len({template.render([("user", "x")], prompting=True) for _ in range(3)}) == 1
