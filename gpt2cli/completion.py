"""What the shell offers when the name of a model is completed.

Everything here answers within a key press, and gives nothing rather than an error.
"""

# A value, or a value and what is told of it.
Offer = str | tuple[str, str]


def complete_model(incomplete: str) -> list[Offer]:
    """Offer what --model takes: aliases, what is in the cache, and folders of models here.

    For any other path there is no offer, and the shell completes it as a file's.
    """
    from gpt2cli.store.names import HUB_ALIASES, STARTER

    offers = {STARTER: "bundled", **HUB_ALIASES, **_cached_names(), **_model_folders()}
    return [(name, told) for name, told in offers.items() if name.startswith(incomplete)]


def complete_cached(incomplete: str) -> list[Offer]:
    """Offer the models in the cache."""
    return [(name, told) for name, told in _cached_names().items() if name.startswith(incomplete)]


def _cached_names() -> dict[str, str]:
    from gpt2cli.store.catalogue import list_cached

    names: dict[str, list[str]] = {}
    for model in list_cached():
        names.setdefault(model.name, []).append(model.precision)
    return {name: f"cached: {', '.join(found)}" for name, found in names.items()}


def _model_folders() -> dict[str, str]:
    """Return the folders here that may be a checkpoint or a model folder."""
    from pathlib import Path

    try:
        return {path.parent.name: "folder" for path in sorted(Path().glob("*/config.json"))}
    except OSError:
        return {}
