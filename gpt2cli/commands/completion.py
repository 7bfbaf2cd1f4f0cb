"""What the shell offers when a value is completed: model names, devices, settings.

Everything here answers within a key press, and gives nothing rather than an error.
"""

from typer import Context

from gpt2cli.errors import UsageError

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


def complete_device(incomplete: str) -> list[Offer]:
    """Offer the devices that can be named without counting them."""
    return [device for device in ("auto", "cpu", "cuda") if device.startswith(incomplete)]


def complete_setting(incomplete: str) -> list[Offer]:
    """Offer the keys of the config file that there can be."""
    from gpt2cli.commands.user_defaults import settable_options

    return [
        (option.field, option.help)
        for option in settable_options()
        if option.field.startswith(incomplete)
    ]


def complete_kept_setting(incomplete: str) -> list[Offer]:
    """Offer the keys that the config file has."""
    from gpt2cli.user_settings import read_config

    try:
        return [key for key in read_config() if key.startswith(incomplete)]
    except UsageError:
        return []


def complete_value(ctx: Context, incomplete: str) -> list[Offer]:
    """Offer the values of the key before it."""
    from gpt2cli.commands.user_defaults import find_option

    try:
        option = find_option(str(ctx.params.get("key")))
    except UsageError:
        return []
    if option.declaration.autocompletion is not None:
        return option.declaration.autocompletion(incomplete)
    return [choice for choice in option.choices if choice.startswith(incomplete)]


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
