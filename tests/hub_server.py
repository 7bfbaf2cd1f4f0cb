"""A local server that speaks the hub's protocol as far as a download needs it."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class HubServer:
    """Serves folders as repositories at one commit, and keeps what was asked of it."""

    address: str
    repositories: dict[str, Path]
    commit: str = COMMIT
    requests: list[str] = field(default_factory=list)
    refusal: tuple[int, str] | None = None  # an HTTP status and X-Error-Code for every request


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
        if self.hub.refusal is not None:
            self._send_error(*self.hub.refusal)
            return
        for repo, folder in self.hub.repositories.items():
            if path.startswith(f"/api/models/{repo}/revision/") or path == f"/api/models/{repo}":
                self._send_json(self._describe(repo, folder), with_body)
                return
            if path == f"/api/models/{repo}/tree/{self.hub.commit}":
                self._send_json(self._list_tree(folder), with_body)
                return
            if path.startswith(f"/{repo}/resolve/"):
                name = path.removeprefix(f"/{repo}/resolve/").partition("/")[2]
                self._send_file(folder / name, with_body)
                return
        self._send_error(404, "RepoNotFound")

    def _describe(self, repo: str, folder: Path) -> dict[str, object]:
        files = sorted(p.name for p in folder.iterdir())
        return {"id": repo, "sha": self.hub.commit, "siblings": [{"rfilename": n} for n in files]}

    def _list_tree(self, folder: Path) -> list[dict[str, object]]:
        return [
            {"type": "file", "path": p.name, "size": p.stat().st_size, "oid": _git_oid(p)}
            for p in sorted(folder.iterdir())
        ]

    def _send_json(self, value: object, with_body: bool) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"}, with_body)

    def _send_file(self, path: Path, with_body: bool) -> None:
        content = path.read_bytes()
        etag = hashlib.sha256(content).hexdigest()
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": self.hub.commit}
        self._send(200, content, headers, with_body)

    def _send_error(self, status: int, code: str) -> None:
        self._send(status, b"{}", {"X-Error-Code": code}, True)

    def _send(self, status: int, body: bytes, headers: dict[str, str], with_body: bool) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)


def _git_oid(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@contextmanager
def serve_hub(repositories: dict[str, Path]) -> Iterator[HubServer]:
    """Serve on a free port of this machine until the block ends."""
    handler = type("Handler", (_Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        hub = HubServer(f"http://127.0.0.1:{server.server_port}", repositories)
        handler.hub = hub
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
