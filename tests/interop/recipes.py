"""Runs README's recipes for other programs as they are printed: `recipes.py --tools FOLDER`.

FOLDER has the environments that README.md beside this file says how to make. Each recipe runs in a
folder with a portable export of the starter, and what it prints is shown.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Final

_README: Final = pathlib.Path(__file__).parents[2] / "README.md"
_EXPORT: Final = (sys.executable, "-m", "gpt2cli", "export", "starter", "portable", "--portable")


def main() -> None:
    """Run all, one after the other; the first that fails ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--precision", default="fp32")
    options = parser.parse_args()
    tools = options.tools.resolve()
    programs = {
        "optimum": [tools / "optimum" / "bin" / "python"],
        "onnxruntime_genai": [tools / "genai" / "bin" / "python"],
        "huggingface": ["node", "--input-type=module"],
    }
    blocks = re.findall(r"^```(?:python|js)\n(.*?)^```$", _README.read_text("utf-8"), re.M | re.S)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*_EXPORT, "--precision", options.precision], cwd=folder, check=True)
        pathlib.Path(folder, "node_modules").symlink_to(tools / "node" / "node_modules")
        for block in blocks:
            name = next(name for name in programs if name in block)
            print(f"== {name}", flush=True)
            subprocess.run(programs[name], input=block, text=True, cwd=folder, check=True)


if __name__ == "__main__":
    main()
