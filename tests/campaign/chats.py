"""Conversations: scripts of slash commands and hostile texts, and hostile keys on a terminal."""

from typing import Final

from tests.campaign import hostile
from tests.campaign.lab import Lab
from tests.campaign.terminals import run_on_terminal

_COMMANDS: Final = (
    "help", "set", "system", "show", "undo", "regen", "edit", "read", "save", "load", "reset",
    "context", "stats", "exit", "Help", "x", "", "/", "sEt",
)  # fmt: skip
_OPTIONS: Final = (
    "temperature", "top-k", "top_p", "seed", "stop", "ban", "max-new-tokens", "overflow", "greedy",
    "logit-bias", "min-new-tokens", "ignore_eos", "model", "beams", "x", "--top-k",
    "repetition-penalty",
)  # fmt: skip
_FILES: Final = (
    "talk.json", "bad.json", "folder", "none/x", "", "/dev/full", "loop", "~", "x" * 300,
)  # fmt: skip
_KEYS: Final = (
    "hello", "\r", "\r", "\r", "\x03", "\x12", "\x07", "\t", "\x1b", "\x1b[A", "\x1b[B",
    "\x1b[200~a\nb\x1b[201~",
    "/", "/set ", "/he\t", '"""', "\x7f", "\x15", "\x1b\r", "é👩‍🚀", "\x1b[999;999R", "\x00",
    "\x1c", "\x0c", "/edit\r", "/context\r", "\x1b[31m", "/exit", "a" * 500,
)  # fmt: skip


def attempt(lab: Lab) -> None:
    """Talk by a script, or on a terminal."""
    (lab.folder / "bad.json").write_text('{"a": ')
    (lab.folder / "folder").mkdir()
    (lab.folder / "loop").symlink_to("loop")
    if lab.rng.random() < 0.25:
        _type(lab)
    else:
        _read_script(lab)


def _arguments(lab: Lab) -> list[str | bytes]:
    rng = lab.rng
    given: list[str | bytes] = ["chat", "-m", str(lab.place.model), "-n", "3", "--seed", "1"]
    if rng.random() < 0.3:
        given += ["--session", rng.choice(("talk.json", "talk.json", "bad.json"))]
    if rng.random() < 0.3:
        given += ["--overflow", rng.choice(("slide", "stop", "error"))]
    for name in ("--system", "--user-name", "--bot-name", "--stop"):
        if rng.random() < 0.15:
            given += [name, hostile.argument(rng)[:200]]
    if rng.random() < 0.2:
        given += ["--template", rng.choice(("transcript", "dialogpt", "model"))]
    return given


def _read_script(lab: Lab) -> None:
    rng = lab.rng
    as_records = rng.random() < 0.4
    script = b"\n".join(_make_line(lab) for _ in range(rng.randrange(10)))
    lab.run(
        *_arguments(lab),
        *(["--json"] if as_records else []),
        stdin=script,
        environment={"EDITOR": rng.choice(("true", "false", "none", "cat", "sed -i s/a/b/"))},
        records=as_records,
        may_write=_written(script),
    )


def _written(script: bytes) -> set[str]:
    """Return the names that a script may write."""
    words = [line.partition(b" ")[2].strip() for line in script.splitlines()]
    return {"talk.json", *(word.decode("utf-8", "surrogateescape").split("/")[0] for word in words)}


def _make_line(lab: Lab) -> bytes:
    rng = lab.rng
    if rng.random() < 0.3:
        return hostile.text(rng).encode()
    if rng.random() < 0.05:
        return rng.randbytes(20)
    command = rng.choice(_COMMANDS)
    chosen = rng.random()
    if command in ("read", "save", "load") and chosen < 0.8:
        return f"/{command} {rng.choice(_FILES)}".encode()
    if command == "set" and chosen < 0.8:
        option = rng.choice(_OPTIONS)
        low = option in ("max-new-tokens", "min-new-tokens")
        number = rng.choice(("0", "1", "5", "-1", "x")) if low else hostile.number(rng)
        return f"/set {option} {rng.choice((number, number, hostile.text(rng)))}".encode()
    if command == "exit" and chosen < 0.7:
        command = "regen"
    return f"/{command} {rng.choice(('', '', hostile.text(rng)))}".encode()


def _type(lab: Lab) -> None:
    keys = [lab.rng.choice(_KEYS) for _ in range(lab.rng.randrange(1, 12))]
    run_on_terminal(lab, _arguments(lab), keys)
