"""The file of the response cache: its limit, many users at once, and damage."""

from __future__ import annotations

import multiprocessing
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnmark.assistant.generators.cache import ResponseStore


@pytest.fixture
def store(tmp_path):
    made = ResponseStore(tmp_path / "cache" / "responses.db")
    yield made
    made.close()


# --- the store -------------------------------------------------------------------------------------------------------


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


def test_the_first_to_keep_a_key_wins(store):
    store.put("k", "first")
    store.put("k", "second")
    assert store.get("k") == "first"
    store.drop("k")
    assert store.get("k") is None


def test_the_least_recently_used_go_first_and_the_file_stays_in_its_limit(tmp_path):
    store = ResponseStore(tmp_path / "r.db", limit=400_000)
    for number in range(200):
        store.put(f"key {number}", f"{number} " * 1000)
        assert store.get("key 0") is not None  # used all the time
    kept = [number for number in range(200) if store.get(f"key {number}") is not None]
    assert kept[0] == 0
    assert kept[1:] == list(range(200 - len(kept) + 1, 200))
    assert 20 < len(kept) < 150
    store.close()
    assert (tmp_path / "r.db").stat().st_size < 500_000
    store.put("whale", "x" * 200_000)  # would drive out all the rest
    assert store.get("whale") is None
    store.close()


def test_many_threads_share_a_store(store):
    def work(number):
        for round_ in range(20):
            store.put(f"{round_}", f"text {round_}")
            assert store.get(f"{round_}") == f"text {round_}"
        return number

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(work, range(8))) == list(range(8))


def _other_process(path, number, done):
    store = ResponseStore(path)
    good = 0
    for at in range(30):
        store.put(f"{number}-{at}", f"text {at}")
        store.put(f"all-{at}", f"text {at}")
        good += store.get(f"{number}-{at}") == store.get(f"all-{at}") == f"text {at}"
    done.put(good)


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_many_processes_share_a_store(store, start):
    store.put("before", "x")  # a connection that a forked child must not use
    context = multiprocessing.get_context(start)
    done = context.Queue()
    if start == "fork":
        children = [context.Process(target=_forked, args=(store, number, done)) for number in range(4)]
    else:
        children = [context.Process(target=_other_process, args=(store.path, number, done)) for number in range(2)]
    for child in children:
        child.start()
    assert [done.get(timeout=60) for _ in children] == [30] * len(children)
    for child in children:
        child.join(60)
    assert store.get("before") == "x"
    assert store.get("1-29") is not None


def _forked(store, number, done):
    done.put(sum(store.put(f"{number}-{at}", "y") is None and store.get(f"{number}-{at}") == "y" for at in range(30)))


# --- files that are not as they should be ----------------------------------------------------------------------------


def spoil_header(path):
    path.write_bytes(b"This is no database, " * 500)


def spoil_middle(path):
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xab" * len(content[4096:])
    path.write_bytes(content)


def spoil_half(path):
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize("spoil", [spoil_header, spoil_middle, spoil_half])
@pytest.mark.parametrize("opened", [False, True])
def test_a_damaged_file_is_put_aside_with_a_note_and_the_work_goes_on(store, spoil, opened, capsys):
    for number in range(50):
        store.put(f"{number}", "text " * 100)
    store.close()
    spoil(store.path)
    if opened:  # in the middle of a run, where another process notices it too
        other = ResponseStore(store.path)
        other.get("1")
    capsys.readouterr()
    for number in range(50):
        store.put(f"new {number}", "text")
    assert store.get("new 49") == "text"
    aside = list(store.path.parent.glob("responses.db.damaged-*"))
    assert len(aside) == 1
    assert aside[0].stat().st_size > 0
    assert store.path.stat().st_mode & 0o777 == 0o600
    if not opened:
        err = capsys.readouterr().err
        assert "turnmark: the response cache was damaged" in err
        assert str(aside[0]) in err
    else:
        other.close()


def test_a_bit_that_flipped_in_a_text_is_seen(store):
    store.put("k", "a whole reply")
    store.close()
    path = store.path
    content = path.read_bytes()
    assert b"a whole reply" in content
    path.write_bytes(content.replace(b"a whole reply", b"a whale reply"))
    assert store.get("k") is None
    store.put("k", "a whole reply")
    assert store.get("k") == "a whole reply"


def test_a_database_of_somebody_elses_is_left_alone(tmp_path, capsys):
    path = tmp_path / "r.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE reply (a, b)")
    db.commit()
    db.close()
    store = ResponseStore(path)
    store.put("k", "text")
    assert store.get("k") is None
    assert "cannot be used" in capsys.readouterr().err
    assert sqlite3.connect(path).execute("SELECT * FROM reply").fetchall() == []


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
