"""A component of an index: what it is written from, read back as, and checked by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from turnmark.corpora.console import Progress
from turnmark.corpora.types import Passage
from turnmark.retrieval.manifest import Manifest
from turnmark.retrieval.store import Checkpoint, PassageStore

if TYPE_CHECKING:
    from turnmark.retrieval.index import Index

VECTORS = "vectors"
"""Key of the passages' vectors in a checkpoint, whichever store they end in."""

Page = Sequence[tuple[int, str, Passage]]
"""(row, content hash, passage), as `PassageStore.pages` gives them."""


@dataclass(frozen=True)
class Material:
    """What a component is written from."""

    folder: Path
    manifest: Manifest
    store: PassageStore
    checkpoint: Checkpoint
    progress: Progress


class Component(Protocol):
    """One component: `name` is that of its folder, and `key` that of its contents in a checkpoint."""

    name: str
    key: str

    def made_by(self, manifest: Manifest) -> str | None:
        """Fingerprint of the model that made it, empty if none did; None: an index of that manifest lacks it."""
        ...

    def write(self, material: Material) -> None:
        """Write its folder, which does not exist yet, from the checkpoint."""
        ...

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:
        """Content hash -> its value in a checkpoint, from a finished index, for the passages that have it."""
        ...

    def verify(self, index: Index, sample: int) -> Iterator[str]:
        """What is wrong with it. `sample` passages are given to its model again."""
        ...


def checkpoint_pages(key: str, material: Material) -> Iterator[list[bytes]]:
    """The checkpoint's values of a key, in row order, a page at a time."""
    for page in material.store.pages():
        yield material.checkpoint.get(key, [content for _, content, _ in page])
