"""The socket that the server listens at, and the thread that speaks HTTP there."""

import asyncio
import logging
import math
import os
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from gpt2cli.errors import OutputError, UsageError
from gpt2cli.serve.config import ServeConfig

_BACKLOG: Final = 512
_PRIVATE: Final = 0o177  # the umask that leaves a socket to its owner
_SILENCE: Final = 10  # seconds between lines about connections that fail
_FAREWELL: Final = 5  # seconds for answers to be sent when everything is made


@contextmanager
def listening(form: ServeConfig) -> Iterator[tuple[socket.socket, str]]:
    """Listen; gives the socket and its address in words. A Unix socket's file is gone at the end.

    Raises:
        OutputError: if that is not possible there.
    """
    if form.unix is not None and sys.platform == "win32":
        raise UsageError(option="unix", expected="a system that has Unix sockets")
    if form.unix is not None:
        with _listening_at_file(form.unix) as listener:
            yield listener, f"unix:{form.unix}"
        return
    try:
        family, _, _, _, address = socket.getaddrinfo(
            form.host.strip("[]"), form.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        where = f"{form.host}, port {form.port}"
        raise OutputError(f"cannot listen at {where}: {_find_reason(error)}") from error
    with listener:
        host = f"[{form.host.strip('[]')}]" if ":" in form.host else form.host
        yield listener, f"http://{host}:{listener.getsockname()[1]}"


def _find_reason(error: OSError) -> str:
    """Return the system's words, to which asyncio and socket add the address."""
    is_known = error.errno is not None and not isinstance(error, socket.gaierror)
    return os.strerror(error.errno or 0) if is_known else str(error.strerror or error)


@contextmanager
def _listening_at_file(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            _remove_stale(path)
            before = os.umask(_PRIVATE)  # so that it is nobody else's at any time
            try:
                listener.bind(str(path))
            finally:
                os.umask(before)
            listener.listen(_BACKLOG)
        except OSError as error:
            raise OutputError(f"cannot listen at {path}: {_find_reason(error)}") from error
        own = path.stat().st_ino
        try:
            yield listener
        finally:
            with suppress(OSError):
                if path.stat().st_ino == own:
                    path.unlink()


def _remove_stale(path: Path) -> None:
    """Remove a socket that nobody listens at, as a server leaves it that was killed."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise OutputError(f"cannot listen at {path}: it is there, and no socket")
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()


class Speaker:
    """Speaks HTTP on a thread of its own; as a context manager, until the end of the block."""

    def __init__(
        self,
        listener: socket.socket,
        make_app: Callable[[], ASGIApp],
        tell: Callable[[str], object] = lambda text: None,
    ) -> None:
        """`tell` gets what fails outside of a request."""
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL + 1)  # it is told otherwise
        self._listener = listener
        self._make_app = make_app
        self._tell = tell
        self._told_at = -math.inf  # by the loop's clock
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._hear)
        self._server: uvicorn.Server | None = None
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def call_soon(self, function: Callable[[], object]) -> None:
        """Have the event loop call a function; at the end nothing happens."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def __enter__(self) -> "Speaker":
        config = uvicorn.Config(
            self._make_app(),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_FAREWELL,
        )
        self._server = uvicorn.Server(config)
        self._thread.start()
        return self

    def _hear(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """Tell now and then what asyncio would log with a traceback, for each socket in the queue.

        Python 3.11 does that some hundred times a second while no file can be opened; a stderr that
        nobody reads would be full, and writing there would wait for ever.
        """
        if loop.time() - self._told_at < _SILENCE:
            return
        self._told_at = loop.time()
        error = context.get("exception")
        reason = _find_reason(error) if isinstance(error, OSError) else context["message"]
        self._tell(f"a connection failed: {reason}")

    def _run(self) -> None:
        assert self._server is not None
        # It ends every task that is left.
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._server.serve([self._listener]))

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        assert self._server is not None
        self._server.should_exit = True
        self._server.force_exit = kind is not None
        self._thread.join(2 * _FAREWELL if kind is None else 1)
