"""The file of samples: whole lines only, the last of a sample's lines holds, and the data's order in the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evaluation.disks import room
from tests.evaluation.run_records import sample
from turnmark.evaluation.journal import SampleJournal
from turnmark.evaluation.records import Sample


def rows(path: Path) -> list[tuple[str, str, int]]:
    rows_read = [json.loads(line) for line in path.read_text().splitlines()]
    return [(row["id"], row["status"], row["attempts"]) for row in rows_read]


def test_the_last_line_of_a_sample_holds(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    file = SampleJournal(path)
    file.append(sample("a", status="failed", reason="no"))
    file.append(sample("b", domain="x"))
    assert (file.unfinished, file.finished(("a", 0)), file.domains) == (1, False, {"x"})
    file.append(sample("a", attempts=2))
    assert (file.unfinished, len(file)) == (0, 2)
    file.close()
    again = SampleJournal(path)
    latest = again.get(("a", 0))
    assert (latest.status, latest.attempts) == ("done", 2)
    assert again.get(("c", 0)) is None
    again.arrange([("b", 0), ("a", 0), ("never made", 0)])
    assert rows(path) == [("b", "done", 1), ("a", "done", 2)]
    assert list(again.keys()) == [("b", 0), ("a", 0)]
    again.close()


@given(st.data())
def test_a_file_cut_anywhere_keeps_every_whole_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("cut") / "predictions.jsonl"
    file = SampleJournal(path)
    for number in range(5):
        file.append(sample(f"s{number}", query="ü" * number))
    file.close()
    content = path.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])
    lines_left = content[:cut].count(b"\n")
    again = SampleJournal(path)
    assert list(again.keys()) == [(f"s{number}", 0) for number in range(lines_left)]
    assert again.problems == ()
    again.append(sample("new"))
    again.close()
    assert [name for name, *_ in rows(path)] == [*(f"s{number}" for number in range(lines_left)), "new"]


def test_on_a_full_disk_a_line_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    file = SampleJournal(path)
    file.append(sample("a"))
    before = path.read_bytes()
    with room(len(before) + 100), pytest.raises(OSError, match=r"predictions\.jsonl"):
        file.append(sample("b", query="x" * 500))
    assert path.read_bytes() == before
    file.append(sample("b"))
    file.close()
    assert [name for name, *_ in rows(path)] == ["a", "b"]


def test_arranging_on_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    file = SampleJournal(path)
    file.append(sample("a", query="x" * 500))
    file.append(sample("b"))
    before = path.read_bytes()
    with room(100), pytest.raises(OSError, match="File too large"):
        file.arrange([("b", 0), ("a", 0)])
    assert path.read_bytes() == before
    file.close()
    again = SampleJournal(path)
    again.arrange([("b", 0), ("a", 0)])
    again.close()
    assert [name for name, *_ in rows(path)] == ["b", "a"]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_no_number_that_is_none_gets_into_the_file(tmp_path: Path, number: float) -> None:
    file = SampleJournal(tmp_path / "predictions.jsonl")
    with pytest.raises(ValueError, match="JSON"):
        file.append(Sample(id="a", status="done").model_copy(update={"confidence": number}))
    file.append(sample("a"))
    file.close()
    assert rows(file.path) == [("a", "done", 1)]
