"""The configuration of an assistant: every choice that can change a reply, in one record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from turnmark.core.record import Record

PASSAGES, READ_PASSAGES = 6, 10
"""Passages found for a question; the second is for a large model, which reads all of them."""
MOST_MESSAGES = 100
"""Most earlier messages that a turn looks at, the last ones: what a turn costs does not grow with its conversation."""
TOKENS = 3000
"""Approximate tokens of sections that a large model reads."""


class AssistantConfig(Record):
    """The configuration of an assistant. Two assistants with the same one send a model the same messages.

    The Python API, every command, a session, the configuration file and `eval` build it; `open_assistant` opens it. A
    run's manifest, a session, `/why` and `/v1/models` show it.
    """

    index: str = Field(
        default="",
        description="name of the index; several names, separated by commas, are searched together; empty: a benchmark "
        "provides the passages",
    )
    generator: str = Field(default="extractive", description="spec of the language model; `extractive`: none")
    retriever: str | None = Field(default=None, description="spec of the retriever; None: the default for the index")
    embedder: str | None = Field(default=None, description="spec of the embedder; None: the embedder of the index")
    passages: int | None = Field(
        default=None,
        ge=1,
        description="passages found for a question, or a part of one; None: 10 for a large model, else 6",
    )
    tokens: int = Field(
        default=TOKENS,
        ge=1,
        description="approximate tokens of sections that a large model reads; up to five times as many more with tools",
    )
    prompts: Path | None = Field(
        default=None, description="folder with prompts that replace the built-in ones; None: no replacement"
    )
    steps: tuple[str, ...] = Field(
        default=(), description="`STEP=FORM` for each step that runs in another form than its default"
    )

    def shown(self) -> dict[str, Any]:
        """Return the configuration as JSON without local paths, to show it to others."""
        return self.model_dump(mode="json", exclude={"prompts"})
