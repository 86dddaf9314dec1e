"""`turnmark chat`: a conversation in a terminal, or on a pipe a line a turn."""

from __future__ import annotations

from assistant.repl.chat import Chat
from assistant.repl.loop import choose_index, run_chat

__all__ = ["Chat", "choose_index", "run_chat"]
