"""The text of a CheckpointError: one line, whatever the checkpoint holds."""

import pathlib

from export.errors import CheckpointError

_FOLDER = pathlib.Path("checkpoint")


def test_the_text_names_the_folder_and_joins_the_faults() -> None:
    """Folder first, then each fault."""
    assert str(CheckpointError(_FOLDER, ["a is missing", "b is"])) == (
        "checkpoint: a is missing; b is"
    )


def test_of_many_faults_the_first_are_shown_and_all_are_kept() -> None:
    """Eight of twenty in the text, twenty in `faults`."""
    error = CheckpointError(_FOLDER, [f"fault {number}" for number in range(20)])
    assert str(error).endswith("; fault 7; and 12 more faults")
    assert len(error.faults) == 20


def test_a_name_out_of_a_file_cannot_reach_the_terminal_raw() -> None:
    """Newlines, escape sequences and lone surrogates are made visible."""
    error = CheckpointError(_FOLDER, ["a\nb\x1b[31m\ud800 is not a GPT-2 weight"])
    assert str(error) == "checkpoint: a\\nb\\x1b[31m\\ud800 is not a GPT-2 weight"


def test_a_long_fault_is_cut() -> None:
    """A name of a megabyte does not fill the screen."""
    assert len(str(CheckpointError(_FOLDER, ["x" * 1_000_000]))) < 400
