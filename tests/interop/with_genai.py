"""Continues prompts by onnxruntime-genai: `with_genai.py FOLDER COUNT PROMPT...`, as with_optimum.

Prints the same.
"""

import json
import pathlib
import sys
import tempfile
from typing import Any

import onnxruntime_genai

folder, count, *prompts = sys.argv[1:]
# Go on after the end of a text, as the others are told to. That takes a copy of the configuration,
# beside links to all else: an overlay adds ids to those that end a text, and takes none away.
with tempfile.TemporaryDirectory() as copy:
    for path in pathlib.Path(folder).resolve().iterdir():
        pathlib.Path(copy, path.name).symlink_to(path)
    written = pathlib.Path(copy, "genai_config.json")
    settings = json.loads(written.read_text(encoding="utf-8"))
    settings["model"]["eos_token_id"] = settings["model"]["vocab_size"] - 1
    written.unlink()
    written.write_text(json.dumps(settings), encoding="utf-8")
    model: Any = onnxruntime_genai.Model(copy)
    tokenizer: Any = onnxruntime_genai.Tokenizer(model)


def complete(texts: list[str]) -> list[list[int]]:
    """Return prompt and completion of each, without padding."""
    lengths = [len(tokenizer.encode(text)) for text in texts]
    parameters = onnxruntime_genai.GeneratorParams(model)
    longest = max(lengths) + int(count)
    parameters.set_search_options(max_length=longest, do_sample=False, batch_size=len(texts))
    generator = onnxruntime_genai.Generator(model, parameters)
    generator.append_tokens(tokenizer.encode_batch(texts))
    while not generator.is_done():
        generator.generate_next_token()
    found = [[int(i) for i in generator.get_sequence(row)] for row in range(len(texts))]
    end = max(lengths)  # of the prompts, which are padded on the right
    return [row[:length] + row[end:] for row, length in zip(found, lengths, strict=True)]


alone = [complete([prompt])[0] for prompt in prompts]
texts = [tokenizer.decode(row) for row in alone]
print(json.dumps({"alone": alone, "texts": texts, "together": complete(prompts)}))
