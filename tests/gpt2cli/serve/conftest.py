"""A server of the starter without a socket: its application, its runner on a thread."""

import asyncio
import pathlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from gpt2cli.config import OF_A_PROMPT, ModelConfig
from gpt2cli.conversations.config import FormConfig
from gpt2cli.conversations.replies import open_chat
from gpt2cli.declarations import options_of
from gpt2cli.loading import LoadedModel, load_model
from gpt2cli.serve.config import ServeConfig
from gpt2cli.serve.endpoints import Endpoints
from gpt2cli.serve.guard import Guard, read_keys
from gpt2cli.serve.runner import Runner
from gpt2cli.serve.service import Service
from gpt2cli.serve.web import make_app
from gpt2cli.settings import Settings
from gpt2cli.terminal.notes import Notes
from tests.gpt2cli.serve.asgi import Reply, ask
from tests.gpt2cli.store.conftest import Told

T = TypeVar("T")


class Site:
    """An application in an event loop of its own, with a model or while it loads."""

    def __init__(self, model: LoadedModel | None, **options: Any) -> None:
        self.told: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._executor = ThreadPoolExecutor(2)
        form = ServeConfig(**options)
        self._endpoints = Endpoints(self._executor)
        self.app = make_app(self._endpoints, Guard(form, read_keys(form)), self.told.append)
        threads: list[Callable[[], object]] = [self._loop.run_forever]
        if model is not None:
            self.service = self._open(model, form)
            self._endpoints.service = self.service
            threads.append(self.service.runner.run)
        self._threads = [threading.Thread(target=run, daemon=True) for run in threads]
        for thread in self._threads:
            thread.start()

    def _open(self, model: LoadedModel, form: ServeConfig) -> Service:
        runner = Runner(
            model.engine,
            model.tokenizer,
            model.sampler,
            call_soon=self._loop.call_soon_threadsafe,
            max_waiting=form.max_waiting,
            tell=self.told.append,
        )
        options = {o.field: o for group in OF_A_PROMPT for o in options_of(group)}
        options["max_new_tokens"] = replace(options["max_new_tokens"], default=16)
        own = Settings(options, ({},)).with_model(model.stored.folder.generation_config)
        names = {model.stored.name, "alias"}
        chat = open_chat(FormConfig(), model.stored.folder, Notes().note)
        return Service(model, own, form, runner, chat, names)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the event loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def ask(self, path: str, content: Any = None, **how: Any) -> Reply:
        """Send one request; see `asgi.ask`."""
        return self.run(ask(self.app, path, content, **how))

    def complete(self, **fields: Any) -> Any:
        """Return the answer to a request for completions, which must be right."""
        reply = self.ask("/v1/completions", fields)
        assert reply.status == 200, reply.body
        return reply.json

    def close(self) -> None:
        """End; nothing may be left running."""
        if len(self._threads) > 1:
            self.service.runner.end(10)
            self._threads[1].join(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._threads[0].join(20)
        self._loop.close()
        self._executor.shutdown()


def load(folder: pathlib.Path) -> LoadedModel:
    """Load a model with four slots; no two servers may share one."""
    config = ModelConfig(model=str(folder), device="cpu", threads=1, offline=True)
    return load_model(config, max_slots=4, listener=Told())


@pytest.fixture(scope="session")
def site(starter_folder: pathlib.Path) -> Iterator[Site]:
    """Return a server that all tests share."""
    shared = Site(load(starter_folder))
    yield shared
    shared.close()


@pytest.fixture
def open_site() -> Iterator[Callable[..., Site]]:
    """Return what opens a server of the test's own."""
    opened: list[Site] = []

    def open_one(model: LoadedModel | None = None, **options: Any) -> Site:
        opened.append(Site(model, **options))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()
