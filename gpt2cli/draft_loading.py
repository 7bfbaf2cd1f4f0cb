"""Opens the draft that an option names, for a model that is loaded."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from gpt2cli.config import DraftConfig, ModelConfig
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.errors import UsageError
from gpt2cli.generation.drafting import Drafting
from gpt2cli.generation.drafts import Draft, LookupDraft, ModelDraft
from gpt2cli.loading import LoadedModel, find_stored, load_model
from gpt2cli.model_folder import ModelFolder, is_model_folder
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.store.names import parse_name
from gpt2cli.store.store import Listener, StoredModel
from gpt2cli.tokenizer import Tokenizer

_SMALL: Final = "int8"  # the precision that a draft is exported in, since no text depends on it


def load_with_draft(
    asked: ModelConfig,
    config: DraftConfig,
    *,
    max_slots: int | None,
    min_slots: int = 1,
    verifying: bool = False,
    listener: Listener,
) -> LoadedModel:
    """Load a model as `load_model` does, with what drafts for it, if anything does.

    A note says so where a draft was asked for, but would not keep the text, or not be faster. The
    draft's weights are loaded only when the first token is there. `verifying`: so that it can take
    several steps at once also without a draft.

    Raises:
        UsageError: if the draft has another vocabulary.
        ModelError: if it cannot be had.
    """
    model = load_model(
        asked,
        max_slots=max_slots,
        min_slots=min_slots,
        verifying=verifying or config.on,
        listener=listener,
    )
    if not config.on:
        return model
    reason = _find_obstacle(config, model)
    if reason is not None:
        listener.note(f"running without a draft: {reason}")
        return model
    draft = _choose(config, asked, model, listener)
    drafting = Drafting(model.engine, draft, config.draft_tokens, listener.note)
    return replace(model, drafting=drafting)


def _find_obstacle(config: DraftConfig, model: LoadedModel) -> str | None:
    """Return why no draft can be of use to the model; None if it can."""
    engine = model.engine
    if engine.device.kind != "cpu":
        return f"on {engine.device} it was not checked that the text stays the same"
    if model.stored.folder.verifying_graph_file is None:
        return f"{model.stored.name} has no graph that verifies (heads of {engine.shape.head_dim})"
    if engine.most_steps == 1:
        return (
            "on this machine several tokens at once were not found to have the bits of single ones"
        )
    if config.draft == _SMALL and model.stored.folder.precision == _SMALL:
        return f"{model.stored.name} is {_SMALL} itself"
    return None


def _choose(
    config: DraftConfig, asked: ModelConfig, model: LoadedModel, listener: Listener
) -> Callable[[], Draft]:
    """Find the draft now, so that what is wrong with it is told before anything is made."""
    if config.draft == LookupDraft.name:
        return LookupDraft
    stored = _find(config.draft, asked, model, listener)
    _check_vocabulary(stored, model)
    if _count_bytes(stored.folder) > _count_bytes(model.stored.folder):
        listener.note(f"the draft {stored.name} is larger than {model.stored.name}")
    return partial(_load, stored.folder, config.draft, threads=model.engine.threads)


def _find(name: str, asked: ModelConfig, model: LoadedModel, listener: Listener) -> StoredModel:
    if name != _SMALL:
        draft = ModelConfig(model=name, offline=asked.offline)
        return find_stored(draft, auto_precision=_SMALL, listener=listener)
    same = asked.model or model.stored.name
    folder = parse_name(same)
    if not isinstance(folder, str) and is_model_folder(folder):
        raise UsageError(
            option="draft",
            expected=f"the name or folder of a draft, since {same} is exported and cannot be made "
            f"{_SMALL}",
            found=_SMALL,
        )
    small = replace(asked, model=same, precision=_SMALL)
    return find_stored(small, auto_precision=_SMALL, listener=listener)


def _load(folder: ModelFolder, name: str, *, threads: int) -> Draft:
    engine = Engine(folder, Device("cpu"), max_slots=1, threads=threads, alternating=True)
    return ModelDraft(name, engine, Sampler(folder.missing_ids))


def _check_vocabulary(draft: StoredModel, model: LoadedModel) -> None:
    """Raise a UsageError unless every id means the same text to both."""
    own, other = model.stored.folder, draft.folder
    same_size = other.shape.vocab_size == own.shape.vocab_size
    name = own.tokenizer_file.name  # to load one takes a tenth of a second
    if same_size and other.files[name] == own.files[name]:
        return
    found = f"{draft.name}, which has {other.shape.vocab_size} tokens"
    if same_size:
        tokenizer = Tokenizer(other)
        ids = range(own.shape.vocab_size)
        if all(tokenizer.token_bytes(i) == model.tokenizer.token_bytes(i) for i in ids):
            return
        found = f"{draft.name}, in which some ids mean other texts"
    expected = f"a draft with the vocabulary of {model.stored.name}, {own.shape.vocab_size} tokens"
    raise UsageError(option="draft", expected=expected, found=found)


def _count_bytes(folder: ModelFolder) -> int:
    return sum(size for size, _ in folder.files.values())
