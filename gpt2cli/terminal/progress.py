"""Progress: a bar on a terminal while a person watches."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from export.errors import STREAMS
from gpt2cli.terminal.interrupt import signals_held_back
from gpt2cli.terminal.notes import Notes, wants_colour

if TYPE_CHECKING:
    from rich.progress import Progress


class Bar:
    """A bar on stderr. As a context manager: whatever happens, it is gone at the end."""

    def __init__(
        self,
        notes: Notes,
        total: int | None,
        *,
        hidden: bool = False,
        patience: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`total`: how much there is to do if it is known; `hidden`: there is no bar.

        It is not shown before `patience` seconds have passed, by the clock.
        """
        self._seen = notes.watched and not hidden
        self._begins = clock() + patience
        self._clock = clock
        self._total = total
        self._bar: Progress | None = None

    def show(self, done: int, told: str) -> None:
        """Show how much is done, until the next time or `pause`."""
        if not self._seen or self._clock() < self._begins:
            return
        if self._bar is None:
            self._bar = _make_bar()
            self._bar.add_task("", total=self._total)
        self._bar.update(self._bar.task_ids[0], completed=done, description=told)
        if not self._bar.live.is_started:
            with STREAMS, signals_held_back():  # rich 15 cannot stop what is half started
                self._bar.start()

    def pause(self) -> None:
        """Remove the bar, for others to write."""
        if self._bar is not None:
            with STREAMS, signals_held_back():  # or half stopped
                self._bar.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.pause()


def _make_bar() -> "Progress":
    from rich.console import Console  # only where a person watches
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True, no_color=not wants_colour()),
        transient=True,
    )
