"""Owns the chat templates and conversations that are compared with transformers, and the outcome.

make_chats.py, which writes chats.json, says which version. The templates are of the forms that are
published for small models: ChatML, Zephyr's, Llama 2's, Alpaca's.
"""

import json
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.checkpoints import write_tokenizer

STORED_FILE: Final = pathlib.Path(__file__).with_name("chats.json")
VOCAB_SIZE: Final = 1000
OWN_SIZE: Final = 256 + 27**2 + 1  # bytes, pairs of spaces and letters, <|endoftext|>

CHATML: Final = """\
{%- if messages[0]['role'] != 'system' -%}
    {{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' -}}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' -}}
{%- endif %}
"""
ZEPHYR: Final = """\
{% for message in messages %}
{% if message['role'] == 'user' %}
<|user|>
{{ message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
<|system|>
{{ message['content'] + eos_token }}
{% else %}
<|assistant|>
{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}

{% endif %}
{% if loop.last and add_generation_prompt %}
<|assistant|>
{% endif %}
{% endfor %}"""
LLAMA: Final = """\
{%- if messages[0].role == 'system' -%}
{%- set system = '<<SYS>>\\n' ~ messages[0].content ~ '\\n<</SYS>>\\n\\n' %}{% set rest = messages[1:] -%}
{%- else -%}{% set system = '' %}{% set rest = messages %}{% endif -%}
{%- for message in rest -%}
{%- if (message.role == 'user') != (loop.index0 is divisibleby 2) -%}
{{ raise_exception('roles must alternate') }}
{%- endif -%}
{%- if message.role == 'user' -%}
{{ bos_token }}[INST] {{ system if loop.first else '' }}{{ message.content }} [/INST]
{%- else %} {{ message.content }} {{ eos_token }}
{%- endif -%}
{%- endfor -%}"""  # noqa: E501
ALPACA: Final = """\
{{ 'below is a task.\\n\\n' }}
{%- set ns = namespace(count=0) -%}
{%- for message in messages -%}
{%- if message.role == 'system' %}{{ message.content }}{{ '\\n\\n' }}{% continue %}{% endif -%}
{%- set ns.count = ns.count + 1 -%}
{%- if message.role == 'user' %}{{ '### Instruction:\\n' ~ message.content ~ '\\n\\n' }}
{%- else %}{{ '### Response:\\n' ~ message.content ~ '\\n\\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '### Response:\\n' }}{% endif -%}"""
# What only our environment can show: filters, globals and flags of blocks.
FILTERS: Final = """\
{{ messages | tojson }} {{ strftime_now('%%') }} {{ dict(a=1) | tojson(indent=1) }}
  {% for message in messages | selectattr('role', 'equalto', 'user') %}
 {{ message.content | upper }}
  {% break %}
  {% endfor %}
 {{ unk_token is defined }} {{ tools is none }} {{ none_such is defined }}
"""


@dataclass(frozen=True, slots=True)
class ChatCase:
    """A template with special tokens, and a conversation whose last message is to be answered."""

    template: str
    special: Sequence[str] = ()
    said: Sequence[tuple[str, str]] = ()  # role and content
    files: Mapping[str, Any] = field(default_factory=dict)  # in place of chat_template.jinja
    config: Mapping[str, Any] = field(default_factory=dict)


_MARKS: Final = ("<|im_start|>", "<|im_end|>")
_TALK: Final = (
    ("user", "hello there"),
    ("assistant", "good day"),
    ("user", "who are you?\n\nand where?"),
)
_SYSTEM: Final = (("system", "a wood at night"), *_TALK)

CASES: Final[Mapping[str, ChatCase]] = {
    "chatml": ChatCase(CHATML, _MARKS, _TALK, config={"eos_token": "<|im_end|>"}),
    "chatml, system": ChatCase(CHATML, _MARKS, _SYSTEM),
    "chatml, first turn": ChatCase(CHATML, _MARKS, _TALK[:1]),
    "chatml in the configuration": ChatCase(
        "", _MARKS, _TALK, files={"tokenizer_config.json": {"chat_template": CHATML}}
    ),
    "several with names": ChatCase(
        "",
        _MARKS,
        _TALK,
        files={
            "tokenizer_config.json": {
                "chat_template": [
                    {"name": "rag", "template": "no"},
                    {"name": "default", "template": CHATML},
                ]
            }
        },
    ),
    "both files": ChatCase(
        CHATML, _MARKS, _TALK, files={"tokenizer_config.json": {"chat_template": "no"}}
    ),
    "zephyr": ChatCase(ZEPHYR, (), _SYSTEM),
    "zephyr, no system": ChatCase(ZEPHYR, (), _TALK),
    "llama": ChatCase(LLAMA, (), _SYSTEM),
    "llama, no system": ChatCase(LLAMA, (), _TALK),
    "alpaca": ChatCase(ALPACA, (), _SYSTEM),
    "filters": ChatCase(FILTERS, (), (("user", 'a "b" <é>'),)),
}


def write_chat_case(folder: pathlib.Path, case: ChatCase) -> None:
    """Write a tokenizer of bytes and some pairs, with the files of the case.

    And a config.json, where there is none.
    """
    end = write_tokenizer(folder, OWN_SIZE, kind="filled")
    path = folder / "tokenizer.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    whole["added_tokens"] += [
        {"id": end + place, "content": text, "special": True, **flags}
        for place, text in enumerate(case.special, start=1)
    ]
    _write(path, whole)
    names = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **names, **case.config}
    _write(
        folder / "tokenizer_config.json", {**config, **case.files.get("tokenizer_config.json", {})}
    )
    if case.template:
        (folder / "chat_template.jinja").write_bytes(case.template.encode())
    sizes = {"n_layer": 1, "n_head": 1, "n_embd": 4, "n_positions": 256, "vocab_size": VOCAB_SIZE}
    if not (folder / "config.json").exists():
        _write(folder / "config.json", {"model_type": "gpt2", **sizes})


def _write(path: pathlib.Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
