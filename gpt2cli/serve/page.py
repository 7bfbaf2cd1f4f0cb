"""The page at /: one file, and headers that let it do no more than it must."""

import base64
import functools
import hashlib
import re
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

_FILE: Final = Path(__file__).with_name("page.html")
# The page talks to its own server alone; whatever a model writes, no other script runs in it.
_POLICY: Final = (
    "default-src 'none'; script-src {script}; style-src {style}; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final = {
    "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


async def show_page(request: Request) -> Response:
    """Answer with the page."""
    page = _read_page()
    return HTMLResponse(page, headers={**_HEADERS, "Content-Security-Policy": find_policy(page)})


@functools.cache
def _read_page() -> str:
    return _FILE.read_text(encoding="utf-8")


@functools.cache
def find_policy(page: str) -> str:
    """Return the policy that lets only the page's own script and style work, by their hashes."""
    return _POLICY.format(script=_hash(page, "script"), style=_hash(page, "style"))


def _hash(page: str, element: str) -> str:
    [content] = re.findall(f"<{element}>(.*?)</{element}>", page, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
