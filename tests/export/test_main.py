"""`python -m export`: its exit codes, and what it writes to which stream."""

import pathlib
import re
import subprocess
import sys
from typing import NoReturn

import numpy as np
import pytest

from export import convert as convert_module
from export.__main__ import main
from export.precision import Precision
from tests.checkpoints import make_tensors, write_checkpoint, write_safetensors
from tests.export.conversions import SMALLEST_SHAPE

_ROOT = pathlib.Path(__file__).parents[2]


def run_module(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "export", *arguments]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)


def test_a_conversion_ends_with_0_and_writes_nothing_to_stdout(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Run as a module: the stages go to stderr, the model to OUT."""
    done = run_module(str(checkpoint), str(tmp_path / "out"))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[0] == "reading the checkpoint"
    assert (tmp_path / "out" / "export.json").is_file()


def test_options_reach_the_conversion(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--precision names one that there is, --check adds stages, --force replaces."""
    out = str(tmp_path / "out")
    assert main([str(checkpoint), out, "--precision", "fp32", "--check"]) == 0
    assert "checking all 3 positions" in capsys.readouterr().err
    assert main([str(checkpoint), out, "--force"]) == 0


def test_what_was_left_out_is_one_line_on_stderr(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Among the stages; whatever the names hold, it is one printable line."""
    source = write_checkpoint(tmp_path / "source", SMALLEST_SHAPE)
    tensors = {f"a\nb.{name}": tensor for name, tensor in make_tensors(SMALLEST_SHAPE).items()}
    tensors["a\nb.score.weight"] = np.ones(1, np.float32)
    write_safetensors(source / "model.safetensors", tensors)
    assert main([str(source), str(tmp_path / "out")]) == 0
    [told] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    assert told == (
        "note: a\\nb. was left off the names of all weights; "
        "score.* was left out, since the language model has no use for it"
    )


@pytest.mark.parametrize("what", ["source", "out"])
def test_a_known_failure_ends_with_1_and_one_line(
    checkpoint: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    """A source that is none, an OUT that is taken: the last line says so, stdout stays empty."""
    (tmp_path / "taken").write_text("mine")
    source = str(tmp_path / "nowhere") if what == "source" else str(checkpoint)
    out = tmp_path / ("taken" if what == "out" else "out")
    assert main([source, str(out)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert [line.startswith("error: ") for line in lines] == [False] * (len(lines) - 1) + [True]


def test_what_a_failure_quotes_cannot_control_the_terminal(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a control nor a character that reorders text."""
    assert main([str(tmp_path / "a\x1b[31m\u202eb"), str(tmp_path / "out")]) == 1
    assert "a<U+001B>[31m<U+202E>b" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["source"], ["source", "out", "more"], ["source", "out", "--precision", "x"]]
)
def test_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr says what is wrong, and where help is."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert re.fullmatch(r"error: .+ \(see python -m export --help\)", line)


def test_a_precision_that_there_is_not_is_answered_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each of them."""
    with pytest.raises(SystemExit):
        main(["source", "out", "--precision", "x"])
    told = capsys.readouterr().err
    assert all(precision.value in told for precision in Precision)


def test_ctrl_c_ends_with_130(checkpoint: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell's code for SIGINT, without a traceback."""

    def interrupt(*arguments: object, **options: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(convert_module, "convert", interrupt)
    assert main([str(checkpoint), "out"]) == 130


def test_help_loads_no_library() -> None:
    """--help answers without numpy, onnx and onnxruntime."""
    code = (
        "import sys, export.__main__ as m\n"
        "try: m.main(['--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(sorted({'numpy', 'onnx', 'onnxruntime', 'tokenizers'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "SOURCE" in done.stdout
