"""Batches: hostile input in every byte, and runs that are killed, damaged and taken up again."""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any, Final

from tests.campaign import hostile
from tests.campaign.lab import Lab

_OPTIONS: Final = (
    "temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty", "presence_penalty",
    "frequency_penalty", "no_repeat_ngram", "min_new_tokens", "ignore_eos", "stop", "ban", "seed",
    "logit_bias", "choice", "regex", "json_schema", "greedy", "logprobs", "overflow",
    "length_penalty", "allow_special", "id", "nothing", "prompt",
)  # fmt: skip

_WRITTEN: Final = ("out", "out.resume.json")


def attempt(lab: Lab) -> None:
    """Run a batch once, or begin it, spoil what it wrote, and resume it."""
    lab.rng.choice((_run_texts, _run_objects, _run_objects, _resume_edited, _resume_killed))(lab)


def _arguments(lab: Lab, *more: str) -> list[str]:
    size = lab.some("1", "2", "7", "auto")
    return [*f"batch -n 4 --seed 3 --batch-size {size} -m".split(), str(lab.place.model), *more]


def _run_texts(lab: Lab) -> None:
    rng = lab.rng
    pieces = [_make_line(rng) for _ in range(rng.randrange(12))]
    null = rng.random() < 0.3
    end = b"\x00" if null else b"\n"
    stdin = b"".join(piece.replace(end, b"") + end for piece in pieces)
    as_text = rng.random() < 0.3
    more = [*(["-0"] if null else []), *(["--format", "text"] if as_text else [])]
    done = lab.run(*_arguments(lab, *more), stdin=stdin, records=not as_text, codes=(0, 1))
    lines = done.out.count(b"\n")
    lab.claim(lines == len(pieces), f"{lines} results of {len(pieces)} prompts")
    if not as_text:
        _check_records(lab, done.out, done.code)


def _make_line(rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return rng.randbytes(rng.randrange(1, 60))
    return hostile.text(rng).encode()


def _run_objects(lab: Lab) -> None:
    rng = lab.rng
    lines = [_make_object(rng) for _ in range(rng.randrange(1, 9))]
    stdin = b"\n".join(lines) + rng.choice((b"\n", b""))
    done = lab.run(*_arguments(lab, "--jsonl"), stdin=stdin, records=True, codes=(0, 1))
    _check_records(lab, done.out, done.code)
    records = lab.read_records(done.out)
    if records:
        wanted = sum(bool(line.strip(b" \t\r\n")) for line in stdin.split(b"\n"))
        last = records[-1].get("index")
        lab.claim(last == wanted - 1, f"the last index is {last}, of {wanted} records")


def _make_object(rng: random.Random) -> bytes:
    record: dict[str, Any] = {"prompt": hostile.text(rng)}
    for name in rng.sample(_OPTIONS, rng.choice((0, 1, 1, 2))):
        record[name] = hostile.value(rng) if rng.random() < 0.7 else _make_number(rng)
    line = json.dumps(record, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    if rng.random() < 0.2:
        line = hostile.damage(rng, line)
    return line


def _make_number(rng: random.Random) -> object:
    return rng.choice((0, 1, -1, 0.5, 2.0, True, "1", 1e308, 5, 33))


def _check_records(lab: Lab, out: bytes, code: int) -> None:
    records = lab.read_records(out)
    errors = sum(record.get("finish_reason") == "error" for record in records)
    lab.claim((code == 1) == bool(errors), f"{errors} errors and exit code {code}")
    indices = [record.get("index") for record in records]
    lab.claim(indices == sorted(indices, key=str) or len(indices) > 9, f"indices {indices}")


def _begin(lab: Lab) -> tuple[list[str], bytes]:
    """Write prompts, and make what an uninterrupted run writes; return its arguments, and that."""
    rng = lab.rng
    prompts = "".join(f"{hostile.text(rng).splitlines()[:1] or ''} {n}\n" for n in range(12))
    (lab.folder / "in.txt").write_bytes(prompts.replace("\x00", "").encode())
    arguments = _arguments(lab, "in.txt", "-o", "out")
    lab.run(*arguments, may_write=_WRITTEN, codes=(0, 1))
    return arguments, (lab.folder / "out").read_bytes()


def _resume_edited(lab: Lab) -> None:
    arguments, whole = _begin(lab)
    output, journal = (lab.folder / name for name in _WRITTEN)
    for path in lab.rng.choice(([output], [output], [journal], [output, journal])):
        path.write_bytes(edited := _edit(lab.rng, path.read_bytes()))
        lab.told.append(f"{path.name}: now {edited[:4000]!r}")
    _resume(lab, arguments, whole)


def _edit(rng: random.Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    edits: tuple[Callable[[], bytes], ...] = (
        lambda: b"".join(lines[:at] + lines[at + 1 :]),
        lambda: b"".join([*lines[:at], b'{"index": 1}\n', *lines[at:]]),
        lambda: b"".join([*lines[:at], lines[at], *lines[at:]]),
        lambda: b"".join(reversed(lines)),
        lambda: b"".join(lines[:at]),
        lambda: content[: rng.randrange(len(content))],
        lambda: content + b"\x00" * 4096,
        lambda: content + b"x",
        lambda: hostile.damage(rng, content),
    )
    return rng.choice(edits)()


def _resume_killed(lab: Lab) -> None:
    arguments, whole = _begin(lab)
    for name in _WRITTEN:
        (lab.folder / name).unlink()
    number = lab.rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    seconds = lab.rng.random() * 0.5

    def end(child: int) -> None:
        time.sleep(seconds)
        os.kill(child, number)

    lab.run(*arguments, after=end, codes=(0, 1, -number, 128 + number), may_write=_WRITTEN)
    _resume(lab, arguments, whole)


def _resume(lab: Lab, arguments: list[str], whole: bytes) -> None:
    """Resume: it refuses and changes nothing, or ends with the bytes of a whole run."""
    output = lab.folder / "out"
    before = output.read_bytes() if output.exists() else None
    done = lab.run(*arguments, "--resume", may_write=_WRITTEN)
    after = output.read_bytes() if output.exists() else None
    refused = done.code in (1, 2) and "gpt2: error: " in done.err
    wanted = before if refused else whole
    lab.claim(after == wanted, f"after --resume ({refused=}) the output is {after!r:.600}")
