"""Filters by date, front matter, folder and language, in every retriever, and what became of a file."""

import os
from pathlib import Path

import pytest

from turnmark.core.errors import RequestError
from turnmark.corpora.readers import read_source
from turnmark.retrieval.file_account import account_for, ask_about
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.storage.filters import normal_date, parse_where

NOTES = {
    "bread/sourdough.md": "---\ndate: 2025-02-03\ntags: [baking, bread]\nstatus: final\n---\n# Sourdough\n\n"
    "Feed the starter every day with flour and water.\n",
    "bread/rye.md": "---\ndate: 2024-11\ntags:\n  - baking\n  - rye\nstatus: draft\ndue: 2025-03-01\n---\n# Rye\n\n"
    "Rye bread needs a sour starter and a long bake.\n",
    "work/plan.md": "---\nStatus: final\ntags: work, planning\nmodified: 2023-05-06T10:00:00\n---\n# Plan\n\n"
    "The starter kit for new colleagues contains a badge.\n",
    "year.md": "---\ndate: 2025\n---\n# Year\n\nThe starter of the year.\n",
    "car.txt": "The starter of the old car must be replaced in spring.\n",
    "mail.eml": "From: Alice Baker <alice@example.org>\nTo: bob@example.org\nSubject: Friday\n"
    "Date: Mon, 6 Jan 2025 10:00:00 +0000\n\nCan you bring your starter on Friday?\n",
    "rows.jsonl": '{"title": "Ticket", "text": "The starter does not turn.", "priority": 1, '
    '"labels": ["car", "urgent"]}\n',
}


def write_notes(folder: Path) -> Path:
    for name, text in NOTES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    os.utime(folder / "car.txt", (1656676800, 1656676800))  # 2022-07-01
    os.utime(folder / "rows.jsonl", (1656676800, 1656676800))
    return folder


@pytest.fixture
def notes(tmp_path: Path) -> Index:
    build_index(write_notes(tmp_path / "notes"), "notes", retriever="bm25")
    return Index.open("notes")


def found(index: Index, *where: str) -> set[str]:
    return {hit.passage.document for hit in index.search("starter", 20, where=list(where))}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("date>=2025", {"bread/sourdough.md", "mail.eml", "year.md"}),
        ("date>=2025-01", {"bread/sourdough.md", "mail.eml"}),
        ("date>2025-01", {"bread/sourdough.md"}),
        ("date<=2025-01", {"bread/rye.md", "work/plan.md", "car.txt", "mail.eml", "rows.jsonl#1"}),
        ("date<2025-01-06", {"bread/rye.md", "work/plan.md", "car.txt", "rows.jsonl#1"}),
        ("date=2024", {"bread/rye.md"}),
        ("date = 2022-07-01", {"car.txt", "rows.jsonl#1"}),
        ("tags=baking", {"bread/sourdough.md", "bread/rye.md"}),
        ("tags=plan*", {"work/plan.md"}),
        ("STATUS=final", {"bread/sourdough.md", "work/plan.md"}),
        ("due<2025-04", {"bread/rye.md"}),
        ("from=alice@*", {"mail.eml"}),
        ("labels=urgent", {"rows.jsonl#1"}),
        ("priority=1", {"rows.jsonl#1"}),
        ("folder=bread/", {"bread/sourdough.md", "bread/rye.md"}),
        ("folder=b*", {"bread/sourdough.md", "bread/rye.md"}),
        ("language=English", {each for each in NOTES if each != "rows.jsonl"} | {"rows.jsonl#1"}),
        ("language=de", set()),
        ("tags=none", set()),
    ],
)
def test_filter_by_key(notes: Index, where: str, expected: set[str]) -> None:
    assert found(notes, where) == expected


def test_all_conditions_must_match(notes: Index) -> None:
    assert found(notes, "tags=baking", "tags=rye") == {"bread/rye.md"}
    assert found(notes, "date>=2024-11", "date<2025", "index=n*") == {"bread/rye.md"}
    assert found(notes, "index=other") == set()


def test_filter_applies_before_ranking_ends(tmp_path: Path) -> None:
    """One document of two hundred matches, and all others rank before it."""
    source = tmp_path / "many"
    source.mkdir()
    for number in range(200):
        (source / f"{number}.md").write_text(f"---\nstatus: old\n---\n# Note {number}\n\nstarter starter starter\n")
    (source / "wanted.md").write_text(
        "---\nstatus: new\n---\n# Note\n\nThe starter is one word among many others here.\n"
    )
    build_index(source, "many", retriever="bm25")
    assert [hit.passage.document for hit in Index.open("many").search("starter", 1, where="status=new")] == [
        "wanted.md"
    ]


def test_all_mistakes_are_reported_at_once(notes: Index) -> None:
    with pytest.raises(RequestError) as raised:
        parse_where(["date=soon", "path", "page>3", "tags=x"])
    assert [problem.split(":")[0] for problem in raised.value.problems] == [
        "--where date=soon",
        "--where 'path'",
        "--where page>3",
    ]
    with pytest.raises(RequestError, match=r"'staus' \(did you mean 'status'\?\); there are: date, document, due"):
        found(notes, "staus=x")


@pytest.mark.parametrize(
    ("written", "date"),
    [("2025-01-31T10:00", "2025-01-31"), ("2025/1/5", "2025-01-05"), ("2025.11", "2025-11"), ("2025", "2025"),
     ("2025-13-01", ""), ("20250131", ""), ("spring 2025", ""), ("1.2.2025", "")],
)  # fmt: skip
def test_dates_are_normalized(written: str, date: str) -> None:
    assert normal_date(written) == date


def test_front_matter_is_limited(tmp_path: Path) -> None:
    keys = "".join(f"k{number}: v\n" for number in range(80))
    (tmp_path / "a.md").write_text(
        f"---\nlong: {'x' * 300}\ntags: [{', '.join(map(str, range(300)))}]\n{keys}---\ntext\n"
    )
    [document] = read_source(tmp_path)
    assert len(document.metadata) == 50
    assert len(document.metadata["tags"]) == 100
    assert "long" not in document.metadata


def test_changed_metadata_needs_no_new_passages(tmp_path: Path) -> None:
    source = write_notes(tmp_path / "notes")
    build_index(source, "notes", retriever="bm25")
    rye = source / "bread/rye.md"
    rye.write_text(rye.read_text().replace("date: 2024-11", "date: 2026-02\nweather: rain"))
    report = build_index(source, "notes", retriever="bm25")
    assert report.documents == len(NOTES)
    assert found(Index.open("notes"), "date>=2026", "weather=rain") == {"bread/rye.md"}
    rye.unlink()
    build_index(source, "notes", retriever="bm25")
    with pytest.raises(RequestError, match="no key is called 'weather'"):
        found(Index.open("notes"), "weather=rain")


def test_compacted_index_keeps_its_fields(tmp_path: Path) -> None:
    source = write_notes(tmp_path / "notes")
    build_index(source, "notes", retriever="bm25")
    build_index(source, "notes", retriever="bm25", compact=True)
    assert found(Index.open("notes"), "tags=rye") == {"bread/rye.md"}


def test_tables_are_filtered_by_their_document(tmp_path: Path) -> None:
    source = tmp_path / "s"
    source.mkdir()
    for year in (2024, 2025):
        rows = "".join(f"| item {row} | {row * year} |\n" for row in range(5))
        (source / f"{year}.md").write_text(
            f"---\ndate: {year}-05-01\n---\n# Sales\n\n| name | price |\n|---|---|\n{rows}"
        )
    build_index(source, "tables", retriever="bm25")
    store = Index.open("tables").tables
    assert store is not None
    where = parse_where("date>=2025")
    assert [table.document for table in store.tables(where)] == ["2025.md"]
    [only] = store.under(where).tables()
    assert store.under(where).run(f"SELECT sum(price) FROM {only.name}").rows == ((10 * 2025,),)
    other = next(table.name for table in store.tables() if table.document == "2024.md")
    with pytest.raises(RequestError):
        store.under(where).run(f"SELECT sum(price) FROM {other}")


def test_joined_indexes_are_filtered_each(notes: Index, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.md").write_text("---\ncolor: red\n---\n# A\n\nA red starter.\n")
    build_index(other, "other", retriever="bm25")
    both = Index.open("notes,other")
    assert found(both, "color=red") == {"a.md"}
    assert found(both, "tags=rye") == {"bread/rye.md"}


# --- what became of a file -------------------------------------------------------------------------------------------


def test_account_of_files(tmp_path: Path) -> None:
    source = write_notes(tmp_path / "notes")
    (source / ".gitignore").write_text("ignored/\n")
    for name in ("ignored/a.md", ".hidden.md", "drafts/b.md", "c.xyz", "node_modules/d.md"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text("text\n")
    (source / "broken.docx").write_bytes(b"no archive")
    build_index(source, "notes", retriever="bm25", exclude=["drafts/"])
    (source / "new.md").write_text("new\n")
    (source / "bread/sourdough.md").unlink()
    index = Index.open("notes").parts[0]

    read = account_for(index, "rye.md")
    assert (read.file, read.read, read.reader) == ("bread/rye.md", True, "Markdown")
    assert read.documents[0].fields == {
        "tags": ("baking", "rye"),
        "status": ("draft",),
        "due": ("2025-03-01",),
        "date": ("2024-11",),
    }
    assert account_for(index, str(source / "bread/rye.md")) == read
    assert "does not exist any more" in account_for(index, "bread/sourdough.md").reasons[0]
    reasons = {
        "ignored/a.md": ".gitignore excludes ignored", ".hidden.md": "hidden", "drafts/b.md": "--exclude",
        "c.xyz": "type .xyz", "node_modules/d.md": "packages", "broken.docx": "not a Word file",
        "new.md": "next build reads it", "bread": "is a folder", "/etc/passwd": "not in the folder",
        "../notes-2/a.md": "not in the folder", "nothing.md": "no such file",
    }  # fmt: skip
    for name, reason in reasons.items():
        account = account_for(index, name)
        assert not account.read
        assert reason in account.reasons[0], name
    assert account_for(index, "soudough.md").similar[0] == "bread/sourdough.md"


def test_account_of_a_question(notes: Index) -> None:
    account = account_for(notes.parts[0], "work/plan.md")
    first = ask_about(notes, account, "badge of colleagues", ()).question
    assert first is not None
    assert (first.rank, first.before) == (1, {})
    later = ask_about(notes, account, "sour starter and long bake", ()).question
    assert later is not None
    assert later.rank is not None
    assert later.rank > 1
    assert "bread/rye.md" in later.before
    filtered = ask_about(notes, account, "badge", parse_where(["status=final", "tags=rye"])).question
    assert filtered is not None
    assert filtered.reasons == ("the filter tags=rye leaves it out",)
