"""The endpoints: each takes a request and answers it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor
from contextlib import aclosing
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from starlette.requests import Request
from starlette.responses import Response

from gpt2cli.errors import Gpt2Error
from gpt2cli.loading import LoadedModel
from gpt2cli.model_folder import digest_source
from gpt2cli.openai.answers import Answer
from gpt2cli.openai.asking import Ask, read_ask
from gpt2cli.openai.chatting import read_chat_ask
from gpt2cli.openai.faults import Fault, explain
from gpt2cli.openai.fields import Fields, read_object
from gpt2cli.openai.pieces import Results
from gpt2cli.openai.replies import ChatAnswer
from gpt2cli.serve.http import EventStream, JSONAnswer, read_body, wait_until_gone
from gpt2cli.serve.jobs import Job
from gpt2cli.serve.metrics import CONTENT_TYPE, Metrics
from gpt2cli.serve.offered import describe_options
from gpt2cli.serve.own import LineStream, OwnAsk, read_identity, read_own, tell_error, tell_own
from gpt2cli.serve.service import Service
from gpt2cli.serve.tokenizing import detokenize, tokenize

PATHS: Final = (
    *("/", "/options", "/health", "/metrics", "/tokenize", "/detokenize"),
    *("/v1/models", "/v1/completions", "/v1/chat/completions"),
    *("/gpt2/generate", "/gpt2/cancel"),
)

T = TypeVar("T")
A = TypeVar("A", Ask, OwnAsk)
Begin = Callable[[bytes, Service], tuple[Ask, Answer]]


class Endpoints:
    """Answers requests; until the model is there, only how far that is."""

    def __init__(self, executor: Executor) -> None:
        """`executor`: where requests are prepared, so that nobody else waits for that."""
        self.service: Service | None = None  # None: the model is loading
        self.metrics = Metrics(PATHS)
        self._executor = executor
        self._own: WeakValueDictionary[str, Job] = WeakValueDictionary()  # by their clients' names

    async def health(self, request: Request) -> Response:
        """Tell whether the model is there."""
        ready = self.service is not None
        status = "ready" if ready else "loading"
        return JSONAnswer({"status": status}, 200 if ready else 503)

    async def models(self, request: Request) -> Response:
        """List the one model."""
        return JSONAnswer({"object": "list", "data": [describe_model(self._find_service())]})

    async def model(self, request: Request) -> Response:
        """Describe the model by its name."""
        service = self._find_service()
        service.check_model(request.path_params["name"])
        return JSONAnswer(describe_model(service))

    async def options(self, request: Request) -> Response:
        """Tell the page at / what a request may ask for."""
        service = self._find_service()
        told = {"model": describe_model(service), "options": describe_options(service)}
        return JSONAnswer(told)

    async def show_metrics(self, request: Request) -> Response:
        """Tell what was done, to Prometheus."""
        return Response(self.metrics.show(self.service), media_type=CONTENT_TYPE)

    async def tokenize(self, request: Request) -> Response:
        """Turn a text into ids."""
        return await self._answer_at_once(request, tokenize)

    async def detokenize(self, request: Request) -> Response:
        """Turn ids into text."""
        return await self._answer_at_once(request, detokenize)

    async def _answer_at_once(
        self, request: Request, function: Callable[[bytes, Service], Any]
    ) -> Response:
        service = self._find_service()
        return JSONAnswer(await self._run(function, await read_body(request), service))

    async def complete(self, request: Request) -> Response:
        """Complete prompts."""
        return await self._make(request, _begin_completions)

    async def reply(self, request: Request) -> Response:
        """Reply in a chat."""
        return await self._make(request, _begin_reply)

    async def _make(self, request: Request, begin: Begin) -> Response:
        service = self._find_service()
        (ask, answer), _, results = await self._begin(request, begin, service)
        first = await anext(results)  # what is wrong by then still has a status of its own
        if ask.form.stream:
            return EventStream(_stream(answer, first, results))
        async with aclosing(results):
            answer.add(*first)
            async for some in results:
                answer.add(*some)
        return JSONAnswer(answer.finish())

    async def generate(self, request: Request) -> Response:
        """Complete a prompt for `gpt2 generate --server`."""
        try:
            service = self._find_service()
            (ask, model), job, results = await self._begin(request, _begin_own, service)
            if ask.identity:
                self._own[ask.identity] = job
            first = await anext(results)
        except (Fault, Gpt2Error) as error:
            fault = explain(error)
            return JSONAnswer(tell_error(error), fault.status, fault.headers)
        return LineStream(tell_own(ask, model, first, results))

    async def cancel(self, request: Request) -> Response:
        """End what `gpt2 generate --server` has begun, with what there is."""
        service = self._find_service()
        identity = read_identity(Fields(read_object(await read_body(request)), {}))
        job = self._own.get(identity)
        if job is not None:
            service.runner.withdraw(job)
        return JSONAnswer({"cancelled": job is not None})

    async def _begin(
        self, request: Request, begin: Callable[[bytes, Service], tuple[A, T]], service: Service
    ) -> tuple[tuple[A, T], Job, AsyncGenerator[Results]]:
        data = await read_body(request)
        with service.runner.place() as submit:
            begun = await self._run(begin, data, service)
            job = Job(begun[0].prompts, scored=begun[0].scored)
            submit(job)
        watcher = asyncio.create_task(self._watch(request, job, service))
        return begun, job, _follow(job, service, watcher)

    async def _run(self, function: Callable[..., T], *arguments: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, function, *arguments)

    def _find_service(self) -> Service:
        if self.service is None:
            raise Fault(503, "the model is loading; try again soon", code="loading")
        return self.service

    async def _watch(self, request: Request, job: Job, service: Service) -> None:
        await wait_until_gone(request.receive)
        service.runner.withdraw(job)


def _begin_completions(data: bytes, service: Service) -> tuple[Ask, Answer]:
    ask = read_ask(read_object(data), service)
    return ask, Answer(ask, service.model)


def _begin_reply(data: bytes, service: Service) -> tuple[Ask, Answer]:
    ask = read_chat_ask(read_object(data), service)
    return ask, ChatAnswer(ask, service.model)


def _begin_own(data: bytes, service: Service) -> tuple[OwnAsk, LoadedModel]:
    return read_own(data, service), service.model


def describe_model(service: Service) -> dict[str, Any]:
    """Return a model as OpenAI's API lists it, and what else clients want to know."""
    stored, engine = service.model.stored, service.model.engine
    return {
        "id": stored.name,
        "object": "model",
        "created": service.created,
        "owned_by": "gpt2",
        "max_model_len": engine.shape.n_positions,
        "precision": stored.folder.precision,
        "device": str(engine.device),
        "fingerprint": stored.folder.fingerprint,
        # For `gpt2 generate --server` to compare.
        "title": stored.title,
        "source": digest_source(stored.folder.source),
        "asked": service.asked.names,
        "generation_config": stored.folder.generation_config,
    }


async def _follow(
    job: Job, service: Service, watcher: "asyncio.Task[None]"
) -> AsyncGenerator[Results]:
    """Yield a job's results; however that ends, the job does too."""
    try:
        async for some in job.results():
            yield some
    except Exception as error:
        raise explain(error) from error
    finally:
        watcher.cancel()
        service.runner.withdraw(job)


async def _stream(
    answer: Answer, first: Results, others: AsyncGenerator[Results]
) -> AsyncGenerator[Any]:
    async with aclosing(others):
        yield answer.take(answer.add(*first))
        async for some in others:
            yield answer.take(answer.add(*some))
    if answer.last is not None:
        yield answer.last
