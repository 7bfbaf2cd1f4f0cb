"""Walks the imports with `ast` and fails on an arrow that the design forbids, and on circles.

Every import counts, wherever it stands: in a function, or under TYPE_CHECKING.
"""

import ast
import functools
import graphlib
import pathlib
from collections.abc import Iterable, Mapping
from typing import Final

import pytest

_ROOT: Final = pathlib.Path(__file__).parents[1]

_TENSORS: Final = ("numpy", "onnx", "onnxruntime")
_ONNX: Final = ("onnx", "onnxruntime")
_SHOWN: Final = ("rich", "typer")  # what a person types and sees
_SYSTEM: Final = ("os", "pathlib", "sys")
_LOOP: Final = ("gpt2cli.generation", "gpt2cli.sampling")
_ENGINE: Final = ("gpt2cli.engine",)
_STORE: Final = ("gpt2cli.store",)
_TOKENIZER: Final = ("gpt2cli.tokenizer",)

# The commands, each with its view: a module, or a folder whose `command.py` declares the options.
# While `gpt2 --help` is made only that is imported; it imports what runs when it is called.
_ROOMS: Final = (
    *("gpt2cli.batch", "gpt2cli.bench", "gpt2cli.chat", "gpt2cli.config_command", "gpt2cli.doctor"),
    *("gpt2cli.export_command", "gpt2cli.generate", "gpt2cli.models"),
    *(
        "gpt2cli.preset_command",
        "gpt2cli.replay",
        "gpt2cli.score",
        "gpt2cli.serve",
        "gpt2cli.tokens",
    ),
)

# Module, with all that lies in it -> what it must never import, with all that lies in that.
_FORBIDDEN: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(_ROOMS, (*_TENSORS, "tokenizers", "huggingface_hub", "rich", *_ENGINE)),
    "export": ("gpt2cli",),
    "export.errors": ("export",),
    "export.whole": (*_TENSORS, "export"),
    "export.small_files": (*_TENSORS, "export"),
    "export.config": (*_TENSORS, "export.weights", "export.reference"),
    "export.weights": (*_ONNX, "export.checkpoint", "export.storage"),
    "export.safetensors_file": (*_ONNX, "export.config", "export.weights"),
    "export.torch_pickle": (*_TENSORS, "io", "pathlib", "export.torch_file", "export.weights"),
    "export.torch_file": (*_ONNX, "export.config", "export.weights"),
    "export.other_weights": (*_TENSORS, "export"),
    "export.crc32c": (*_ONNX, "export"),
    "export.tensorflow_steps": (*_TENSORS, "export.checkpoint", "export.tensorflow_file"),
    "export.tensorflow_index": (*_ONNX, "export.weights", "export.tensorflow_file"),
    "export.tensorflow_file": (*_ONNX, "export.config", "export.weights"),
    "export.checkpoint": (*_ONNX, "export.graph", "export.reference"),
    "export.adapter_config": (*_TENSORS, "export.weights", "export.adapter"),
    "export.adapter": (*_ONNX, "export.adapted", "export.reference"),
    "export.adapted": (*_ONNX, "export.graph", "export.reference"),
    "export.special_tokens": (*_TENSORS, "export.tokenizer"),
    "export.tokenizer": (*_TENSORS, "export.weights"),
    "export.manifest": (*_TENSORS, "export.weights"),
    "export.storage": (*_ONNX, "export"),
    "export.graph": ("pathlib", "safetensors", "huggingface_hub", "onnxruntime"),
    "export.portable": ("pathlib", "onnxruntime", "export.graph", "export.attention"),
    "export.portable_files": (*_TENSORS, "export.graph", "export.convert"),
    "export.model_writing": ("onnxruntime", "safetensors", "export.check", "export.convert"),
    "export.reference": (*_ONNX, "export.graph", "export.check"),
    "export.check": ("onnx", "export.graph", "export.convert"),
    "export.check_portable": ("onnx", "export.graph", "export.convert"),
    "gpt2cli.errors": (*_TENSORS, "gpt2cli", "tokenizers", "huggingface_hub", "rich", "typer"),
    "gpt2cli.model_folder": (*_TENSORS, "gpt2cli.engine", "gpt2cli.store", "gpt2cli.tokenizer"),
    "gpt2cli.store": ("numpy", "onnx", *_ENGINE, *_LOOP, *_TOKENIZER, *_SHOWN),
    "gpt2cli.engine": ("tokenizers", *_LOOP, *_STORE, *_TOKENIZER, *_SHOWN),
    "gpt2cli.detokenizer": ("numpy", "tokenizers", *_LOOP),
    "gpt2cli.cutter": ("numpy", "onnxruntime", "gpt2cli.tokenizer", *_ENGINE, *_LOOP, *_SHOWN),
    "gpt2cli.tokenizer": ("numpy", "onnxruntime", *_ENGINE, *_LOOP, *_SHOWN),
    "gpt2cli.sampling": (
        *(*_ONNX, "tokenizers", "gpt2cli.generation"),
        *(*_ENGINE, *_STORE, *_TOKENIZER, *_SHOWN),
    ),
    "gpt2cli.generation": (*_ONNX, *_SYSTEM, *_ENGINE, *_STORE, *_SHOWN),
    "gpt2cli.option_kinds": (*_TENSORS, "gpt2cli.declarations", "gpt2cli.settings", *_SHOWN),
    "gpt2cli.declarations": (*_TENSORS, "gpt2cli.config", "gpt2cli.settings", *_SHOWN),
    "gpt2cli.option_rules": (*_TENSORS, "gpt2cli.config", "gpt2cli.settings", *_SHOWN),
    "gpt2cli.config": (*_TENSORS, "os", "pathlib", "gpt2cli.settings", *_SHOWN),
    "gpt2cli.settings": (*_TENSORS, "os", "pathlib", "gpt2cli.user_settings", *_LOOP, *_SHOWN),
    "gpt2cli.setting_sources": (*_TENSORS, "os", "pathlib", *_LOOP, *_SHOWN),
    "gpt2cli.user_settings": (*_TENSORS, *_LOOP, *_STORE, *_SHOWN),
    "gpt2cli.resumable": (*_TENSORS, "tokenizers", *_ENGINE, *_LOOP, *_SHOWN),
    "gpt2cli.library": ("onnx", "onnxruntime", "gpt2cli.terminal", *_SHOWN),
    "gpt2cli.openai": (*_TENSORS, "tokenizers", "starlette", *_ENGINE, *_SHOWN),
    "gpt2cli.conversations": (*_TENSORS, "tokenizers", *_ENGINE, *_STORE, *_SHOWN),
    "gpt2cli.spelling": (*_TENSORS, "gpt2cli", "tokenizers", *_SHOWN),
    "gpt2cli.scoring": (
        *(*_TENSORS, *_SYSTEM, "tokenizers"),
        *(*_ENGINE, *_STORE, *_TOKENIZER, *_SHOWN),
    ),
    "gpt2cli.doctor": (*_TENSORS, "tokenizers", "huggingface_hub", *_LOOP, *_TOKENIZER, "rich"),
    "gpt2cli.machine": (*_TENSORS, "gpt2cli"),
    "gpt2cli.terminal": (
        *(*_TENSORS, "tokenizers", "gpt2cli.sampling"),
        *(*_ENGINE, *_STORE, *_TOKENIZER),
    ),
    "gpt2cli.text_input": (*_TENSORS, "tokenizers", "gpt2cli.terminal", *_SHOWN),
    "gpt2cli.app": (*_TENSORS, "tokenizers", "huggingface_hub", *_ENGINE),
}

# Module -> the only ones that may import it, each with all that lies in it.
_ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    "export": ("export", "gpt2cli.store"),
    **{room: (room, "gpt2cli.app") for room in _ROOMS},
    "gpt2cli.terminal": (
        *(*_ROOMS, "gpt2cli.app", "gpt2cli.__main__", "gpt2cli.options", "gpt2cli.resumable"),
        "gpt2cli.terminal",
    ),
    "gpt2cli.app": ("gpt2cli.__main__",),
    "huggingface_hub": ("gpt2cli.store",),
    "safetensors": ("export.safetensors_file",),
    "pickle": (),  # runs what a file says
    "pickletools": ("export.torch_pickle",),
    "zipfile": ("export.torch_file",),
    "tokenizers": (
        "export.special_tokens",
        "export.tokenizer",
        "gpt2cli.cutter",
        "gpt2cli.tokenizer",
    ),
    "typer": (*_ROOMS, "gpt2cli.app", "gpt2cli.options"),
    "rich": ("gpt2cli.terminal",),
    "jinja2": ("gpt2cli.conversations.sandbox",),  # runs what a model's file says
    "prompt_toolkit": ("gpt2cli.chat.prompt",),
    "ray": ("gpt2cli.batch.cluster.ray_workers",),
    "starlette": ("gpt2cli.serve",),
    "uvicorn": ("gpt2cli.serve.listening",),
    "tomllib": ("export.small_files",),
    "tomlkit": ("gpt2cli.user_settings",),
}

# Modules of `export` that are light enough for all, and spare a double.
_LIGHT: Final = ("export.errors", "export.small_files", "export.whole")

# The modules that may rename files: the second moves a model away that is to be removed.
_RENAMING: Final = ("export/whole.py", "gpt2cli/store/catalogue.py")


@functools.cache
def parse_all() -> Mapping[pathlib.Path, ast.Module]:
    """Return every module of the two packages by its path below the root."""
    paths = sorted(
        path for package in ("export", "gpt2cli") for path in (_ROOT / package).rglob("*.py")
    )
    return {path.relative_to(_ROOT): ast.parse(path.read_bytes()) for path in paths}


def find_imports(tree: ast.Module, *, module: str, is_package: bool = False) -> set[str]:
    """Return the full name of everything that a module may import.

    `from a import b` gives both `a` and `a.b`, since b may be a module.
    """
    package = module if is_package else module.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, node.module or ""]).rstrip(".") if node.level else node.module
            found |= {base or "", *(f"{base}.{alias.name}" for alias in node.names)}
    return found


def lies_in(name: str, modules: Iterable[str]) -> bool:
    """Tell whether `name` is one of `modules` or lies in one."""
    return any(name == module or name.startswith(f"{module}.") for module in modules)


@functools.cache
def read_imports() -> dict[str, set[str]]:
    """Return what each module of the two packages imports."""
    imports: dict[str, set[str]] = {}
    for path, tree in parse_all().items():
        parts = path.with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        imports[name] = find_imports(tree, module=name, is_package=is_package)
    return imports


@pytest.mark.parametrize("module", _FORBIDDEN)
def test_a_module_imports_nothing_that_it_must_not_know(module: str) -> None:
    """The table's last column, module by module; a module may always import its own parts."""
    imports = read_imports()
    importers = {name: found for name, found in imports.items() if lies_in(name, [module])}
    assert importers, f"there is no module {module}"
    arrows = {
        f"{name} -> {target}"
        for name, found in importers.items()
        for target in found
        if lies_in(target, _FORBIDDEN[module]) and not lies_in(target, [module])
    }
    assert arrows == set()


@pytest.mark.parametrize("module", _ALLOWED)
def test_a_module_is_imported_only_by_those_that_may_know_it(module: str) -> None:
    """`export` by the store alone, the terminal by commands alone, each library by its border."""
    arrows = {
        f"{name} -> {target}"
        for name, found in read_imports().items()
        for target in found
        if lies_in(target, [module])
        and not lies_in(name, _ALLOWED[module])
        and not lies_in(target, _LIGHT)
    }
    assert arrows == set()


@pytest.mark.parametrize("depth", [2, None], ids=["packages", "modules"])
def test_imports_run_in_no_circle(depth: int | None) -> None:
    """Between modules, and between what stands at the top of the two packages."""
    imports = read_imports()

    def shorten(module: str) -> str:
        return ".".join(module.split(".")[:depth])

    graph: dict[str, set[str]] = {}
    for name, found in imports.items():
        targets = {shorten(target) for target in found & imports.keys()}
        graph.setdefault(shorten(name), set()).update(targets - {shorten(name)})
    graphlib.TopologicalSorter(graph).prepare()  # which raises, with the modules of a circle


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import a.b, c", {"a.b", "c"}),
        ("import a.b as c", {"a.b"}),
        ("from a import b", {"a", "a.b"}),
        ("def f():\n from a.b import c", {"a.b", "a.b.c"}),
        ("if TYPE_CHECKING:\n import a", {"a"}),
        ("from . import b", {"top.pack", "top.pack.b"}),
        ("from .b import c", {"top.pack.b", "top.pack.b.c"}),
        ("from ..b import c", {"top.b", "top.b.c"}),
    ],
)
def test_the_walk_sees_every_form_of_import(source: str, expected: set[str]) -> None:
    """Plain, renamed, in a function, under a condition, and relative, seen from top.pack.module."""
    assert find_imports(ast.parse(source), module="top.pack.module") == expected


def test_the_walk_knows_a_package_from_a_module() -> None:
    """In a package's own file one dot is the package itself; `exporter` is not in `export`."""
    tree = ast.parse("from .b import c")
    found = find_imports(tree, module="top.pack", is_package=True)
    assert found == {"top.pack.b", "top.pack.b.c"}
    assert lies_in("export.graph", ["export"])
    assert not lies_in("exporter", ["export"])


def find_renames(tree: ast.Module) -> list[int]:
    """Return the lines that rename a file or make a temporary one.

    `replace` with one argument is that of a path; a text's has two, a dataclass's has names.
    """
    names = {"exchange", "mkdtemp", "mkstemp", "NamedTemporaryFile", "rename", "renames"}
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in names
        or (node.func.attr == "replace" and len(node.args) == 1 and not node.keywords)
    ]


def test_names_of_files_are_taken_by_one_module() -> None:
    """What it does for a kill and a power cut would be missing elsewhere."""
    other = {
        f"{path}:{line}"
        for path, tree in parse_all().items()
        for line in find_renames(tree)
        if path.as_posix() not in _RENAMING
    }
    assert other == set()


def test_the_walk_sees_every_renaming() -> None:
    """And no replacing of text or of fields."""
    source = "a.replace(b)\na.replace(b, c)\nd.replace(e, f=1)\nos.rename(a, b)\ntempfile.mkstemp()"
    assert sorted(find_renames(ast.parse(source))) == [1, 4, 5]
