"""The commands of a chat, lines that begin with a slash."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from export.small_files import ReadError, read_text
from gpt2cli.chat.config import ChatConfig
from gpt2cli.chat.dialogue import Dialogue
from gpt2cli.chat.editor import edit
from gpt2cli.chat.settable import change_setting, describe_settings, find_option, unquote
from gpt2cli.conversations.conversation import (
    read_conversation,
    tell_replies_differ,
    write_conversation,
)
from gpt2cli.declarations import options_of
from gpt2cli.errors import PromptError, UsageError

_MOST_BYTES: Final = 2**20  # of a message that is read: no model's context holds so much


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
        "template": conversation.template,
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


def _read(dialogue: Dialogue, argument: str) -> None:
    path = _path(argument, "/read", example="notes.txt")
    try:
        text = read_text(path, most_bytes=_MOST_BYTES).strip()
    except ReadError as error:
        raise PromptError(f"/read: {path} {error}") from error
    if not text:
        raise PromptError(f"/read: {path} is empty; nothing was sent")
    exchange = dialogue.chat.ask(text)
    dialogue.notes.report(f"sent {path}, {len(text)} characters")
    dialogue.reply(exchange)


def _system(dialogue: Dialogue, argument: str) -> None:
    if argument:
        [option] = (o for o in options_of(ChatConfig) if o.field == "system")
        dialogue.chat.change_system(option.parse(unquote(argument)))
        dialogue.save_session()
    dialogue.notes.report(dialogue.chat.conversation.system or "there is no system text")


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
    "/system": ChatCommand(
        "/system [TEXT]",
        "show or change the text before the conversation",
        _system,
        more='As --system: \\n is a newline. /system "" takes it away. From the next reply on the\n'
        "model sees the new text before all turns; /undo takes turns back, not this.",
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
    "/read": ChatCommand(
        "/read FILE",
        "send what a text file holds as a message",
        _read,
        more=f"The file is UTF-8 and has at most {_MOST_BYTES} bytes. White space around the text\n"
        "is left out. Tab completes the name.",
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


def _path(argument: str, command: str, *, example: str = "talk.json") -> Path:
    if not argument:
        raise UsageError(f"{command}: expected a file, for example: {command} {example}")
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
