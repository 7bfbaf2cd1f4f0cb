"""Starts the worker processes, one at a time, and reads what they tell."""

import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.bench.peer_llama_cpp import NO_EXTRA_BUFFERS
from tests.bench.variants import OURS, Variant
from tests.bench.worker import MARK
from tests.bench.workload import START_PROMPT

_ROOT: Final = pathlib.Path(__file__).parents[2]  # of the repository
_TIMEOUT_SECONDS: Final = 1200
_MOST_SHOWN: Final = 300  # characters of a reason


class CannotRunError(Exception):
    """A program cannot be measured here; the text says why."""


@dataclass(slots=True)
class Runner:
    """Runs jobs of variants that have been converted."""

    pythons: Mapping[str, str]  # of each program
    paths: Mapping[Variant, pathlib.Path]
    workload: pathlib.Path
    threads: int
    without_buffers: set[Variant] = field(default_factory=set)  # since with them they crashed

    def run(self, variant: Variant, task: str, **job: Any) -> dict[str, Any]:
        """Return what a job told, and `first_token_seconds` after the process was started.

        Raises:
            CannotRunError: if it failed.
        """
        job |= {
            "program": variant.program,
            "precision": variant.precision,
            "path": str(self.paths[variant]),
            "workload": str(self.workload),
            "threads": self.threads,
            "task": task,
        }
        command = [self.pythons[variant.program], "-m", "tests.bench.worker", json.dumps(job)]
        told: dict[str, Any] = {}
        environment = self._make_environment(variant)
        for seconds, line in run_to_end(command, environment):
            if line.startswith(MARK):
                told |= json.loads(line.removeprefix(MARK))
                told.setdefault("first_token_seconds", seconds)
        return told

    def time_start(self, variant: Variant) -> float:
        """Return the seconds from the start of a process to its first token.

        Ours is the command itself, which reads a text; others are the least program that does it.

        Raises:
            CannotRunError: if it failed.
        """
        if variant.program != OURS:
            return float(self.run(variant, "start")["first_token_seconds"])
        command = [
            *(self.pythons[OURS], "-m", "gpt2cli", "generate", START_PROMPT, "--no-echo"),
            *("-m", str(self.paths[variant]), "-n", "1", "--greedy", "--ignore-eos"),
            *("--device", "cpu", "--threads", str(self.threads), "--quiet"),
        ]
        lines = run_to_end(command, self._make_environment(variant))
        if not lines:
            raise CannotRunError("it said nothing")
        return lines[0][0]

    def _make_environment(self, variant: Variant) -> Mapping[str, str]:
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads), "HF_HUB_OFFLINE": "1"}
        if variant in self.without_buffers:
            environment[NO_EXTRA_BUFFERS] = "1"
        return environment


def run_to_end(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> list[tuple[float, str]]:
    """Run a command in the repository; return each line of its stdout and when it was there.

    In seconds since the start.

    Raises:
        CannotRunError: if it fails, or takes too long; with the last line that it wrote.
    """
    lines = []
    with tempfile.TemporaryFile("w+", errors="replace") as stderr:
        started = time.monotonic()
        try:
            process = subprocess.Popen(
                command,
                cwd=_ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise CannotRunError(str(error)) from error
        overdue = threading.Timer(_TIMEOUT_SECONDS, process.kill)
        overdue.start()
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append((time.monotonic() - started, line))
        overdue.cancel()
        stderr.seek(0)
        if process.returncode:
            raise CannotRunError(_explain_failure(process.returncode, stderr.read()))
    return lines


def _explain_failure(code: int, stderr: str) -> str:
    """Return why a process failed, in one line."""
    if code < 0:
        return f"killed by signal {-code}"
    lines = [line for line in stderr.splitlines() if line.strip(" │╰─╯╭╮")]
    return lines[-1].strip(" │")[:_MOST_SHOWN] if lines else f"exit code {code}"
