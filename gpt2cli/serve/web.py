"""The application: which path leads where, and what is refused on the way."""

import logging
from collections.abc import Callable
from typing import Final

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpt2cli.openai.faults import Fault, explain
from gpt2cli.serve.endpoints import Endpoints
from gpt2cli.serve.guard import Guard
from gpt2cli.serve.http import JSONAnswer
from gpt2cli.serve.metrics import Metrics
from gpt2cli.serve.page import show_page

_log = logging.getLogger(__name__)
_GONE: Final = 499  # nginx's: the client closed the request; no failure of the server
_TOLD: Final = {404: "there is no such path", 405: "this path takes another method"}


def make_app(endpoints: Endpoints, guard: Guard, tell: Callable[[str], object]) -> ASGIApp:
    """Return the application; `tell` gets what failed within it."""
    app: ASGIApp = Starlette(
        routes=[
            Route("/", show_page),
            Route("/options", endpoints.options),
            Route("/health", endpoints.health),
            Route("/v1/models", endpoints.models),
            Route("/v1/models/{name:path}", endpoints.model),
            Route("/metrics", endpoints.show_metrics),
            Route("/tokenize", endpoints.tokenize, methods=["POST"]),
            Route("/detokenize", endpoints.detokenize, methods=["POST"]),
            Route("/gpt2/generate", endpoints.generate, methods=["POST"]),
            Route("/gpt2/cancel", endpoints.cancel, methods=["POST"]),
            Route("/v1/completions", endpoints.complete, methods=["POST"]),
            Route("/v1/chat/completions", endpoints.reply, methods=["POST"]),
        ],
        exception_handlers={
            Fault: _tell_fault,
            HTTPException: _tell_http_fault,
            ClientDisconnect: _note_gone,
            Exception: _tell_fault,
        },
    )
    app = _Guarded(app, guard, endpoints.metrics, tell)
    if guard.form.cors:
        app = CORSMiddleware(
            app,
            allow_origins=guard.form.cors,
            allow_methods=("GET", "POST"),
            allow_headers=("Authorization", "Content-Type"),
        )
    return app


def _answer(fault: Fault) -> Response:
    return JSONAnswer(fault.as_json, fault.status, fault.headers)


async def _tell_fault(request: Request, error: Exception) -> Response:
    return _answer(explain(error))


async def _tell_http_fault(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    fault = Fault(error.status_code, _TOLD.get(error.status_code, error.detail))
    return JSONAnswer(fault.as_json, fault.status, error.headers)


async def _note_gone(request: Request, error: Exception) -> Response:
    return Response(status_code=_GONE)  # for the metrics: nobody reads it


class _Guarded:
    """An application that answers only whom it may; what fails in it is answered too."""

    def __init__(
        self, app: ASGIApp, guard: Guard, metrics: Metrics, tell: Callable[[str], object]
    ) -> None:
        self._app = app
        self._guard = guard
        self._metrics = metrics
        self._tell = tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path, started = scope["path"], False

        async def pass_on(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                self._metrics.count(path, message["status"])
                _log.info("%s %s: %d", scope["method"], path, message["status"])
            await send(message)

        try:
            self._guard.check(path, Headers(scope=scope))
            await self._app(scope, receive, pass_on)
        except TimeoutError:
            return  # nobody reads
        except Exception as error:
            if not isinstance(error, Fault):
                self._tell(f"a request failed: {type(error).__name__}: {error}")
            if not started:
                await _answer(explain(error))(scope, receive, pass_on)
