"""Claims about the line of an error."""

from gpt2cli.errors import ModelError
from gpt2cli.options import spell_flag


def test_only_the_fields_of_options_are_written_out() -> None:
    """Braces may also be those of a folder's name."""
    error = ModelError("no such model", "use {batch_size} with ./a{b or ./{C}")
    assert error.tell(spell_flag) == "no such model; use --batch-size with ./a{b or ./{C}"
