"""What `/set` changes: every sampling and limit option, by the declarations of the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from gpt2cli.chat import ChatSettings
from gpt2cli.commands.option_values import DeclaredOption, declared_options
from gpt2cli.commands.options import LimitOptions, SamplingOptions
from gpt2cli.commands.start import give_limits, give_sampling, settle_options
from gpt2cli.commands.user_defaults import find_defaults
from gpt2cli.errors import UsageError

BUILT_IN: Final[Mapping[str, Any]] = {"max_new_tokens": 128}  # of chat alone
_DEFAULT: Final = "default"
_ALIKE: Final = ("temperature", "greedy")  # greedy is a temperature


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The options that hold now, with the model's own defaults behind them."""

    sampling: SamplingOptions
    limits: LimitOptions
    generation_config: Mapping[str, Any]

    def settle(self) -> tuple[ChatSettings, Mapping[str, Any]]:
        """Return the settings, and which of their values are the model's own.

        Raises:
            UsageError: naming the option whose value is out of range.
        """
        given = give_sampling(self.sampling) | give_limits(self.limits)
        settled = settle_options(given, self.generation_config, built_in=BUILT_IN)
        settings = ChatSettings(
            sampling=settled.sampling, generation=settled.generation, seed=self.sampling.seed
        )
        return settings, settled.from_model

    def change(self, name: str, text: str) -> "ChatOptions":
        """Return the options with one value changed.

        `default` takes back what was given: then the environment, the config file or the model
        say what holds.

        Raises:
            UsageError: if there is no such option, or its value is none.
        """
        option = find_option(name)
        values = _defaults_of(option) if text == _DEFAULT else {option.field: option.parse(text)}
        if option.field in {field.field for field in declared_options(LimitOptions)}:
            return self._checked(limits=replace(self.limits, **values))
        if option.field == "temperature" and text != _DEFAULT:
            values["greedy"] = False
        return self._checked(sampling=replace(self.sampling, **values))

    def describe(self) -> dict[str, str]:
        """Return each option's value in force, by its name."""
        settings, _ = self.settle()
        values = {
            **asdict(settings.sampling),
            **asdict(settings.generation),
            "seed": "random" if settings.seed is None else settings.seed,
            "greedy": settings.sampling.greedy,
        }
        return {option.name: _show(values[option.field]) for option in all_options()}

    def _checked(self, **changes: Any) -> "ChatOptions":
        changed = replace(self, **changes)
        changed.settle()
        return changed


def all_options() -> list[DeclaredOption]:
    """Return every option that can be set."""
    return [*declared_options(SamplingOptions), *declared_options(LimitOptions)]


def find_option(name: str) -> DeclaredOption:
    """Return the option of a name, with or without its dashes, `_` for `-`.

    Raises:
        UsageError: if there is none.
    """
    wanted = name.lstrip("-").replace("_", "-")
    options = {option.name: option for option in all_options()}
    if wanted not in options:
        raise UsageError(f"/set: there is no option {name}; known are {', '.join(options)}")
    return options[wanted]


def _defaults_of(option: DeclaredOption) -> dict[str, Any]:
    """Return what holds of an option, and of one that means the same, if nothing is given."""
    names = _ALIKE if option.field in _ALIKE else (option.field,)
    options = [option for option in all_options() if option.field in names]
    defaults = find_defaults(options, {})
    return {
        option.field: defaults[option.field].value if option.field in defaults else option.default
        for option in options
    }


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(_show_part(part) for part in value) or "none"
    return str(value)


def _show_part(part: Any) -> str:
    """Return a text in quotes, or one with its bias."""
    return repr(part) if isinstance(part, str) else f"{part[0]!r}={part[1]:g}"
