"""`python -m export SOURCE OUT` is another way to write `gpt2 export SOURCE OUT`."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv[1:1] = ["export"]
    # By name, not imported: what converts checkpoints knows of no command line.
    runpy.run_module("gpt2cli", run_name="__main__")
