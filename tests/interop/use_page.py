"""Uses the page of `gpt2 serve` in Chromium: `python -m tests.interop.use_page [PICTURES]`.

It starts servers of the starter on this machine, types, clicks, taps and listens in, and compares
texts with those of `gpt2 generate`. One line for each check; the first that fails ends it. With
PICTURES, screenshots for the eye are left in that folder. It needs playwright and chromium.
"""

import pathlib
import re
import signal
import sys
from collections.abc import Callable
from typing import Final

from playwright.sync_api import Browser, Route, expect, sync_playwright

from tests.interop.page_user import (
    CONTRAST,
    LIMIT,
    PHONE,
    Server,
    User,
    generate,
    serving,
    take_pictures,
    using,
)

_CHROMIUM: Final = "/usr/bin/chromium"
_FLAGS: Final = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
_KEY: Final = "a-key"
_NASTY: Final = "<img src=x onerror=alert(1)></script><script>alert(2)</script><b>&amp;"
_ENDLESS: Final = {"max_tokens": "4000", "overflow": "slide", "ignore_eos": True}


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
        expect(user.page.locator(".token").nth(20)).to_be_attached(timeout=LIMIT)
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


def check_pointer(user: User) -> None:
    """Expect the alternatives where the mouse is, and of a token that has the focus anywhere."""
    card = user.page.locator("#card h3")
    user.complete("Once upon", seed="6", max_tokens="20")
    user.page.locator(".token").nth(4).hover()
    first = card.inner_text()
    user.page.locator("#model").hover()
    expect(card).to_be_hidden()
    user.page.locator(".token").nth(4).click()
    user.page.locator(".token").nth(2).hover()
    assert card.inner_text() != first
    user.page.locator("#model").hover()
    expect(card).to_have_text(first)


def check_listening(user: User) -> None:
    """Expect each sentence to be said once, as it is made, and all of the text in the end."""
    text = user.complete("Once upon", seed="6", max_tokens="60")
    said = user.page.locator("[aria-live] p").all_text_contents()
    assert "".join(said) == text and len(said) > 2, said


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
        found = user.page.locator(at).first.evaluate(CONTRAST)
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
        expect(user.page.locator("#model")).to_contain_text("starter", timeout=LIMIT)
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
        expect(user.page.locator(".token").nth(10)).to_be_attached(timeout=LIMIT)
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
    expect(user.page.locator("#model")).to_contain_text("starter", timeout=LIMIT)
    user.leave()


def main() -> None:
    """Run all checks; then take the pictures."""
    alone: dict[str, Callable[[User], None]] = {
        "text": check_text,
        "options": check_options,
        "stop": check_stop,
        "keyboard": check_keyboard,
        "pointer": check_pointer,
        "listening": check_listening,
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
        with using(browser, server, **PHONE) as user:
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
