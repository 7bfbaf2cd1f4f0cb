"""Signals, closed pipes and terminals, and full disks, at any moment of a command."""

import os
import signal
import subprocess
import time
from typing import Final

from tests.campaign.children import HANGS_AFTER
from tests.campaign.lab import NEVER_SAID, Lab
from tests.campaign.terminals import PROGRAM, run_on_terminal

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def attempt(lab: Lab) -> None:
    """End a command in some way at some moment."""
    lab.rng.choice((_in_child, _in_child, _in_child, _as_process, _on_terminal))(lab)


def _choose_command(lab: Lab) -> tuple[list[str], tuple[str, ...], bytes]:
    """Return arguments, the names of files that may be written, and stdin."""
    model = ["-m", str(lab.place.model)]
    long = ["-n", "3000", "--overflow", "slide", "--ignore-eos", "--seed", "1"]
    (lab.folder / "long.txt").write_text("a b c " * 4000)
    (lab.folder / "old").write_text("old\n")
    choices: tuple[tuple[list[str], tuple[str, ...], bytes], ...] = (
        (["generate", *model, *long, "x"], (), b""),
        (["generate", *model, *long, "x", "-o", "old", "--json"], ("old",), b""),
        (["generate", *model, *long, "-N", "20", "x", "--stats"], (), b""),
        (["batch", *model, *long, "-o", "out"], ("out", "out.resume.json"), b"a\nb\n" * 50),
        (["batch", *model, "-n", "20"], (), b"a\nb\n" * 300),
        (["chat", *model, *long, "--session", "s.json"], ("s.json",), b"hi\nyou\n"),
        (["score", *model, "-f", "long.txt", "--stride", "1"], (), b""),
        (["score", *model, "-f", "long.txt", "--json", "--top", "9", "-o", "old"], ("old",), b""),
        (["tokens", *model, "-f", "long.txt"], (), b""),
        (["export", str(lab.place.checkpoint), "out"], ("out",), b""),
        (["doctor", "--device", "cpu", "--verify"], (), b""),
        (["models", "show", str(lab.place.model)], (), b""),
        (["config", "set", "top_k", "5"], (), b""),
        (["generate", "-m", "starter", "-n", "400", "--beams", "3", "x"], (), b""),
        (["--help"], (), b""),
    )
    return lab.rng.choice(choices)


def _draw_signals(lab: Lab) -> list[tuple[float, int]]:
    rng = lab.rng
    longest = rng.choice((0.02, 0.1, 0.3, 1.0))
    count = rng.choice((1, 1, 1, 2, 3))
    return [(rng.random() * longest / count, int(rng.choice(_SIGNALS))) for _ in range(count)]


def _in_child(lab: Lab) -> None:
    """Once Python has started: from the first line of the program on."""
    arguments, names, stdin = _choose_command(lab)
    drawn = _draw_signals(lab)
    lab.told.append(f"signals: {drawn}")

    def send(child: int) -> None:
        time.sleep(0.05)
        for seconds, number in drawn:
            time.sleep(seconds)
            os.kill(child, number)

    ends = {0, *(128 + number for _, number in drawn)}
    out = lab.rng.choices(("", "/dev/full", "closed pipe"), (8, 1, 1))[0]
    codes = ends | ({1} if out == "/dev/full" else set())
    lab.run(*arguments, stdin=stdin, after=send, codes=codes, may_write=names, out=out)
    _check_files(lab, names)


def _check_files(lab: Lab, names: tuple[str, ...]) -> None:
    old = (lab.folder / "old").read_text()
    lab.claim(old == "old\n" or old.endswith("\n"), "a half-written file")
    if "out" in names and (lab.folder / "out").is_dir():
        lab.run("models", "show", "out", codes=(0,))
    if "s.json" in names and (lab.folder / "s.json").exists():
        talk = ["chat", "-m", str(lab.place.model), "--session", "s.json", "-n", "1"]
        lab.run(*talk, stdin=b"/show\n", may_write=names, codes=(0,))


def _as_process(lab: Lab) -> None:
    """End a real process, whose reader may go away."""
    arguments, names, stdin = _choose_command(lab)
    drawn = _draw_signals(lab)
    close = lab.rng.random() < 0.3
    lab.told.append(f"process: gpt2 {arguments}, {drawn}, {close=}")
    with subprocess.Popen(
        [PROGRAM, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=lab.environment(),
        cwd=lab.folder,
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(stdin)
        process.stdin.close()
        time.sleep(0.3 + lab.rng.random())  # before it, Python itself starts
        if close:
            process.stdout.close()
        for seconds, number in drawn if not close or "3000" in arguments else ():
            time.sleep(seconds)
            process.send_signal(number)
        try:
            process.wait(HANGS_AFTER) if close else process.stdout.read()
            error = process.stderr.read().decode("utf-8", "replace")
            code = process.wait(HANGS_AFTER)
        except subprocess.TimeoutExpired:
            process.kill()
            lab.claim(False, "hangs")
            return
    lab.told += [f"  code: {code}", f"  stderr: {error!r}"]
    ends = {0, *(128 + number for _, number in drawn)}
    lab.claim(code in ends, f"exit code {code}")
    for words in NEVER_SAID:
        lab.claim(words not in error, f"stderr has {words!r}")
    _check_files(lab, names)


def _on_terminal(lab: Lab) -> None:
    command = ["chat", "-m", str(lab.place.model), "-n", "400", "--overflow", "slide"]
    keys = [
        lab.some("hi", "\r", "/", "\x12", "hello\r", "\x1b", "\t")
        for _ in range(lab.rng.randrange(5))
    ]
    run_on_terminal(lab, command, keys, end=int(lab.rng.choice((0, signal.SIGTERM, signal.SIGHUP))))
