"""A server of the starter, and a person before its page, for use_page."""

import json
import pathlib
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from playwright.sync_api import Browser, ConsoleMessage, Page, expect

LIMIT: Final = 60_000  # milliseconds
PHONE: Final[dict[str, Any]] = {
    "viewport": {"width": 375, "height": 740},
    "has_touch": True,
    "is_mobile": True,
}
_WIDE: Final[dict[str, Any]] = {"viewport": {"width": 1280, "height": 900}}
# The contrast ratio of WCAG between the text and the nearest background behind it.
CONTRAST: Final = """element => {
  const read = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  let behind = element;
  while (read(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
  const [a, b] = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor]
    .map((colour) => light(read(colour)));
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""


class Server:
    """`gpt2 serve` with the starter."""

    def __init__(self, *options: str) -> None:
        command = ["gpt2", "serve", "-m", "starter", "--port", "0"]
        self._process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        for line in self._process.stderr:
            found = re.search(r" at (http://\S+)$", line)
            if found:
                self.address = found[1]
                return
        raise RuntimeError("the server did not start")

    def end(self, number: int = signal.SIGTERM) -> None:
        """End it by a signal, and wait for that."""
        self._process.send_signal(number)
        self._process.wait(60)


@contextmanager
def serving(*options: str) -> Iterator[Server]:
    """Give a server, which is ended afterwards."""
    server = Server(*options)
    try:
        yield server
    finally:
        server.end()


class User:
    """A person before the page."""

    def __init__(self, browser: Browser, address: str, **options: Any) -> None:
        self._context = browser.new_context(**{**_WIDE, **options})
        self.page: Page = self._context.new_page()
        self.page.set_default_timeout(LIMIT)
        self.complaints: list[str] = []
        self.addresses: set[str] = set()
        self.page.on("console", self._take_message)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.addresses.add(request.url))
        self.address = address

    def _take_message(self, message: ConsoleMessage) -> None:
        if "Failed to load resource" not in message.text:  # which a refused request is
            self.complaints.append(message.text)

    def come(self) -> None:
        """Open the page, and wait until it knows the model."""
        self.page.goto(self.address)
        expect(self.page.locator("#model")).to_contain_text("starter", timeout=LIMIT)

    def set(self, **options: Any) -> None:
        """Set options, in sections that may be closed."""
        for name, value in options.items():
            control = self.page.locator(f"#option-{name}")
            control.evaluate("e => { for (; e; e = e.parentElement) if ('open' in e) e.open = 1 }")
            if isinstance(value, bool):
                control.set_checked(value)
            elif control.evaluate("e => e.tagName") == "SELECT":
                control.select_option(value)
            else:
                control.fill(value)

    def type(self, prompt: str) -> None:
        """Type a prompt and begin."""
        self.page.fill("#prompt", prompt)
        self.page.keyboard.press("Control+Enter")

    def wait_for(self, words: str) -> None:
        """Wait until the status says so."""
        expect(self.page.locator("#status")).to_contain_text(words, timeout=LIMIT)

    def complete(self, prompt: str, **options: Any) -> str:
        """Return what the page shows as the completion of a prompt."""
        self.set(**options)
        self.type(prompt)
        self.wait_for("done")
        return self.text

    @property
    def text(self) -> str:
        """The text of the tokens that are shown."""
        return "".join(self.page.locator(".token:not(.prompt)").all_text_contents())

    @property
    def fault(self) -> str:
        """The error that is shown."""
        expect(self.page.locator("#fault")).not_to_be_empty(timeout=LIMIT)
        return self.page.inner_text("#fault")

    def leave(self) -> None:
        """Close the page; nothing may have been wrong with it."""
        assert self.complaints == [], self.complaints
        foreign = {url for url in self.addresses if not url.startswith((self.address, "data:"))}
        assert not foreign, foreign
        self._context.close()


@contextmanager
def using(browser: Browser, server: Server, **options: Any) -> Iterator[User]:
    """Give somebody who has opened the page."""
    user = User(browser, server.address, **options)
    user.come()
    yield user
    user.leave()


def generate(prompt: str, *options: str) -> str:
    """Return the completion that `gpt2 generate` writes."""
    command = ["gpt2", "generate", "-q", "-m", "starter", "--json"]
    done = subprocess.run(
        [*command, *options, "--", prompt], capture_output=True, text=True, check=True
    )
    return str(json.loads(done.stdout)["completion"])


def take_pictures(browser: Browser, server: Server, folder: pathlib.Path) -> None:
    """Leave screenshots: light, dark, narrow; with alternatives, with options, with an error."""
    folder.mkdir(parents=True, exist_ok=True)
    forms = {"light": {}, "dark": {"color_scheme": "dark"}, "narrow": PHONE}
    for name, options in forms.items():
        with using(browser, server, reduced_motion="reduce", **options) as user:
            shoot = user.page.screenshot
            shoot(path=folder / f"{name}-begin.png")
            user.complete("Once upon a time", seed="6", max_tokens="100", temperature="1")
            shoot(path=folder / f"{name}-text.png", full_page=True)
            user.page.locator(".token").nth(20).click()
            shoot(path=folder / f"{name}-alternatives.png")
            user.page.keyboard.press("Escape")
            user.set(regex="(", stop="")
            user.page.keyboard.press("Control+Enter")
            assert user.fault
            shoot(path=folder / f"{name}-error.png", full_page=True)
            user.complete("Once upon", n="2", regex="", choice=" 世界\n<b> fox\n\\n\\n🦊 \\t x")
            shoot(path=folder / f"{name}-nasty.png")
