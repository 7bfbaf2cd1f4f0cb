"""No command writes its result over its own input."""

import pathlib

import pytest

from tests.gpt2cli.commands.runner import error_line, invoke
from tests.model_folders import ModelFolders


@pytest.mark.parametrize("command", ["generate", "score", "batch"])
def test_a_result_over_the_input_is_refused(
    model_folders: ModelFolders, tmp_path: pathlib.Path, command: str
) -> None:
    """By --file, before a model is looked for; what stood there stays."""
    file = tmp_path / "in"
    file.write_text("zz\n")
    result = invoke(command, "-m", model_folders(), "-f", file, "-o", file)
    assert result.exit_code == 2
    assert error_line(result).startswith(f"--output: {file} is the input")
    assert file.read_text() == "zz\n"
