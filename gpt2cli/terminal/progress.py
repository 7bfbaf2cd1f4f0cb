"""Progress: a bar on a terminal while a person watches, and the summary of a batch."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

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
            with signals_held_back():  # rich 15 cannot stop what is half started
                self._bar.start()

    def pause(self) -> None:
        """Remove the bar, for others to write."""
        if self._bar is not None:
            with signals_held_back():  # or half stopped
                self._bar.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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


class BatchProgress(Bar):
    """Counts records and tokens; shows them while a person watches, and sums them up."""

    def __init__(
        self,
        notes: Notes,
        *,
        total_bytes: int | None,
        done: int = 0,
        done_errors: int = 0,
        hidden: bool = False,
    ) -> None:
        """`total_bytes`: the size of the input if it is known, for the time that is left.

        `done` input records were done by an earlier run, of which `done_errors` are errors;
        `hidden`: no bar.
        """
        super().__init__(notes, total_bytes, hidden=hidden)
        self._started = time.monotonic()
        self._done = done
        self._done_errors = done_errors
        self.records = 0
        self.errors = 0
        self._cuts = 0
        self.tokens = 0

    def add(self, *, error: bool, tokens: int, bytes_read: int, cut: bool = False) -> None:
        """Count a record that was written; `cut`: of whose prompt the model saw the end alone."""
        self.records += 1
        self.errors += error
        self._cuts += cut
        self.tokens += tokens
        self.show(bytes_read, f"{_count(self.records, 'record')}, {self._rate():.0f} tokens/s")

    def summarise(self) -> str:
        """Return the run in one line."""
        failed = _tell_errors(self.errors)
        cut = f", {self._cuts} of them with only the end of a long prompt" if self._cuts else ""
        failed_before = _tell_errors(self._done_errors)
        before = f"; {self._done} of the input were done before{failed_before}"
        seconds = time.monotonic() - self._started
        return (
            f"{_count(self.records, 'record')}{failed}{cut}, {_count(self.tokens, 'token')} "
            f"in {seconds:.1f} s ({self._rate():.1f} tokens/s){before if self._done else ''}"
        )

    def _rate(self) -> float:
        return self.tokens / max(time.monotonic() - self._started, 1e-9)

    def __enter__(self) -> Self:
        self.show(0, "0 records")
        return self


def _tell_errors(errors: int) -> str:
    return f", {_count(errors, 'error')} among them" if errors else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
