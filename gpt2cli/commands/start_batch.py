"""From options to a batch that is ready to run: input, model, items and where the results go."""

import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from gpt2cli.batch import (
    InputReader,
    ItemDefaults,
    ItemParser,
    ItemSource,
    Journal,
    JournalHeader,
    journal_path,
    read_header,
    resume_output,
    start_output,
)
from gpt2cli.commands.options import (
    BatchInputOptions,
    BatchOutputOptions,
    ConstraintOptions,
    LimitOptions,
    ModelOptions,
    SamplingOptions,
    SearchOptions,
)
from gpt2cli.commands.start import (
    choose_seed,
    give_constraint,
    give_limits,
    give_sampling,
    load,
    settle_options,
)
from gpt2cli.commands.text import refuse_overwriting
from gpt2cli.errors import PromptError, UsageError
from gpt2cli.generation import Counts, Overflow, Request, prepare
from gpt2cli.loading import LoadedModel
from gpt2cli.store import Listener
from gpt2cli.terminal.result import is_direct


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
    opened: OpenedInput,
    *,
    sampling: SamplingOptions,
    search: SearchOptions,
    limits: LimitOptions,
    constraint: ConstraintOptions,
    source: BatchInputOptions,
    output: BatchOutputOptions,
    model: ModelOptions,
    listener: Listener,
) -> ReadyBatch:
    """Check the options, load the model, and open the output, resumed if that was asked for.

    Raises:
        Gpt2Error: whatever is wrong with the options, the model, or what is to be resumed.
    """
    given = give_sampling(sampling) | asdict(search) | give_limits(limits)
    given |= (constrained := give_constraint(constraint))
    kept = _find_kept_file(opened, output)
    resumed = read_header(kept) if kept is not None and output.resume else None
    run_seed = _choose_seed(sampling, resumed)
    asked = _check(given, run_seed, output)  # before the model is loaded: a bad option is told
    beams = asked.search.beams
    loaded = load(model, max_slots=output.batch_size, min_slots=beams, listener=listener)
    _look_up(asked, loaded)
    own = loaded.stored.folder.generation_config
    from_model = settle_options(given, own).from_model
    jsonl = source.jsonl or opened.name.endswith(".jsonl")
    defaults = ItemDefaults(
        given, own, run_seed, output.samples, source.allow_special, output.logprobs
    )
    terminator = b"\0" if source.null else b"\n"
    items = _open_items(opened.descriptor, terminator, defaults, loaded, jsonl=jsonl)
    journal = None
    if kept is not None:
        groups = (sampling, search, limits, source, output)
        options = {name: value for group in groups for name, value in asdict(group).items()}
        options |= constrained  # what the schema says, not where it is
        header = _describe(options | {"jsonl": jsonl}, loaded, run_seed, from_model)
        begun = resumed is not None
        journal = resume_output(kept, header, items) if begun else start_output(kept, header)
    return ReadyBatch(loaded, items, journal, run_seed, from_model, opened.size)


def _open_items(
    descriptor: int, terminator: bytes, defaults: ItemDefaults, model: LoadedModel, *, jsonl: bool
) -> ItemSource:
    engine = model.engine
    parser = ItemParser(
        defaults, model.tokenizer, engine.shape, jsonl=jsonl, max_slots=engine.most_slots
    )
    return ItemSource(InputReader(descriptor, terminator=terminator), parser)


def _find_kept_file(opened: OpenedInput, output: BatchOutputOptions) -> Path | None:
    """Return the file for the results that can be gone on with; None if they go elsewhere.

    Raises:
        UsageError: if it is the input, or there is none to resume.
    """
    path = output.output
    if path is None or is_direct(path):
        if output.resume:
            raise UsageError(f"--resume: {path} is no file that could be gone on with")
        return None
    for written in (path, journal_path(path)):
        refuse_overwriting(written, [], stdin=opened.descriptor)
    return path


def _choose_seed(sampling: SamplingOptions, resumed: Mapping[str, Any] | None) -> int:
    if sampling.seed is None and resumed is not None:
        return resumed["seed"]
    return choose_seed(sampling)


def _check(given: Mapping[str, Any], run_seed: int, output: BatchOutputOptions) -> Request:
    """Check the options that hold for records that say nothing else; return such a request."""
    asked = settle_options(given, {})
    return Request(
        prompt="",
        sampling=asked.sampling,
        generation=asked.generation,
        search=asked.search,
        constraint=asked.constraint,
        seed=run_seed,
        samples=output.samples,
        logprobs=output.logprobs,
    )


def _look_up(asked: Request, model: LoadedModel) -> None:
    """Look the options' texts up in the vocabulary: a bad one is told before any record.

    Raises:
        UsageError, PackageError: as `prepare`.
    """
    fitting = replace(asked, generation=replace(asked.generation, overflow=Overflow.STOP))
    prepare(fitting, model.tokenizer, model.engine.shape, prompt_ids=[0])


def _describe(
    options: dict[str, Any], model: LoadedModel, run_seed: int, from_model: Mapping[str, Any]
) -> JournalHeader:
    # What changes the results, or how they are written; not how fast or where to.
    for name in ("seed", "file", "output", "resume", "batch_size"):
        options.pop(name)
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
