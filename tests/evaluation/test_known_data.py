"""Whether a run's data are known to be those of the paper: by their content, or else by the sizes that are printed."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.evaluation import instructions as inscoqa
from tests.evaluation.kiwis import session, turn, written
from tests.evaluation.requests import request_of
from turnmark.corpora.benchmarks import mtrag
from turnmark.corpora.benchmarks.checking import PUBLISHED_STATISTICS, list_deviations
from turnmark.evaluation.benchmarks.inscoqa.generation import InsCoQA
from turnmark.evaluation.benchmarks.kiwi.revision import Kiwi
from turnmark.evaluation.benchmarks.mtrag.data import doubts_of_queries, doubts_of_tasks, labels_hash, tasks_hash


def a_task(name, domain="govt", question="q"):
    conversation, _, number = name.rpartition("<::>")
    return mtrag.MtragTask(
        id=name, conversation=conversation, turn=int(number), domain=domain, history=(), question=question,
        reference="r", contexts=(),
    )  # fmt: skip


def test_unavailable_domain_is_recognized_by_its_size():
    tasks = [a_task(f"c{number}<::>{n}") for number in range(28) for n in (1, 2)]
    assert doubts_of_tasks("mtrag", tasks) == {"": "56 tasks here, published 842"}
    assert doubts_of_tasks("mtrag", tasks[:-2])["govt"] == "govt has 27 conversations, published 28"
    labels = {f"q{number}": {"p": 1} for number in range(201)}
    assert doubts_of_queries("mtrag", {"govt": labels}) == {}
    labels.pop("q0")
    assert doubts_of_queries("mtrag", {"govt": labels}) == {"govt": "govt has 200 queries, published 201"}


def test_available_domain_is_recognized_by_its_content():
    """Any 208 queries are not the published ones."""
    labels = {f"q{number}": {"p": 1} for number in range(208)}
    assert doubts_of_queries("mtrag", {"clapnq": labels}) == {
        "clapnq": "clapnq has the published number of queries, but different ones"
    }


def test_hashes_ignore_order_spaces_and_irrelevant_labels():
    first, second = a_task("c<::>1", question="Who made it?"), a_task("c<::>2")
    assert tasks_hash([first, second]) == tasks_hash(
        [second, first.model_copy(update={"question": " Who  made it?\n"})]
    )
    assert tasks_hash([first]) != tasks_hash([first.model_copy(update={"reference": "another"})])
    assert labels_hash({"q": {"a": 1, "b": 2}}) == labels_hash({"q": {"b": 1, "a": 1, "c": 0}})
    assert labels_hash({"q": {"a": 1}}) != labels_hash({"q": {"b": 1}})


@pytest.mark.data
def test_the_published_domains_are_known(real_data, tmp_path):
    root = real_data / "mt-rag-benchmark"
    for benchmark in ("mtrag", "mtrag-un", "mtrag-s"):
        tasks = mtrag.load_tasks(root, benchmark).data.values()
        assert set(doubts_of_tasks(benchmark, tasks)) == {""}, "two domains of four"
    for benchmark in ("mtrag", "mtrag-un"):
        labels = {
            name: mtrag.load_qrels(root, benchmark, name).data for name in mtrag.retrieval_domains(root, benchmark)
        }
        assert doubts_of_queries(benchmark, labels) == {}
    folder = tmp_path / "mt-rag-benchmark/mtrag-human/generation_tasks"
    shutil.copytree(root / "mtrag-human/generation_tasks", folder)
    path = folder / "reference.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows[0]["targets"][0]["text"] = "Another answer."
    path.chmod(0o600)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    changed = doubts_of_tasks("mtrag", mtrag.load_tasks(tmp_path / "mt-rag-benchmark", "mtrag").data.values())
    assert changed["clapnq"] == "clapnq has the published number of tasks, but different ones"


def test_run_reports_doubts_for_every_row(benchmark_root, turnmark, tmp_path):
    words = "eval mtrag --task retrieval --retriever bm25 --query rewrite".split()
    turnmark.ok(*words, "--data", benchmark_root, "--out", tmp_path / "r")
    rows = json.loads((tmp_path / "r/summary.json").read_text())["published"]
    assert rows
    assert all("data" in row["differs"] for row in rows)
    (row,) = (row for row in rows if row["domains"] == ["fiqa"] and row["source"].startswith("MTRAG Table 4"))
    assert row["why"].startswith("data: not known to be the paper's: fiqa has 4 queries, published 180")


def test_inscoqa_and_kiwi_are_recognized_by_printed_numbers(tmp_path):
    task = InsCoQA(request_of(benchmark="inscoqa", data=inscoqa.source(tmp_path)))
    assert task.doubts() == {"test": "test: samples 2, published 2,793"}
    written(tmp_path / "kiwi", session(turn()))
    assert Kiwi(request_of(benchmark="kiwi", data=tmp_path / "kiwi")).doubts() == {"": "sessions 1, published 234"}


def test_a_printed_number_is_compared_as_it_is_printed():
    names = [name for name in PUBLISHED_STATISTICS["inscoqa"]["figures"] if name.startswith("test: ")]
    values = {name: PUBLISHED_STATISTICS["inscoqa"]["figures"][name] + 0.004 for name in names}
    assert list_deviations("inscoqa", values, names) == []
    off = values | {"test: steps a procedure, mean": 6.68, "test: samples": None}
    assert list_deviations("inscoqa", off, names) == [
        "test: samples unknown, published 2,793", "test: steps a procedure, mean 6.7, published 6.6",
    ]  # fmt: skip
