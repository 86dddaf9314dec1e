"""An index after any sequence of updates ranks as a new index of the same files does."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.retrieval.conftest import write
from turnmark.core.errors import RequestError
from turnmark.core.home import home, write_json
from turnmark.corpora.text import languages
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.components import verify_index
from turnmark.retrieval.search.opened_index import StoredIndex, open_index
from turnmark.retrieval.search.retriever_factory import open_retriever
from turnmark.retrieval.storage.passage_writer import PassageWriter
from turnmark.retrieval.types import Query

ENGLISH = "The kettle is descaled before winter, and the fuel tank of the boat is drained by the harbour master."
GERMAN = "Der Kessel wird vor dem Winter entkalkt, und der Tank des Bootes wird vom Hafenmeister abgelassen."
TABLE = "| item | amount |\n|---|---|\n| kettle | {} |\n| boat | 20 |\n| tank | 30 |\n"
QUESTIONS = ("descaled kettle", "Tank des Bootes", "harbour master in winter", "kettle 7", "amount of the boat")


class Folder:
    """A folder of notes that changes at random."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.dice = path, random.Random(seed)
        path.mkdir()
        for _ in range(6):
            self.add()

    def files(self) -> list[Path]:
        return sorted(path for path in self.path.rglob("*") if path.is_file())

    def add(self) -> None:
        folder = self.path / self.dice.choice(["", "a", "a/b", "z"])
        write(folder, **{f"note{self.dice.randrange(40)}": self.text()})

    def text(self) -> str:
        paragraph = self.dice.choice([ENGLISH, ENGLISH, GERMAN, TABLE.format(self.dice.randrange(9))])
        sections = [f"## Kettle {self.dice.randrange(9)}\n\n{paragraph}" for _ in range(self.dice.randrange(1, 4))]
        return "\n\n".join([f"# Note {self.dice.randrange(5)}", *sections])

    def change(self) -> None:
        self.dice.choice(self.files()).write_text(self.text(), encoding="utf-8")

    def remove(self) -> None:
        if len(self.files()) > 2:
            self.dice.choice(self.files()).unlink()

    def rename(self) -> None:
        path = self.dice.choice(self.files())
        path.rename(path.with_name(f"renamed{self.dice.randrange(40)}.md"))

    def step(self) -> None:
        """Make one to three random changes."""
        for _ in range(self.dice.randrange(1, 4)):
            self.dice.choice([self.add, self.change, self.remove, self.rename])()


def ids(index: StoredIndex) -> list[str]:
    return [passage.id for page in index.store.pages() for _, _, passage in page]


def assert_same(updated: StoredIndex, fresh: StoredIndex, retriever: str) -> None:
    """Assert that two indexes have the same passages in the same order, and rank them alike.

    The last digits of a vector depend on the texts that were embedded together.
    """
    tolerance = 1e-6 if retriever == "bm25" else 1e-4
    assert ids(updated) == ids(fresh)
    assert updated.manifest.digest == fresh.manifest.digest
    assert updated.manifest.languages == fresh.manifest.languages
    assert updated.manifest.tables == fresh.manifest.tables
    for question in QUESTIONS:
        assert updated.bm25.scores(question) == pytest.approx(fresh.bm25.scores(question), abs=1e-6)
        ours, theirs = (
            open_retriever(retriever, index).search([Query(text=question)], 10)[0] for index in (updated, fresh)
        )
        assert [hit.passage for hit in ours] == [hit.passage for hit in theirs]
        assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs], abs=tolerance)


@pytest.mark.parametrize("seed", range(8))
def test_ranks_after_updates_as_a_new_index_does(tmp_path, seed, monkeypatch):
    """Some updates are interrupted, and some compact the index."""
    monkeypatch.setattr(languages, "SAMPLED_DOCUMENTS", 4 if seed % 2 else 5000)
    retriever = "hybrid" if seed < 2 else "bm25"
    folder = Folder(tmp_path / "notes", seed)
    build_index(folder.path, "updated", retriever=retriever)
    for number in range(5):
        folder.step()
        if folder.dice.random() < 0.4:
            interrupt(monkeypatch, folder)
            folder.step()
        build_index(folder.path, "updated", retriever=retriever, compact=folder.dice.random() < 0.2)
        assert verify_index(open_index("updated")) == []
        build_index(folder.path, f"fresh{number}", retriever=retriever)
        assert_same(open_index("updated"), open_index(f"fresh{number}"), retriever)


def interrupt(monkeypatch: pytest.MonkeyPatch, folder: Folder) -> None:
    """Start a build that ends at a random call of its storage; the index stays as it was, unless it was published."""
    old = open_index("updated")
    before, left = ids(old), [folder.dice.randrange(1, 12)]

    def ending(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
            return real(*arguments)

        return call

    with monkeypatch.context() as patched:
        for name in ("put", "remove_files", "set_languages", "add_terms", "add_contents", "publish", "rows", "note"):
            patched.setattr(PassageWriter, name, ending(getattr(PassageWriter, name)))
        try:
            build_index(folder.path, "updated", retriever=old.manifest.retriever)
        except KeyboardInterrupt:
            index = open_index("updated")
            assert not old.is_current() or ids(index) == before
            assert verify_index(index) == []


def test_index_that_is_open_does_not_change(notes):
    build_index(notes, "n", retriever="hybrid")
    opened = open_index("n")
    retriever = open_retriever("hybrid", opened)
    before = [(hit.passage, hit.score) for hit in retriever.search([Query(text="fuel for bees")], 5)[0]]
    write(notes, boat="# Boat\n\nOil the hull.\n", ferry="# Ferry\n\nThe ferry needs fuel.\n")
    (notes / "bees.md").unlink()
    assert build_index(notes, "n", retriever="hybrid").embedded == 2
    late = open_retriever("hybrid", StoredIndex(opened.folder, opened.manifest))
    for either in (retriever, late):
        assert [(hit.passage, hit.score) for hit in either.search([Query(text="fuel for bees")], 5)[0]] == before
    assert not opened.is_current()


def test_compacting_removes_what_is_gone(notes):
    build_index(notes, "n", retriever="hybrid")
    for number in range(4):
        write(notes, boat=f"# Boat\n\nOil the hull {number} times.\n")
        build_index(notes, "n", retriever="hybrid")
    compacted = open_index("n")
    assert compacted.manifest.generation == 2, "more than half of what was stored was gone"
    assert int(compacted.store.select("SELECT count(*) FROM passages")[0][0]) <= 5
    assert np.array_equal(compacted.rows.keys[:2], [0, 1])
    report = build_index(notes, "n", retriever="hybrid", compact=True)
    assert (report.embedded, report.removed) == (0, 0)
    assert build_index(notes, "n", retriever="hybrid").unchanged
    assert verify_index(open_index("n")) == []


def test_other_settings_keep_the_vectors(notes):
    build_index(notes, "n", retriever="hybrid")
    for retriever, embedded in (("hybrid?language=german", 0), ("bm25", 0), ("hybrid", 3), ("hybrid?k1=1.2", 0)):
        report = build_index(notes, "n", retriever=retriever)
        assert (report.embedded, report.unchanged) == (embedded, False)
        assert verify_index(open_index("n")) == []


def test_an_earlier_format_is_built_again(notes, capsys):
    build_index(notes, "n", retriever="conversational")
    manifest = open_index("n").manifest.model_dump(mode="json", exclude={"revision", "pending"})
    (open_index("n").files / "models").write_text("format 5", encoding="utf-8")
    write_json(home() / "indexes" / "n" / "manifest.json", {**manifest, "format": 5, "exact": True})
    with pytest.raises(
        RequestError, match=r"has format 5, .*3 passages are embedded, in about 1 min\): turnmark index build"
    ):
        open_index("n")
    report = build_index(notes, "n", retriever="conversational")
    assert report.embedded == 3
    assert "for a new format, all files are read again, and its 3 passages are embedded" in capsys.readouterr().err
    assert verify_index(open_index("n")) == []
