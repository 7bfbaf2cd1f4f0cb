"""What is done where a device's memory is full in the midst of a run: half as many slots go on.

Whatever runs is put off, and begins again in the order in which it came. A sample keeps what it has
drawn, since that may have been shown: its ids are fed again as they were before, the prompt by one
call and each other by a step. That needs no more memory than it did then, and gives the same bits
where rows do not depend on one another. Slots are not moved to a smaller cache: in a full memory
there is no room for it beside the old one.
"""

from collections.abc import Collection
from typing import TypeAlias

from gpt2cli.errors import DeviceFullError
from gpt2cli.generation.beams import BeamSearch
from gpt2cli.generation.interfaces import LogitsEngine
from gpt2cli.generation.sample import Sample

Run: TypeAlias = Sample | BeamSearch  # what is begun and put off as one


def find_running(active: Collection[Sample], searches: Collection[BeamSearch]) -> list[Run]:
    """Return what has not ended, in the order in which it came."""
    samples = [sample for sample in active if not sample.finished and not sample.is_beam]
    return sorted([*searches, *samples], key=lambda run: run.place)


def halve_slots(engine: LogitsEngine, error: DeviceFullError, *, fewest: int) -> None:
    """Close all slots of an engine whose memory is full, for half as many, or as many as fit.

    Raises:
        DeviceFullError: the error itself, if it has no more than the fewest, or they do not fit.
    """
    while engine.max_slots > fewest:
        if _can_restart(engine, max(fewest, engine.max_slots // 2)):
            return
    raise error


def _can_restart(engine: LogitsEngine, max_slots: int) -> bool:
    try:
        engine.restart(max_slots)
    except DeviceFullError:  # not kept: it would keep what was taken before it failed
        return False
    return True
