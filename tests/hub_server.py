"""A local server that speaks the hub's protocol as far as a download needs it, with faults.

As on the hub, a file is asked for at `/REPO/resolve/REVISION/NAME`; weights are answered by a
redirect to another address (there a CDN's) that takes ranges.
"""

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

COMMIT: Final = "0123456789abcdef0123456789abcdef01234567"
OTHER_COMMIT: Final = "fedcba9876543210fedcba9876543210fedcba98"

_LARGE: Final = (".safetensors", ".bin")
_PIECE: Final = 4096


@dataclass
class HubServer:
    """Serves folders as repositories at one commit, and keeps what was asked of it."""

    address: str
    repositories: dict[str, Path]
    commit: str = COMMIT
    requests: list[str] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)  # the User-Agent of each request
    tokens: list[str] = field(default_factory=list)  # the Authorization of each request
    ranges: list[str] = field(default_factory=list)  # those that were asked for of large files
    refusal: tuple[int, str] | None = None  # an HTTP status and X-Error-Code for every request
    page: bytes | None = None  # of HTML, with which every request is answered
    missing: set[str] = field(default_factory=set)  # names that are listed but answered by 404
    cut_after: int | None = None  # bytes of a large file after which the connection is closed
    piece_seconds: float = 0.0  # how long each piece of a large file takes
    answer_seconds: float = 0.0  # how long every answer takes to begin


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return

    def _answer(self, *, with_body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        self.hub.agents.append(self.headers.get("User-Agent", ""))
        self.hub.tokens.append(self.headers.get("Authorization", ""))
        time.sleep(self.hub.answer_seconds)
        if self.hub.refusal is not None:
            self._refuse(*self.hub.refusal)
            return
        if self.hub.page is not None:
            self._send(200, self.hub.page, {"Content-Type": "text/html"}, with_body)
            return
        for repo, folder in self.hub.repositories.items():
            if re.fullmatch(rf"/api/models/{repo}/revision/.+", path):
                self._send_json(self._describe(repo, folder), with_body)
            elif path.startswith(f"/{repo}/resolve/"):
                self._resolve(folder / path.rpartition("/")[2], with_body)
            elif path.startswith(f"/cdn/{repo}/"):
                self._send_large(folder / path.rpartition("/")[2])
            else:
                continue
            return
        self._refuse(404, "RepoNotFound")

    def _describe(self, repo: str, folder: Path) -> dict[str, object]:
        siblings = [
            {
                "rfilename": p.relative_to(folder).as_posix(),
                "size": p.stat().st_size,
                "blobId": _git_oid(p),
                "lfs": _lfs(p),
            }
            for p in sorted(folder.rglob("*"))
            if p.is_file()
        ]
        return {"id": repo, "sha": self.hub.commit, "siblings": siblings}

    def _resolve(self, path: Path, with_body: bool) -> None:
        if path.name in self.hub.missing or not path.is_file():
            self._refuse(404, "EntryNotFound")
            return
        headers = {"ETag": f'"{_etag(path)}"', "X-Repo-Commit": self.hub.commit}
        if path.suffix not in _LARGE:
            self._send(200, path.read_bytes(), headers, with_body)
            return
        repo = next(repo for repo, folder in self.hub.repositories.items() if folder == path.parent)
        headers |= {
            # Another host, as the CDN is: huggingface_hub itself follows redirects within one host.
            "Location": self.hub.address.replace("127.0.0.1", "localhost")
            + f"/cdn/{repo}/{path.name}",
            "X-Linked-ETag": headers["ETag"],
            "X-Linked-Size": str(path.stat().st_size),
        }
        self._send(302, b"", headers, with_body)

    def _send_large(self, path: Path) -> None:
        content = path.read_bytes()
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        self.hub.ranges += [asked[0]] if asked else []
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("ETag", f'"{_etag(path)}"')
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = len(content) if self.hub.cut_after is None else min(self.hub.cut_after, len(content))
        for place in range(start, end, _PIECE):
            self.wfile.write(content[place : min(place + _PIECE, end)])
            time.sleep(self.hub.piece_seconds)
        if end < len(content):
            self.close_connection = True

    def _send_json(self, value: object, with_body: bool) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"}, with_body)

    def _refuse(self, status: int, code: str) -> None:
        self._send(status, b"{}", {"X-Error-Code": code} if code else {}, with_body=True)

    def _send(self, status: int, body: bytes, headers: dict[str, str], with_body: bool) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body and self.command != "HEAD":
            self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet of clients that were killed on purpose."""


@contextmanager
def serve_hub(repositories: dict[str, Path]) -> Iterator[HubServer]:
    """Serve on a free port of this machine until the block ends."""

    class Handler(_Handler):
        """Of this server alone, so that several can run at once."""

    with _Server(("127.0.0.1", 0), Handler) as server:
        hub = HubServer(f"http://127.0.0.1:{server.server_port}", repositories)
        Handler.hub = hub
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()


def _etag(path: Path) -> str:
    if path.suffix not in _LARGE:
        return _git_oid(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _lfs(path: Path) -> dict[str, object] | None:
    if path.suffix not in _LARGE:
        return None
    return {"sha256": _etag(path), "size": path.stat().st_size, "pointerSize": 134}


def _git_oid(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
