"""Sends rows to a server by Ray Data: `with_ray_data.py ADDRESS EXPECTED`, as with_openai."""

import json
import pathlib
import sys
from typing import Any

import ray
from ray.data.llm import HttpRequestProcessorConfig, build_processor

address, expected_file = sys.argv[1:3]
expected: dict[str, Any] = json.loads(pathlib.Path(expected_file).read_text(encoding="utf-8"))


def ask(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the request that it means."""
    fields = {"prompt": row["prompt"], "seed": int(row["seed"]), "max_tokens": 30}
    return {"payload": {"model": "starter", **fields}, "seed": row["seed"]}


def read(row: dict[str, Any]) -> dict[str, Any]:
    """Return the text of an answer."""
    return {"seed": row["seed"], "text": row["http_response"]["choices"][0]["text"]}


ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
rows = [{"prompt": prompt, "seed": 6 + number} for number, prompt in enumerate(expected["prompts"])]
headers = {"Authorization": "Bearer none"}
config = HttpRequestProcessorConfig(url=f"{address}/v1/completions", headers=headers, qps=10)
made = build_processor(config, preprocess=ask, postprocess=read)(ray.data.from_items(rows))
texts = [row["text"] for row in sorted(made.take_all(), key=lambda row: row["seed"])]
print(f"ray {ray.__version__}: {'ok' if texts == expected['batch'] else texts}")
sys.exit(texts != expected["batch"])
