"""How whoever waits for a model is told what happens meanwhile."""

from typing import Protocol


class Listener(Protocol):
    """Is told what happens meanwhile."""

    @property
    def watched(self) -> bool:
        """Whether a person would see a progress bar."""
        ...

    def note(self, text: str) -> None:
        """Take a sentence that the user should read."""

    def stage(self, text: str) -> None:
        """Take what goes on now."""

    def pause(self) -> None:
        """Make way: another library is about to draw its own progress."""
