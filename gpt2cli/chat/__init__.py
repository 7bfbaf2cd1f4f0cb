"""The conversation: its turns, what the model sees of them, and what is kept on disk."""

from gpt2cli.chat.chat import Chat, ChatSettings, Exchange
from gpt2cli.chat.conversation import Conversation, Turn
from gpt2cli.chat.saved import SessionFile, read_conversation, write_conversation
from gpt2cli.chat.templates import TEMPLATES, choose_template

__all__ = [
    "TEMPLATES",
    "Chat",
    "ChatSettings",
    "Conversation",
    "Exchange",
    "SessionFile",
    "Turn",
    "choose_template",
    "read_conversation",
    "write_conversation",
]
