"""Compares the model that is asked for with the one that a server tells of."""

from collections.abc import Mapping
from typing import Any, Final

from gpt2cli.config import AUTO, ModelConfig
from gpt2cli.model_folder import digest_source, is_model_folder, read_model_folder
from gpt2cli.store.names import DEFAULT_MODEL, STARTER, STARTER_FOLDER, parse_name
from gpt2cli.store.store import Listener, Store

_CUDA: Final = "cuda"
# What `--precision auto` makes, as `gpt2cli.loading` has it.
_AUTO_PRECISIONS: Final = {"cpu": "fp32", _CUDA: "fp16"}


def find_difference(
    asked: ModelConfig, told: Mapping[str, Any], *, listener: Listener
) -> str | None:
    """Return in words what differs; None if they are the same, as far as can be known here.

    `told`: as the server describes its model. One that this machine knows has to be the very same:
    of the same commit, or made of the same files. Where nothing is asked for, it is what would run
    here: the default model, in fp32 on the CPU or in fp16 on CUDA.

    Raises:
        ModelError, UsageError: if what is asked for is no model.
    """
    differences = (_compare_models(asked, told, listener), _compare_device(asked, told))
    return next(filter(None, differences), None)


def _compare_models(asked: ModelConfig, told: Mapping[str, Any], listener: Listener) -> str | None:
    if asked.model is None and told["asked"] == asked.names:
        return _compare_precision(asked, told)  # both took the default, whatever that is
    name = asked.model or DEFAULT_MODEL
    difference = f"{told['title']}, not {' + '.join([name, *asked.adapter])}"
    meaning = parse_name(name)
    if not isinstance(meaning, str) and is_model_folder(meaning):
        folder = read_model_folder(meaning)
        same = (folder.fingerprint, folder.precision) == (told["fingerprint"], told["precision"])
        return None if same and not asked.adapter else difference
    known_as = STARTER if meaning == STARTER_FOLDER else meaning
    if isinstance(known_as, str) and told["id"] != known_as:
        return difference
    if not _is_same_source(name, asked, told, listener):
        return f"{difference}, as it is here"
    return _compare_precision(asked, told)


def _is_same_source(
    name: str, asked: ModelConfig, told: Mapping[str, Any], listener: Listener
) -> bool:
    if name == STARTER and not asked.adapter and not told.get("adapters"):
        return True  # it comes with the program
    store = Store(
        revision=asked.revision, step=asked.step, adapters=asked.adapter, listener=listener
    )
    source = store.recall_source(name)
    if source is not None:
        return digest_source(source) == told["source"]
    same = ("revision", "adapter")
    return all(asked.names[one] == told["asked"][one] for one in same)


def _compare_precision(asked: ModelConfig, told: Mapping[str, Any]) -> str | None:
    kind = told["device"].partition(":")[0]
    wanted = _AUTO_PRECISIONS.get(kind) if asked.precision == AUTO else asked.precision
    own = told["precision"]
    return None if own == wanted else f"{told['title']} in {own}, not in {wanted}"


def _compare_device(asked: ModelConfig, told: Mapping[str, Any]) -> str | None:
    own, wanted = told["device"], asked.device
    same = wanted in (AUTO, own) or (wanted == _CUDA and own.startswith(f"{_CUDA}:"))
    return None if same else f"{told['title']} on {own}, not on {wanted}"
