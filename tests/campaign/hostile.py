"""Values, texts and damage that programs do not expect; all from the random numbers given."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

_TEXTS: Final = (
    "", " ", "  \n", "\n", "\r\n", "\t", "a", "Once upon a time", "é", "日本", "👩‍🚀 日本",
    "e\u0301" * 9,
    "[/red] [bold]x", "\x1b[31mred\x1b[0m", "\x1b]0;t\x07", "\u202eabc", "\u200f", "\ufeffx",
    "<|endoftext|>", "<|endoftext", "\\n", "\\x", "\\", "\\u12", "{}", "{", "%s%n", "-", "--", "-x",
    "'\"`$(x)", "a" * 3000, " " * 3000, "ab " * 700, "\u2028\u2029\x85", "\x7f\x08", "\uffff",
    "\U0010ffff", "A\u0300\u0301\u0302\u0303" * 40, "Ⅷ١", "null", "true", "nan", "User:", "Bot:\n",
    "/help", '"""', "../..", "/", "~", "\x00", "a\x00b", "𝕳", "ﷺ" * 50, "\ud83d\ude00".encode(
        "utf-16", "surrogatepass").decode("utf-16"), "0", "-1", "1e999", "owner/name", "a=1", "=",
)  # fmt: skip
_NUMBERS: Final = (
    "0", "1", "2", "3", "5", "-1", "-0", "0.5", "1.0", "-2", "nan", "inf", "-inf", "1e308", "1e309",
    "1e-320", "1e400", "9" * 400, "9" * 5000, "2147483648", "4294967296", "9007199254740991",
    "9007199254740992", "9223372036854775808", "1_0", "0x10", " 5 ", "५", "", "true", "None", "+5",
    "1,5", "--", "1e", "Ⅷ", "auto", "100", "-100", "101", "1e-9", "1e9",
)  # fmt: skip
LFS: Final = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


def text(rng: random.Random) -> str:
    """Return a hostile text; it may have NUL, and no surrogates."""
    if rng.random() < 0.7:
        return rng.choice(_TEXTS)
    if rng.random() < 0.5:
        return rng.choice(_TEXTS) + rng.choice(_TEXTS)
    planes = (0x80, 0x250, 0x3000, 0xD7FF, 0x10FFFF)
    codes = (rng.randrange(rng.choice(planes)) for _ in range(rng.randrange(40)))
    return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)


def argument(rng: random.Random) -> bytes:
    """Return what a command line may hold: any bytes without NUL."""
    if rng.random() < 0.1:
        return bytes(rng.randrange(1, 256) for _ in range(rng.randrange(1, 9)))
    return text(rng).replace("\x00", "").encode()[:100_000]


def number(rng: random.Random) -> str:
    """Return a number, or what is none."""
    return rng.choice(_NUMBERS)


def value(rng: random.Random, depth: int = 0) -> Any:
    """Return a value for JSON; `json.dumps` writes NaN and half pairs as they are."""
    makers: list[Callable[[], Any]] = [
        lambda: None,
        lambda: rng.choice((True, False)),
        lambda: rng.choice((0, 1, -1, 2, 5, 33, 256, 2**31, 2**53, 2**63 - 1, 2**64, 10**400)),
        lambda: rng.choice((0.5, -0.0, 1e308, float("nan"), float("inf"), 1e-320, 1.0)),
        lambda: text(rng),
        lambda: rng.choice(("\ud83d", "\udcff", "x" * 70_000)),
        lambda: {},
        lambda: [],
    ]
    if depth < 3:
        makers += [
            lambda: [value(rng, depth + 1) for _ in range(rng.randrange(4))],
            lambda: {text(rng): value(rng, depth + 1) for _ in range(rng.randrange(4))},
        ]
    return rng.choice(makers)()


def change(rng: random.Random, whole: Any) -> Any:
    """Return JSON in which one value, at any depth, is another or is gone."""
    if isinstance(whole, dict) and whole and rng.random() < 0.9:
        key = rng.choice(list(whole))
        chosen = rng.random()
        if chosen < 0.1:
            return {k: v for k, v in whole.items() if k != key}
        if chosen < 0.15:
            return whole | {text(rng): value(rng)}
        return whole | {key: change(rng, whole[key])}
    if isinstance(whole, list) and whole and rng.random() < 0.9:
        place = rng.randrange(len(whole))
        chosen = rng.random()
        new = [] if chosen < 0.1 else [change(rng, whole[place])]
        return [*whole[:place], *new, *whole[place + (chosen < 0.9) :]]
    return value(rng)


def damage(rng: random.Random, content: bytes) -> bytes:
    """Return bytes that were cut, flipped, doubled, or are something else altogether."""
    at = rng.randrange(len(content) + 1)
    to = min(len(content), at + rng.choice((1, 2, 8, 100, 5000)))
    makers: list[Callable[[], bytes]] = [
        lambda: content[:at],
        lambda: content[at:],
        lambda: content[:at] + content[to:],
        lambda: content[:at] + content[at:to] * 2 + content[to:],
        lambda: content[:at] + rng.randbytes(rng.randrange(1, 20)) + content[to:],
        lambda: (
            content[:at] + bytes([rng.choice((0, 10, 34, 44, 91, 92, 123, 255))]) + content[at:]
        ),
        lambda: _flip(rng, content, rng.choice((1, 1, 1, 5, 200))),
        lambda: _flip(rng, content[:4000], 3) + content[4000:],
        lambda: _replace(rng, content),
    ]
    return rng.choice(makers)()


def _flip(rng: random.Random, content: bytes, count: int) -> bytes:
    flipped = bytearray(content)
    for _ in range(count if content else 0):
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def _replace(rng: random.Random, content: bytes) -> bytes:
    bracket = rng.choice((b"[", b'{"a":', b"(", b"\x80\x02]"))
    return rng.choice(
        (
            b"", b"\n", b"\x00" * 4096, LFS, bracket * 100_000, b"\xef\xbb\xbf" + content,
            content.decode("latin-1").encode("utf-16"), content.decode("latin-1").encode("utf-32"),
            b"null", b"0", b'""', b"[]", b"{}", b"NaN", b"9" * 5000, b'"' + b"x" * 100_000 + b'"',
            content.replace(b"\n", b"\r\n"), content * 2, b"PK\x03\x04" + content, b"\x80\x02.",
        )
    )  # fmt: skip


def spoil(rng: random.Random, path: Path) -> str:
    """Damage a file, or put something else there; return what was done."""
    content = path.read_bytes() if path.is_file() else b""
    done = rng.choices(("bytes", "json", "kind"), (5, 8 if path.suffix == ".json" else 0, 2))[0]
    if done == "kind":
        return _replace_kind(rng, path)
    if done == "json":
        changed = json.loads(content)
        for _ in range(rng.choice((1, 1, 1, 2))):
            changed = change(rng, changed)
        new = json.dumps(changed, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    else:
        new = damage(rng, content)
    path.unlink()  # it may be a link to what others use
    path.write_bytes(new)
    return f"{path.name}: {done}, now {new[:3000]!r}"


def _replace_kind(rng: random.Random, path: Path) -> str:
    path.unlink()
    kind = rng.choice(("none", "folder", "loop", "pipe", "nowhere", "null", "zero", "sparse"))
    if kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind in ("nowhere", "null", "zero"):
        path.symlink_to(f"/dev/{kind}")
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(5 << 30)
    return f"{path.name}: {kind}"
