"""The files of a run: appended, resumed, refused; whole lines only, and the last of a sample's lines holds."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.evaluation.run_records import DATA, manifest, sample
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.evaluation.records import Sample
from turnmark.evaluation.storage.journal import json_line, open_samples
from turnmark.evaluation.storage.run_folder import default_folder, open_run, package_versions


def ids(run):
    return [json.loads(line)["id"] for line in (run / "predictions.jsonl").read_text().splitlines()]


def test_a_run_resumes_after_a_kill_in_the_middle_of_a_line(tmp_path):
    with open_run(tmp_path / "r", manifest()) as run:
        run.append(sample("c<::>1"))
        run.append(sample("c<::>2", status="failed", reason="no"))
        run.append(sample("c<::>3"))
    with open(tmp_path / "r/predictions.jsonl", "a") as file:
        file.write('{"id": "c<::>4", "status": "do')
    (tmp_path / "r/summary.json").write_text("{}")
    with open_run(tmp_path / "r", manifest(started="later", command="another", versions={"x": "2"})) as run:
        assert list(run.samples.keys()) == [("c<::>1", 0), ("c<::>2", 0), ("c<::>3", 0)]
        assert [run.samples.finished((f"c<::>{n}", 0)) for n in (1, 2, 3, 4)] == [True, False, True, False]
        assert run.manifest.started == "then"
        run.reopen(pending=2)
        assert not (tmp_path / "r/summary.json").exists()
        with pytest.raises(ValueError, match=r"in predictions\.jsonl already"):
            run.append(sample("c<::>1"))
        run.append(sample("c<::>2"))
        run.samples.arrange([("c<::>1", 0), ("c<::>2", 0), ("c<::>3", 0)])
    assert ids(tmp_path / "r") == ["c<::>1", "c<::>2", "c<::>3"]


def test_invalid_line_is_reported_and_its_sample_made_again(tmp_path):
    with open_run(tmp_path / "r", manifest()) as run:
        run.append(sample("a"))
        run.append(sample("b"))
    path = tmp_path / "r/predictions.jsonl"
    path.write_text("nonsense\n" + path.read_text())
    with open_run(tmp_path / "r", manifest()) as run:
        assert [str(problem) for problem in run.samples.problems] == [
            "predictions.jsonl:1: not a sample; dropped and tried again"
        ]
        assert list(run.samples.keys()) == [("a", 0), ("b", 0)]
        assert run.samples.damaged
        run.samples.arrange([("a", 0), ("b", 0)])
    assert ids(tmp_path / "r") == ["a", "b"]


def test_refuses_another_run_and_names_the_difference(tmp_path):
    with open_run(tmp_path / "r", manifest()):
        pass
    with (
        pytest.raises(RequestError) as caught,
        open_run(tmp_path / "r", manifest(specs={"retriever": "dense"}, seed=1)),
    ):
        pass
    assert caught.value.problems[1:] == ("  seed: 0 there, 1 here", "  specs.retriever: 'bm25' there, 'dense' here")


def test_refuses_a_file_and_a_folder_with_other_files(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(RequestError, match="contains files and is not a run"), open_run(tmp_path, manifest()):
        pass
    with pytest.raises(RequestError, match="is a file"), open_run(tmp_path / "thesis.txt", manifest()):
        pass
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(RequestError, match=r"manifest\.json cannot be read"), open_run(tmp_path, manifest()):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "thesis.txt"]


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    run_folder = tmp_path / "r"
    run_folder.mkdir()
    for name in (".lock", ".manifest.json.123.part"):
        (run_folder / name).write_text("{")
    with open_run(run_folder, manifest()) as run:
        run.append(sample("a"))
    for name in (".summary.json.124.part", ".scores.jsonl.part", ".predictions.jsonl.part"):
        (run_folder / name).write_text("{")
    with open_run(run_folder, manifest()):
        pass
    assert sorted(path.name for path in run_folder.glob("*.part")) == []
    assert ids(run_folder) == ["a"]


def test_refuses_a_second_process(tmp_path):
    with (
        open_run(tmp_path / "r", manifest()),
        pytest.raises(TurnmarkError, match="another process"),
        open_run(tmp_path / "r", manifest()),
    ):
        pass
    with open_run(tmp_path / "r", manifest()) as run:
        run.append(sample("a"))


def test_the_default_folder_changes_with_everything_that_can_change_a_result():
    changes: list[dict[str, Any]] = [
        {}, {"seed": 1}, {"domains": ("b",)}, {"limit": 3}, {"only": ("x",)}, {"specs": {"retriever": "dense"}},
        {"inputs": {"queries": "1"}}, {"data": DATA.model_copy(update={"fingerprint": "g"})},
    ]  # fmt: skip
    names = {str(default_folder(manifest(**change))) for change in changes}
    assert len(names) == len(changes)
    elsewhere = manifest(started="x", command="y", ended="z", indexes={"a": "b"}, version="2", versions={"git": "c"})
    assert default_folder(manifest()) == default_folder(elsewhere)
    assert manifest().identity == manifest(started="x").identity


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_versions_name_the_commit_of_a_checkout() -> None:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert package_versions([])["git"].removesuffix("-dirty") == commit


@given(st.text(), st.text(min_size=1))
def test_any_text_is_written_as_one_line_and_reads_back(query, name):
    row = sample(name, query=query)
    line = json_line(row)
    assert len(line.splitlines()) == 1
    assert Sample.model_validate_json(line.encode("utf-8")) == row


def rows(path):
    rows_read = [json.loads(line) for line in path.read_text().splitlines()]
    return [(row["id"], row["status"], row["attempts"]) for row in rows_read]


@given(st.data())
def test_truncated_file_keeps_every_complete_line(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("cut") / "predictions.jsonl"
    file = open_samples(path)
    for number in range(5):
        file.append(sample(f"s{number}", query="ü" * number))
    file.close()
    content = path.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])
    lines_left = content[:cut].count(b"\n")
    again = open_samples(path)
    assert list(again.keys()) == [(f"s{number}", 0) for number in range(lines_left)]
    assert again.problems == ()
    again.append(sample("new"))
    again.close()
    assert [name for name, *_ in rows(path)] == [*(f"s{number}" for number in range(lines_left)), "new"]
