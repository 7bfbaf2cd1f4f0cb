"""Text to ids and back. Long texts are encoded in pieces, to the same ids as the whole."""

import functools
import re
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import tokenizers
from tokenizers.pre_tokenizers import ByteLevel

from export.errors import PanicError, panics_caught
from gpt2cli.cutter import make_cutter
from gpt2cli.errors import ModelError, PromptError
from gpt2cli.model_folder import ModelFolder
from gpt2cli.spelling import BYTE_OF, find_lacking_bytes, find_unwritable, name_characters

_ID_LIMIT: Final = 2**32  # the largest id that tokenizers accepts


def _may_lose(tokenizer: tokenizers.Tokenizer) -> bool:
    """Tell whether ids may lose part of a text: a step drops some, or a byte has no token."""
    plain = (
        tokenizer.normalizer is None
        and isinstance(tokenizer.pre_tokenizer, ByteLevel)
        and not any(t.lstrip or t.rstrip for t in tokenizer.get_added_tokens_decoder().values())
    )
    return not plain or None in map(tokenizer.token_to_id, ByteLevel.alphabet())


def _find_prefixing(tokenizer: tokenizers.Tokenizer) -> list[ByteLevel]:
    """Return the steps that put a space before a text; to set their flag switches them."""
    whole: Any = tokenizer.pre_tokenizer
    steps: Any = whole if isinstance(whole, tokenizers.pre_tokenizers.Sequence) else [whole]
    return [step for step in steps if isinstance(step, ByteLevel) and step.add_prefix_space]


class Tokenizer:
    """A model folder's byte-level BPE tokenizer."""

    def __init__(
        self, folder: ModelFolder, note: Callable[[str], None] = lambda text: None
    ) -> None:
        """Load the tokenizer; `note` gets the characters that it cannot write, each once.

        Raises:
            ModelError: if its file is damaged.
        """
        try:
            with panics_caught():
                self._tokenizer = tokenizers.Tokenizer.from_file(str(folder.tokenizer_file))
        except Exception as error:  # tokenizers raises bare Exception
            raise ModelError(f"{folder.tokenizer_file} cannot be read: {error}") from error
        self._file = folder.tokenizer_file
        self._switching = threading.Lock()
        self._vocab_size = folder.shape.vocab_size
        self._cutter = make_cutter(self._tokenizer)
        self._prefixing = _find_prefixing(self._tokenizer)
        self._may_lose = _may_lose(self._tokenizer)
        self._added = self._tokenizer.get_added_tokens_decoder()
        self._silent_ids = frozenset(i for i, token in self._added.items() if token.special)
        self._bytes: dict[int, bytes] = {}
        self._note = note
        self._told: set[tuple[str, str]] = set()
        self.start_ids = folder.start_ids  # what stands before every prompt
        self.bos_token_id = folder.bos_token_id
        self.eos_token_ids = folder.eos_token_ids

    @functools.cached_property
    def added_tokens_pattern(self) -> re.Pattern[str] | None:
        """What finds the texts that may read as one token, special or not, the longest first."""
        texts = sorted(filter(None, (str(t.content) for t in self._added.values())), key=len)
        return re.compile("|".join(map(re.escape, reversed(texts)))) if texts else None

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
            PromptError: if the text is not valid Unicode, needs an id that the model lacks, or
                holds too long a piece that can only be encoded whole.
        """
        return list(self.encode_long(text, allow_special=allow_special, begins=begins))

    def encode_long(
        self, text: str, *, allow_special: bool = False, begins: bool = False
    ) -> Sequence[int]:
        """Do as `encode_text` with four bytes for each id, a tenth of what a list takes."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            fault = f"the prompt is not valid Unicode (at character {error.start})"
            raise PromptError(fault) from error
        ids = array("I")
        for piece in [text] if self._cutter is None else self._cutter.cut(text):
            some = self._encode_piece(piece, allow_special=allow_special, begins=begins)
            if self._may_lose:
                self._note_lost(piece, some)
            self._check_ids(some)
            ids.extend(some)
        return ids

    def _encode_piece(self, piece: str, *, allow_special: bool, begins: bool) -> list[int]:
        with self._switching:  # of the whole tokenizer, which several threads may use
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
        """Note which characters of an option's texts the model can never write."""
        if text := "".join(texts):
            self._tell(option, find_unwritable(text, self._lacking))

    @functools.cached_property
    def _lacking(self) -> frozenset[int]:
        if self._has_every_byte():  # as GPT-2's own: to look at every token takes 0.1 s
            return frozenset()
        return find_lacking_bytes(map(self.token_bytes, range(self._vocab_size)))

    def _has_every_byte(self) -> bool:
        ids = map(self._tokenizer.token_to_id, ByteLevel.alphabet())
        return all(
            i is not None and i < self._vocab_size and i not in self._silent_ids for i in ids
        )

    def _note_lost(self, text: str, ids: Sequence[int]) -> None:
        """Note which characters of a normalized text its ids do not spell."""
        shown = self.show(ids)
        if shown == text:
            return
        normalizer = self._tokenizer.normalizer
        # One of type ByteLevel only spells bytes as characters, and loses nothing.
        if normalizer is not None and b"ByteLevel" not in normalizer.__getstate__():
            text = normalizer.normalize_str(text)
        self._tell("the text", Counter(text) - Counter(shown))

    def _tell(self, where: str, characters: Iterable[str]) -> None:
        news = dict.fromkeys(c for c in characters if (where, c) not in self._told)
        self._told.update((where, character) for character in news)
        if news:
            self._note(
                f"{where} has {name_characters(news)}, which no token of the model can write"
            )

    def _find_bytes(self, token_id: int) -> bytes:
        added = self._added.get(token_id)
        if added is not None:  # stored as it reads
            return str(added.content).encode()
        token: str = self._tokenizer.id_to_token(token_id) or ""
        if all(character in BYTE_OF for character in token):
            return bytes(BYTE_OF[character] for character in token)
        return token.encode()  # a special one of the vocabulary itself
