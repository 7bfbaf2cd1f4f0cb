"""Compares a text with its record, and says where they part and why that may be."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from gpt2cli.detokenizer import cut_begun
from gpt2cli.generation.interfaces import Finish, FinishReason
from gpt2cli.replay.reading import Recorded

_SHOWN: Final = 24  # characters of each text, from a few before the first that differs
_BEFORE: Final = 8


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of one record. `same` is None where the texts cannot be compared."""

    record: Recorded
    same: bool | None
    reason: str = ""
    position: int | None = None  # of the first character that differs
    recorded: str = ""  # what stands there
    now: str = ""

    def as_record(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        fields = self.record.fields
        told: dict[str, Any] = {"line": self.record.line}
        told |= {name: fields.get(name) for name in ("index", "sample")} | {"same": self.same}
        if self.reason:
            told["reason"] = self.reason
        if self.position is not None:
            told |= {"position": self.position, "recorded": self.recorded, "now": self.now}
        return told

    def as_line(self) -> str:
        """Return it in a line for people."""
        fields = self.record.fields
        name = f"{fields['index']}" if "index" in fields else f"line {self.record.line}"
        if fields.get("sample"):
            name += f" sample {fields['sample']}"
        if self.same:
            return f"{name}: same"
        if self.same is None:
            return f"{name}: not compared: {self.reason}"
        if self.position is None:
            return f"{name}: differs: {self.reason}"
        parted = f"{self.recorded!r} then, {self.now!r} now"
        return f"{name}: differs at character {self.position}: {parted}; {self.reason}"


def compare(
    record: Recorded, pieces: list[str], finish: Finish, versions: Mapping[str, str]
) -> Verdict:
    """Return whether the text that was made now is the record's.

    `versions`: those of now.
    """
    if finish.error is not None:
        return Verdict(record, same=False, reason=f"now it fails: {finish.error}")
    fields, text = record.fields, _finish_text(record, pieces, finish)
    recorded = fields["completion"]
    if record.interrupted and text.startswith(recorded):
        return Verdict(record, same=True)
    reason = _find_reason(record, finish, versions)
    if text != recorded:
        pairs = zip(text, recorded, strict=False)
        position = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        begin = max(0, position - _BEFORE)
        shown = slice(begin, begin + _SHOWN)
        return Verdict(record, False, reason, position, recorded[shown], text[shown])
    before, now = fields["finish_reason"], finish.reason.value
    if before == FinishReason.TIME and now == FinishReason.LENGTH:  # of as many tokens
        return Verdict(record, same=True)
    if before != now and not record.interrupted:
        told = f"it ended by {before}, now by {now}; {reason}"
        return Verdict(record, same=False, reason=told)
    return Verdict(record, same=True)


def _finish_text(record: Recorded, pieces: list[str], finish: Finish) -> str:
    """Return the whole text; of a reply as a chat shows it."""
    ends = None if record.context is None else record.context.ends
    if ends is None:
        return "".join(pieces)
    *first, last = pieces
    if finish.stop_sequence is None:
        last = cut_begun(last, ends)
    return "".join([*first, last]).strip()


def _find_reason(record: Recorded, finish: Finish, versions: Mapping[str, str]) -> str:
    """Return the most likely reason for another text."""
    fields = record.fields
    changed = describe_change(fields["versions"], versions)
    if fields["prompt_tokens"] != finish.prompt_tokens:
        counts = f"{fields['prompt_tokens']} tokens, now {finish.prompt_tokens}"
        return f"the prompt had {counts}: another tokenizer"
    if changed:
        return f"most likely since {changed}"
    if fields["device"] != "cpu":
        return "most likely since on CUDA a text may depend on the GPU and on how many run at once"
    return "most likely by another kind of processor, or the record was changed"


def describe_change(before: Mapping[str, Any], now: Mapping[str, str]) -> str:
    """Return which versions were others; empty if none was."""
    return " and ".join(
        f"{name} was {before.get(name)} and is {version}"
        for name, version in now.items()
        if before.get(name) != version
    )
