"""Claims about whatever reads a file or text: by the rules of `export.small_files` alone."""

import ast
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pytest

from export.chat_template import read_chat_facts
from export.checkpoint import ShardedFile
from export.config import read_config
from export.errors import ExportError
from export.safetensors_file import SafetensorsFile
from export.special_tokens import SpecialTokens, read_token_files
from export.tensorflow_steps import choose_name
from export.tokenizer import read_tokenizer
from gpt2cli import user_settings
from gpt2cli.conversations.conversation import SessionFile, read_conversation
from gpt2cli.errors import Gpt2Error
from gpt2cli.model_folder import read_manifest
from gpt2cli.options import read_schema
from gpt2cli.resumable.journal import read_header
from gpt2cli.store.hub_files import find_missing
from gpt2cli.store.memory import DefaultMemory, read_commit, recall_default

_ROOT: Final = pathlib.Path(__file__).parents[1]
_READER: Final = "export/small_files.py"

# What parses JSON or TOML, or reads a whole file; wherever it is called from.
_PARSERS: Final = ("json.load", "json.loads", "json.JSONDecoder", "tomlkit.parse", "tomlkit.load")
_WHOLE: Final = ("read_text", "read_bytes", "from_file")

# Module -> such calls that are right there, by what they read.
_OTHERS: Final = {
    "export/tokenizer.py": ["from_file"],  # after our own reading
    "gpt2cli/chat/editor.py": ["read_text"],  # what the editor has just written
    "gpt2cli/engine/huge_pages.py": ["read_text"],  # /proc
    "gpt2cli/machine.py": ["read_text"] * 3,  # /proc, /sys
    "gpt2cli/sampling/constraints.py": ["json.loads", "json.loads"],  # a schema that was read, …
    "gpt2cli/score/page.py": ["read_text"],  # our own page
    "gpt2cli/serve/page.py": ["read_text"],  # our own page
    "gpt2cli/store/store.py": ["read_bytes"],  # the starter's own files
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


Folder = pathlib.Path


def _read_template(folder: Folder) -> object:
    files = read_token_files(folder)
    return read_chat_facts(folder, files, SpecialTokens())


# A file, in a folder that is also the cache, state and config folder -> what reads it.
_LOUD: Final[Mapping[str, Callable[[Folder], object]]] = {
    "config.json": read_config,
    "generation_config.json": read_config,
    "tokenizer.json": read_tokenizer,
    "vocab.json": read_tokenizer,
    "merges.txt": read_tokenizer,
    "hparams.json": lambda folder: read_config(_remove(folder, "config.json")),
    "encoder.json": lambda folder: read_tokenizer(_remove(folder, "vocab.json", "merges.txt")),
    "vocab.bpe": lambda folder: read_tokenizer(_remove(folder, "vocab.json", "merges.txt")),
    "checkpoint": lambda folder: choose_name(folder, None),
    "tokenizer_config.json": read_token_files,
    "special_tokens_map.json": read_token_files,
    "added_tokens.json": read_token_files,
    "chat_template.json": _read_template,
    "model.safetensors.index.json": lambda folder: ShardedFile(
        folder / "model.safetensors.index.json", _open_no_shard
    ),
    "export.json": read_manifest,
    "gpt2/config.toml": lambda folder: user_settings.read_config(),
    "chat.json": lambda folder: read_conversation(folder / "chat.json"),
    "session.json": lambda folder: SessionFile(folder / "session.json", model="m").read(),
    "out.resume.json": lambda folder: read_header(folder / "out"),
    "schema.json": lambda folder: read_schema(folder / "schema.json"),
}
# Those that do without what they cannot read, and what they then return.
_SILENT: Final[Mapping[str, tuple[Callable[[Folder], object], object]]] = {
    "gpt2/default-model.json": (lambda folder: recall_default(), DefaultMemory()),
    "gpt2/refs/r/main.json": (lambda folder: read_commit("r", "main"), None),
    "pytorch_model.bin.index.json": (
        lambda folder: find_missing(folder, weights=True),
        ["pytorch_model.bin.index.json"],
    ),
}

_BAD: Final[Mapping[str, bytes]] = {
    "cut": b'{"a": \n',
    "deep": b'{"a": ' + b"[" * 100_000 + b"\n",
    "closed": b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}\n",
    "latin-1": b'{"a": "\xe4"}\n',
    "utf-16": '{"a": 1}\n'.encode("utf-16"),
    "nan": b'{"a": NaN}\n',
    "digits": b'{"a": ' + b"9" * 5000 + b"}\n",
    "half a pair": b'{"a": "\\ud83d"}\n',
    "pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
}
# Three files are no JSON; a journal's line with NUL in it was torn by a power cut, and is none.
_FINE: Final = {
    **dict.fromkeys(
        ("merges.txt", "vocab.bpe", "checkpoint"), {*_BAD} - {"latin-1", "utf-16", "pointer"}
    ),
    "out.resume.json": {"utf-16"},
}


def _remove(folder: pathlib.Path, *names: str) -> pathlib.Path:
    for name in names:
        (folder / name).unlink(missing_ok=True)
    return folder


def _open_no_shard(path: pathlib.Path) -> SafetensorsFile:
    raise AssertionError(f"{path} was opened")


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return a folder in which all that is read lies, beside what must be there."""
    for variable in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    (tmp_path / "gpt2" / "refs" / "r").mkdir(parents=True)
    for name in ("config.json", "vocab.json", "encoder.json"):
        (tmp_path / name).write_text("{}")
    for name in ("merges.txt", "vocab.bpe", "model.ckpt.index"):
        (tmp_path / name).write_text("")
    return tmp_path


def _assert_told(folder: pathlib.Path, name: str) -> None:
    with pytest.raises((ExportError, Gpt2Error)) as caught:
        _LOUD[name](folder)
    assert "\n" not in str(caught.value)
    assert pathlib.Path(name).name in str(caught.value) or name == "schema.json"


@pytest.mark.parametrize("name", _LOUD)
def test_bad_content_is_one_line_that_names_the_file(folder: pathlib.Path, name: str) -> None:
    """Whoever reads it; no RecursionError, no UnicodeError, nothing taken for what it is not.

    Of a file of a gigabyte, a hole, no byte is read.
    """
    for kind, content in _BAD.items():
        if kind not in _FINE.get(name, ()):
            (folder / name).write_bytes(content)
            _assert_told(folder, name)
    if name != "out.resume.json":
        os.truncate(folder / name, 2**30)
        _assert_told(folder, name)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
@pytest.mark.parametrize("name", [name for name in _LOUD if name != "schema.json"])
def test_what_is_no_file_is_not_waited_for(
    folder: pathlib.Path, name: str, make: Callable[[pathlib.Path], None]
) -> None:
    """Told, or passed over where the file need not be there; a schema may come by `<(…)`."""
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    try:
        _LOUD[name](folder)
    except (ExportError, Gpt2Error) as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("name", _SILENT)
def test_what_is_remembered_is_done_without(folder: pathlib.Path, name: str) -> None:
    """Whatever is there in its place; nothing is lost by it."""
    read, nothing = _SILENT[name]
    for content in (*_BAD.values(), b""):
        (folder / name).write_bytes(content)
        assert read(folder) == nothing, content
    os.truncate(folder / name, 2**30)
    assert read(folder) == nothing
    for make in (os.mkfifo, os.mkdir):
        (folder / name).unlink()
        make(folder / name)
        assert read(folder) == nothing
