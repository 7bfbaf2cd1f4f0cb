"""Measures us against other programs in one go: python -m tests.bench.peers.

Makes one 124M checkpoint, converts it for each program, checks that all make the same greedy ids in
float32, and lets them run in turn, round after round, each in a process of its own. Raw figures go
to a file, a summary to stdout. Needs the extra `bench`, or interpreters that have its parts.
"""

import argparse
import os
import pathlib
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from gpt2cli.machine import count_cores, find_cpu_name
from gpt2cli.model_folder import read_model_folder
from gpt2cli.terminal.tables import format_table
from gpt2cli.tokenizer import Tokenizer
from tests.bench import summary
from tests.bench.checkpoint import convert, make_checkpoint
from tests.bench.measuring import write_json
from tests.bench.processes import CannotRunError, Runner, run_to_end
from tests.bench.variants import PROGRAMS, VARIANTS, Variant
from tests.bench.workload import START_PROMPT, Workload, draw_workload

RESULTS: Final = pathlib.Path(__file__).parent / "results" / "peers.json"
_REFERENCE: Final = VARIANTS[0]  # ours in float32, which tells how far logits are apart


class Benchmark:
    """One run over all variants, and the raw figures that it gathers."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._pythons = {name: getattr(options, f"{name}_python") for name in PROGRAMS}
        self._skipped: dict[Variant, str] = {}
        self._checked: dict[Variant, dict[str, Any]] = {}
        self._runs: list[dict[str, Any]] = []
        options.work.mkdir(parents=True, exist_ok=True)
        self._runner, self._workload = self._prepare()

    def run(self) -> dict[str, Any]:
        """Do all the work; the raw figures so far are on disk after every round."""
        self._conditions = self._describe_conditions()
        for variant in self._running:
            self._try(variant, self._check)
        for number in range(self._options.rounds):
            # Back and forth: nobody always comes after the same one.
            for variant in self._running[:: -1 if number % 2 else 1]:
                self._try(variant, lambda v, n=number: self._measure(v, n))
            raw = self._describe()
            self._options.out.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._options.out, raw)
        return raw

    @property
    def _running(self) -> list[Variant]:
        return [variant for variant in VARIANTS if variant not in self._skipped]

    def _prepare(self) -> tuple[Runner, Workload]:
        """Make the checkpoint, what each variant loads, and the prompts."""
        say("making the checkpoint and converting it")
        checkpoint = make_checkpoint(self._options.work)
        paths = {}
        for variant in VARIANTS:
            try:
                paths[variant] = convert(variant, checkpoint, self._pythons[variant.program])
            except CannotRunError as error:
                self._skip(variant, error)
        tokenizer = Tokenizer(read_model_folder(paths[_REFERENCE]))
        workload = draw_workload(tokenizer.encode(START_PROMPT, allow_special=False))
        if self._options.quick:
            workload = workload.shortened()
        file = self._options.work / "workload.json"
        workload.save(file)
        return Runner(self._pythons, paths, file, self._options.threads), workload

    def _check(self, variant: Variant) -> None:
        """Let a variant complete prompts, and find its batch size."""
        say(f"checking {variant}")
        try:
            self._checked[variant] = self._runner.run(variant, "check")
        except CannotRunError as error:
            if variant.program != "llama_cpp" or not str(error).startswith("killed"):
                raise
            self._runner.without_buffers.add(variant)
            self._checked[variant] = self._runner.run(variant, "check")

    def _measure(self, variant: Variant, number: int) -> None:
        say(f"round {number + 1} of {self._options.rounds}: {variant}")
        load = os.getloadavg()[0]
        start = self._runner.time_start(variant)
        size = self._find_batch_size(variant)
        told = self._runner.run(variant, "measure", batch_size=size)
        figures = {name: told[name] for name in summary.MEASURES if name in told}
        self._runs.append(
            {
                "round": number,
                **asdict(variant),
                "load_average": load,
                "figures": {**figures, "first_token": start},
            }
        )

    def _find_batch_size(self, variant: Variant) -> int:
        """Return the size at which a variant completed the batch in the least time."""
        seconds = self._checked[variant]["batch_seconds"]
        return int(min(seconds, key=seconds.__getitem__))

    def _try(self, variant: Variant, work: Any) -> None:
        try:
            work(variant)
        except CannotRunError as error:
            self._skip(variant, error)

    def _skip(self, variant: Variant, error: CannotRunError) -> None:
        say(f"{variant} is left out: {error}")
        self._skipped[variant] = str(error)

    def _describe(self) -> dict[str, Any]:
        """Return everything that is known so far, as it is written."""
        work = self._workload
        lengths = [len(ids) for ids in work.batch_prompts]
        return {
            "conditions": self._conditions,
            "workload": {
                "decode_prompt_tokens": len(work.decode_prompts[0]),
                "decode_steps": work.decode_steps,
                "batch_prompts": len(lengths),
                "batch_prompt_tokens": [min(lengths), max(lengths)],
                "batch_steps": work.batch_steps,
                "memory_steps": work.memory_steps,
            },
            "variants": [self._describe_variant(variant) for variant in VARIANTS],
            "agreement": self._compare_completions(),
            "runs": self._runs,
        }

    def _describe_variant(self, variant: Variant) -> dict[str, Any]:
        checked = self._checked.get(variant)
        return {
            **asdict(variant),
            "skipped": self._skipped.get(variant),
            "versions": checked and checked["versions"],
            "batch_seconds": checked and checked["batch_seconds"],
            "batch_size": checked and self._find_batch_size(variant),
            "without_extra_buffers": variant in self._runner.without_buffers,
        }

    def _compare_completions(self) -> list[dict[str, Any]]:
        """Return where the greedy ids of the other fp32 variants part from ours."""
        compared = []
        ours = self._checked.get(_REFERENCE)
        for variant, checked in self._checked.items():
            if ours is None or variant is _REFERENCE or variant.precision_class != "fp32":
                continue
            parted = []
            pairs = zip(ours["completions"], checked["completions"], strict=True)
            for prompt, pair in enumerate(pairs):
                places = [i for i, (a, b) in enumerate(zip(*pair, strict=True)) if a != b]
                if places:
                    gap = ours["gaps"][prompt][places[0]]
                    parted.append({"prompt": prompt, "place": places[0], "gap": gap})
            compared.append(
                {
                    "variant": str(variant),
                    "reference": str(_REFERENCE),
                    "prompts": len(checked["completions"]),
                    "tokens": self._workload.checked_steps,
                    "same": len(checked["completions"]) - len(parted),
                    "parted": parted,
                }
            )
        return compared

    def _describe_conditions(self) -> dict[str, Any]:
        return {
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "cpu": find_cpu_name(),
            "cores": count_cores(),
            "threads": self._options.threads,
            "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            "system": platform.platform(),
            "commit": find_commit(),
            "rounds": self._options.rounds,
            "quick": self._options.quick,
            "command": "python -m tests.bench.peers",
        }


def find_commit() -> str | None:
    """Return what git says is checked out; None where there is no git."""
    try:
        [(_, line)] = run_to_end(["git", "describe", "--always", "--dirty", "--abbrev=12"])
        return line.strip()
    except CannotRunError:
        return None


def say(text: str) -> None:
    """Tell what goes on, on stderr."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def print_summary(raw: dict[str, Any]) -> None:
    """Print what a run came to."""
    figures = summary.gather(raw)
    print("\n".join(summary.describe_conditions(raw)), end="\n\n")
    print("\n".join(summary.describe_agreement(raw)), end="\n\n")
    print(format_table(*summary.tabulate_figures(figures)))
    print(format_table(*summary.tabulate_ratios(figures)))
    print("\n".join(summary.judge_start(figures)))


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    work = pathlib.Path(tempfile.gettempdir(), "gpt2-bench")
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument("--threads", type=int, default=count_cores(), help="default: all cores")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS, help=f"default {RESULTS}")
    parser.add_argument(
        "--work", type=pathlib.Path, default=work, help=f"3 GB go there; default {work}"
    )
    parser.add_argument("--quick", action="store_true", help="try whether all works")
    for name in PROGRAMS:
        option = f"--{name.replace('_', '-')}-python"
        parser.add_argument(option, default=sys.executable, help=f"interpreter that has {name}")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    print_summary(Benchmark(parse_options(None)).run())
