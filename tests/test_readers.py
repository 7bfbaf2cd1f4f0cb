"""Claims about whatever reads a file or text: by the rules of `export.small_files` alone."""

import ast
import pathlib
from collections.abc import Iterator
from typing import Final

_ROOT: Final = pathlib.Path(__file__).parents[1]
_READER: Final = "export/small_files.py"

# What parses JSON or TOML, or reads a whole file; wherever it is called from.
_PARSERS: Final = ("json.load", "json.loads", "json.JSONDecoder", "tomlkit.parse", "tomlkit.load")
_WHOLE: Final = ("read_text", "read_bytes", "from_file")

# Module -> such calls that are right there, by what they read.
_OTHERS: Final = {
    "export/tokenizer.py": ["from_file"],  # after our own reading
    "gpt2cli/commands/text.py": ["read_bytes"],  # the prompt: of any size, and from pipes
    "gpt2cli/engine/devices.py": ["read_text"],  # /sys
    "gpt2cli/engine/huge_pages.py": ["read_text"],  # /proc
    "gpt2cli/engine/slots.py": ["read_text", "read_text"],  # /proc, /sys
    "gpt2cli/machine.py": ["read_text", "read_text"],  # /proc
    "gpt2cli/sampling/constraints.py": ["json.loads", "json.loads"],  # a schema that was read, …
    "gpt2cli/store/store.py": ["read_bytes"],  # the starter's own files
    "gpt2cli/terminal/editor.py": ["read_text"],  # what the editor has just written
    "gpt2cli/terminal/statistics.py": ["read_text"],  # /proc
    "gpt2cli/tokenizer.py": ["from_file"],  # of a model folder, whose sizes were compared
    "gpt2cli/user_settings.py": ["tomlkit.parse"],  # after our own reading, to keep comments
}


def _find_readings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name for name in names if name in _PARSERS)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, owner = node.func.attr, ast.unparse(node.func.value)
            owner = owner.replace("json_format", "json")
            if f"{owner}.{name}" in _PARSERS:
                yield f"{owner}.{name}"
            elif name in _WHOLE and owner != "small_files":
                yield name


def test_nobody_else_reads_files_whole_or_parses_json_and_toml() -> None:
    """A new reader either goes by these rules or is listed here with its reason."""
    found = {
        path.relative_to(_ROOT).as_posix(): sorted(_find_readings(ast.parse(path.read_bytes())))
        for package in ("export", "gpt2cli")
        for path in (_ROOT / package).rglob("*.py")
    }
    assert found.pop(_READER)
    assert {module: calls for module, calls in found.items() if calls} == _OTHERS
