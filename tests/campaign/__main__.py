"""Makes hostile tries and tells the faults that they find; nothing of it is run by pytest."""

import argparse
import collections
import contextlib
import multiprocessing
import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Final

from tests.campaign.kinds import KINDS, Done, make_try, prepare_worker
from tests.campaign.lab import Place, make_lab
from tests.checkpoints import write_checkpoint
from tests.model_folders import SMALL_SHAPE

_STARTER: Final = pathlib.Path(__file__).parents[2] / "gpt2cli" / "starter"

_SEED_STEP: Final = 1_000_000  # tries of one seed, so that a number alone tells the try


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--tries", type=int, default=5000, help="of all kinds together")
    parser.add_argument("--seed", type=int, default=0, help="another one makes other tries")
    parser.add_argument("--skip", type=int, default=0, help="the first tries, to go on after them")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="repeatable")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--only", metavar="KIND:NUMBER", help="make this try and show all of it")
    return parser.parse_args()


def _list_tries(arguments: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Return kinds and numbers; a longer list begins with a shorter one."""
    kinds = arguments.kind or list(KINDS)
    shares = [(kind, KINDS[kind][1]) for kind in kinds]
    round_ = sorted((place / share, kind) for kind, share in shares for place in range(share))
    for number in range(arguments.skip, arguments.tries):
        yield round_[number % len(round_)][1], arguments.seed * _SEED_STEP + number


def _prepare(root: pathlib.Path) -> Place:
    place = Place(root)
    write_checkpoint(place.checkpoint, SMALL_SHAPE, tokenizer="filled")
    home = root / "first"
    (root / "cache").mkdir()
    lab = make_lab(place, home, "first", 0)
    lab.run("generate", "-m", "starter", "-n", "0", "x")
    lab.run("export", str(_STARTER), str(place.starter))
    lab.run("export", str(place.checkpoint), str(place.model))
    assert not lab.faults, lab.told
    shutil.rmtree(root / "cache")
    (home / "cache").rename(root / "cache")
    return place


def _run_all(root: pathlib.Path, tries: Iterable[tuple[str, int]], jobs: int) -> Iterator[Done]:
    # Modules are loaded once; no thread of a model's may run where a child is forked.
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, initializer=prepare_worker) as pool:
        yield from pool.imap_unordered(make_try, ((root, kind, number) for kind, number in tries))


def _main() -> int:
    arguments = _read_arguments()
    began = time.monotonic()
    counts: collections.Counter[str] = collections.Counter()
    failed = 0
    with contextlib.ExitStack() as stack:
        root = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="campaign-")))
        prepare_worker()
        _prepare(root)
        if arguments.only:
            kind, _, number = arguments.only.partition(":")
            [done] = _run_all(root, [(kind, int(number))], 1)
            print(*done.told, *(f"FAULT: {fault}" for fault in done.faults), sep="\n")
            return bool(done.faults)
        with contextlib.suppress(KeyboardInterrupt):
            for done in _run_all(root, _list_tries(arguments), arguments.jobs):
                counts[done.kind] += 1
                failed += bool(done.faults)
                if done.faults:
                    told = (f"    {line[:400]}" for line in done.told[-5:])
                    lines = (f"{done.kind}:{done.number}", *done.faults[:4], *told)
                    print(*lines, sep="\n    ", flush=True)
    tries = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    print(f"{tries or 'none'}; {failed} with faults; {time.monotonic() - began:.0f} s")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(_main())
