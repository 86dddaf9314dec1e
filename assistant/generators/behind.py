"""What a generator in front of another takes from it."""

from __future__ import annotations

from turnmark.assistant.generators.base import Generator, call_deadline


class Behind:
    """Name and limits of the generator behind; whoever stands in front adds its own `complete`."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator

    @property
    def name(self) -> str:
        """See `Generator.name`."""
        return self.generator.name

    @property
    def context_tokens(self) -> int:
        """See `Generator.context_tokens`."""
        return self.generator.context_tokens

    @property
    def reply_tokens(self) -> int:
        """See `Generator.reply_tokens`."""
        return self.generator.reply_tokens

    @property
    def deadline(self) -> float:
        """Seconds that a call may take unless it says otherwise: the generator's own."""
        return call_deadline(self.generator)
