"""The progress of scoring, a bar on a terminal, and what --stats tells of it in the end."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from gpt2cli.loading import LoadedModel
from gpt2cli.terminal.interrupt import signals_held_back
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.progress import make_bar
from gpt2cli.terminal.statistics import describe_conditions, describe_memory

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE_SECONDS: Final = 1.0


class ScoreProgress:
    """Counts scored tokens and shows them while a person watches and waits."""

    def __init__(
        self,
        notes: Notes,
        *,
        total: int,
        hidden: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`total` tokens are to be scored; `hidden`: no bar; `clock` tells the time in seconds."""
        self._shown = notes.watched and not hidden
        self._total = total
        self._tokens = 0
        self._clock = clock
        self._started = clock()
        self._bar: Progress | None = None

    @property
    def seconds(self) -> float:
        """The time since the start."""
        return self._clock() - self._started

    def add(self, tokens: int) -> None:
        """Count tokens that were scored."""
        self._tokens += tokens
        if not self._shown or self.seconds < _PATIENCE_SECONDS:
            return
        if self._bar is None:
            self._bar = make_bar()
            self._bar.add_task("", total=self._total)
        told = f"{self._tokens} tokens, {self._tokens / self.seconds:.0f} tokens/s"
        self._bar.update(self._bar.task_ids[0], completed=self._tokens, description=told)
        with signals_held_back():  # rich 15 cannot stop what is half started
            self._bar.start()

    def pause(self) -> None:
        """Remove the bar until tokens are added again, for others to write."""
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


def describe_scoring(model: LoadedModel, *, tokens: int, seconds: float) -> list[str]:
    """Return the lines of --stats for texts of so many tokens that were scored in this time."""
    rate = tokens / max(seconds, 1e-9)
    scored = f"scored {tokens} tokens in {seconds:.3f} s: {rate:.1f} tokens/s"
    return [describe_conditions(model), scored, *describe_memory()]
