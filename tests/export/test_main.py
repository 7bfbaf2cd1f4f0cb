"""`python -m export` is `gpt2 export`."""

import pathlib
import subprocess
import sys

_ROOT = pathlib.Path(__file__).parents[2]


def run_module(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "export", *arguments]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)


def test_options_and_names_reach_the_command(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The folder is written, and told on stderr."""
    out = tmp_path / "out"
    done = run_module(str(checkpoint), str(out), "--precision", "int8", "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"gpt2: wrote {out}\n")
    assert '"precision": "int8"' in (out / "export.json").read_text(encoding="utf-8")


def test_its_exit_codes_are_the_commands(tmp_path: pathlib.Path) -> None:
    """1 for what cannot be converted, 2 for wrong usage."""
    assert run_module(str(tmp_path), str(tmp_path / "out")).returncode == 1
    assert run_module("--nonsense").returncode == 2
