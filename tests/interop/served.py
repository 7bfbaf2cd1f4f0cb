"""Runs clients of others against `gpt2 serve`: `python -m tests.interop.served --tools FOLDER`.

FOLDER/served is an environment with openai and lm-eval, as README.md beside this file says. Starts
two servers of the starter at free ports of this machine, writes down what `gpt2` itself makes of
the same prompts, and runs each script with that. Ends with 1 if one of them does.
"""

import argparse
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, Final

_HERE: Final = pathlib.Path(__file__).parent
_STARTER: Final = _HERE.parents[1] / "gpt2cli" / "starter"
_GPT2: Final = (sys.executable, "-m", "gpt2cli")
_PROMPTS: Final = ("Once upon", "The fox")
_TEXTS: Final = (
    "Once upon a time there was a little fox who lived in a wood.",
    "Tom was sad, and his mother gave him a red ball.\nHe said: thank you!",
    "Das ist kein Englisch; 3.14 \N{GRINNING FACE}",
)
_BOS: Final = "<|endoftext|>"
_QUESTIONS: Final = (
    ("Once upon a", (" time", " table", " tiger ran"), 0),
    ("The sun was", (" shining", " purple bricks", " eating"), 0),
    ("Lily said: I am so", (" happy!", " of, the"), 0),
)


def run(*arguments: str) -> list[Any]:
    """Return the records that a command of ours writes."""
    command = [*_GPT2, *arguments, "-m", "starter", "-q", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def expect() -> dict[str, Any]:
    """Return what `gpt2` makes of everything that is asked."""
    ask = ("-n", "30", "--seed", "6")
    [alone] = run("generate", _PROMPTS[0], *ask, "--logprobs", "2")
    second = run("generate", _PROMPTS[1], "-n", "30", "--seed", "7")[0]
    samples = run("generate", _PROMPTS[0], *ask, "-N", "3")
    bos = run("tokens", "--allow-special", _BOS)[0]["ids"]
    scored = run("score", _TEXTS[0])[0]
    return {
        "completion": alone["completion"],
        "logprobs": [token["logprob"] for token in alone["logprobs"]],
        "samples": [sample["completion"] for sample in samples],
        "ids": [run("tokens", prompt)[0]["ids"] for prompt in _PROMPTS],
        "prompts": list(_PROMPTS),
        "batch": [alone["completion"], second["completion"]],
        "scored_ids": [*bos, *(token["id"] for token in scored["tokens"])],
        "scores": [token["logprob"] for token in scored["tokens"]],
        "rolling": [{"text": text, "total": score(text)[0]} for text in _TEXTS],
        "questions": [
            {"question": _BOS + question, "choices": list(choices), "answer": answer}
            for question, choices, answer in _QUESTIONS
        ],
        "choices": [
            [sum(score(question + choice)[1][len(score(question)[1]) :]) for choice in choices]
            for question, choices, _ in _QUESTIONS
        ],
    }


def score(text: str) -> tuple[float, list[float]]:
    """Return the log-probability of a text, and those of its tokens."""
    [scored] = run("score", text)
    return scored["total_logprob"], [token["logprob"] for token in scored["tokens"]]


@contextlib.contextmanager
def serving(*options: str) -> Iterator[str]:
    """Serve the starter; gives the address."""
    command = [*_GPT2, "serve", "-m", "starter", "--port", "0", "--grace", "2", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"at (http://\S+)$", process.stderr.readline().rstrip())
        assert found, "it did not start"
        try:
            yield found[1]
        finally:
            process.terminate()
            process.wait(120)


def check_curl(address: str, expected: dict[str, Any]) -> bool:
    """Tell whether curl gets the text, whole and streamed."""
    if shutil.which("curl") is None:
        print("curl: skipped, it is missing", flush=True)
        return True
    ask = {"prompt": _PROMPTS[0], "seed": 6, "max_tokens": 30}
    texts = []
    for more in ({}, {"stream": True}):
        command = ["curl", "-sN", f"{address}/v1/completions", "-d", json.dumps({**ask, **more})]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        events = re.findall(r"^data: (\{.*)$", told, flags=re.M) or [told]
        texts.append("".join(json.loads(event)["choices"][0]["text"] for event in events))
    same = texts == [expected["completion"]] * 2
    print(f"curl: {'ok' if same else texts}", flush=True)
    return same


def main() -> int:
    """Run all, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    python = parser.parse_args().tools.resolve() / "served" / "bin" / "python"
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, serving() as address:
        expected, file = expect(), pathlib.Path(folder, "expected.json")
        file.write_text(json.dumps(expected), encoding="utf-8")
        key = pathlib.Path(folder, "key")
        key.write_text("sesame\n", encoding="utf-8")
        wrong += not check_curl(address, expected)
        one = ("--api-key-file", str(key), "--batch-size", "1", "--max-waiting", "1")
        with serving(*one) as keyed:
            for script, last in (
                ("with_openai.py", keyed),
                ("with_lm_eval.py", str(_STARTER)),
                ("with_ray_data.py", ""),
            ):
                command = [str(python), str(_HERE / script), address, str(file), last]
                wrong += subprocess.run(command, check=False).returncode != 0
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
