"""Compares what other programs make of portable folders with what `gpt2` makes of them.

`python -m tests.interop --tools FOLDER MODEL...`: MODEL is what `gpt2 export --portable` wrote,
FOLDER has the environments that README.md beside this file says how to make. One line for each
model and program; where one is missing, the line says so. Ends with 1 if a text in fp32 differs.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

from gpt2cli.model_folder import read_model_folder

_HERE: Final = pathlib.Path(__file__).parent
_PROMPTS: Final = ("Once upon", "One day, a boy named Tom")


def find_commands(tools: pathlib.Path) -> dict[str, tuple[list[str], pathlib.Path]]:
    """Return of each program how it is started, and what must be there for that."""
    optimum, genai = (tools / name / "bin" / "python" for name in ("optimum", "genai"))
    package = tools / "node" / "node_modules" / "@huggingface" / "transformers"
    node, chromium = (pathlib.Path(shutil.which(n) or f"no {n} here") for n in ("node", "chromium"))
    script = tools / "node" / "with_transformers.mjs"
    if package.is_dir():  # node looks for packages beside the script
        shutil.copyfile(_HERE / script.name, script)
    in_node = ([str(node), str(script)], package if node.is_file() else node)
    in_browser = [sys.executable, str(_HERE / "in_browser.py")]
    return {
        "optimum-onnx": ([str(optimum), str(_HERE / "with_optimum.py")], optimum),
        "onnxruntime-genai": ([str(genai), str(_HERE / "with_genai.py")], genai),
        "transformers.js in node": in_node,
        "transformers.js in Chromium": (in_browser, package if chromium.is_file() else chromium),
    }


def complete(model: pathlib.Path, count: int) -> dict[str, list[Any]]:
    """Return ids and texts by `gpt2` itself."""
    gpt2 = [sys.executable, "-m", "gpt2cli"]
    options = ["-q", "--json", "-m", str(model)]
    alone = []
    for prompt in _PROMPTS:
        read = json.loads(run([*gpt2, "tokens", *options, prompt]))
        asked = ["--greedy", "--ignore-eos", "--logprobs", "1", "-n", str(count)]
        record = json.loads(run([*gpt2, "generate", *options, *asked, prompt]))
        alone.append([*read["ids"], *(token["id"] for token in record["logprobs"])])
    return {"alone": alone}


def run(command: Sequence[str], **environment: str) -> str:
    """Return the last line that a program writes, or raise CalledProcessError."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | environment
    )
    return done.stdout.splitlines()[-1]


def compare(ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]) -> str:
    """Return in words how far the ids agree."""
    told = []
    for one, other in zip(ours, theirs, strict=True):
        pairs = enumerate(zip(one, other, strict=False))
        first = next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
        same = first == len(one) == len(other)
        told.append("all" if same else f"{first} of {len(one)}")
    return " and ".join(told)


def main() -> int:
    """Run all, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--pictures", type=pathlib.Path, help="folder for Chromium's screenshots")
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    wrong = 0
    for model in options.models:
        folder = read_model_folder(model)
        name = f"{model.name}, {folder.precision}, n_embd {folder.shape.n_embd}"
        ours = complete(model, options.count)["alone"]
        for program, (command, needed) in find_commands(options.tools.resolve()).items():
            if not needed.exists():
                print(f"{name}: {program}: skipped, {needed} is missing", flush=True)
                continue
            outcome, differs = _judge(command, model, options, ours)
            print(f"{name}: {program}: {outcome}", flush=True)
            wrong += differs and folder.precision == "fp32"
    return 1 if wrong else 0


def _judge(
    command: Sequence[str], model: pathlib.Path, options: Any, ours: list[list[int]]
) -> tuple[str, bool]:
    """Return what a program made, in words, and whether it is other than ours."""
    node = options.tools.resolve() / "node" / "node_modules"
    environment = {"NODE_MODULES": str(node)}
    if options.pictures:
        environment["SCREENSHOT"] = str(options.pictures.resolve() / f"{model.name}.png")
    arguments = [str(model.resolve()), str(options.count), *_PROMPTS]
    try:
        told = json.loads(run([*command, *arguments], **environment))
    except subprocess.CalledProcessError as error:
        return f"failed: {error.stderr[-2000:]}", True
    if "error" in told:
        return f"failed: {told['error']}", True
    outcome = f"the same ids: {compare(ours, told['alone'])}"
    if "together" in told:
        outcome += f"; as a batch: {compare(ours, told['together'])}"
    return outcome, told["alone"] != ours or told.get("together", ours) != ours


if __name__ == "__main__":
    sys.exit(main())
