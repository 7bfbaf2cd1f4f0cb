"""Constraints on a completion: which ids may follow so that it can still match.

llguidance compiles a choice, a regular expression or a JSON schema to token masks. This module is
the only one that knows it: it is an optional package.
"""

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpt2cli.config import ConstraintConfig
from gpt2cli.errors import PackageError, PromptError, UsageError
from gpt2cli.spelling import find_lacking_bytes, find_unwritable, name_characters

_NOTHING_FITS: Final = "NoExtensionBias"  # llguidance 1.9's word
_NOTHING_MATCHES: Final = "expected a pattern that some text matches, found one that none does"
# With flexible white space a model can write white space forever.
_JSON_FORM: Final[Any] = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}
_JSON_CHARACTERS: Final = "".join(map(chr, range(0x20, 0x7F)))  # any of these may be needed
_CHARACTER_COUNT: Final = 0x110000
_SURROGATES: Final = slice(0xD800, 0xE000)
_ANNOTATIONS: Final = ("title", "description", "$comment", "$schema", "$id")


class ConstraintCompiler:
    """Compiles constraints for one vocabulary; making one takes a quarter of a second.

    Text that the constraint leaves no choice about is split into tokens as the tokenizer does.
    """

    def __init__(self, pieces: Sequence[bytes], encode: Callable[[str], Sequence[int]]) -> None:
        """`pieces[id]`: the bytes that each token adds to the text; `encode`: the tokenizer's.

        Raises:
            PackageError: if llguidance is not installed.
        """
        try:
            import llguidance
        except ImportError as error:
            raise PackageError(
                "constraints need llguidance, which is not installed", "pip install llguidance"
            ) from error
        self._library = llguidance
        self._vocab_size = len(pieces)
        self._lacking = find_lacking_bytes(pieces)
        vocabulary = llguidance.TokenizerWrapper(_Vocabulary(pieces, encode))
        self._tokenizer: Any = llguidance.LLTokenizer(vocabulary)

    def compile(self, config: ConstraintConfig) -> "Constraint":
        """Compile a constraint.

        Raises:
            UsageError: if it is wrong or not supported, naming the option.
        """
        try:
            self._refuse_unwritable(config)
            grammar = self._make_grammar(config)
        except ValueError as error:
            raise UsageError(_shorten(str(error)), option=config.field) from error
        matcher = self._library.LLMatcher(self._tokenizer, grammar, log_level=0)
        if not matcher.is_error():
            matcher.compute_bitmask()  # some faults only show here
        if matcher.is_error():
            reason = _shorten(matcher.get_error())
            if self._lacking and reason == _NOTHING_MATCHES:
                named = name_characters(find_unwritable(config.regex or "", self._lacking))
                reason = f"needs {named or 'characters'}, which no token of the model can write"
            raise UsageError(reason, option=config.field)
        return Constraint(matcher, self._vocab_size)

    def _make_grammar(self, config: ConstraintConfig) -> str:
        library = self._library.LLMatcher
        if config.regex is not None:
            return self._keep_writable(library.grammar_from_regex(config.regex))
        if config.json_schema is not None:
            return library.grammar_from_json_schema(config.json_schema, overrides=_JSON_FORM)
        # One terminal, not a rule of many: that could have 2000 texts at most (llguidance 1.9).
        texts = (json.dumps(text, ensure_ascii=False) for text in config.choice)
        return library.grammar_from_lark(f"start: CHOICE\nCHOICE: {' | '.join(texts)}")

    def _keep_writable(self, grammar: str) -> str:
        """Return the grammar of what a regular expression matches and the vocabulary can write."""
        if not self._lacking:
            return grammar
        pattern = json.loads(grammar)["grammars"][0]["lark_grammar"].removeprefix("start: ")
        lark = f"start: TEXT\nTEXT: {pattern} & /[{_describe_writable(self._lacking)}]*/"
        return self._library.LLMatcher.grammar_from_lark(lark)

    def _refuse_unwritable(self, config: ConstraintConfig) -> None:
        """Refuse a constraint that would reach a point where no token fits.

        Raises:
            UsageError: naming the characters.
        """
        texts: Sequence[str] = config.choice
        if config.json_schema is not None and self._lacking:
            texts = [_JSON_CHARACTERS + _read_literals(config.json_schema)]
        for text in texts:
            if unwritable := find_unwritable(text, self._lacking):
                named = name_characters(unwritable)
                fault = f"needs {named}, which no token of the model can write"
                raise UsageError(fault, option=config.field)


class Constraint:
    """A compiled constraint, and how far one completion has followed it."""

    def __init__(self, matcher: Any, vocab_size: int) -> None:
        self._matcher = matcher
        self._vocab_size = vocab_size

    def fork(self) -> "Constraint":
        """Return an independent copy."""
        return Constraint(self._matcher.deep_copy(), self._vocab_size)

    @property
    def satisfied(self) -> bool:
        """Whether the completion may end here."""
        return self._matcher.is_accepting()

    @property
    def complete(self) -> bool:
        """Whether it must end here, since nothing may follow."""
        return self._matcher.is_accepting() and self._matcher.is_stopped()

    def find_mask(self) -> NDArray[np.bool_]:
        """Return which ids may not follow: [V]. EOS and its like are among them.

        Raises:
            PromptError: if the constraint grows beyond llguidance's limits.
        """
        mask = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        allowed = np.unpackbits(mask, bitorder="little")[: self._vocab_size]
        return allowed == 0

    def append(self, token_id: int) -> None:
        """Accept the next id, one that `find_mask` allowed.

        Raises:
            PromptError: as `find_mask`.
        """
        self._matcher.consume_token(token_id)
        self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            reason = _shorten(self._matcher.get_error())
            if reason == _NOTHING_MATCHES:
                reason = "no token of the model can come next"
            raise PromptError(f"the constraint cannot be followed: {reason}")


class _Vocabulary:
    """What llguidance asks of a tokenizer. Its EOS is an id of our own, beyond all others."""

    def __init__(self, pieces: Sequence[bytes], encode: Callable[[str], Sequence[int]]) -> None:
        self.tokens = [*pieces, b"<|end|>"]
        self.eos_token_id = len(pieces)
        self.bos_token_id = None
        self.special_token_ids = [i for i, piece in enumerate(pieces) if not piece]
        self.special_token_ids.append(self.eos_token_id)
        self._encode = encode

    def __call__(self, text: bytes) -> list[int]:
        """Return ids that spell a text."""
        return list(self._encode(text.decode())) if text else []


def _read_literals(schema: str) -> str:
    """Return what of a JSON schema's text may be written; what describes it is left out."""

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {k: v for k, v in pairs if k not in _ANNOTATIONS or not isinstance(v, str)}

    try:
        return json.dumps(json.loads(schema, object_pairs_hook=keep), ensure_ascii=False)
    except ValueError:  # llguidance reports it
        return ""


def _shorten(error: str) -> str:
    """Return the fault from llguidance's report, which quotes the grammar over many lines."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    told = next((line for line in lines if line.startswith("error: ")), lines[0] if lines else "")
    if told == _NOTHING_FITS:
        return _NOTHING_MATCHES
    return told.removeprefix("error: ")[:200]


def _describe_writable(lacking: Collection[int]) -> str:
    r"""Return the ranges of characters that need none of these bytes, as \x{20}-\x{7e}."""
    edges = np.flatnonzero(np.diff(_find_writable(lacking), prepend=False, append=False))
    ranges = edges.reshape(-1, 2).tolist()
    return "".join(rf"\x{{{first:x}}}-\x{{{end - 1:x}}}" for first, end in ranges)


def _find_writable(lacking: Collection[int]) -> NDArray[np.bool_]:
    """Return of each character whether it can be written: by the bytes of its UTF-8."""
    has = np.isin(np.arange(256), list(lacking), invert=True)
    code = np.arange(_CHARACTER_COUNT)
    last, third, second = (has[0x80 | (code >> shift & 0x3F)] for shift in (0, 6, 12))
    two = has[0xC0 | (code >> 6 & 0x1F)] & last
    three = has[0xE0 | (code >> 12 & 0xF)] & third & last
    four = has[0xF0 | (code >> 18 & 0x7)] & second & third & last
    bounds = [code < 0x80, code < 0x800, code < 0x10000]
    writable: NDArray[np.bool_] = np.select(bounds, [has[code & 0x7F], two, three], four)
    writable[_SURROGATES] = False
    return writable
