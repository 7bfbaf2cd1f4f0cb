"""Continues prompts by Optimum: `with_optimum.py FOLDER COUNT PROMPT...`, in its own environment.

Prints JSON: ids and text of each alone, then ids of all as one batch, padded on the left.
"""

import json
import sys
from typing import Any

from optimum.onnxruntime import ORTModelForCausalLM
from transformers import AutoTokenizer

folder, count, *prompts = sys.argv[1:]
tokenizer: Any = AutoTokenizer.from_pretrained(folder, padding_side="left")
model: Any = ORTModelForCausalLM.from_pretrained(folder)
model.generation_config.eos_token_id = None  # go on after it
tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token


def complete(texts: list[str]) -> list[list[int]]:
    """Return prompt and completion of each, without padding."""
    inputs = tokenizer(texts, return_tensors="pt", padding=True)
    options = {"max_new_tokens": int(count), "do_sample": False}
    found = model.generate(**inputs, **options, pad_token_id=tokenizer.pad_token_id).tolist()
    padding = (inputs["attention_mask"] == 0).sum(dim=1).tolist()
    return [row[skipped:] for row, skipped in zip(found, padding, strict=True)]


alone = [complete([prompt])[0] for prompt in prompts]
texts = [tokenizer.decode(row) for row in alone]
print(json.dumps({"alone": alone, "texts": texts, "together": complete(prompts)}))
