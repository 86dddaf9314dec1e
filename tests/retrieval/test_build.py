"""Building an index: incremental builds, interrupted builds, damage."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
from filelock import FileLock

from tests.patience import PATIENCE
from tests.retrieval.conftest import content, write
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import home
from turnmark.corpora.text.analysis import ANALYSIS_VERSION
from turnmark.corpora.types import Passage
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.components import verify_index
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.search.retriever_factory import open_retriever
from turnmark.retrieval.storage.passage_store import rows_file
from turnmark.retrieval.storage.passage_writer import PassageWriter
from turnmark.retrieval.types import Query, Retriever


def test_built_index_is_searchable_and_second_build_does_nothing(notes):
    report = build_index(notes, "n")
    assert (report.documents, report.passages, report.embedded) == (3, 3, 3)
    index = open_index("n")
    for name in ("bm25", "dense", "hybrid", "hybrid?weight=1"):
        hits = open_retriever(name, index).search([Query(text="winter fuel"), Query(text="syrup for bees")], 1)
        assert [first[0].passage.document for first in hits] == ["boat.md", "bees.md"]
    assert verify_index(index) == []
    again = build_index(notes, "n")
    assert (again.unchanged, again.embedded) == (True, 0)
    assert open_index("n").manifest == index.manifest
    assert sorted(path.name for path in (home() / "indexes" / "n").glob("g*")) == ["g0001"]


def test_embeds_only_changed_passages(notes):
    build_index(notes, "n")
    old = content("n")
    write(
        notes, boat="# Boat\n\nDrain the fuel tank, then oil the hull.\n", ferry="# Ferry\n\nThe ferry sails at nine.\n"
    )
    (notes / "bees.md").unlink()
    report = build_index(notes, "n")
    assert (report.embedded, report.kept, report.removed) == (2, 1, 2)
    new = content("n")
    assert {i.split(".")[0] for i in new} == {"bread", "boat", "ferry"}
    [bread] = [i for i in old if i.startswith("bread")]
    assert np.array_equal(old[bread], new[bread])
    assert verify_index(open_index("n")) == []


def test_bm25_index_needs_no_torch_and_no_model(notes):
    script = (
        "import sys\nfrom pathlib import Path\nfrom turnmark.retrieval.index.build import build_index\n"
        "from turnmark.retrieval.search.opened_index import open_index\n"
        "from turnmark.retrieval.search.retriever_factory import open_retriever\n"
        "from turnmark.retrieval.types import Query\n"
        f"build_index(Path({str(notes)!r}), 'b', retriever='bm25')\n"
        "print(open_retriever('bm25', open_index('b')).search([Query(text='hull')], 1)[0][0].passage.document)\n"
        "assert not {'torch', 'transformers', 'sentence_transformers', 'chromadb'} & set(sys.modules)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, env=os.environ
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "boat.md"
    with pytest.raises(RequestError, match="has no vectors"):
        open_retriever("dense", open_index("b")).search([Query(text="hull")], 1)


def test_refuses_another_embedder(notes):
    build_index(notes, "n")
    with pytest.raises(RequestError, match="was built with the embedder 'minilm', not 'sentence-transformers:other'"):
        open_retriever("dense:other", open_index("n"))
    manifest = home() / "indexes" / "n" / "manifest.json"
    stored = json.loads(manifest.read_text(encoding="utf-8"))
    stored["embedder"]["fingerprint"] = "minilm|other weights|384|256"
    manifest.write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(RequestError, match="another model under the name 'minilm'"):
        open_retriever("dense", open_index("n")).search([Query(text="hull")], 1)


def test_source_without_passages_is_an_error_with_reasons(tmp_path):
    source = write(tmp_path / "s", empty="   \n")
    with pytest.raises(RequestError, match=r"nothing to index.*\n.*empty\.md"):
        build_index(source, "n")
    with pytest.raises(RequestError, match="no index is called"):
        open_index("n")
    with pytest.raises(RequestError, match="does not exist"):
        build_index(tmp_path / "nowhere", "n")
    assert not (home() / "indexes" / "n").exists()


def test_rebuild_keeps_files_of_an_open_index(notes):
    build_index(notes, "n")
    reader = open_retriever("hybrid", open_index("n"))
    (notes / "bees.md").unlink()
    build_index(notes, "n")
    assert reader.search([Query(text="bees")], 1)[0][0].passage.document == "bees.md"
    write(notes, more="# More\n\nAnother note.\n")
    build_index(notes, "n")
    with pytest.raises(RequestError, match="nothing to index"):
        build_index(write(notes.parent / "empty"), "n")
    assert sorted(path.name for path in (home() / "indexes" / "n").glob("g*/rows*")) == [rows_file(2), rows_file(3)]


@pytest.mark.parametrize("part", ["passages.db", rows_file(1), "exact"])
def test_missing_part_is_reported_and_rebuilt(notes, part):
    build_index(notes, "n")
    path = open_index("n").files / part
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(TurnmarkError, match=f"index 'n' is damaged: {part}"):
        open_retriever("hybrid", open_index("n")).search([Query(text="bees")], 1)
    assert any(part in problem for problem in verify_index(open_index("n")))
    assert not build_index(notes, "n").unchanged
    assert verify_index(open_index("n")) == []
    with FileLock(home() / "indexes" / "n" / ".lock"), pytest.raises(TurnmarkError, match="is being built by another"):
        build_index(notes, "n")


def _flip(content: bytes) -> bytes:
    return content[:-64] + bytes(255 - byte for byte in content[-64:])


@pytest.mark.parametrize("part", [rows_file(1), "passages.db", "exact/vectors.i8", "exact/signs.u8"])
@pytest.mark.parametrize("harm", [lambda content: content[: len(content) // 2], lambda content: b"", _flip])
def test_a_damaged_part_is_named_and_everything_built_again(notes, part, harm):
    build_index(notes, "n")
    assert build_index(notes, "n").unchanged
    file = open_index("n").files / part
    whole = file.read_bytes()
    if part == "passages.db" and harm is _flip:  # the headers of its pages
        file.write_bytes(b"".join(bytes(8) + whole[at + 8 : at + 4096] for at in range(0, len(whole), 4096)))
    else:
        file.write_bytes(harm(whole))
    report = build_index(notes, "n")
    assert not report.unchanged
    assert f"everything is read again: {part}" in str(report.problems[0]).replace("index 'n' is damaged: ", "")
    assert verify_index(open_index("n")) == []
    assert build_index(notes, "n").unchanged


def test_flipped_bytes_of_a_text_are_found_after_a_checkpoint(notes):
    build_index(notes, "n")
    path = open_index("n").files / "passages.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = path.read_bytes()
    assert whole.count(b"sugar syrup") == 1
    path.write_bytes(whole.replace(b"sugar syrup", b"maple syrup"))
    assert "passages.db is damaged" in verify_index(open_index("n"))[0]


def test_damaged_passages_are_reported_without_traceback(notes):
    build_index(notes, "n")
    path = open_index("n").files / "passages.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE passages SET page = 'last'")
    with pytest.raises(TurnmarkError, match=r"passages\.db is damaged: page: .*valid integer"):
        open_retriever("bm25", open_index("n")).search([Query(text="bees")], 1)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(TurnmarkError, match=r"passages\.db is damaged"):
        open_retriever("bm25", open_index("n")).search([Query(text="bees")], 1)
    assert "passages.db is damaged" in verify_index(open_index("n"))[0]


def test_terms_of_an_earlier_analysis_are_made_again_without_embedding(notes):
    build_index(notes, "n")
    mark = home() / "indexes" / "n" / "g0001" / "models"
    mark.write_text(mark.read_text().replace(f"analysis {ANALYSIS_VERSION}\n", ""))
    report = build_index(notes, "n")
    assert (report.embedded, report.passages) == (0, 3)
    assert sorted(path.name for path in (home() / "indexes" / "n").glob("g*")) == ["g0001", "g0002"]
    [[first]] = open_retriever("bm25", open_index("n")).search([Query(text="winter fuel")], 1)
    assert first.passage.document == "boat.md"


def test_wrong_request_keeps_an_interrupted_build(notes, monkeypatch):
    monkeypatch.setattr(PassageWriter, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_index(notes, "n")
    half = home() / "indexes" / "n" / "g0001" / "passages.db"
    assert half.is_file()
    with pytest.raises(RequestError, match="cannot be loaded"):
        build_index(notes, "n", embedder=f"sentence-transformers:{notes}")
    assert half.is_file()
    monkeypatch.undo()
    monkeypatch.setenv("TURNMARK_HOME", str(half.parents[3]))
    report = build_index(notes, "n")
    assert (report.embedded, report.kept) == (0, 3)


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_where_has_only_stars_and_question_marks(tmp_path):
    source = write(tmp_path / "s", **{"a[1]": "# A\n\nzebra one\n", "a1": "# B\n\nzebra two\n"})
    build_index(source, "n", retriever="bm25")
    retriever = open_retriever("bm25", open_index("n"))

    def found(glob: str) -> list[str]:
        hits = retriever.search([Query(text="zebra", where={"path": glob})], 5)[0]
        return sorted(hit.passage.path for hit in hits)

    assert found("a[1].md") == ["a[1].md"]
    assert found("a?.md") == ["a1.md"]
    assert found("*.md") == ["a1.md", "a[1].md"]
    assert found("b*") == []
    with pytest.raises(RequestError, match=r"no key is called 'colour'; there are: date, document(.|\n)*'size'"):
        retriever.search([Query(text="zebra", where={"colour": "red", "size": "big"})], 5)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("bm25?b=3", "a number from 0 to 1"),
        ("hybrid@http://x", "takes options only"),
        ("python:os:getcwd", "its factory failed"),
        ("python:turnmark.retrieval.types:Query.model_validate", "has no"),
        (
            "python:tests.retrieval.test_build:not_a_retriever",
            "returns is a object, not a retriever; make it",
        ),
        ("python:tests.retrieval.test_build:Nameless", "returns is a Nameless without a name"),
        ("python:tests.retrieval.test_build:Unfinished", "its factory failed: TypeError: .* abstract .*search"),
    ],
)
def test_refuses_wrong_retrievers(notes, spec, message):
    build_index(notes, "n")
    with pytest.raises(RequestError, match=message):
        open_retriever(spec, open_index("n"))


def not_a_retriever(index: object) -> object:
    return object()


class Nameless(Retriever):
    """A custom retriever that only searches."""

    def __init__(self, index: object) -> None:
        """Take the index as every factory does."""

    def search(self, queries, top_k):
        return [[] for _ in queries]


class Unfinished(Retriever):
    """A custom retriever without a search method."""

    name = "unfinished"

    def __init__(self, index: object) -> None:
        """Take the index as every factory does."""


def test_optional_methods_of_a_retriever_have_defaults():
    retriever = Nameless(None)
    passage = Passage(id="p", document="d", title="", text="", start=0, end=0)
    assert (retriever.titles(), retriever.neighbors(passage), retriever.word_shares(["text"])) == ([], [], ())
    assert (retriever.collection(), retriever.sure_from()) == (None, None)
    retriever.note_answer("an answer")
