"""Scores by lm-evaluation-harness: `with_lm_eval.py ADDRESS EXPECTED STARTER`.

Writes a task of perplexity and one of multiple choice, runs both by `local-completions`, and
compares with what `gpt2 score` says of the same texts (EXPECTED, as `served.py` writes it). STARTER
is the folder of the checkpoint: the harness takes its tokenizer from there.
"""

import json
import logging
import math
import os
import pathlib
import sys
import tempfile
from itertools import chain
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import lm_eval
from lm_eval.tasks import TaskManager

logging.getLogger("lm_eval").setLevel(logging.ERROR)
address, expected_file, starter = sys.argv[1:]
expected: dict[str, Any] = json.loads(pathlib.Path(expected_file).read_text(encoding="utf-8"))
_TASKS = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
"""
_ROLLING = """
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}]
"""
_CHOICE = """
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
doc_to_choice: "{{choices}}"
target_delimiter: ""
metric_list: [{metric: acc}]
"""


def write_task(folder: pathlib.Path, name: str, rows: list[Any], form: str) -> None:
    """Write the data and the description of a task."""
    data = folder / f"{name}.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    task = _TASKS.format(name=name, file=data) + form
    (folder / f"{name}.yaml").write_text(task, encoding="utf-8")


def evaluate(folder: pathlib.Path, **more: Any) -> dict[str, Any]:
    """Return what the harness finds."""
    form = {"base_url": f"{address}/v1/completions", "model": "starter", "tokenizer": starter}
    arguments = {**form, "tokenizer_backend": "huggingface", "max_length": 512, **more}
    found: dict[str, Any] = lm_eval.simple_evaluate(
        model="local-completions",
        model_args=arguments,
        tasks=["rolling", "choice"],
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        log_samples=True,
        bootstrap_iters=0,
        verbosity="ERROR",
    )
    return found


def compare(found: dict[str, Any]) -> list[tuple[str, bool]]:
    """Return each check in words, and whether it holds."""
    samples = {
        name: sorted(some, key=lambda sample: sample["doc_id"])
        for name, some in found["samples"].items()
    }
    texts = [row["text"] for row in expected["rolling"]]
    totals = [row["total"] for row in expected["rolling"]]
    theirs = [one["filtered_resps"][0] for one in samples["rolling"]]
    rolling = [float(one[0] if isinstance(one, (list, tuple)) else one) for one in theirs]
    size = sum(len(text.encode()) for text in texts)
    perplexity = math.exp(-sum(totals) / size)
    told = found["results"]["rolling"]["byte_perplexity,none"]
    chosen = [[float(one[0]) for one in sample["filtered_resps"]] for sample in samples["choice"]]
    wanted = expected["choices"]
    accuracy = sum(
        row["answer"] == max(range(len(scores)), key=scores.__getitem__)
        for row, scores in zip(expected["questions"], wanted, strict=True)
    ) / len(wanted)
    return [
        (f"rolling log-likelihoods {rolling}", agree(rolling, totals)),
        (f"byte perplexity {told}", agree([told], [perplexity])),
        (f"choices {chosen}", agree([*chain(*chosen)], [*chain(*wanted)])),
        (
            f"accuracy {found['results']['choice']['acc,none']}",
            agree([found["results"]["choice"]["acc,none"]], [accuracy]),
        ),
    ]


def agree(theirs: list[float], ours: list[float]) -> bool:
    """Tell whether numbers are equal but for the order in which they were summed."""
    pairs = zip(theirs, ours, strict=True)
    return all(math.isclose(a, b, rel_tol=1e-9) for a, b in pairs)


def main() -> int:
    """Run both tasks, one request after the other, and several prompts in a request."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        write_task(path, "rolling", expected["rolling"], _ROLLING)
        write_task(path, "choice", expected["questions"], _CHOICE)
        for more in ({}, {"batch_size": 4}, {"num_concurrent": 4}):
            for told, holds in compare(evaluate(path, **more)):
                failed += not holds
                print(f"{more or 'one by one'}: {told}: {'as gpt2 score' if holds else 'DIFFERS'}")
    return 1 if failed else 0


if __name__ == "__main__":
    print(f"lm-eval {lm_eval.__version__}")
    sys.exit(main())
