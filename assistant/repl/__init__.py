"""`turnmark chat`: a conversation in a terminal, or on a pipe a line a turn."""

from __future__ import annotations

import turnmark.assistant.repl.commands  # noqa: F401  (fills the registry)
from turnmark.assistant.repl.chat import COMMANDS, Chat
from turnmark.assistant.repl.loop import choose_index, run_chat

__all__ = ["COMMANDS", "Chat", "choose_index", "run_chat"]
