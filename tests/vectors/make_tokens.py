"""Owns the making of tokens.json: what transformers reads of a tokenizer's files.

Run by hand, in an environment of its own, from the root of the checkout:

    pip install transformers numpy
    python -m tests.vectors.make_tokens

The stored file was made with transformers 5.24.0 and tokenizers 0.23.3.
"""

import json
import pathlib
import tempfile
from typing import Any

import transformers

from tests.vectors.token_cases import CASES, STORED_FILE, TokenCase, write_case


def read(case: TokenCase) -> dict[str, Any]:
    """Return the ids of the case's text, the special ids, BOS and EOS."""
    with tempfile.TemporaryDirectory() as name:
        write_case(pathlib.Path(name), case)
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    return {
        "ids": tokenizer(case.text)["input_ids"],
        "special": sorted(set(tokenizer.all_special_ids)),
        "bos": tokenizer.bos_token_id,
        "eos": tokenizer.eos_token_id,
    }


if __name__ == "__main__":
    found = {name: read(case) for name, case in CASES.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(of)}" for name, of in found.items())
    STORED_FILE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
