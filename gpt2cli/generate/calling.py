"""Speaks HTTP with a server of ours, at a URL or a Unix socket."""

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from export.small_files import ReadError, parse_json, read_text
from gpt2cli.errors import ServerError, UsageError, shorten
from gpt2cli.user_settings import read_variable, variable_of

_OK: Final = 200
_KEY: Final = "api_key"
_REACHING: Final = 10.0  # seconds
_MOST_QUOTED: Final = 1000  # characters of an error
_MOST_TOLD: Final = 1 << 20  # bytes of an error
_QUIET: Final = 60  # seconds without a byte, after which TCP asks whether the other side is there
_KEEPALIVE: Final = ("TCP_KEEPIDLE", "TCP_KEEPALIVE")  # Linux, macOS


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    told: str  # as the user gave it
    secure: bool = False
    host: str = "localhost"  # with its port
    path: str = ""  # before those of the server
    file: str = ""  # a Unix socket, in place of the host


class RefusalError(ServerError):
    """An answer that is an error: its status, and its body."""

    def __init__(self, fault: str, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(fault)
        self.status = status
        self.body = body


def find_address(server: str) -> Address:
    """Return the address of a URL or of unix:FILE.

    Raises:
        UsageError: if its port is none.
    """
    if server.startswith("unix:"):
        return Address(server, file=str(Path(server.removeprefix("unix:")).expanduser()))
    parts = urlsplit(server)
    try:
        _ = parts.port
    except ValueError as error:
        raise UsageError(option="server", expected="a port 0 to 65535", found=server) from error
    return Address(server, parts.scheme == "https", parts.netloc, parts.path.rstrip("/"))


def read_key(path: Path | None) -> str | None:
    """Return the key of a file's first line, or of the variable; None if there is neither.

    Raises:
        UsageError: if the file cannot be read, or the key is none that HTTP can send.
    """
    if path is None:
        key, where = read_variable(_KEY), variable_of(_KEY)
    else:
        try:
            key, where = read_text(path, pipes=True).strip().partition("\n")[0].strip(), str(path)
        except ReadError as error:
            raise UsageError(f"{path} {error}", option="api_key_file") from error
    if key is not None and not (key and key.isascii() and key.isprintable()):
        expected = f"a key of printable ASCII in {where}"  # the key itself is never shown
        raise UsageError(option="api_key_file", expected=expected)
    return key


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, file: str) -> None:
        super().__init__("localhost", timeout=_REACHING)
        self._file = file

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._file)


@dataclass(frozen=True, slots=True)
class Caller:
    """Sends requests to a server, each on a connection of its own."""

    address: Address
    key: str | None

    @contextmanager
    def ask(self, path: str, content: Any = None) -> Iterator[http.client.HTTPResponse]:
        """Send a request, with content as JSON by POST; gives the answer, to be read.

        Raises:
            ServerError: if the server cannot be reached, or is none.
            RefusalError: if it answers with an error.
        """
        connection = self._connect()
        try:
            with self._translating():
                connection.connect()
                _keep_alive(connection.sock)
            with self._translating():
                body = None if content is None else json.dumps(content).encode()
                method = "GET" if body is None else "POST"
                connection.request(method, self.address.path + path, body, self._headers())
                connection.sock.settimeout(None)  # a request may wait for its turn
                response = connection.getresponse()
            with response:
                if response.status != _OK:
                    raise self._refuse(response)
                yield response
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        if self.address.file:
            return _UnixConnection(self.address.file)
        kind = http.client.HTTPSConnection if self.address.secure else http.client.HTTPConnection
        return kind(self.address.host, timeout=_REACHING)

    def _headers(self) -> Mapping[str, str]:
        own = {"Content-Type": "application/json"}
        return own if self.key is None else {**own, "Authorization": f"Bearer {self.key}"}

    @contextmanager
    def _translating(self) -> Iterator[None]:
        told = self.address.told
        try:
            yield
        except (ConnectionRefusedError, FileNotFoundError) as error:
            raise ServerError(f"no server listens at {told}", "`gpt2 serve` starts one") from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise ServerError(f"the server at {told} cannot be reached: {reason}") from error
        except http.client.HTTPException as error:
            raise self.foreign() from error

    def quote(self, body: Mapping[str, Any]) -> str:
        """Return what the server says is wrong.

        Raises:
            LookupError, TypeError: if it says nothing.
        """
        line = " ".join(str(body["error"]["message"]).split())
        told = line if len(line) <= _MOST_QUOTED else shorten(line)
        return f"the server at {self.address.told}: {told}"

    def foreign(self) -> ServerError:
        """Return the error about what is no server of ours."""
        return ServerError(f"what listens at {self.address.told} is no `gpt2 serve`")

    def _refuse(self, response: http.client.HTTPResponse) -> ServerError:
        try:
            body = parse_json(response.read(_MOST_TOLD))
            told = self.quote(body)
        except (ReadError, LookupError, TypeError):
            return self.foreign()
        if response.status == 401:
            kind = "the key" if self.key else "a request without a key"
            fault = f"the server at {self.address.told} refuses {kind}"
            error = RefusalError(fault, response.status, body)
            error.advice = f"give one by {{api_key_file}} or {variable_of(_KEY)}"
            return error
        return RefusalError(told, response.status, body)


def _keep_alive(connected: socket.socket) -> None:
    """Have the system notice that the other machine is gone, while nothing comes."""
    if connected.family == getattr(socket, "AF_UNIX", None):
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in _KEEPALIVE:
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), _QUIET)
