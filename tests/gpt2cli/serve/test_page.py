"""The page at /: what its policy lets it do, and the options that it is told of.

tests/interop/use_page.py uses it in a browser.
"""

import base64
import dataclasses
import hashlib
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from gpt2cli.config import OF_A_PROMPT
from gpt2cli.declarations import options_of
from gpt2cli.serve.offered import describe_options
from gpt2cli.settings import Given
from tests.gpt2cli.serve.asgi import Reply
from tests.gpt2cli.serve.conftest import Site

OpenSite = Callable[..., Site]


class Elements(HTMLParser):
    """The elements of a page: their names and attributes, and the text within each name."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: dict[str, str] = {}
        self._name = ""
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._name = tag
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts[self._name] = self.texts.get(self._name, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._name = ""


@pytest.fixture
def page(open_site: OpenSite) -> Reply:
    """Return the page, which is there while the model loads."""
    return open_site().ask("/")


@pytest.fixture
def options(site: Site) -> dict[str, Any]:
    """Return what the page is told of each option, by its name."""
    return {option["name"]: option for option in site.ask("/options").json["options"]}


def read_policy(page: Reply) -> dict[str, str]:
    """Return the directives of a page's Content-Security-Policy."""
    directives = page.headers["content-security-policy"].split("; ")
    return {name: value for name, _, value in (one.partition(" ") for one in directives)}


@pytest.mark.parametrize("element", ["script", "style"])
def test_only_the_pages_own_script_and_style_may_work(page: Reply, element: str) -> None:
    digest = hashlib.sha256(Elements(page.body).texts[element].encode()).digest()
    allowed = f"'sha256-{base64.b64encode(digest).decode()}'"
    assert read_policy(page)[f"{element}-src"] == allowed


def test_the_page_may_reach_its_own_server_alone_and_be_framed_by_nobody(page: Reply) -> None:
    policy = read_policy(page)
    assert policy["connect-src"] == "'self'"
    for nothing in ("default-src", "base-uri", "form-action", "frame-ancestors"):
        assert policy[nothing] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["content-type"] == "text/html; charset=utf-8"


def test_the_page_names_no_other_host_and_makes_no_html_of_text(page: Reply) -> None:
    """Nor has it handlers or styles in attributes, which its policy would refuse."""
    found = Elements(page.body)
    links = [value for _, name, value in found.attributes if name in ("href", "src", "action")]
    assert [link[:5] for link in links] == ["data:"]
    assert not [name for _, name, _ in found.attributes if name == "style" or name.startswith("on")]
    rest = page.body.decode().replace("xmlns='http://www.w3.org/2000/svg'", "")
    assert not re.findall(r"https?://|innerHTML|outerHTML|insertAdjacentHTML|write\(|eval\(", rest)


def test_the_page_is_open_to_all_and_what_it_asks_for_is_not(open_site: OpenSite) -> None:
    site = open_site(api_key=("one",))
    assert (site.ask("/").status, site.ask("/options").status) == (200, 401)
    assert site.ask("/options", headers={"authorization": "Bearer one"}).status == 503


def test_the_page_is_told_of_every_option_that_a_request_may_have(
    options: dict[str, Any],
) -> None:
    declared = {option.field for group in OF_A_PROMPT for option in options_of(group)}
    assert options.keys() == declared - {"max_new_tokens", "samples"} | {"max_tokens", "n"}


def test_the_page_is_told_what_is_in_force(options: dict[str, Any]) -> None:
    """The model's own temperature; a limit of the server; where text begins on the page."""
    assert (options["temperature"]["usual"], options["temperature"]["low"]) == (0.7, 0)
    limit = options["max_tokens"]
    assert (limit["usual"], limit["start"], limit["high"]) == (16, 128, 4096)
    assert (options["overflow"]["choices"], options["greedy"]["choices"]) == (
        ["stop", "slide", "error"],
        [],
    )


def test_what_is_in_force_is_accepted_when_it_is_said(site: Site, options: dict[str, Any]) -> None:
    said = {name: one["usual"] for name, one in options.items() if one["usual"] not in (None, [])}
    said["max_tokens"] = 1
    assert site.complete(prompt="Once", **said)["choices"]


def test_where_somebody_chose_the_page_begins_with_that(site: Site) -> None:
    settings = site.service.settings.over({"max_new_tokens": Given(7)})
    told = describe_options(dataclasses.replace(site.service, settings=settings))
    [limit] = [one for one in told if one["name"] == "max_tokens"]
    assert (limit["usual"], limit["start"]) == (7, None)


def test_the_page_begins_within_the_servers_limit(site: Site) -> None:
    form = dataclasses.replace(site.service.form, max_tokens_limit=50)
    told = describe_options(dataclasses.replace(site.service, form=form))
    assert [one["start"] for one in told if one["name"] == "max_tokens"] == [50]


def test_options_are_told_without_the_command_line(options: dict[str, Any]) -> None:
    """Others by the names that a request has for them, and no file."""
    assert options["greedy"]["help"] == "Always take the most likely token (temperature 0)."
    assert options["json_schema"]["help"].endswith("valid under the schema.")
    for option in options.values():
        assert not re.search(r"(?<![\w-])--?[a-zA-Z]", option["help"])
