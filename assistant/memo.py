"""Embedding each text of a turn once: its steps ask for the same sentences one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from retrieval.given import Embed


def once(embed: Embed) -> Embed:
    """`embed`, which is asked for no text twice. For one turn of one thread: what it remembers is never let go."""
    known: dict[str, NDArray[np.float32]] = {}

    def vectors(texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known.update(zip(new, embed(new), strict=True))
        if not texts:
            return embed([])
        return np.stack([known[text] for text in texts])

    return vectors
