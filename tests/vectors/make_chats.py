"""Owns the making of chats.json: what transformers makes of conversations by chat templates.

Run by hand, in an environment of its own, from the root of the checkout:

    pip install transformers jinja2 numpy
    python -m tests.vectors.make_chats

The stored file was made with transformers 5.24.0, jinja2 3.1.6 and tokenizers 0.23.3.
"""

import json
import pathlib
import tempfile
from typing import Any

import transformers

from tests.vectors.chat_cases import CASES, STORED_FILE, ChatCase, write_chat_case


def render(case: ChatCase) -> dict[str, Any]:
    """Return the prompt for the next reply, as text and as ids."""
    with tempfile.TemporaryDirectory() as name:
        write_chat_case(pathlib.Path(name), case)
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    messages = [{"role": role, "content": content} for role, content in case.said]
    how = {"conversation": messages, "add_generation_prompt": True}
    return {
        "text": tokenizer.apply_chat_template(**how, tokenize=False),
        "ids": list(tokenizer.apply_chat_template(**how, return_dict=False)),
    }


if __name__ == "__main__":
    found = {name: render(case) for name, case in CASES.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(of)}" for name, of in found.items())
    STORED_FILE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
