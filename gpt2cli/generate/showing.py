"""Shows samples as they are made, wherever that is: as text, or as records. Light."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import typer

from gpt2cli.config import ReportConfig
from gpt2cli.errors import ExitCode, ServerError
from gpt2cli.generate.config import InputOutput
from gpt2cli.options import spell_flag
from gpt2cli.record_lines import format_record
from gpt2cli.settings import Settings
from gpt2cli.terminal.interrupt import ctrl_c_as_flag
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.result import ResultWriter
from gpt2cli.terminal.statistics import describe_cut, describe_ending


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of one sample's text; the last one of a sample carries its record."""

    sample: int
    text: str
    record: Mapping[str, Any] | None = None


class Samples(Protocol):
    """The samples of one prompt, which are ready to be made."""

    @property
    def n_positions(self) -> int:
        """The model's limit, in tokens."""
        ...

    def pieces(self, interrupted: Callable[[], bool]) -> Iterator[Piece]:
        """Yield the pieces of all samples, sample after sample, until `interrupted`."""
        ...

    def interrupt(self) -> None:
        """Hear of Ctrl-C, where `interrupted` is not asked for a while."""
        ...

    def describe(self) -> Sequence[str]:
        """Return the lines of --stats."""
        ...


def show(
    samples: Samples,
    prompt: str,
    settings: Settings,
    *,
    io: InputOutput,
    notes: Notes,
    writer: ResultWriter,
) -> None:
    """Show all samples; end early if the reader of a pipe has gone.

    Raises:
        Gpt2Error: what ends them before their time. What a lost server gave is kept.
        Exit: after Ctrl-C, when all that was made has been shown and the last line is finished.
    """
    notes.pause()
    if not settings.values["heal"]:
        for line in describe_ending(prompt, heal=spell_flag("heal")):
            notes.note(line)
    records: list[Mapping[str, Any]] = []
    with ctrl_c_as_flag(samples.interrupt) as interrupted:
        pieces = samples.pieces(lambda: interrupted() or writer.is_abandoned())
        try:
            shown = _noting(pieces, records)
            if io.json:
                show_records(shown, writer)
            else:
                show_text(shown, writer, prompt=prompt if io.echo else "", separator=io.separator)
        except ServerError:
            writer.keep(notes)
            raise
    if records:
        _tell_cut(records[-1], samples.n_positions, notes)
    if interrupted():
        writer.keep(notes)
        raise typer.Exit(ExitCode.INTERRUPTED)
    _tell_ends({record["finish_reason"] for record in records}, samples, settings, notes)
    notes.tell_run(samples.describe(), shown=settings.make(ReportConfig).stats)


def _noting(pieces: Iterable[Piece], records: list[Mapping[str, Any]]) -> Iterator[Piece]:
    for piece in pieces:
        yield piece
        if piece.record is not None:
            records.append(piece.record)


def _tell_cut(record: Mapping[str, Any], limit: int, notes: Notes) -> None:
    cut = record.get("truncated_prompt_tokens", 0)
    for line in describe_cut(cut, prompt_tokens=record["prompt_tokens"], n_positions=limit):
        notes.note(line)


def _tell_ends(reasons: set[str], samples: Samples, settings: Settings, notes: Notes) -> None:
    if "context" in reasons:
        way_out = (
            "" if settings.values["beams"] > 1 else f"; {spell_flag('overflow')} slide goes on"
        )
        notes.note(f"stopped at the model's limit of {samples.n_positions} tokens{way_out}")
    if "time" in reasons:
        notes.note(f"stopped after {settings.values['max_time']:g} s")


def show_text(
    pieces: Iterable[Piece], writer: ResultWriter, *, prompt: str, separator: str
) -> None:
    """Write the prompt and its completion as it is made, a line for each sample.

    However it ends, the last line is finished. The prompt stands before each completion.
    """
    sample, open_ = 0, True
    try:
        writer.write_prompt(prompt)  # at once: the first token takes a while
        for piece in pieces:
            if piece.sample != sample:
                writer.write(f"{separator}\n")
                sample, open_ = piece.sample, True
                writer.write_prompt(prompt)
            if piece.text:
                writer.write(piece.text)
            if piece.record is not None:
                open_ = False
                writer.write("\n")
    except Exception:
        if open_:
            writer.write("\n")
        raise
    if open_:
        writer.write("\n")


def show_records(pieces: Iterable[Piece], writer: ResultWriter) -> None:
    """Write a JSON record for each sample when it is finished."""
    for piece in pieces:
        if piece.record is not None:
            writer.write(format_record(piece.record))


def in_sample_order(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield pieces sample by sample: the first at once, later ones when it is done.

    Nothing is lost or joined; what must wait is kept in memory.
    """
    waiting: dict[int, list[Piece]] = defaultdict(list)
    current = 0
    for piece in pieces:
        waiting[piece.sample].append(piece)
        while ready := waiting.pop(current, None):
            yield from ready
            if ready[-1].record is None:
                break
            current += 1
