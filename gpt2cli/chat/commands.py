"""The commands of a chat, lines that begin with a slash, and the settings that /set changes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpt2cli.chat.conversation import (
    read_conversation,
    tell_replies_differ,
    write_conversation,
)
from gpt2cli.chat.dialogue import Dialogue
from gpt2cli.chat.editor import edit
from gpt2cli.config import GenerationConfig, SamplingConfig, SeedConfig
from gpt2cli.declarations import Option, options_of
from gpt2cli.errors import UsageError
from gpt2cli.option_kinds import SWITCH
from gpt2cli.settings import Given, Settings, find_settings

_GROUPS: Final = (SamplingConfig, SeedConfig, GenerationConfig)
_ALIKE: Final = frozenset({"temperature", "greedy"})  # greedy is a temperature


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """One command: how it is written, what it does, in a line and in whole, and the doing."""

    usage: str
    summary: str
    run: Callable[[Dialogue, str], None]
    more: str = ""


def run_command(dialogue: Dialogue, line: str) -> None:
    """Run the command on a line.

    Raises:
        UsageError: if there is no such command, or it fails.
        Gpt2Error: whatever it meets.
    """
    name, argument = _split(line)
    find_command(name).run(dialogue, argument)


def find_command(name: str) -> ChatCommand:
    """Return the command of this name, with or without its slash.

    Raises:
        UsageError: if there is none.
    """
    name = name if name.startswith("/") else f"/{name}"
    command = COMMANDS.get(_ALIASES.get(name, name))
    if command is None:
        raise UsageError(
            f"there is no command {name}; /help lists them "
            "(a space before it sends the line as a message)"
        )
    return command


def _help(dialogue: Dialogue, argument: str) -> None:
    if argument:
        command = find_command(argument)
        lines = [f"{command.usage}  {command.summary}", *command.more.splitlines()]
    else:
        width = max(len(command.usage) for command in COMMANDS.values())
        lines = [f"{c.usage:{width}}  {c.summary}" for c in COMMANDS.values()]
        lines += [
            "",
            'A message of several lines stands between """ and """, or is pasted; Alt-Enter',
            "begins a new line. Ctrl-C ends the reply, Ctrl-D the chat.",
        ]
    dialogue.notes.report("\n".join(lines))


def _set(dialogue: Dialogue, argument: str) -> None:
    name, value = _split(argument)
    if not name:
        dialogue.notes.report(_format_pairs(describe_settings(dialogue.chat.settings)))
        return
    option = find_option(name)
    if value:
        dialogue.chat.change_settings(change_setting(dialogue.chat.settings, option, value))
        if option.field == "seed":
            dialogue.chat.restart_seed()
    told = f"{option.name} {describe_settings(dialogue.chat.settings)[option.name]}"
    dialogue.notes.report(told if value else f"{told}\n{option.told}")


def _show(dialogue: Dialogue, argument: str) -> None:
    chat, stored = dialogue.chat, dialogue.model.stored
    conversation = chat.conversation
    about = {
        "model": f"{stored.title}, {stored.folder.precision} on "
        f"{dialogue.model.engine.device}, {chat.n_positions} tokens",
        "template": chat.template,
        "names": f"{conversation.user_name}, {conversation.bot_name}",
        "system": conversation.system or "none",
        "turns": str(len(conversation.turns)),
        "session": str(dialogue.session.path) if dialogue.session else "not kept",
    }
    dialogue.notes.report(_format_pairs(about | describe_settings(dialogue.chat.settings)))


def _undo(dialogue: Dialogue, argument: str) -> None:
    turn = dialogue.chat.undo()
    dialogue.save_session()
    dialogue.notes.report(f"taken back: {turn.message}")


def _regenerate(dialogue: Dialogue, argument: str) -> None:
    dialogue.reply(dialogue.chat.ask_again())


def _edit(dialogue: Dialogue, argument: str) -> None:
    if not dialogue.source.on_terminal:
        raise UsageError("/edit: expected a terminal")
    turns = dialogue.chat.conversation.turns
    text = edit(turns[-1].message if turns else "").strip()
    if not text:
        raise UsageError("/edit: the text is empty; nothing was sent")
    dialogue.notes.report(text)
    dialogue.reply(dialogue.chat.ask_again(text) if turns else dialogue.chat.ask(text))


def _save(dialogue: Dialogue, argument: str) -> None:
    path = _path(argument, "/save")
    if path.exists():
        read_conversation(path)  # any other file is not overwritten
    write_conversation(path, dialogue.chat.conversation, model=dialogue.model.stored.name)
    dialogue.notes.report(f"saved to {path}")


def _load(dialogue: Dialogue, argument: str) -> None:
    path = _path(argument, "/load")
    known_by_text = dialogue.chat.take_up(read_conversation(path))
    dialogue.save_session()
    turns = len(dialogue.chat.conversation.turns)
    dialogue.notes.report(f"loaded {turns} turn{'' if turns == 1 else 's'} from {path}")
    if known_by_text:
        dialogue.notes.note(tell_replies_differ(path))


def _reset(dialogue: Dialogue, argument: str) -> None:
    dialogue.chat.conversation = dialogue.chat.conversation.forget()
    dialogue.save_session()
    dialogue.notes.report("the conversation starts over")


def _context(dialogue: Dialogue, argument: str) -> None:
    text, tokens = dialogue.chat.context()
    limit = dialogue.chat.n_positions
    lines = [text] if text else []
    dialogue.notes.report("\n".join([*lines, f"({tokens} tokens, {limit - tokens} left)"]))


def _stats(dialogue: Dialogue, argument: str) -> None:
    dialogue.notes.report(dialogue.describe_last())


def _exit(dialogue: Dialogue, argument: str) -> None:
    dialogue.ended = True


COMMANDS: Final[Mapping[str, ChatCommand]] = {
    "/help": ChatCommand("/help [COMMAND]", "list the commands, or explain one", _help),
    "/set": ChatCommand(
        "/set [OPTION [VALUE]]",
        "show or change a sampling or limit option",
        _set,
        more="OPTION is named as on the command line, such as temperature or max-new-tokens.\n"
        "A switch is on or off; the value default undoes a change. A repeatable option takes\n"
        'a text or a JSON array: /set stop ["\\n", "."]. Changes hold from the next reply on:\n'
        "it has the seed that was set, the reply after it the next number.",
    ),
    "/show": ChatCommand("/show", "show the model, the names and all settings", _show),
    "/undo": ChatCommand("/undo", "take the last turn back", _undo),
    "/regen": ChatCommand(
        "/regen",
        "draw the last reply anew",
        _regenerate,
        more="If a seed was set it is the same reply, unless another option has changed.\n"
        "To get an earlier reply back, first /set seed to the one that /stats showed for it.",
    ),
    "/edit": ChatCommand(
        "/edit",
        "edit the last message and send it instead",
        _edit,
        more="The editor is $VISUAL, or $EDITOR, or vi. An empty text sends nothing.",
    ),
    "/save": ChatCommand(
        "/save FILE",
        "save the conversation as JSON",
        _save,
        more="A file that is not a saved conversation is not overwritten.",
    ),
    "/load": ChatCommand(
        "/load FILE",
        "continue a saved conversation instead of this one",
        _load,
        more="Its system text and names replace yours; the settings stay.",
    ),
    "/reset": ChatCommand("/reset", "forget all turns; the system text stays", _reset),
    "/context": ChatCommand(
        "/context",
        "show what the model sees before the next message",
        _context,
        more="That is the exact text, and how many tokens are left for message and reply.",
    ),
    "/stats": ChatCommand("/stats", "show speeds, counts and the seed of the last reply", _stats),
    "/exit": ChatCommand("/exit", "leave, as Ctrl-D does", _exit),
}

# Names that people know from ollama and other programs.
_ALIASES: Final[Mapping[str, str]] = {"/bye": "/exit", "/quit": "/exit", "/?": "/help"}


def _path(argument: str, command: str) -> Path:
    if not argument:
        raise UsageError(f"{command}: expected a file, for example: {command} talk.json")
    try:
        path = Path(argument).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{command}: there is no user with the name in {argument}") from error
    if "\0" in argument:
        raise UsageError(f"{command}: expected a file's name, which has no NUL")
    return path


def _split(text: str) -> tuple[str, str]:
    """Return the first word, and what follows it."""
    first, *rest = text.split(None, 1) or [""]
    return first, "".join(rest).strip()


def _format_pairs(values: Mapping[str, str]) -> str:
    width = max(len(name) for name in values)
    return "\n".join(f"{name:{width}}  {value}" for name, value in values.items())


def change_setting(settings: Settings, option: Option, text: str) -> Settings:
    """Return the settings with one value changed.

    The value `default` takes back a change: the environment, the config file or the model then
    decide.

    Raises:
        UsageError: if the value is invalid, or does not go together with others.
    """
    if text == "default":  # the environment, the config file or the model say what holds
        fields = _ALIKE if option.field in _ALIKE else {option.field}
        behind = find_settings((settings.options[field] for field in fields), {})
        return settings.without(fields).over(behind.given).check()
    return settings.over({option.field: Given(option.parse(_unquote(text)))}).check()


def describe_settings(settings: Settings) -> dict[str, str]:
    """Return each option's value in force, by its name."""
    return {o.name: _show_value(o, settings.values[o.field]) for o in all_options()}


def all_options() -> list[Option]:
    """Return every option that can be set."""
    return [option for group in _GROUPS for option in options_of(group)]


def find_option(name: str) -> Option:
    """Return the option of a name, with or without its dashes, `_` for `-`.

    Raises:
        UsageError: if there is none.
    """
    wanted = name.lstrip("-").replace("_", "-")
    options = {option.name: option for option in all_options()}
    if wanted not in options:
        raise UsageError(f"/set: there is no option {name}; known are {', '.join(options)}")
    return options[wanted]


def _unquote(text: str) -> str:
    """Return what stands within double quotes; the text itself if it does not."""
    quoted = len(text) > 1 and text.startswith('"') and text.endswith('"')
    return text[1:-1] if quoted else text


def _show_value(option: Option, value: Any) -> str:
    if option.kind is SWITCH:
        return "on" if value else "off"
    if option.field == "seed" and value is None:
        return "random"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(_show_part(part) for part in value) or "none"
    return str(value)


def _show_part(part: Any) -> str:
    """Return a text in quotes, one with its bias, or an id."""
    return f"{part[0]!r}={part[1]:g}" if isinstance(part, tuple) else repr(part)
