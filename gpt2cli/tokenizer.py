"""Text to ids and back: encoding, the incremental detokenizer, and the stop-sequence matcher."""

import codecs
import copy
import functools
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import tokenizers

from export.panics import PanicError, panics_caught
from gpt2cli.errors import ModelError, PromptError
from gpt2cli.lacking import find_lacking_bytes, find_unwritable, name_characters
from gpt2cli.model_folder import ModelFolder
from gpt2cli.text_pieces import make_cutter
from gpt2cli.text_steps import find_prefixing, may_lose


def _byte_alphabet() -> dict[str, int]:
    """Return GPT-2's map from visible characters to bytes (openai/gpt-2 `src/encoder.py`)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    shifted = {chr(256 + place): byte for place, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | shifted


_BYTE_OF: Final = _byte_alphabet()
_ID_LIMIT: Final = 2**32  # of what tokenizers takes for an id


class Tokenizer:
    """A model folder's byte-level BPE tokenizer."""

    def __init__(
        self, folder: ModelFolder, note: Callable[[str], None] = lambda text: None
    ) -> None:
        """Load the tokenizer; `note` is told which characters it cannot spell, each once.

        Raises:
            ModelError: if its file is damaged.
        """
        try:
            with panics_caught():
                self._tokenizer = tokenizers.Tokenizer.from_file(str(folder.tokenizer_file))
        except Exception as error:  # tokenizers raises bare Exception
            raise ModelError(f"{folder.tokenizer_file} cannot be read: {error}") from error
        self._file = folder.tokenizer_file
        self._vocab_size = folder.shape.vocab_size
        self._cutter = make_cutter(self._tokenizer, _BYTE_OF)
        self._prefixing = find_prefixing(self._tokenizer)
        self._may_lose = may_lose(self._tokenizer)
        self._added = self._tokenizer.get_added_tokens_decoder()
        self._silent_ids = frozenset(i for i, token in self._added.items() if token.special)
        self._bytes: dict[int, bytes] = {}
        self._note = note
        self._told: set[tuple[str, str]] = set()
        self.start_ids = folder.start_ids  # what stands before every prompt
        self.bos_token_id = folder.bos_token_id
        self.eos_token_ids = folder.eos_token_ids

    @property
    def context_id(self) -> int | None:
        """The id after which a text stands that is scored from its first token on."""
        return self.start_ids[-1] if self.start_ids else self.bos_token_id

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        """Return the ids of a prompt: of its text, after those that the tokenizer puts before it.

        An empty one that it puts nothing before is the BOS id alone.

        Raises:
            PromptError: as `encode_text`, or if it is empty though the model has no BOS.
        """
        ids = [*self.start_ids, *self.encode_text(text, allow_special=allow_special, begins=True)]
        if ids:
            return ids
        if self.bos_token_id is None:
            raise PromptError("the prompt is empty and the model has no BOS token; give some text")
        return [self.bos_token_id]

    def encode_text(
        self, text: str, *, allow_special: bool = False, begins: bool = False
    ) -> list[int]:
        """Return the ids of a text and no other; an empty one has none.

        `allow_special` reads `<|endoftext|>` and its like as the token instead of as text. `begins`
        puts the space before it that some tokenizers want where a text begins.

        Raises:
            PromptError: as `encode_pieces`.
        """
        pieces = self.encode_pieces(text, allow_special=allow_special, begins=begins)
        return [token_id for ids in pieces for token_id in ids]

    def encode_long(
        self, text: str, *, allow_special: bool = False, begins: bool = False
    ) -> Sequence[int]:
        """Return the ids of `encode_text` in four bytes each, a tenth of what a list takes.

        Raises:
            PromptError: as `encode_pieces`.
        """
        ids = array("I")
        for some in self.encode_pieces(text, allow_special=allow_special, begins=begins):
            ids.extend(some)
        return ids

    def encode_pieces(
        self, text: str, *, allow_special: bool = False, begins: bool = False
    ) -> Iterator[list[int]]:
        """Yield the ids of `encode_text`, some at a time.

        Raises:
            PromptError: if the text is not valid Unicode, needs an id that the model lacks, or
                holds too long a piece that can only be encoded at once.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            fault = f"the prompt is not valid Unicode (at character {error.start})"
            raise PromptError(fault) from error
        for piece in [text] if self._cutter is None else self._cutter.cut(text):
            ids = self._encode_piece(piece, allow_special=allow_special, begins=begins)
            if self._may_lose:
                self._note_lost(piece, ids)
            self._check_ids(ids)
            yield ids

    def _encode_piece(self, piece: str, *, allow_special: bool, begins: bool) -> list[int]:
        self._tokenizer.encode_special_tokens = not allow_special
        for step in self._prefixing:
            step.add_prefix_space = begins
        try:
            with panics_caught():
                ids: list[int] = self._tokenizer.encode(piece, add_special_tokens=False).ids
        except PanicError as error:
            raise ModelError(f"{self._file} is damaged ({error}); export again") from error
        return ids

    def _check_ids(self, ids: Sequence[int]) -> None:
        beyond = next((i for i in ids if i >= self._vocab_size), None)
        if beyond is not None:
            raise PromptError(
                f"the prompt's token {self._tokenizer.id_to_token(beyond)!r} has the id {beyond}, "
                f"but the model's vocabulary ends at {self._vocab_size - 1}; leave it out"
            )

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes that a token adds to the text: none for special and unknown ids."""
        return b"" if token_id in self._silent_ids else self.spell(token_id)

    def spell(self, token_id: int) -> bytes:
        """Return the bytes that a token stands for: a special one's name, none for unknown ids."""
        known = self._bytes.get(token_id)
        if known is None:
            known = self._bytes[token_id] = self._find_bytes(token_id)
        return known

    def decode(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of the text that `encode_text` made ids of, special tokens by name.

        Raises:
            PromptError: if an id belongs to no token.
        """
        text = bytearray()  # joining a list of bytes takes 80 more for each
        for token_id in ids:
            piece = self.spell(token_id) if 0 <= token_id < _ID_LIMIT else b""
            if not piece:
                last = max(self._tokenizer.get_vocab().values())
                raise PromptError(f"no token has the id {token_id}: expected ids 0 to {last}")
            text += piece
        return bytes(text)

    def show(self, ids: Iterable[int]) -> str:
        """Return the text that ids spell, special tokens by name, U+FFFD for what is no UTF-8."""
        return b"".join(map(self.spell, ids)).decode("utf-8", "replace")

    def note_unwritable(self, option: str, texts: Iterable[str]) -> None:
        """Tell which characters of an option's texts the model can never write."""
        self._tell(option, find_unwritable("".join(texts), self._lacking))

    @functools.cached_property
    def _lacking(self) -> frozenset[int]:
        return find_lacking_bytes(map(self.token_bytes, range(self._vocab_size)))

    def _note_lost(self, text: str, ids: Sequence[int]) -> None:
        """Tell which characters of a text, as it is normalized, its ids do not spell."""
        shown = self.show(ids)
        if shown == text:
            return
        normalizer = self._tokenizer.normalizer
        if normalizer is not None and b"ByteLevel" not in normalizer.__getstate__():
            text = normalizer.normalize_str(text)
        self._tell("the text", Counter(text) - Counter(shown))

    def _tell(self, where: str, characters: Iterable[str]) -> None:
        news = dict.fromkeys(c for c in characters if (where, c) not in self._told)
        self._told.update((where, character) for character in news)
        if news:
            self._note(f"{where} has {name_characters(news)}, which no token of the model spells")

    def _find_bytes(self, token_id: int) -> bytes:
        added = self._added.get(token_id)
        if added is not None:  # stored as it reads
            return str(added.content).encode()
        token: str = self._tokenizer.id_to_token(token_id) or ""
        if all(character in _BYTE_OF for character in token):
            return bytes(_BYTE_OF[character] for character in token)
        return token.encode()  # a special one of the vocabulary itself


class Detokenizer:
    """Token ids in, whole characters out.

    The joined output equals the decoding of all bytes at once, with U+FFFD for what is no UTF-8.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def fork(self) -> "Detokenizer":
        """Return one that goes on from here by itself."""
        detokenizer = Detokenizer(self._tokenizer)
        detokenizer._decoder.setstate(self._decoder.getstate())
        return detokenizer

    def add(self, token_id: int) -> str:
        """Return the characters that this token completes; often none within an emoji."""
        return self._decoder.decode(self._tokenizer.token_bytes(token_id))

    def finish(self) -> str:
        """Return what an unfinished character leaves: U+FFFD or nothing."""
        return self._decoder.decode(b"", final=True)


class StopMatcher:
    """Finds the first stop sequence in streamed text, however the stream is cut.

    First is the one that is complete first; of those complete at the same character, the longest.
    Text that may still become a stop sequence is held back, nothing else is. One that is complete
    too early to count is text after all, but another may begin within it.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops: Sequence[str] = tuple(stop for stop in stops if stop)
        self._held = ""
        self.matched: str | None = None

    def fork(self) -> "StopMatcher":
        """Return one that goes on from here by itself."""
        return copy.copy(self)  # nothing in it is ever changed in place

    def feed(self, text: str, *, counts: bool = True) -> str:
        """Return the text that no stop sequence can claim any more; none after a match.

        `counts`: whether a stop sequence that is complete now ends the text.
        """
        if self.matched is not None:
            return ""
        text = self._held + text
        begin = 0  # where a stop sequence may begin
        while found := self._find_first(text, begin):
            _, start, stop = found
            if counts:
                self._held, self.matched = "", stop
                return text[:start]
            begin = start + 1
        kept = max((overlap(text[begin:], stop) for stop in self._stops), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def finish(self) -> str:
        """Return the held text: nothing will complete it."""
        held, self._held = self._held, ""
        return held

    def _find_first(self, text: str, begin: int) -> tuple[int, int, str] | None:
        found = ((text.find(stop, begin), stop) for stop in self._stops)
        ends = ((start + len(stop), start, stop) for start, stop in found if start >= 0)
        return min(ends, default=None)


def overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of `text` that begins `stop` without being all of it."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
