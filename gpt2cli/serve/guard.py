"""Who may ask: the names that the server has, the pages that may use it, and its keys."""

import hmac
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from export.small_files import ReadError, read_text
from gpt2cli.errors import UsageError
from gpt2cli.openai.faults import Fault
from gpt2cli.serve.config import ServeConfig

OPEN_PATHS: Final = ("/", "/health")  # that hold nothing to protect


def read_keys(form: ServeConfig) -> tuple[bytes, ...]:
    """Return the keys that the options name.

    Raises:
        UsageError: if their file cannot be read, or has none.
    """
    keys = list(form.api_key)
    if form.api_key_file is not None:
        keys += _read_key_file(form.api_key_file)
    for key in keys:
        if not (key.isascii() and key.isprintable() and key.strip() == key):
            expected = "keys of printable ASCII"  # the key itself is never shown
            raise UsageError(option="api_key", expected=expected, found="other characters")
    return tuple(key.encode() for key in keys)


def _read_key_file(path: Path) -> Sequence[str]:
    try:
        keys = [line.strip() for line in read_text(path, pipes=True).splitlines()]
    except ReadError as error:
        raise UsageError(f"{path} {error}", option="api_key_file") from error
    keys = [key for key in keys if key]
    if not keys:
        raise UsageError(f"{path} has no key", option="api_key_file")
    return keys


def _read_host(address: str) -> str:
    """Return the name in an address without its port; empty if that is none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:  # brackets that do not close
        return ""


@dataclass(frozen=True, slots=True)
class Guard:
    """Lets a request pass, or refuses it.

    A page in a browser can send requests to this machine: by a name of its own that leads here
    (DNS rebinding), or by ours from another origin. Both are refused, unless --cors names it.
    """

    form: ServeConfig
    keys: Sequence[bytes] = field(repr=False)

    def check(self, path: str, headers: Headers) -> None:
        """Check a request.

        Raises:
            Fault: if it may not pass.
        """
        if self.form.unix is None and not self.keys:
            self._check_host(headers.get("host", ""))
        self._check_origin(headers)
        if self.keys and path not in OPEN_PATHS:
            self._check_key(headers.get("authorization", ""))

    def _check_host(self, host: str) -> None:
        name = _read_host(f"//{host}") if host else None
        if name is None or name in ("localhost", self.form.host, socket.gethostname().lower()):
            return
        try:
            ipaddress.ip_address(name)
        except ValueError as error:
            raise Fault(403, "the Host header names another server than this one") from error

    def _check_origin(self, headers: Headers) -> None:
        origin = headers.get("origin")
        if origin is None or origin in self.form.cors or "*" in self.form.cors:
            return
        if origin.partition("://")[2] != headers.get("host"):
            raise Fault(403, "pages of this origin may not use the server; --cors lets them")

    def _check_key(self, given: str) -> None:
        scheme, _, key = given.partition(" ")
        sent = key.strip().encode("latin-1", "replace")
        found = [hmac.compare_digest(sent, known) for known in self.keys]  # all, for equal time
        if scheme.lower() != "bearer" or not any(found):
            told = "expected the header Authorization: Bearer KEY with a key of this server"
            raise Fault(401, told, code="invalid_api_key")
