"""Holds what the README says of options against `--help`, and its links and files."""

import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest
import typer.main

from gpt2cli.app import app

_ROOT: Final = pathlib.Path(__file__).parents[1]
_README: Final = (_ROOT / "README.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Row:
    """A row of a table of options, and the command under whose heading it stands."""

    command: str
    names: Sequence[str]  # as -n and --max-new-tokens
    default: str

    def __str__(self) -> str:
        """Return what a test of it is called."""
        return f"{self.command} {self.names[-1]}"


def find_rows(readme: str) -> Iterator[Row]:
    """Yield the rows of all tables that have columns `option` and `default`."""
    command = "generate"
    header: list[str] = []
    for line in readme.splitlines():
        heading = re.match(r"#+ .*`gpt2 (\w+)", line)
        if heading:
            command = heading[1]
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            header = []
        elif not header:
            header = cells
        elif {"option", "default"} <= set(header) and not set(line) <= set("|-: "):
            row = dict(zip(header, cells, strict=True))
            names = re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", row["option"])
            yield Row(command, names, row["default"].strip("`"))


def find_commands() -> Mapping[str, Any]:
    """Return each command by its name."""
    return getattr(typer.main.get_command(app), "commands", {})


ROWS: Final = list(find_rows(_README))
COMMANDS: Final = find_commands()
# What the README writes -> what the help may call the same.
_MEANINGS: Final = {"off": ("none", "any text"), "none": ("any text",), "text": ("off",)}


def told_default(option: Any) -> str:
    """Return the default in the words of an option's help."""
    told = re.search(r"Default:? (.+)\.$", option.help)
    if told is None or told[1].startswith("--no-"):
        return "off"
    return told[1]


def agree(written: str, told: str) -> bool:
    """Tell whether the README's default means the one of the help, which may say more."""
    first = re.split(r"[,;:] | \(", told)[0]
    try:
        return float(written.replace("−", "-")) == float(first)
    except ValueError:
        return first in (written, *_MEANINGS.get(written, ()))


def test_there_are_tables_of_options() -> None:
    """Else nothing here would be tested."""
    assert len(ROWS) > 10
    assert all(row.names for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_an_option_of_the_readme_is_one_of_the_command_with_that_default(row: Row) -> None:
    """By each of its names, and one option by all of them."""
    options = [o for o in COMMANDS[row.command].params if set(row.names) & set(o.opts)]
    assert len(options) == 1
    assert set(row.names) <= {*options[0].opts, *options[0].secondary_opts}
    assert agree(row.default, told_default(options[0])), told_default(options[0])


def test_every_option_that_the_readme_names_is_one() -> None:
    """Of some command, wherever in the text it stands."""
    options = [option for command in all_commands() for option in command.params]
    known = {name for option in options for name in (*option.opts, *option.secondary_opts)}
    named = set(re.findall(r"`(--[a-z][a-z-]*)", _README))
    assert named - known - {"--help"} == set()


def all_commands() -> Iterator[Any]:
    """Yield every command, and the root."""
    commands = [typer.main.get_command(app)]
    while commands:
        command: Any = commands.pop()
        yield command
        commands += getattr(command, "commands", {}).values()


def test_every_link_of_the_readme_leads_somewhere() -> None:
    """To a file that is there, or to a heading, as GitHub names it."""
    headings = re.findall(r"^#+ (.+)$", _README, flags=re.M)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for link in re.findall(r"\]\(([^)]+)\)", _README):
        if not link.startswith("https://"):
            assert link.removeprefix("#") in slugs or (_ROOT / link).exists(), link


def test_every_file_of_the_layout_is_there() -> None:
    """In the table: a row's later names may be beside its first one."""
    table = _README.partition("| where | what |")[2].partition("\n\n")[0]
    for row in table.splitlines()[2:]:
        names = re.findall(r"`([^`]+)`", row.split("|")[1])
        for name in names:
            assert (_ROOT / name).exists() or (_ROOT / names[0]).parent.joinpath(name).exists()
