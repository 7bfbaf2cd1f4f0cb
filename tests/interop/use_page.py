"""Uses the page of `gpt2 serve` in Chromium as a person does: `use_page.py [PICTURES]`.

It starts servers of the starter on this machine, types, clicks, taps and listens in, and compares
texts with those of `gpt2 generate`. One line for each check; the first that fails ends it. With
PICTURES, screenshots for the eye are left in that folder. It needs playwright and chromium.
"""

import json
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from playwright.sync_api import Browser, ConsoleMessage, Page, Route, expect, sync_playwright

_CHROMIUM: Final = "/usr/bin/chromium"
_FLAGS: Final = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
_WIDE: Final[dict[str, Any]] = {"viewport": {"width": 1280, "height": 900}}
_PHONE: Final[dict[str, Any]] = {
    "viewport": {"width": 375, "height": 740},
    "has_touch": True,
    "is_mobile": True,
}
_KEY: Final = "a-key"
_LIMIT: Final = 60_000  # milliseconds
_NASTY: Final = "<img src=x onerror=alert(1)></script><script>alert(2)</script><b>&amp;"
_ENDLESS: Final = {"max_tokens": "4000", "overflow": "slide", "ignore_eos": True}

# The contrast ratio of WCAG between the text and the nearest background behind it.
_CONTRAST: Final = """element => {
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
        self.page.set_default_timeout(_LIMIT)
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
        expect(self.page.locator("#model")).to_contain_text("starter", timeout=_LIMIT)

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
        expect(self.page.locator("#status")).to_contain_text(words, timeout=_LIMIT)

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
        expect(self.page.locator("#fault")).not_to_be_empty(timeout=_LIMIT)
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


def check_text(user: User) -> None:
    """Expect the text of `gpt2 generate` with the seed that is shown, which can be kept."""
    text = user.complete("Once upon", max_tokens="40")
    seed = re.search(r"seed (\d+)", user.page.inner_text(".told"))
    assert seed is not None
    assert text == generate("Once upon", "-n", "40", "--seed", seed[1])
    user.page.click("text=Keep this seed")
    assert user.complete("Once upon") == text
    assert user.complete("Once upon", seed="") != text


def check_options(user: User) -> None:
    """Expect what is set to be sent, marked and counted, and the rest as the server says."""
    text = user.complete("The little fox", temperature="0", max_tokens="30", stop="\\n\n.")
    assert text == generate("The little fox", "-t", "0", "-n", "30", "-s", ".")
    expect(user.page.locator("#count")).to_have_text("(3 changed)")
    user.page.click("text=Reset all")
    expect(user.page.locator("#count")).to_be_empty()
    assert user.page.input_value("#option-temperature") == ""
    assert user.page.get_attribute("#option-temperature", "placeholder") == "0.7"
    user.complete("Once upon", n="3", max_tokens="5")
    assert user.page.locator("article").count() == 3
    user.complete("Once upon a time", n="", max_tokens="0", logprobs="2")
    user.page.check("#echo")
    user.complete("Once upon a time")
    assert "".join(user.page.locator(".token.prompt").all_text_contents()) == "Once upon a time"


def check_stop(user: User) -> None:
    """Expect Esc and the button to stop it, the focus where it is of use, and the next to run."""
    for how in ("key", "button"):
        user.set(**_ENDLESS)
        user.type("Once upon")
        expect(user.page.locator(".token").nth(20)).to_be_attached(timeout=_LIMIT)
        if how == "key":
            user.page.keyboard.press("Escape")
        else:
            user.page.click("#stop")
        user.wait_for("stopped")
        assert "stopped" in user.page.inner_text(".told")
    assert user.page.evaluate("document.activeElement.id") == "go"
    user.page.click("text=Reset all")
    assert user.complete("Once upon", max_tokens="3")


def check_keyboard(user: User) -> None:
    """Do without a mouse what one can do: tokens, their alternatives, going on from one."""
    press = user.page.keyboard.press
    user.complete("Once upon", seed="6", max_tokens="12")
    at = "document.activeElement.id || document.activeElement.className"
    reached = []
    while "option-n" not in reached:
        press("Tab")
        reached.append(user.page.evaluate(at))
    assert {"go", "echo", "skip", "option-temperature", "option-stop"} <= set(reached), reached
    user.page.focus("#skip")
    press("Enter")
    assert user.page.evaluate(at).startswith("token")
    press("ArrowRight")
    press("ArrowRight")
    expect(user.page.locator("#card")).to_be_visible()
    press("ArrowDown")
    other = user.page.evaluate("document.activeElement.querySelector('code').textContent")
    press("Escape")
    expect(user.page.locator("#card")).to_be_hidden()
    press("Enter")
    press("Enter")
    user.wait_for("done")
    assert user.page.input_value("#prompt") == "Once upon a time" + other.replace("␣", " ")


def check_touch(user: User) -> None:
    """Expect a tap to show the alternatives, and nothing to be wider than the screen."""
    user.page.locator("#choose > summary").tap()
    user.complete("Once upon", seed="6", max_tokens="40")
    user.page.locator(".token").nth(6).tap()
    expect(user.page.locator("#card")).to_be_visible()
    for at in ("document.documentElement", "document.querySelector('#card')"):
        assert user.page.evaluate(f"{at}.scrollWidth <= innerWidth"), at
    user.page.locator("#card .close").tap()
    expect(user.page.locator("#card")).to_be_hidden()
    for summary in user.page.locator("details details > summary").all():
        summary.tap()
    assert user.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def check_markup(user: User) -> None:
    """Expect what tries to be HTML to be text: prompt, completion, alternative and error."""
    user.set(choice=" " + _NASTY)
    assert user.complete(_NASTY) == " " + _NASTY
    assert user.page.locator("#results .mark").first.text_content() == _NASTY
    user.page.locator(".token").nth(2).hover()
    user.set(choice="", logit_bias="<img src=x>=3")
    user.page.keyboard.press("Control+Enter")
    assert "<img src=x>" in user.fault
    assert user.page.get_attribute("#option-logit_bias", "aria-invalid") == "true"
    assert user.page.locator("main :is(img, script, b)").count() == 0
    user.set(logit_bias="")


def check_bytes(user: User) -> None:
    """Expect a character of several tokens to be one to point at, with the bytes of each."""
    assert user.complete("x", choice=" 世界 🦊é\\n\\n \\ttab") == " 世界 🦊é\n\n \ttab"
    first = user.page.locator(".token", has_text="世")
    first.hover()
    assert "bytes e4" in user.page.inner_text("#card")
    user.set(choice="")


def check_contrast(user: User) -> None:
    """Expect of every text the contrast of WCAG's level AA, on every colour."""
    user.complete("Once upon", n="2", max_tokens="60", temperature="1.5", top_k="0")
    user.page.locator(".token").nth(3).hover()
    user.set(n="", temperature="", top_k="")
    shown = [f"#legend .level{level}" for level in range(5)]
    for at in (
        *shown,
        ".note",
        ".told",
        "#model",
        "#status",
        "#go",
        "#stop",
        "#card .share",
        ".mark",
    ):
        found = user.page.locator(at).first.evaluate(_CONTRAST)
        assert found >= 4.5, f"{at}: {found:.1f}"


def check_errors(user: User) -> None:
    """Expect what a request may not ask to be said in words, at its field."""
    user.set(typical_p="0")
    user.type("Once upon")
    assert user.fault.startswith("typical_p: expected a number above 0"), user.fault
    assert "above 0" in user.page.inner_text(".wrong")
    expect(user.page.locator("#option-typical_p")).to_be_focused()
    user.set(typical_p="", json_schema="{")
    user.page.keyboard.press("Control+Enter")
    expect(user.page.locator("#fault")).to_contain_text("this is not JSON")
    user.set(json_schema="")
    user.complete("Once upon", max_tokens="3")
    expect(user.page.locator("#fault")).to_be_empty()
    user.type("word " * 600)
    assert "512" in user.fault


def check_key(browser: Browser) -> None:
    """Expect a key to be asked for, again when it is wrong, and kept for this tab alone."""
    with serving("--api-key", _KEY) as server:
        user = User(browser, server.address)
        user.page.goto(server.address)
        expect(user.page.locator("#key")).to_be_focused()
        for given in ("wrong", _KEY):
            user.page.fill("#key", given)
            user.page.keyboard.press("Enter")
            if given == "wrong":
                assert "does not take this key" in user.fault
        expect(user.page.locator("#model")).to_contain_text("starter", timeout=_LIMIT)
        expect(user.page.locator("#entry")).to_be_hidden()
        user.complete("Once upon", max_tokens="3")
        stored = user.page.evaluate("[{...sessionStorage}, {...localStorage}, document.cookie]")
        assert stored == [{"gpt2-key": _KEY}, {}, ""], stored
        assert not any(_KEY in url for url in user.addresses)
        user.leave()


def check_loss(browser: Browser) -> None:
    """Expect of a server that goes away to leave the text that was there, and words for it."""
    server = Server()
    with using(browser, server) as user:
        user.set(**_ENDLESS)
        user.type("Once upon")
        expect(user.page.locator(".token").nth(10)).to_be_attached(timeout=_LIMIT)
        server.end(signal.SIGKILL)
        assert "broke off" in user.fault
        assert "broken off" in user.page.inner_text(".told")
        assert user.text
        user.page.keyboard.press("Control+Enter")
        expect(user.page.locator("#fault")).to_contain_text("does not answer")
        assert user.text


def check_loading(browser: Browser, server: Server) -> None:
    """Expect the page to say so while the model loads, and to go on by itself."""
    user = User(browser, server.address)
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) > 1:
            route.continue_()
        else:
            route.fulfill(status=503, json={"error": {"message": "the model is loading"}})

    user.page.route("**/options", answer)
    user.page.goto(server.address)
    user.wait_for("the model is loading")
    expect(user.page.locator("#model")).to_contain_text("starter", timeout=_LIMIT)
    user.leave()


def take_pictures(browser: Browser, server: Server, folder: pathlib.Path) -> None:
    """Leave screenshots: light, dark, narrow; with alternatives, with options, with an error."""
    folder.mkdir(parents=True, exist_ok=True)
    forms = {"light": {}, "dark": {"color_scheme": "dark"}, "narrow": _PHONE}
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


def main() -> None:
    """Run all checks; then take the pictures."""
    alone: dict[str, Callable[[User], None]] = {
        "text": check_text,
        "options": check_options,
        "stop": check_stop,
        "keyboard": check_keyboard,
        "markup": check_markup,
        "bytes": check_bytes,
        "errors": check_errors,
    }
    with sync_playwright() as playwright, serving() as server:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=_FLAGS)
        for name, check in alone.items():
            with using(browser, server) as user:
                check(user)
            print(f"{name}: right", flush=True)
        for scheme in ("light", "dark"):
            with using(browser, server, color_scheme=scheme) as user:
                check_contrast(user)
            print(f"contrast, {scheme}: right", flush=True)
        with using(browser, server, **_PHONE) as user:
            check_touch(user)
        print("touch, 375 pixels: right", flush=True)
        check_loading(browser, server)
        check_key(browser)
        check_loss(browser)
        print("loading, key, loss: right", flush=True)
        if len(sys.argv) > 1:
            take_pictures(browser, server, pathlib.Path(sys.argv[1]))
        browser.close()


if __name__ == "__main__":
    main()
