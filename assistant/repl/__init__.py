"""`turnmark chat`: a conversation in a terminal, or on a pipe a line a turn."""

from __future__ import annotations

from turnmark.assistant.repl.chat import Chat
from turnmark.assistant.repl.loop import choose_index, run_chat

__all__ = ["Chat", "choose_index", "run_chat"]
