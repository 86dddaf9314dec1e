"""A source is read in its order, although several files are read at the same time."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from queue import LifoQueue

import pytest

from turnmark.corpora.chunking import regex_tokens
from turnmark.corpora.readers import isolation
from turnmark.corpora.readers.report import ReadingReport
from turnmark.retrieval.index.encoders import Window
from turnmark.retrieval.index.source_reading import SourceEntry, SourceReader
from turnmark.retrieval.tables.table_update import TableUpdate


def mail(text: str) -> bytes:
    """Return a file that is read in a process of its own."""
    return f"From: a@example.org\nSubject: Gate\n\n{text}\n".encode()


def reader_of(source: Path, watch: ReadingReport, processes: int) -> SourceReader:
    return SourceReader(source, (), (), {}, watch, processes)


def cut_entries(reader: SourceReader) -> list[SourceEntry]:
    window, tables = Window(256, 256, regex_tokens), TableUpdate(reader.source, None, "")
    return [reader.cut(entry, window, tables) for entry in reader.entries()]


def rows_of(source: Path, processes: int) -> tuple[list[tuple[str, list[str], list[str]]], dict[str, int]]:
    """Return path, texts and problems of each entry, and the counts of unread files."""
    watch = ReadingReport()
    with closing(reader_of(source, watch, processes)) as reader:
        entries = cut_entries(reader)
    rows = []
    for entry in entries:
        texts = [passage.text for passages in entry.passages.values() for passage in passages]
        rows.append((entry.path, texts, [problem.what for problem in entry.problems]))
    return rows, dict(watch.unread)


def test_order_problems_and_counts_do_not_depend_on_the_number_of_processes(tmp_path):
    for number in range(6):
        (tmp_path / f"{number}a.eml").write_bytes(mail(f"Gate {number} is shut."))
        (tmp_path / f"{number}b.md").write_text(f"# Gate\n\nGate {number} is open.\n", encoding="utf-8")
    (tmp_path / "2c.pdf").write_bytes(b"%PDF-1.4 broken")
    (tmp_path / "4d.doc").write_bytes(b"\xd0\xcf\x11\xe0 a type that is not read")
    one, two = rows_of(tmp_path, 1), rows_of(tmp_path, 2)
    assert one == two
    rows, unread = two
    assert [path for path, _, _ in rows] == sorted(path for path, _, _ in rows)
    assert [len(texts) for path, texts, _ in rows if path == "3a.eml" and "Gate 3 is shut." in texts[0]] == [1]
    assert [len(problems) for path, _, problems in rows if path == "2c.pdf"] == [1]
    assert unread == {".doc": 1}


def test_files_are_read_in_several_processes(tmp_path, monkeypatch):
    """Each of two files waits until the other one is being read."""
    for name in ("a.eml", "b.eml"):
        (tmp_path / name).write_bytes(mail(f"This is {name}."))
    monkeypatch.setattr(isolation, "_free", LifoQueue())
    for _ in range(2):
        isolation._free.put(None)
    both = threading.Barrier(2, timeout=60)
    names: set[str] = set()

    def tell(text: str) -> None:
        name = text.split(",")[0]
        if name not in names:
            names.add(name)
            both.wait()

    with closing(reader_of(tmp_path, ReadingReport(tell), 2)) as reader:
        texts = [entry.passages[entry.path][0].text for entry in cut_entries(reader)]
    assert ["a.eml" in texts[0], "b.eml" in texts[1]] == [True, True]


def test_error_in_the_report_ends_all_reading(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.eml").write_bytes(mail(f"Gate {number}."))

    def tell(text: str) -> None:
        if "3.eml" in text:
            raise KeyError(text)

    before = threading.active_count()
    with closing(reader_of(tmp_path, ReadingReport(tell), 2)) as reader, pytest.raises(KeyError):
        cut_entries(reader)
    reading = [thread for thread in threading.enumerate() if thread.name.startswith("turnmark-reading")]
    assert reading == []
    assert threading.active_count() <= before + isolation.MAX_PROCESSES  # the readers' output
