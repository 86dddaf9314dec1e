"""A damaged index made again: from its own passages where they hold, else from the source it was built from.

What is there stays until the new generation is whole, and what models made is made anew: it may be what is damaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from corpora.errors import TurnmarkError
from corpora.progress import Progress
from retrieval.again import anew, retriever_of
from retrieval.build import Build
from retrieval.index import Index, Manifest, locked
from retrieval.kept import Kept
from retrieval.makers import Models, Window
from retrieval.parts import Coder
from retrieval.registry import build_settings
from retrieval.store import PassageStore


class _Anew(Build):
    """A build that takes nothing over."""

    def _same(self, old: Manifest, new: Manifest) -> bool:  # noqa: ARG002
        return False

    def _reuse(self, store: PassageStore, kept: Kept, new: Manifest, coders: Sequence[Coder]) -> None:
        pass


class _FromPassages(_Anew):
    """A build that reads the passages of the current generation in place of the source."""

    def _read(self, store: PassageStore, window: Window) -> None:  # noqa: ARG002
        assert self.old is not None, "there is an index to mend"
        store.clear_passages()
        self.progress.start("reading", self.old.passages)
        for page in Index(self.folder, self.old).store.pages():
            store.add_passages(passage for _, _, passage in page)
            self.progress.advance(len(page))
        self.report.documents, self.report.passages = self.old.documents, store.count()
        store.renumber()

    def _manifest(self, store: PassageStore, models: Models, window: Window) -> Manifest:
        assert self.old is not None, "there is an index to mend"
        made = super()._manifest(store, models, window)
        return made.model_copy(update={"source": self.old.source, "skipped": self.old.skipped})


def rebuilt(index: Index, progress: Progress) -> str:
    """Make an index again as a new generation.

    Returns:
        What it was made from: `its passages`, or the path of the source.

    Raises:
        TurnmarkError: the passages are damaged and the source is gone, or another process builds the index.
    """
    made, source = index.manifest, Path(index.manifest.source)
    whole = _passages_hold(index)
    if not whole and not source.exists():
        raise TurnmarkError(
            f"index {made.name!r}: its passages are damaged and its source {str(source)!r} is gone; bring the source "
            f"back, then: {anew(made)}"
        )
    settings = build_settings(retriever_of(made), made.embedder.spec if made.embedder else "minilm")
    kind = _FromPassages if whole else _Anew
    with locked(index.folder):
        build = kind(source, index.folder, settings, made.include, made.exclude, progress, made.internal)
        build.run()
    return "its passages" if whole else str(source)


def _passages_hold(index: Index) -> bool:
    """Whether the passages are those that the manifest was written for."""
    try:
        return index.store.check() == "ok" and index.store.digest() == index.manifest.digest
    except TurnmarkError:
        return False
