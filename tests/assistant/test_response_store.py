"""The file of the response cache: its limit, many users at once, and damage."""

from __future__ import annotations

import multiprocessing
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnmark.assistant.generators.cache import ResponseStore


@pytest.fixture
def store(tmp_path):
    opened = ResponseStore(tmp_path / "cache" / "responses.db")
    yield opened
    opened.close()


UTF8 = st.text(st.characters(codec="utf-8"), max_size=200)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(UTF8, UTF8, max_size=8))
def test_what_is_put_in_comes_out(tmp_path_factory, pairs):
    store = ResponseStore(tmp_path_factory.mktemp("store") / "r.db")
    for key, text in pairs.items():
        store.put(key, text)
    store.close()
    assert {key: store.get(key) for key in pairs} == pairs
    store.close()


def test_the_least_recently_used_go_first_and_the_file_stays_in_its_limit(tmp_path):
    store = ResponseStore(tmp_path / "r.db", limit=400_000)
    for number in range(200):
        store.put(f"key {number}", f"{number} " * 1000)
        assert store.get("key 0") is not None  # used all the time
    present = [number for number in range(200) if store.get(f"key {number}") is not None]
    assert present[0] == 0
    assert present[1:] == list(range(200 - len(present) + 1, 200))
    assert 20 < len(present) < 150
    store.close()
    assert (tmp_path / "r.db").stat().st_size < 500_000
    store.put("whale", "x" * 200_000)  # would drive out all the rest
    assert store.get("whale") is None
    store.close()


def _other_process(path, number, results):
    store = ResponseStore(path)
    good = 0
    for n in range(30):
        store.put(f"{number}-{n}", f"text {n}")
        store.put(f"all-{n}", f"text {n}")
        good += store.get(f"{number}-{n}") == store.get(f"all-{n}") == f"text {n}"
    results.put(good)


def _forked(store, number, results):
    results.put(sum(store.put(f"{number}-{n}", "y") is None and store.get(f"{number}-{n}") == "y" for n in range(30)))


@pytest.mark.parametrize(("start", "work"), [("spawn", _other_process), ("fork", _forked)])
def test_many_processes_share_a_store(store, start, work):
    store.put("before", "x")  # a connection that a forked child must not use
    context = multiprocessing.get_context(start)
    results = context.Queue()
    shared = store if start == "fork" else store.path
    children = [context.Process(target=work, args=(shared, number, results)) for number in range(2)]
    for child in children:
        child.start()
    assert [results.get(timeout=60) for _ in children] == [30, 30]
    for child in children:
        child.join(60)
    assert store.get("before") == "x"
    assert store.get("1-29") is not None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: b"This is no database, " * 500,
        lambda content: content[:4096] + b"\xab" * len(content[4096:]),
        lambda content: content[:5000],
    ],
)
def test_a_damaged_file_is_begun_anew_with_a_note(store, spoil, capsys):
    for number in range(50):
        store.put(f"{number}", "text " * 100)
    store.close()
    store.path.write_bytes(spoil(store.path.read_bytes()))
    for number in range(50):
        store.put(f"new {number}", "text")
    assert store.get("new 49") == "text"
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert f"turnmark: the response cache {store.path} was damaged" in capsys.readouterr().err


def test_a_file_that_another_process_holds_is_done_without(store, monkeypatch, capsys):
    monkeypatch.setattr("turnmark.assistant.generators.cache._BUSY_SECONDS", 0.1)
    store.put("k", "text")
    store.close()
    holder = sqlite3.connect(store.path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    assert store.get("k") is None
    holder.execute("ROLLBACK")
    assert "cannot be used" in capsys.readouterr().err
    assert store.get("k") is None  # it rests for a while, so that a run does not wait again and again
    monkeypatch.setattr(store, "_paused_until", 0.0)
    assert store.get("k") == "text"
