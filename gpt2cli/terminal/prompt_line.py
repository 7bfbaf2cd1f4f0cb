"""Asks a person for a line by prompt_toolkit 3, whose prompt knows no signal but SIGINT."""

import asyncio
from bisect import bisect
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from gpt2cli.errors import OutputError
from gpt2cli.terminal.interrupt import ENDINGS, signals_held_back
from gpt2cli.terminal.safety import make_safe

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput


def ask(session: "PromptSession[str]", message: str, **how: Any) -> str:
    """Return the line; `how` is what the session's prompt takes.

    Whatever ends it, the terminal is as it was before.

    Raises:
        EOFError, KeyboardInterrupt: at Ctrl-D and Ctrl-C.
        OutputError: if the terminal has gone.
    """
    app = session.app
    ended: list[int] = []

    def begin() -> None:
        session.search_buffer.reset()  # a search that SIGINT has cut off still takes the keys
        app.layout.focus(session.default_buffer)
        asyncio.get_running_loop().set_exception_handler(fail)
        if ended:
            end()

    def fail(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Take what is raised while a key is read or the line is drawn."""
        if "exception" in context:
            end(context["exception"])

    def end(error: BaseException | None = None) -> None:
        if app.is_running and not app.is_done:
            app.exit(exception=error or EOFError())

    def tell(number: int) -> None:
        ended.append(number)
        if app.loop is not None:
            app.loop.call_soon_threadsafe(end)

    try:
        with signals_held_back(ENDINGS, tell=tell):
            return session.prompt(message, pre_run=begin, **how)
    except OSError as error:
        raise OutputError(f"cannot use the terminal: {error.strerror}") from error


def make_safe_processor() -> "Processor":
    """Return what makes a line safe to show while it is typed, or pasted; it is read as it is."""
    from prompt_toolkit.formatted_text.utils import fragment_list_to_text
    from prompt_toolkit.layout.processors import Processor, Transformation
    from prompt_toolkit.layout.utils import explode_text_fragments

    class SafeProcessor(Processor):
        def apply_transformation(self, given: "TransformationInput") -> "Transformation":
            text = fragment_list_to_text(given.fragments)
            if make_safe(text) == text:
                return Transformation(given.fragments)
            characters = explode_text_fragments(given.fragments)
            shown = [(style, make_safe(character)) for style, character, *_ in characters]
            begins = list(accumulate((len(piece) for _, piece in shown), initial=0))
            return Transformation(
                [*shown],
                source_to_display=lambda place: begins[min(place, len(shown))],
                display_to_source=lambda place: bisect(begins, place) - 1,
            )

    return SafeProcessor()
