"""Renders chat templates, which are code of strangers, in jinja2's sandbox.

What a template finds there is what transformers gives it (5.24, `utils/chat_template_utils.py`).
jinja2's sandbox keeps it from all that is not its own. It may still take long: Ctrl-C ends it.
"""

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox
import jinja2.utils

from export.errors import as_one_line
from gpt2cli.errors import PromptError, shorten

_MOST_KEPT: Final = 256  # conversations
_ADVICE: Final = "{template} transcript does without it"

Message = tuple[str, str]  # its role, which is system, user or assistant, and its content


class ChatTemplate:
    """A template, ready to write conversations."""

    def __init__(self, source: str, names: Mapping[str, str]) -> None:
        """`names`: the special tokens' texts, by names such as eos_token.

        Raises:
            PromptError: if it is no template.
        """
        self._names = names
        # Of each turn the same beginnings are asked for.
        self._render_once = functools.lru_cache(_MOST_KEPT)(self._render)
        with _translated("cannot be read"):
            self._template = _make_environment().from_string(source)

    def render(self, messages: Sequence[Message], *, prompting: bool) -> str:
        """Return a conversation as the model sees it; `prompting`: up to where its reply begins.

        Raises:
            PromptError: if the template refuses it, or fails.
        """
        return self._render_once(tuple(messages), prompting)

    def _render(self, messages: tuple[Message, ...], prompting: bool) -> str:
        said = [{"role": role, "content": content} for role, content in messages]
        given = {**self._names, "messages": said}
        with _translated("fails"):
            return self._template.render(
                **given, tools=None, documents=None, add_generation_prompt=prompting
            )


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # it may raise whatever an expression of Python can
        reason = shorten(as_one_line(str(error).rstrip(".") or type(error).__name__))
        raise PromptError(f"the model's chat template {what}: {reason}", _ADVICE) from error


class _Generation(jinja2.ext.Extension):
    """Takes {% generation %}, which marks replies for training, as what stands within it."""

    tags: Final = {"generation"}  # type: ignore[misc]

    def parse(self, parser: jinja2.parser.Parser) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


class _Dict:
    """Makes dictionaries; the type itself would give more away."""

    def __call__(self, *pairs: Any, **items: Any) -> dict[Any, Any]:
        return dict(*pairs, **items)

    def fromkeys(self, *keys: Any) -> dict[Any, Any]:
        return dict.fromkeys(*keys)


def _raise(message: object) -> NoReturn:
    raise jinja2.TemplateError(str(message))


def _write_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return JSON without HTML's escapes, which jinja2's own filter has."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _make_environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = _write_json
    made.globals |= {
        "raise_exception": _raise,
        "strftime_now": lambda form: datetime.now().strftime(form),
        "dict": _Dict(),
        "namespace": _Namespace,
    }
    return made


class _Namespace(jinja2.utils.Namespace):
    """Refuses names with an underscore, as transformers does: they lead to Python's own parts."""

    def __init__(*given: Any, **values: Any) -> None:
        made, *pairs = given
        values = dict(*pairs, **values)
        for name in values:
            _refuse_name(name)
        jinja2.utils.Namespace.__init__(made, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_name(name)
        super().__setitem__(name, value)


def _refuse_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.TemplateError(f"a namespace cannot hold {name!r}")
