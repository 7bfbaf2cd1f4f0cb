"""Command lines: every command and option with hostile values, the environment, the config file."""

import os
import random
from collections.abc import Callable
from typing import Any, Final

import typer

from gpt2cli.app import app
from tests.campaign import hostile
from tests.campaign.lab import Lab

_COMMANDS: Final[dict[str, int]] = {  # and how often
    "generate": 30, "batch": 15, "chat": 8, "score": 10, "tokens": 8, "export": 6, "bench": 2,
    "doctor": 2, "models list": 2, "models pull": 2, "models show": 4, "models rm": 3,
    "config path": 1, "config show": 3, "config set": 10, "config unset": 3,
}  # fmt: skip
# More of these takes long, and that is right.
_SMALL_NUMBERS: Final = {
    "max_new_tokens": "0 1 2 7 -1 1.5 nan x 2147483648x",
    "samples": "0 1 2 3 -1 1.5 nan x",
    "beams": "0 1 2 3 -1 1.5 nan x",
    "rounds": "0 1 -1 x",
    "prompt_length": "0 1 5 33 34 -1 x",
    "batch_size": "0 1 2 -1 x auto",
    "threads": "0 1 2 -1 1025 x 1e9",
}
_SETTINGS: Final = ("temperature", "stop", "model", "top-k", "greedy", "logit_bias")
_DEVICES: Final = ("cpu", "auto", "cuda", "cuda:99", "x", "cuda:")
_PATTERNS: Final = ("(", "a*", "[a-z]+", "(?=x)", "\\p{L}{3}", "a{9999999}", "^$")
_FILES: Final = (
    "there.txt", "there.jsonl", "bad.json", "folder", "loop", "none", "", "-", "/dev/null", ".",
    "none/none", "x" * 300, "new\nline", "\x1b[31m", "[bold]", "schema.json", "/dev/full",
    "é\u202e",
)  # fmt: skip
_ENVIRONMENT: Final = {
    "COLUMNS": ("0", "-1", "x", "1", "100000"),
    "LINES": ("0", "x"),
    "TERM": ("", "dumb", "none", "\x1b"),
    "NO_COLOR": ("", "1"),
    "FORCE_COLOR": ("1", "x"),
    "LC_ALL": ("C", "xx_YY.none", "tr_TR.UTF-8"),
    "LANG": ("", "de_DE.ISO-8859-1"),
    "TMPDIR": ("/none", "/dev/null", ""),
    "HOME": ("/none", "", "/dev/null"),
    "XDG_CACHE_HOME": ("/none\x07", "/dev/null", "relative", "/dev/full"),
    "XDG_STATE_HOME": ("/dev/null", "relative"),
    "XDG_CONFIG_HOME": ("/dev/null", "relative", "/dev/full"),
    "HF_HOME": ("/dev/null", "relative"),
    "HF_ENDPOINT": ("x", "http://", "ftp://[", ""),
    "HF_HUB_OFFLINE": ("", "0", "x"),
    "HF_TOKEN": ("\xe9", "a\nb"),
    "OMP_NUM_THREADS": ("0", "x", "-1"),
    "http_proxy": ("x", "http://["),
    "PAGER": ("none",),
    "EDITOR": ("none", "", "false", "'"),
}


def attempt(lab: Lab) -> None:
    """Run a command with some of its options, hostile, in a hostile surrounding."""
    rng = lab.rng
    _lay_files(lab)
    name = rng.choices(list(_COMMANDS), list(_COMMANDS.values()))[0]
    command = typer.main.get_command(app)
    for word in name.split():
        command = command.commands[word]  # type: ignore[attr-defined]
    arguments: list[str | bytes] = list(name.split())
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    for parameter in rng.sample(options, min(len(options), rng.choice((0, 1, 1, 2, 2, 3, 5)))):
        arguments += _write_option(lab, parameter)
    positional = [p for p in command.params if p.param_type_name == "argument"]
    for parameter in positional:
        if rng.random() < 0.85:
            arguments += _write_argument(lab, name, parameter)
    if name == "batch":  # a source that never ends is read for ever
        arguments = [a for a in arguments if b"/dev/full" not in os.fsencode(a)]
    if any(p.name == "model" for p in options) and rng.random() < 0.9:
        arguments += ["-m", str(lab.place.model)]
    if name == "bench":
        arguments += ["--rounds", "1", "--prompt-length", "4", "--batch-size", "1"]
    if rng.random() < 0.05:
        arguments.insert(rng.randrange(1, len(arguments) + 1), hostile.argument(rng))
    environment = _make_environment(lab, command) if rng.random() < 0.4 else {}
    if rng.random() < 0.15:
        _write_config(lab)
    stdin = hostile.text(rng).encode() if rng.random() < 0.6 else b""
    if rng.random() < 0.02:
        stdin *= 3000
    out = rng.choices(("", "/dev/full", "closed pipe"), (20, 1, 1))[0]
    lab.run(
        *arguments,
        stdin=stdin,
        environment=environment,
        may_write=_expect_new(arguments, environment),
        records=b"--json" in map(os.fsencode, arguments)
        and not out
        and name in ("generate", "score", "chat", "config show"),
        out=out,
    )


def _lay_files(lab: Lab) -> None:
    (lab.folder / "there.txt").write_text("Once upon\na time\n")
    (lab.folder / "there.jsonl").write_text('{"prompt": "a", "seed": 1}\n')
    (lab.folder / "bad.json").write_text('{"a": ')
    (lab.folder / "schema.json").write_text('{"type": "integer", "maximum": 9}')
    (lab.folder / "folder").mkdir()
    (lab.folder / "loop").symlink_to("loop")


def _write_option(lab: Lab, parameter: Any) -> list[str | bytes]:
    rng = lab.rng
    names = [*parameter.opts, *parameter.secondary_opts]
    if parameter.is_flag:
        return [rng.choice(names)]
    written: list[str | bytes] = []
    for _ in range(rng.choice((1, 1, 3)) if parameter.multiple else 1):
        value = os.fsencode(_make_value(rng, parameter)).replace(b"\x00", b"")
        name = rng.choice(names)
        joined = rng.random() < 0.4 and name.startswith("--")
        written += [name.encode() + b"=" + value] if joined else [name, value]
    return written


def _make_value(rng: random.Random, parameter: Any) -> str | bytes:
    name, wanted = parameter.name, str(parameter.metavar)
    makers: dict[str, Callable[[], str | bytes]] = {
        "FILE": lambda: rng.choice(_FILES),
        "ID_OR_TEXT=X": lambda: hostile.argument(rng) + b"=" + hostile.number(rng).encode(),
        "<int>": lambda: hostile.number(rng),
        "<float>": lambda: hostile.number(rng),
        "PATTERN": lambda: rng.choice(_PATTERNS),
        "auto|cpu|cuda|cuda:N": lambda: rng.choice(_DEVICES),
        "NAME": lambda: rng.choice(("gpt2", "starter", "folder", "a/b", "x", ".", "gpt2x")),
    }
    if rng.random() < 0.1:
        return hostile.argument(rng)
    if name in _SMALL_NUMBERS:
        return rng.choice(_SMALL_NUMBERS[name].split())
    if hasattr(parameter.type, "choices"):
        return str(rng.choice([*parameter.type.choices, "x", ""]))
    return makers.get(wanted, lambda: hostile.argument(rng))()


def _write_argument(lab: Lab, command: str, parameter: Any) -> list[str | bytes]:
    rng = lab.rng
    model, checkpoint = str(lab.place.model), str(lab.place.checkpoint)
    choices: dict[str, tuple[str, ...]] = {
        "source": (checkpoint, checkpoint, model, "starter", "folder", "none", "loop"),
        "out": ("out", "out", "folder", "there.txt", "loop", "none/out", "/dev/null/x", "x" * 300),
        "prompts": ("there.txt", "there.jsonl", "bad.json", "-", "folder", "none"),
        "name": ("starter", model, checkpoint, "gpt2", "folder", "none"),
        "folders": (model, "folder", "none"),
        "key": (*_SETTINGS, "json_schema", "x"),
    }
    if parameter.name in choices and rng.random() < 0.85:
        return [rng.choice(choices[parameter.name])]
    if parameter.name == "value" and rng.random() < 0.5:
        return ["--", hostile.number(rng)]
    dash: list[str | bytes] = ["--"] if command == "config set" or rng.random() < 0.5 else []
    return [*dash, hostile.argument(rng)]


def _make_environment(lab: Lab, command: Any) -> dict[str, str]:
    rng = lab.rng
    made = {}
    for name in rng.sample(list(_ENVIRONMENT), rng.choice((0, 1, 2))):
        made[name] = rng.choice(_ENVIRONMENT[name])
    kept = [p for p in command.params if p.param_type_name == "option"]
    for parameter in rng.sample(kept, min(len(kept), rng.choice((0, 1, 2)))):
        value = os.fsdecode(_make_value(rng, parameter)).replace("\x00", "")
        made[f"GPT2_{str(parameter.name).upper()}"] = value
    return made


def _write_config(lab: Lab) -> None:
    rng = lab.rng
    folder = lab.home / "config" / "gpt2"
    folder.mkdir()
    keys = (*_SETTINGS, "top_k", "seed", "nothing", "a.b")
    makers: tuple[Callable[[], str], ...] = (
        lambda: hostile.number(rng),
        lambda: f'"{hostile.text(rng)}"',
        lambda: '["a", "b"]',
        lambda: "[" * rng.choice((2, 99, 9999)),
        lambda: "1979-05-27T07:32:00Z",
        lambda: "{a = 1}",
        lambda: "true",
    )
    lines = [f"{rng.choice(keys)} = {rng.choice(makers)()}" for _ in range(rng.choice((1, 1, 2)))]
    content = ("\n".join(lines) + "\n").encode()
    if rng.random() < 0.3:
        content = hostile.damage(rng, content)
    (folder / "config.toml").write_bytes(content)
    lab.told.append(f"config.toml: {content[:2000]!r}")


def _expect_new(arguments: list[str | bytes], environment: dict[str, str]) -> set[str]:
    """Return the names that a command may make: those that its arguments have in them."""
    words = [os.fsdecode(a).partition("=")[2] or os.fsdecode(a) for a in arguments]
    words += [os.fsdecode(a) for a in arguments] + list(environment.values())
    names = {word.split("/")[0] for word in words}
    return names | {f"{name}.resume.json" for name in names}
