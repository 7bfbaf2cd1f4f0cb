"""Claims about plain tables and sizes."""

import pytest

from gpt2cli.terminal.tables import format_size, format_table


def test_columns_are_in_line_and_lines_end_without_blanks() -> None:
    """Two spaces apart, as wide as the widest cell; without rows there is the header alone."""
    table = format_table(("NAME", "SIZE"), [("a", "1 B"), ("longer", "")])
    assert table == "NAME    SIZE\na       1 B\nlonger\n"
    assert format_table(("NAME", "SIZE"), []) == "NAME  SIZE\n"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (498_000_000, "498.0 MB"),
        (10**16, "10000.0 TB"),
    ],
)
def test_sizes_are_in_decimal_units(size: int, text: str) -> None:
    """As the hub and the disk's maker count."""
    assert format_size(size) == text
