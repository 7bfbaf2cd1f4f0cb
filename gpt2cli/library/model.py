"""A model in memory, for Python programs."""

import logging
import os
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final, Self, overload

from gpt2cli.config import DraftConfig, ModelConfig
from gpt2cli.draft_loading import load_with_draft
from gpt2cli.errors import Gpt2Error, UsageError
from gpt2cli.generation.interfaces import Chunk, Finish
from gpt2cli.generation.loop import generate
from gpt2cli.generation.requests import PreparedRequest, choose_seed, make_request, prepare
from gpt2cli.library.options import (
    OF_GENERATING,
    OF_LOADING,
    OF_SCORING,
    LoadConfig,
    read_options,
)
from gpt2cli.library.results import Completion, Score, complete, score_all
from gpt2cli.loading import LoadedModel
from gpt2cli.sampling.random import seed_of
from gpt2cli.settings import Settings

_LOG: Final = logging.getLogger("gpt2cli")


class _Listener:
    """Passes what is told of a model on to `logging`."""

    watched = False

    def note(self, text: str) -> None:
        """Log what the user should read."""
        _LOG.warning(text)

    def stage(self, text: str) -> None:
        """Log what goes on now."""
        _LOG.debug(text)

    def pause(self) -> None:
        """Do nothing: nothing is drawn."""


def load(model: str | os.PathLike[str] | None = None, **options: Any) -> "Model":
    """Load a model by its name or folder; without one `gpt2`, or the starter in its place.

    `options`: revision, adapter, precision, device, threads, offline, draft and the like, and
    batch_size. Notes go to the logger `gpt2cli`.

    Raises:
        UsageError: naming the option that is unknown or wrong.
        ModelError, DeviceError: if the model cannot be had, or cannot run here.
    """
    given = options if model is None else {"model": os.fspath(model), **options}
    settings = read_options(given, OF_LOADING)
    loaded = load_with_draft(
        settings.make(ModelConfig),
        settings.make(DraftConfig),
        max_slots=settings.make(LoadConfig).batch_size,
        listener=_Listener(),
    )
    return Model(loaded)


class Model:
    """A model in memory; as a context manager it is closed at the end.

    Threads take turns. A stream holds the model until it has ended or is closed.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        """Use a model that `load` has loaded."""
        self._loaded: LoadedModel | None = loaded
        self._lock = threading.Lock()
        self._user: int | None = None  # the thread that has the lock

    @overload
    def generate(self, prompt: str, **options: Any) -> Completion: ...
    @overload
    def generate(self, prompt: Iterable[str], **options: Any) -> list[Completion]: ...

    def generate(
        self, prompt: str | Iterable[str], **options: Any
    ) -> Completion | list[Completion]:
        """Complete a prompt; or several, side by side, whose seeds count up as in a batch.

        Raises:
            UsageError: naming the option that is unknown or wrong.
            PromptError: if a prompt is too long, or the options leave nothing to choose.
        """
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        settings = read_options(options, OF_GENERATING)
        with self._using() as loaded:
            requests = _prepare(prompts, settings, loaded)
            texts: list[list[str]] = [[] for _ in prompts]
            finishes: dict[int, Finish] = {}
            for chunk in _run(requests, loaded):
                texts[chunk.index].append(chunk.text)
                if chunk.finish is not None:
                    finishes[chunk.index] = chunk.finish
            made = [
                complete(request, "".join(texts[index]), finishes[index], loaded)
                for index, request in enumerate(requests)
            ]
        return made[0] if isinstance(prompt, str) else made

    def stream(self, prompt: str, **options: Any) -> Iterator[str]:
        """Yield the completion of a prompt piece by piece, as it is made.

        Raises:
            UsageError, PromptError: as `generate`; wrong options at once.
        """
        settings = read_options(options, OF_GENERATING)
        return self._stream(prompt, settings)

    def _stream(self, prompt: str, settings: Settings) -> Iterator[str]:
        with (
            self._using() as loaded,
            closing(_run(_prepare([prompt], settings, loaded), loaded)) as chunks,
        ):
            for chunk in chunks:
                if chunk.text:
                    yield chunk.text

    @overload
    def score(self, text: str, **options: Any) -> Score: ...
    @overload
    def score(self, text: Iterable[str], **options: Any) -> list[Score]: ...

    def score(self, text: str | Iterable[str], **options: Any) -> Score | list[Score]:
        """Return the log-probability of each token of a text; or of several, short ones at once.

        `options`: stride, top, allow_special.

        Raises:
            UsageError: naming the option that is unknown or wrong.
        """
        texts = [text] if isinstance(text, str) else list(text)
        settings = read_options(options, OF_SCORING)
        with self._using() as loaded:
            scores = score_all(texts, settings, loaded)
        return scores[0] if isinstance(text, str) else scores

    def close(self) -> None:
        """Give the model's memory back; it cannot be used any more.

        Raises:
            Gpt2Error: if a stream of this thread has not ended.
        """
        if self._loaded is not None:
            with self._using():
                self._loaded = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @contextmanager
    def _using(self) -> Iterator[LoadedModel]:
        """Have the model for this thread alone."""
        if self._user == threading.get_ident():
            raise Gpt2Error("the model is in use by a stream", "take all of it, or close it, first")
        with self._lock:
            if self._loaded is None:
                raise Gpt2Error("the model is closed", "load it again")
            self._user = threading.get_ident()
            try:
                yield self._loaded
            finally:
                self._user = None


def _prepare(
    prompts: Sequence[str], settings: Settings, loaded: LoadedModel
) -> list[PreparedRequest]:
    own = settings.with_model(loaded.stored.folder.generation_config)
    seed = choose_seed(own)
    requests = [
        make_request(own, prompt, seed=seed_of(seed, index), index=index)
        for index, prompt in enumerate(prompts)
    ]
    limit = loaded.engine.slot_limit
    for beams in (request.search.beams for request in requests):
        if beams > limit:
            expected = f"at most {limit}, the {{batch_size}}"
            raise UsageError(option="beams", expected=expected, found=beams)
    return [prepare(request, loaded.tokenizer, loaded.engine.shape) for request in requests]


def _run(requests: Sequence[PreparedRequest], loaded: LoadedModel) -> Generator[Chunk, None, None]:
    return generate(
        loaded.engine,
        loaded.tokenizer,
        loaded.sampler,
        requests,
        drafting=loaded.drafting,
    )
