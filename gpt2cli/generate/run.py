"""Completes one prompt: loads the model, and shows each sample as it is made."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import typer

from gpt2cli.config import BeamConfig, DraftConfig, ModelConfig, ReportConfig, SampleConfig
from gpt2cli.draft_loading import load_with_draft
from gpt2cli.errors import ExitCode
from gpt2cli.generate.config import InputOutput
from gpt2cli.generation.interfaces import Chunk, Counts, Finish, FinishReason, in_sample_order
from gpt2cli.generation.loop import generate
from gpt2cli.generation.requests import PreparedRequest, choose_seed, make_request, prepare
from gpt2cli.loading import LoadedModel
from gpt2cli.options import spell_flag
from gpt2cli.records import format_record, make_record
from gpt2cli.settings import Settings
from gpt2cli.store.store import Listener
from gpt2cli.terminal.interrupt import ctrl_c_as_flag
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.result import ResultWriter
from gpt2cli.terminal.statistics import describe_cut, describe_ending, describe_run, process_seconds

_MOST_SLOTS: Final = 8


@dataclass(slots=True)
class Run:
    """A request whose model is loaded and whose prompt fits, and its results."""

    model: LoadedModel
    prepared: PreparedRequest
    from_model: Mapping[str, Any]  # settings that are the model's own
    counts: Counts = field(default_factory=Counts)
    finishes: list[Finish] = field(default_factory=list)  # of all samples
    first_text_seconds: float | None = None  # of the process, when the first text had been shown

    def chunks(self, interrupted: Callable[[], bool]) -> Iterator[Chunk]:
        """Yield the chunks of all samples, sample after sample, until `interrupted`."""
        model = self.model
        chunks = generate(
            model.engine,
            model.tokenizer,
            model.sampler,
            [self.prepared],
            counts=self.counts,
            interrupted=interrupted,
            drafting=model.drafting,
        )
        alone = self.prepared.request.samples == 1
        # Several samples run side by side; a single one need not be put in order.
        for chunk in chunks if alone else in_sample_order(chunks):
            yield chunk
            if self.first_text_seconds is None and chunk.text:
                self.first_text_seconds = process_seconds()
            if chunk.finish is not None:
                self.finishes.append(chunk.finish)


def run(
    prompt: str, settings: Settings, io: InputOutput, notes: Notes, writer: ResultWriter
) -> None:
    """Complete a prompt; end early if the reader of a pipe has gone.

    Raises:
        Gpt2Error: whatever is wrong with the model, the prompt or the options.
        Exit: after Ctrl-C, when all that was made has been shown and the last line is finished.
    """
    run = get_ready(prompt, settings, listener=notes)
    notes.pause()
    if not run.prepared.request.heal:
        for line in describe_ending(prompt, heal=spell_flag("heal")):
            notes.note(line)
    with ctrl_c_as_flag() as interrupted:
        chunks = run.chunks(lambda: interrupted() or writer.is_abandoned())
        if io.json:
            show_records(chunks, run, writer)
        else:
            show_text(chunks, writer, prompt=prompt if io.echo else "", separator=io.separator)
    limit = run.model.engine.shape.n_positions
    for line in describe_cut(run.finishes[-1], limit) if run.finishes else []:
        notes.note(line)
    if interrupted():
        writer.keep(notes)
        raise typer.Exit(ExitCode.INTERRUPTED)
    if any(finish.reason is FinishReason.CONTEXT for finish in run.finishes):
        slides = f"; {spell_flag('overflow')} slide goes on"
        way_out = "" if run.prepared.request.search.on else slides
        notes.note(f"stopped at the model's limit of {limit} tokens{way_out}")
    if any(finish.reason is FinishReason.TIME for finish in run.finishes):
        notes.note(f"stopped after {run.prepared.request.generation.max_time:g} s")
    lines = describe_run(
        run.model,
        run.counts,
        seed=run.prepared.request.seed,
        first_token_seconds=run.first_text_seconds,
        from_model=run.from_model,
    )
    notes.tell_run(lines, shown=settings.make(ReportConfig).stats)


def get_ready(prompt: str, settings: Settings, *, listener: Listener) -> Run:
    """Load the model and prepare the one request.

    Raises:
        Gpt2Error: whatever is wrong with the model, the prompt or the options.
    """
    search, samples = settings.make(BeamConfig), settings.make(SampleConfig).samples
    slots = search.beams if search.on else min(samples, _MOST_SLOTS)
    model = settings.make(ModelConfig)
    draft = DraftConfig() if search.on else settings.make(DraftConfig)  # beams do not draft
    loaded = load_with_draft(
        model, draft, max_slots=slots, min_slots=search.beams, listener=listener
    )
    settings = settings.with_model(loaded.stored.folder.generation_config)
    request = make_request(settings, prompt, seed=choose_seed(settings))
    prepared = prepare(request, loaded.tokenizer, loaded.engine.shape)
    return Run(loaded, prepared, settings.from_model)


def show_text(
    chunks: Iterable[Chunk], writer: ResultWriter, *, prompt: str, separator: str
) -> None:
    """Write the prompt and its completion as it is made, a line for each sample.

    However it ends, the last line is finished. The prompt stands before each completion.
    """
    sample, open_ = 0, True
    try:
        writer.write_prompt(prompt)  # at once: the first token takes a while
        for chunk in chunks:
            if chunk.sample != sample:
                writer.write(f"{separator}\n")
                sample, open_ = chunk.sample, True
                writer.write_prompt(prompt)
            if chunk.text:
                writer.write(chunk.text)
            if chunk.finish is not None:
                open_ = False
                writer.write("\n")
    except Exception:
        if open_:
            writer.write("\n")
        raise
    if open_:
        writer.write("\n")


def show_records(chunks: Iterable[Chunk], run: Run, writer: ResultWriter) -> None:
    """Write a JSON record for each sample when it is finished."""
    completion = ""
    for chunk in chunks:
        completion += chunk.text
        if chunk.finish is not None:
            record = make_record(
                run.prepared.request,
                sample=chunk.sample,
                completion=completion,
                finish=chunk.finish,
                model=run.model,
            )
            writer.write(format_record(record))
            completion = ""
