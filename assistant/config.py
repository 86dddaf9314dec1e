"""The configuration of an assistant: every choice that can change a reply, in one record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from turnmark.core.record import Record

PASSAGES, READ_PASSAGES = 6, 10
"""Found for a question; the second for a large model, which reads them all."""
TOKENS = 3000


class AssistantConfig(Record):
    """What an assistant is made of. Two assistants with the same configuration send a model the same messages.

    The Python API, every command, a session, the configuration file and `eval` build it; `open_assistant` opens it. A
    run's manifest, a session, `/why` and `/v1/models` show it.
    """

    index: str = Field(default="", description="name of an index; empty: a benchmark brings the passages")
    generator: str = Field(default="extractive", description="spec of the language model; `extractive`: none")
    retriever: str | None = Field(default=None, description="spec of the retriever; None: the default for the index")
    embedder: str | None = Field(default=None, description="spec of the embedder; None: that of the index")
    passages: int | None = Field(
        default=None,
        ge=1,
        description="passages found for a question, or a part of one; None: 10 for a large model, else 6",
    )
    tokens: int = Field(default=TOKENS, ge=1, description="about how many tokens of sections a large model reads")
    prompts: Path | None = Field(default=None, description="folder with prompts of your own; None: ours")
    steps: tuple[str, ...] = Field(default=(), description="`STEP=FORM` each, where a step takes another form")

    def shown(self) -> dict[str, Any]:
        """The configuration as JSON, for other people: without the path of a folder of this machine."""
        return self.model_dump(mode="json", exclude={"prompts"})
