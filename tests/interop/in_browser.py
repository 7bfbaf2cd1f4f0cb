"""Continues prompts by transformers.js in Chromium: `in_browser.py FOLDER COUNT PROMPT...`.

Prints JSON as with_optimum does, without `together`. NODE_MODULES is the folder of the installed
package; with SCREENSHOT the page at its end goes to that file. Everything comes from a server on
this machine; the browser is told to reach no other.
"""

import functools
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
from typing import Final

_HERE: Final = pathlib.Path(__file__).parent
_LIMIT: Final = 900.0  # seconds

# The page's address -> the file. ONNX Runtime's files lie flat in one folder.
_PACKAGE: Final = "@huggingface/transformers/dist/transformers.min.js"
_RUNTIME: Final = "onnxruntime-web/dist"


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves the page, the package and the model; `/wait` answers when the page has told all."""

    protocol_version = "HTTP/1.1"

    def __init__(
        self, *of_socket: object, task: str, folder: pathlib.Path, node: pathlib.Path, told: "Told"
    ) -> None:
        self._task, self._folder, self._node, self._told = task, folder, node, told
        super().__init__(*of_socket)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """Answer with a file, or 404; transformers.js asks for some that a model may lack."""
        path = self.path.partition("?")[0]
        if path == "/wait":  # an image of the page: its load event, and so the screenshot, waits
            self._told.done.wait(_LIMIT)
            self._answer(b"", "image/png")
        elif path == "/task":
            self._answer(self._task.encode(), "application/json")
        else:
            file = self._find(path)
            self._answer(file.read_bytes() if file.is_file() else None, _type_of(file))

    def do_HEAD(self) -> None:
        """Answer as for GET, without the content."""
        self.do_GET()

    def do_POST(self) -> None:
        """Keep what the page tells."""
        self._told.text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._answer(b"", "text/plain")
        self._told.done.set()

    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""

    def _find(self, path: str) -> pathlib.Path:
        if path == "/":
            return _HERE / "page.html"
        if path == "/transformers.js":
            return self._node / _PACKAGE
        if path.startswith("/model/"):
            return self._folder / path.removeprefix("/model/")
        return self._node / _RUNTIME / pathlib.Path(path).name

    def _answer(self, content: bytes | None, kind: str) -> None:
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content or b"")


class Told:
    """What the page has told."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.text = ""


def _type_of(file: pathlib.Path) -> str:
    kinds = {".html": "text/html; charset=utf-8", ".wasm": "application/wasm"}
    script = file.suffix in (".js", ".mjs")
    return "text/javascript" if script else kinds.get(file.suffix, "application/octet-stream")


def run(folder: pathlib.Path, count: int, prompts: list[str]) -> str:
    """Return what the page told; an empty text if it told nothing."""
    node, told = pathlib.Path(os.environ["NODE_MODULES"]), Told()
    task = json.dumps({"count": count, "prompts": prompts})
    handler = functools.partial(Handler, task=task, folder=folder, node=node, told=told)
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        tempfile.TemporaryDirectory() as profile,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        picture = os.environ.get("SCREENSHOT") or f"{profile}/page.png"
        command = [
            shutil.which("chromium") or "chromium",
            *("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"),
            *("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--disable-sync"),
            *("--window-size=900,700", "--hide-scrollbars", f"--screenshot={picture}"),
            f"http://127.0.0.1:{server.server_port}/",
        ]
        subprocess.run(command, timeout=_LIMIT, check=True, capture_output=True)
        server.shutdown()
    return told.text


if __name__ == "__main__":
    print(run(pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
