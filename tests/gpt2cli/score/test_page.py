"""Claims about `gpt2 score --html`: one page that needs nothing else, safe for any text."""

import base64
import hashlib
import html
import io
import math
import pathlib
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from typing import Final

import pytest

from gpt2cli.sampling.logprobs import Alternative, TokenLogprob
from gpt2cli.score.page import Page
from gpt2cli.score.views import ScoredText
from gpt2cli.terminal.result import ResultWriter
from tests.gpt2cli.runner import error_line, invoke
from tests.model_folders import ModelFolders

HOSTILE: Final = (
    "</span></div><script>alert(1)</script><img src=x onerror='alert(2)'>\"&amp;&#10;<!-- ]]>"
    "\x00\x1b[31m\r\u202eabc\u2028"
)
SEEN: Final = HOSTILE.translate(
    {0: "␀", 0x1B: "␛", 0x0D: "␍", 0x202E: "<U+202E>", 0x2028: "<U+2028>"}
)

Pieces = Sequence[tuple[bytes, float | None]]  # of tokens, and the probability of each


class Reader(HTMLParser):
    """Reads a page: its elements, and the tokens of the text with what is told of them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tokens: list[list[str]] = []  # text, title
        self.content: dict[str, str] = {}  # of each element without others in it
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)
        if tag == "span" and "title" in dict(attrs):
            self.tokens.append(["", dict(attrs)["title"] or ""])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "span" and "div" in self.open:
            self.tokens[-1][0] += data
        elif self.open:
            self.content[self.open[-1]] = data


def scored(text: Pieces, *, top: int = 0, name: str | None = None) -> ScoredText:
    """Return a text that is scored token by token; ids are indices into it."""
    told = ScoredText(0, name)

    def take() -> Iterator[list[TokenLogprob]]:
        for i, (_, probability) in enumerate(text):
            logprob = None if probability is None else math.log(probability)
            score = TokenLogprob(i, logprob, (Alternative(0, math.log(0.75)),) * top)
            yield [score]
            told.totals.add([score])

    told.scores = take()
    return told


def make(*texts: ScoredText, spell: Pieces, conditions: str = "starter") -> str:
    file = io.BytesIO()
    with Page(ResultWriter(file, on_terminal=False), lambda i: spell[i][0], conditions) as page:
        for text in texts:
            page.show(text)
    return file.getvalue().decode()


def test_what_looks_like_html_stays_text() -> None:
    """In the text, in what is told of its tokens, in a file's name, and in a model's."""
    spell: Pieces = [(HOSTILE.encode(), 0.5)]
    page = make(scored(spell, top=1, name=HOSTILE), spell=spell, conditions=HOSTILE)
    plain = make(scored([(b"x", 0.5)], name="x"), spell=[(b"x", 0.5)])
    read, expected = Reader(page), Reader(plain)
    assert [tag for tag, _ in read.elements] == [tag for tag, _ in expected.elements]
    assert [list(attrs) for _, attrs in read.elements] == [
        list(attrs) for _, attrs in expected.elements
    ]
    [[shown, told]] = read.tokens
    assert shown == SEEN
    assert told.count("\n") == 2  # lines of the token, of nothing, and of its alternative


def test_only_its_own_style_and_script_are_allowed() -> None:
    """By their digests; nothing else may be loaded, sent or framed."""
    read = Reader(make(scored([(b"x", 0.5)]), spell=[(b"x", 0.5)]))
    [policy] = [attrs["content"] or "" for tag, attrs in read.elements if "http-equiv" in attrs]
    digests = [
        base64.b64encode(hashlib.sha256(read.content[tag].encode()).digest()).decode()
        for tag in ("style", "script")
    ]
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert allowed == {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "style-src": f"'sha256-{digests[0]}'",
        "script-src": f"'sha256-{digests[1]}'",
    }
    addresses = [a for _, attrs in read.elements for a in attrs if a in ("src", "href", "action")]
    assert addresses == []


def test_each_piece_tells_its_tokens_and_those_that_could_stand_there() -> None:
    """A character of several tokens tells them all, and is as likely as the least likely one."""
    spell: Pieces = [
        *((b"a", 0.75), (b" b", 0.04), (b"\xe6", 0.25), (b"\x97", 0.0005), (b"\xa5", 0.5)),
        *((b"\n", 1e-9), (b"c", None)),
    ]
    page = make(scored(spell, top=1), spell=spell)
    read = Reader(page)
    assert [text for text, _ in read.tokens] == ["a", " b", "日", "\n", "c"]
    likeliest = '\n\n"a"\t75 %'
    assert [told for _, told in read.tokens] == [
        f'"a"\t75 %{likeliest}',
        f'" b"\t4 %{likeliest}',
        "\n".join(
            rf'"\x{byte}"{chr(9)}{share} %{likeliest}'
            for byte, share in (("e6", "25"), ("97", "0.05"), ("a5", "50"))
        ),
        rf'"\n"{chr(9)}< 0.0001 %{likeliest}',
        f'"c"\tno probability{likeliest}',
    ]
    classes = [attrs.get("class") for tag, attrs in read.elements if "title" in attrs]
    assert classes == [None, "p2", "p4", "p4 end", None]
    assert all(attrs["tabindex"] == "0" for _, attrs in read.elements if "title" in attrs)
    assert "<p>perplexity " in page


def test_a_text_that_is_cut_short_leaves_a_whole_page() -> None:
    """As Ctrl-C does: with what was scored, and without a perplexity."""

    def stop() -> Iterator[list[TokenLogprob]]:
        yield [TokenLogprob(0, -1.0)]
        raise KeyboardInterrupt

    file = io.BytesIO()
    with (
        pytest.raises(KeyboardInterrupt),
        Page(ResultWriter(file, on_terminal=False), lambda i: b"x", "starter") as page,
    ):
        page.show(ScoredText(0, None, stop()))
    read = Reader(file.getvalue().decode())
    assert (read.open, [text for text, _ in read.tokens]) == ([], ["x"])
    assert "perplexity" not in read.content["p"]


@pytest.mark.parametrize(
    ("options", "alternatives"), [([], 5), (["--top", "2"], 2), (["--top", "0"], 0)]
)
def test_the_command_writes_the_file_and_nothing_else(
    model_folders: ModelFolders, tmp_path: pathlib.Path, options: list[str], alternatives: int
) -> None:
    """All texts in one page, each with its name."""
    files = [tmp_path / "a&b", tmp_path / "c"]
    for file, text in zip(files, ("zq\n", ""), strict=True):
        file.write_text(text)
    page = tmp_path / "page.html"
    texts = [part for file in files for part in ("-f", file)]
    result = invoke("score", "-m", model_folders(), *texts, "--html", page, *options)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    shown = page.read_text("utf-8")
    read = Reader(shown)
    assert [text for text, _ in read.tokens] == ["z", "q"]
    lines = [told.partition("\n\n")[2].count("\t") for _, told in read.tokens]
    assert lines == [alternatives] * 2
    names = [html.unescape(name) for name in re.findall("<h2>(.*?)</h2>", shown)]
    assert names == [str(file) for file in files]
    assert "<p>perplexity - (0 tokens)</p>" in shown


@pytest.mark.parametrize("other", [["--json"], ["--lines"], ["-o", "x"]], ids=" ".join)
def test_no_other_result_goes_together_with_it(other: list[str]) -> None:
    result = invoke("score", "-m", "/missing", "-f", "y", "--html", "z", *other)
    assert result.exit_code == 2
    assert error_line(result).startswith("--html: expected no --")


def test_it_is_not_written_over_its_text(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "x"
    file.write_text("z")
    result = invoke("score", "-m", "/missing", "-f", file, "--html", file)
    assert (result.exit_code, error_line(result)) == (2, f"--html: {file} is the input")
