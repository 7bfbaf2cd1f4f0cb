r"""Which ids begin and end a text, which never print, and which text reads as them.

For each question the first file of its line that answers it; a name that no id has answers nothing.

| question | answered by |
|---|---|
| a token's id | `tokenizer.json`; without it `vocab.json`, `added_tokens_decoder`, `added_tokens.json` |
| its flags, as lstrip | `added_tokens_decoder`, `tokenizer.json`, `added_tokens.json`, the file that names it |
| does it print? | not if any file lists it as special, or names it, as pad_token; a word always does |
| what begins a text | bos_token_id in `generation_config.json`, `config.json`; bos_token; `<\|endoftext\|>` |
| what ends a text | eos_token_id in `generation_config.json`, `config.json`, and beside them eos_token; else `<\|endoftext\|>` |
| a name, as eos_token | `special_tokens_map.json`, `tokenizer_config.json`; the other way round where that has `added_tokens_decoder` |

The files are those of transformers' `save_pretrained`, from 2019 (`special_tokens_map.json`,
`added_tokens.json`) to now (`tokenizer_config.json`, since 4.34 with `added_tokens_decoder`). A word is what plain text is cut into:
where a file names one, as "!" for padding, it stays a word, though it may end a text. 50256 is in
every config that was not told otherwise (GPT2Config of transformers): where that is a word of
another vocabulary, or no token at all and the tokenizer names its own, it means nothing.
What reads as a special token does so only where the user allows it.
"""  # noqa: E501 (a table's row is a line)

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tokenizers import AddedToken, Tokenizer

from export.config import GPT2Config, read_object
from export.errors import CheckpointError

END_OF_TEXT: Final = "<|endoftext|>"

CONFIG_FILE: Final = "tokenizer_config.json"
MAP_FILE: Final = "special_tokens_map.json"
ADDED_FILE: Final = "added_tokens.json"

_FLAGS: Final = ("single_word", "lstrip", "rstrip", "normalized")  # of an AddedToken
_LISTS: Final = ("additional_special_tokens", "extra_special_tokens")
_LEFT_OVER: Final = 50256


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """A token, where a file has it, and what that says of it."""

    token: AddedToken
    origin: str  # the file's name
    field: str | None = None  # as eos_token; None: it is only listed
    token_id: int = -1  # where it is listed

    @property
    def text(self) -> str:
        """The text that reads as the token."""
        return str(self.token.content)


@dataclass(frozen=True, slots=True)
class TokenFiles:
    """What the files say, the one that counts more first."""

    named: tuple[TokenEntry, ...]  # by a field: special, whatever else is said
    listed: tuple[TokenEntry, ...]  # with ids
    settings: Mapping[str, Any]  # tokenizer_config.json

    def find_named(self, field: str) -> Iterator[TokenEntry]:
        """Give the tokens that a field names."""
        return (entry for entry in self.named if entry.field == field)


def read_token_files(folder: Path) -> TokenFiles:
    """Read the files that are there, or raise CheckpointError."""
    settings, special = _read(folder, CONFIG_FILE), _read(folder, MAP_FILE)
    decoder = settings.get("added_tokens_decoder")
    sources = [(MAP_FILE, special), (CONFIG_FILE, settings)]
    if decoder is not None:  # then transformers opens neither of the older files
        sources.reverse()
    named = (entry for name, fields in sources for entry in _find_named(name, fields))
    listed = [*_read_decoder(folder, decoder), *_read_added(folder)]
    return TokenFiles(tuple(named), tuple(listed), settings)


def _read(folder: Path, name: str) -> Mapping[str, Any]:
    return read_object(folder / name) if (folder / name).is_file() else {}


def _find_named(origin: str, fields: Mapping[str, Any]) -> Iterator[TokenEntry]:
    for key, value in fields.items():
        if key.endswith("_token"):  # also those that only one model has, as image_token
            values = [value]
        elif key in _LISTS:  # as an object each has a name of its own
            values = [*value.values()] if isinstance(value, dict) else value
        else:
            continue
        for token in values if isinstance(values, list) else []:
            if made := _make_token(token, special=True):
                yield TokenEntry(made, origin, key)


def _make_token(value: object, *, special: bool) -> AddedToken | None:
    """Return the token that a text means, or an object with its flags; None if it is neither."""
    fields = value if isinstance(value, dict) else {"content": value}
    content = fields.get("content")
    if not isinstance(content, str) or not content:
        return None
    flags = {flag: fields[flag] for flag in _FLAGS if isinstance(fields.get(flag), bool)}
    flags.setdefault("normalized", not special)
    return AddedToken(content, special=special, **flags)


def _read_decoder(folder: Path, decoder: object) -> Iterator[TokenEntry]:
    if not isinstance(decoder, dict):
        return
    for key, value in decoder.items():
        special = isinstance(value, dict) and value.get("special") is True
        token = _make_token(value, special=special)
        if token is None or not (key.isascii() and key.isdigit() and len(key) < 10):
            fault = f"{CONFIG_FILE}: added_tokens_decoder has {key!r}, expected an id and a token"
            raise CheckpointError(folder, [fault])
        yield TokenEntry(token, CONFIG_FILE, token_id=int(key))


def _read_added(folder: Path) -> Iterator[TokenEntry]:
    for text, token_id in _read(folder, ADDED_FILE).items():
        token = _make_token(text, special=False)
        if token is None or type(token_id) is not int or token_id < 0:
            fault = f"{ADDED_FILE}: {text!r} has the id {token_id!r}, expected a number 0 or more"
            raise CheckpointError(folder, [fault])
        yield TokenEntry(token, ADDED_FILE, token_id=token_id)


@dataclass(slots=True)
class SpecialToken:
    """What is special about an id, each with the file that says so."""

    text: str | None  # None: the tokenizer has no such token
    begins: str | None = None
    ends: str | None = None
    silent: str | None = None  # it never prints, and is read only where that is allowed


@dataclass(slots=True)
class SpecialTokens:
    """The outcome, and what the user should know of it."""

    tokens: dict[int, SpecialToken] = field(default_factory=dict)
    words: dict[tuple[str, str], list[str]] = field(default_factory=dict)  # file, what: fields

    @property
    def notes(self) -> list[str]:
        """Which words a configuration names as BOS or EOS."""
        return [f"{at}: {' and '.join(fields)} {said}" for (at, said), fields in self.words.items()]

    @property
    def bos_token_id(self) -> int | None:
        """The id that begins a text; None if there is none."""
        return next((i for i, token in self.tokens.items() if token.begins), None)

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """The ids that end a text, the model's own first."""
        return tuple(i for i, token in self.tokens.items() if token.ends)

    def as_rows(self) -> list[dict[str, Any]]:
        """Return the table for export.json, by id."""
        return [{"id": i, **asdict(token)} for i, token in sorted(self.tokens.items())]


def find_special_tokens(
    tokenizer: Tokenizer, files: TokenFiles, config: GPT2Config, *, own_file: str
) -> SpecialTokens:
    """Find the special tokens, and mark in a tokenizer that was just read those that never print.

    `own_file`: the file that the tokenizer was read from.
    """
    found = SpecialTokens()
    added = frozenset(tokenizer.get_added_tokens_decoder())
    finder = _Finder(tokenizer, files, config, own_file, added, found)
    bos_ids = () if config.bos_token_id is None else (config.bos_token_id,)
    for token_id, origin in finder.find("eos_token", config.eos_token_ids, config.eos_origin):
        found.tokens.setdefault(token_id, finder.describe(token_id)).ends = origin
    for token_id, origin in finder.find("bos_token", bos_ids, config.bos_origin):
        found.tokens.setdefault(token_id, finder.describe(token_id)).begins = origin
    finder.mark_silent()
    return found


@dataclass(frozen=True, slots=True)
class _Finder:
    tokenizer: Tokenizer
    files: TokenFiles
    config: GPT2Config
    own_file: str
    added: frozenset[int]  # the tokenizer's own added tokens
    found: SpecialTokens

    def find(self, field: str, ids: Sequence[int], origin: str) -> list[tuple[int, str]]:
        """Return what ends or begins a text, with origins; the config says that `ids` do."""
        own = self._find_own(field)
        kept = self._drop_left_over(f"{field}_id", ids, origin, own)
        if own is not None:
            also = field == "eos_token" and own[1] != self.own_file and own[0] not in dict(kept)
            if also or not kept:
                kept.append(own)
        return kept

    def describe(self, token_id: int) -> SpecialToken:
        """Return a token of which only the text is known."""
        if self._is_word(token_id):
            return SpecialToken(self.tokenizer.decode([token_id]))
        return SpecialToken(self.tokenizer.id_to_token(token_id))

    def mark_silent(self) -> None:
        """Give each token the flags of the file that counts; special where any file says so."""
        marked: dict[bool, list[AddedToken]] = {False: [], True: []}  # special or not
        for text, entries in self._gather_claims().items():
            token_id = self.tokenizer.token_to_id(text)
            if token_id is None or self._is_word(token_id):
                continue
            silent = next((entry.origin for entry in entries if entry.token.special), None)
            flags = {flag: getattr(entries[0].token, flag) for flag in _FLAGS}
            marked[silent is not None].append(AddedToken(text, special=silent is not None, **flags))
            if silent:
                self.found.tokens.setdefault(token_id, SpecialToken(text)).silent = silent
        # All at once: the library makes its tables anew each time.
        self.tokenizer.add_tokens(marked[False])
        self.tokenizer.add_special_tokens(marked[True])

    def _gather_claims(self) -> Mapping[str, list[TokenEntry]]:
        """Return what is said of each text, by the file that counts most first."""
        listed, own = self.files.listed, self.tokenizer.get_added_tokens_decoder().values()
        used = {token.text: token.ends or token.begins for token in self.found.tokens.values()}
        claims: dict[str, list[TokenEntry]] = {}
        for entry in (
            *(entry for entry in listed if entry.origin == CONFIG_FILE),
            *(TokenEntry(token, self.own_file) for token in own),
            *(entry for entry in listed if entry.origin == ADDED_FILE),
            *self.files.named,
            *(TokenEntry(_silent(text), str(origin)) for text, origin in used.items() if text),
        ):
            claims.setdefault(entry.text, []).append(entry)
        return claims

    def _find_own(self, field: str) -> tuple[int, str] | None:
        """Return the id that the tokenizer's files name, else that of `<|endoftext|>`."""
        names = [(entry.text, entry.origin) for entry in self.files.find_named(field)]
        for text, origin in [*names, (END_OF_TEXT, self.own_file)]:
            token_id = self.tokenizer.token_to_id(text)
            if token_id is not None and token_id < self.config.vocab_size:
                return token_id, origin
        return None

    def _drop_left_over(
        self, field: str, ids: Sequence[int], origin: str, own: tuple[int, str] | None
    ) -> list[tuple[int, str]]:
        """Return the ids that mean something, with their origin; a note tells of words."""
        kept = []
        for token_id in ids:
            word = self._is_word(token_id)
            unknown = self.tokenizer.id_to_token(token_id) is None and own is not None
            if word:
                self._note_word(field, token_id, origin, own)
            if token_id != _LEFT_OVER or not (word or unknown):
                kept.append((token_id, origin))
        return kept

    def _note_word(
        self, field: str, token_id: int, origin: str, own: tuple[int, str] | None
    ) -> None:
        said = f"{token_id} is an ordinary word of the vocabulary, "
        said += repr(self.tokenizer.decode([token_id]))
        if token_id == _LEFT_OVER:
            instead = repr(self.tokenizer.id_to_token(own[0])) if own else "nothing"
            said += f"; not used, {instead} is instead"
        self.found.words.setdefault((origin, said), []).append(field)

    def _is_word(self, token_id: int) -> bool:
        """Tell whether BPE makes the token of plain text."""
        model, token = self.tokenizer.model, self.tokenizer.id_to_token(token_id)
        if token is None or token_id in self.added:
            return False
        asked, model.ignore_merges = model.ignore_merges, False  # else all is one token
        try:
            return [piece.id for piece in model.tokenize(token)] == [token_id]
        finally:
            model.ignore_merges = asked


def _silent(text: str) -> AddedToken:
    return AddedToken(text, special=True, normalized=False)
