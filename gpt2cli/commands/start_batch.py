"""From options to a batch that is ready to run: input, model, items and where the results go."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpt2cli.batch import (
    InputReader,
    ItemParser,
    ItemSource,
    Journal,
    JournalHeader,
    journal_path,
    read_header,
    resume_output,
    start_output,
)
from gpt2cli.config import BeamConfig, ModelConfig, Overflow, ReportConfig
from gpt2cli.errors import PromptError, UsageError
from gpt2cli.generation import Counts, Request, choose_seed, make_request, prepare
from gpt2cli.loading import LoadedModel, load_model
from gpt2cli.option_kinds import options_of
from gpt2cli.settings import Settings
from gpt2cli.store import Listener
from gpt2cli.terminal.result import is_direct, refuse_overwriting

if TYPE_CHECKING:
    from gpt2cli.commands.batch import InputOutput


@dataclass(frozen=True, slots=True)
class OpenedInput:
    """An open file descriptor to read records from."""

    descriptor: int
    name: str
    size: int | None  # bytes, of a regular file


@dataclass(frozen=True, slots=True)
class ReadyBatch:
    """A batch whose model is loaded and whose output is open."""

    model: LoadedModel
    items: ItemSource
    journal: Journal | None  # None: the results go to stdout
    run_seed: int
    from_model: Mapping[str, Any]  # settings that are the model's own
    input_bytes: int | None
    counts: Counts = field(default_factory=Counts)


def open_input(file: str | None, *, stdin: int | None) -> OpenedInput:
    """Open the input: FILE, or stdin where there is none or it is `-`.

    Raises:
        UsageError: if there is nothing to read.
        PromptError: if the file cannot be read.
    """
    if file is None or file == "-":
        if stdin is None or (file is None and os.isatty(stdin)):
            raise UsageError("expected prompts, for example: cat prompts.txt | gpt2 batch")
        return OpenedInput(stdin, "stdin", _find_size(stdin))
    try:
        descriptor = os.open(file, os.O_RDONLY)
        os.read(descriptor, 0)  # a folder can be opened, but not read
    except OSError as error:
        raise PromptError(f"cannot read {file}: {error.strerror}") from error
    return OpenedInput(descriptor, file, _find_size(descriptor))


def get_batch_ready(
    opened: OpenedInput, settings: Settings, io: "InputOutput", *, listener: Listener
) -> ReadyBatch:
    """Load the model, and open the output, resumed if that was asked for.

    Raises:
        Gpt2Error: whatever is wrong with the model, or what is to be resumed.
    """
    kept = _find_kept_file(opened, io)
    resumed = read_header(kept) if kept is not None and io.resume else None
    run_seed = _choose_seed(settings, resumed)
    beams = settings.make(BeamConfig).beams
    model = settings.make(ModelConfig)
    loaded = load_model(model, max_slots=io.batch_size, min_slots=beams, listener=listener)
    own = settings.with_model(loaded.stored.folder.generation_config)
    _look_up(make_request(own, "", seed=run_seed), loaded)
    parser = ItemParser(
        own,
        loaded.tokenizer,
        loaded.engine.shape,
        run_seed=run_seed,
        jsonl=_has_records(opened, io),
        max_slots=loaded.engine.most_slots,
    )
    terminator = b"\0" if io.null else b"\n"
    items = ItemSource(InputReader(opened.descriptor, terminator=terminator), parser)
    journal = None
    if kept is not None:
        options = _describe_options(settings) | {"jsonl": _has_records(opened, io)}
        header = _describe(options, loaded, run_seed, own.from_model)
        begun = resumed is not None
        journal = resume_output(kept, header, items) if begun else start_output(kept, header)
    return ReadyBatch(loaded, items, journal, run_seed, own.from_model, opened.size)


def _has_records(opened: OpenedInput, io: "InputOutput") -> bool:
    return io.jsonl or opened.name.endswith(".jsonl")


def _find_kept_file(opened: OpenedInput, io: "InputOutput") -> Path | None:
    """Return the file for the results that can be gone on with; None if they go elsewhere.

    Raises:
        UsageError: if it is the input, or there is none to resume.
    """
    path = io.output
    if path is None or is_direct(path):
        if io.resume:
            raise UsageError(f"{path} is no file that could be gone on with", option="resume")
        return None
    for written in (path, journal_path(path)):
        refuse_overwriting(written, [], stdin=opened.descriptor)
    return path


def _choose_seed(settings: Settings, resumed: Mapping[str, Any] | None) -> int:
    if settings.values["seed"] is None and resumed is not None:
        return resumed["seed"]
    return choose_seed(settings)


def _look_up(asked: Request, model: LoadedModel) -> None:
    """Look the options' texts up in the vocabulary: a bad one is told before any record.

    Raises:
        UsageError, PackageError: as `prepare`.
    """
    fitting = replace(asked, generation=replace(asked.generation, overflow=Overflow.STOP))
    prepare(fitting, model.tokenizer, model.engine.shape, prompt_ids=[0])


def _describe_options(settings: Settings) -> dict[str, Any]:
    """Return what changes the results, or how they are written; not how fast or where to."""
    of_the_run = {o.field for group in (ModelConfig, ReportConfig) for o in options_of(group)}
    of_the_run |= {"seed", "file", "output", "resume", "batch_size"}
    return {field: value for field, value in settings.values.items() if field not in of_the_run}


def _describe(
    options: dict[str, Any], model: LoadedModel, run_seed: int, from_model: Mapping[str, Any]
) -> JournalHeader:
    return JournalHeader(
        options=options,
        seed=run_seed,
        model=model.stored.name,
        revision=model.stored.revision,
        source=dict(model.stored.folder.source),
        generation_config=dict(from_model),
        precision=model.stored.folder.precision,
        device=str(model.engine.device),
        versions={"gpt2": metadata.version("gpt2"), "onnxruntime": model.engine.runtime_version},
    )


def _find_size(descriptor: int) -> int | None:
    status = os.fstat(descriptor)
    return status.st_size if stat.S_ISREG(status.st_mode) else None
