"""`turnmark where` and `turnmark remove` over a home with an index, conversations, a model, data and caches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.search.opened_index import indexes_folder, lock_index


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNMARK_CACHE", raising=False)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turnmark) -> Path:
    """Return a home in which everything is kept."""
    home = tmp_path / "home"
    work = tmp_path / "work"
    (work / "notes").mkdir(parents=True)
    monkeypatch.setenv("TURNMARK_HOME", str(home))
    monkeypatch.chdir(work)
    (work / "notes" / "kettle.md").write_text("# Kettle\n\nThe kettle is red.\n", encoding="utf-8")
    build_index(work / "notes", "notes", retriever="bm25")
    turnmark.ok("chat", "--index", "notes", stdin="What colour is the kettle?\n/save kettles\n")
    for path, size in {
        "models/splade-tiny/model.bin": 5000, "data/mtrag/corpus.jsonl": 300, "cache/replies.db": 40,
        "cache/replies.db-wal": 2, "cache/ocr/page.json": 7, "cache/descriptions.db": 9, "ratings/ask.jsonl": 9,
        "config.toml": 0,
    }.items():  # fmt: skip
        file = home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b" " * size)
    return home


def names(turnmark) -> list[str]:
    """Return the names that `where` shows."""
    return [item["name"] for item in turnmark.json("where")["kept"]]


EVERYTHING = [
    "indexes/notes", "sessions/kettles", "models/splade-tiny", "data/mtrag", "cache/descriptions", "cache/ocr",
    "cache/replies", "config.toml", "ratings",
]  # fmt: skip


def test_where_shows_everything_with_its_size(turnmark, kept):
    shown = turnmark.json("where")
    items = {item["name"]: item for item in shown["kept"]}
    assert list(items) == EVERYTHING
    assert shown["home"] == str(kept)
    assert shown["bytes"] == sum(item["bytes"] for item in items.values())
    assert (items["models/splade-tiny"]["bytes"], items["cache/replies"]["bytes"]) == (5000, 42)
    assert items["indexes/notes"]["paths"] == [str(kept / "indexes" / "notes")]
    text = turnmark.ok("where").out
    assert all(name in text for name in EVERYTHING)
    assert "5 kB" in text


def test_every_file_of_the_home_is_shown(turnmark, kept):
    shown = [Path(path) for item in turnmark.json("where")["kept"] for path in item["paths"]]
    for file in kept.rglob("*"):
        if file.is_file() and not file.name.startswith("."):
            assert any(file.is_relative_to(path) for path in shown), file


def test_an_empty_home_keeps_nothing(turnmark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "nothing is kept yet" in turnmark.ok("where").out
    assert turnmark.json("where")["kept"] == []


def test_removes_by_full_name_or_by_its_last_part(turnmark, kept):
    assert turnmark.ok("remove", "notes", "sessions/kettles", "replies").out.count("removed") == 3
    assert names(turnmark) == [name for name in EVERYTHING if name not in
                               ("indexes/notes", "sessions/kettles", "cache/replies")]  # fmt: skip
    assert turnmark.json("remove", "models/splade-tiny")["removed"] == ["models/splade-tiny"]
    assert not (kept / "models" / "splade-tiny").exists()


def test_refuses_what_is_not_listed_and_removes_nothing_else(turnmark, kept):
    message = turnmark.refused("remove", "ntoes", "../work", "sessions/kettle")
    assert "'ntoes' (did you mean 'notes'?)" in message
    assert "(did you mean 'sessions/kettles'?)" in message
    assert "NAME is missing" in turnmark.refused("remove")
    assert "--all, without a name" in turnmark.refused("remove", "notes", "--all")
    assert names(turnmark) == EVERYTHING


def test_a_name_that_two_things_have_needs_its_kind(turnmark, kept):
    (kept / "models" / "notes").mkdir()
    assert "'notes' may be indexes/notes or models/notes" in turnmark.refused("remove", "notes")


@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("", 1), ("y\n", 0)])
def test_removing_an_index_asks_on_a_terminal(turnmark, kept, monkeypatch, answer, code):
    monkeypatch.setattr("turnmark.retrieval.commands.stdin_is_terminal", lambda: True)
    ran = turnmark("index", "remove", "notes", stdin=answer)
    assert "Delete the index notes?" in ran.out + ran.err
    assert ran.code == code
    assert ("indexes/notes" in names(turnmark)) is bool(code)
    assert "no index is called 'gone'" in turnmark.refused("index", "remove", "gone")


@pytest.mark.parametrize(("answer", "left"), [("n\n", EVERYTHING), ("", EVERYTHING), ("y\n", EVERYTHING[1:])])
def test_a_terminal_asks_for_confirmation(turnmark, kept, monkeypatch, answer, left):
    monkeypatch.setattr("turnmark.local_state.stdin_is_terminal", lambda: True)
    ran = turnmark("remove", "notes", stdin=answer)
    assert "Delete indexes/notes (" in ran.out + ran.err
    assert (ran.code, "turnmark: canceled" in ran.err) == ((0, False) if answer == "y\n" else (1, True))
    assert names(turnmark) == left
    turnmark.ok("remove", "ratings", "--yes", stdin="")
    assert "ratings" not in names(turnmark)


def test_a_name_is_confirmed_on_a_terminal(turnmark, kept, monkeypatch):
    monkeypatch.setattr("turnmark.local_state.stdin_is_terminal", lambda: True)
    ran = turnmark("remove", "indexes/notes", stdin="n\n")
    assert "Delete indexes/notes (" in ran.out + ran.err
    assert "indexes/notes" in names(turnmark)
    turnmark.ok("remove", "indexes/notes", "--yes")
    assert "indexes/notes" not in names(turnmark)


def test_all_needs_a_confirmation_and_keeps_the_configuration(turnmark, kept):
    assert "confirm it with --yes" in turnmark.refused("remove", "--all", stdin="")
    assert names(turnmark) == EVERYTHING
    turnmark.ok("remove", "--all", "--yes")
    assert names(turnmark) == ["config.toml"]


def test_an_index_that_is_being_built_stays_and_the_rest_is_removed(turnmark, kept):
    with lock_index(indexes_folder() / "notes"):
        ran = turnmark("remove", "notes", "ratings", "kettles")
    assert (ran.code, "being built by another process" in ran.err) == (1, True)
    assert names(turnmark) == [name for name in EVERYTHING if name not in ("ratings", "sessions/kettles")]


def test_caches_that_a_variable_moves_are_shown_and_removed(turnmark, kept, tmp_path, monkeypatch):
    moved = tmp_path / "moved"
    for name in ("centers", "mine"):
        (moved / name).mkdir(parents=True)
    monkeypatch.setenv("TURNMARK_CACHE", str(moved))
    assert "cache/centers" in names(turnmark)
    turnmark.ok("remove", "--all", "--yes")
    assert [path.name for path in moved.iterdir()] == ["mine"]


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no links")
def test_a_link_is_removed_and_not_what_it_points_to(turnmark, kept, tmp_path):
    target = tmp_path / "mine"
    target.mkdir()
    (target / "file").write_text("mine", encoding="utf-8")
    (kept / "data" / "linked").symlink_to(target)
    turnmark.ok("remove", "data/linked")
    assert (target / "file").exists()
    assert not (kept / "data" / "linked").is_symlink()
