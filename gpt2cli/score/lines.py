"""Scores the lines of an input, some of them side by side, and hands the scores on in their order.

The bits of a line's scores are those that it has alone, whatever stands around it.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from export.small_files import ReadError, decode
from gpt2cli.errors import Gpt2Error, PromptError
from gpt2cli.resumable.input import ItemSource, digest
from gpt2cli.sampling.logprobs import TokenLogprob
from gpt2cli.scoring import CompactScores, JoiningEngine, Totals, score_each
from gpt2cli.tokenizer import Tokenizer

# Lines that are taken at once, for groups of similar lengths to be found among them.
_BUNCH: Final = 64
_BUNCH_CHARACTERS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LineItem:
    """One line: either the `ids` of its text, or an `error`."""

    index: int
    digest: str  # of the line's bytes
    text: str | None = None
    ids: Sequence[int] = ()
    error: str | None = None

    @property
    def results(self) -> int:
        """How many lines of the output it has."""
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LineParser:
    """Makes items of lines; an empty one is an empty text."""

    tokenizer: Tokenizer
    allow_special: bool

    def parse(self, record: bytes | PromptError, index: int) -> LineItem:
        """Return the item of a line; whatever is wrong with it becomes its error."""
        if isinstance(record, PromptError):
            return LineItem(index, digest(str(record).encode()), error=str(record))
        text = None
        try:
            text = _read_text(record, index)
            ids = self.tokenizer.encode_long(text, allow_special=self.allow_special, begins=True)
        except Gpt2Error as failure:
            return LineItem(index, digest(record), text, error=str(failure))
        return LineItem(index, digest(record), text, ids)

    def is_blank(self, record: bytes | PromptError) -> bool:
        """Tell that every line counts: there are as many results as lines."""
        return False


def _read_text(record: bytes, index: int) -> str:
    try:
        text = decode(record)
    except ReadError as error:
        raise PromptError(f"the line {error}") from error
    # A byte order mark may begin a file: it is no part of the first text alone.
    return text if index == 0 else record.decode()


@dataclass(slots=True)
class ScoredLine:
    """A line, and its scores as far as they are wanted."""

    item: LineItem
    totals: Totals = field(default_factory=Totals)
    tokens: CompactScores = field(default_factory=CompactScores)
    missing: int = field(init=False)  # tokens

    def __post_init__(self) -> None:
        self.missing = len(self.item.ids)

    @property
    def done(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing

    def add(self, scores: Sequence[TokenLogprob], *, keep: bool) -> None:
        """Count scores in; `keep` those of each token too."""
        self.totals.add(scores)
        self.missing -= len(scores)
        for one in scores if keep else ():
            self.tokens.add(one)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineScorer:
    """Scores lines with one engine, whose slots are its own."""

    engine: JoiningEngine
    bos_token_id: int | None
    stride: int
    top: int
    keeps_tokens: bool

    def run(
        self,
        items: ItemSource[LineItem],
        sink: Callable[[ScoredLine], None],
        stopped: Callable[[], bool],
    ) -> None:
        """Call `sink` with each line in order, until the input ends, or `stopped` says so.

        Raises:
            Gpt2Error: if the input cannot be read, the model fails, or the sink does.
        """
        while not (items.ended or stopped()):
            waiting = deque(ScoredLine(item) for item in _take_bunch(items))
            for line, parts in self._score(tuple(waiting)):
                with closing(parts):
                    for scores in parts:
                        line.add(scores, keep=self.keeps_tokens)
                        if not line.done and stopped():
                            return
                while waiting and waiting[0].done:  # a later one that is done waits for it
                    sink(waiting.popleft())
                if stopped():
                    return

    def _score(
        self, lines: Sequence[ScoredLine]
    ) -> Iterator[tuple[ScoredLine, Generator[list[TokenLogprob], None, None]]]:
        texts = [line.item.ids for line in lines]
        for index, parts in score_each(
            self.engine, texts, bos_token_id=self.bos_token_id, stride=self.stride, top=self.top
        ):
            yield lines[index], parts


def _take_bunch(items: ItemSource[LineItem]) -> list[LineItem]:
    """Return the next lines, those that are there by now; none if there is none for a moment."""
    bunch: list[LineItem] = []
    characters = 0
    while len(bunch) < _BUNCH and characters < _BUNCH_CHARACTERS:
        item = items.take(wait=not bunch)
        if item is None:
            break
        bunch.append(item)
        characters += len(item.text or "")
    return bunch
