"""MTRAG answered from recorded passages; requests that are wrong; how many tasks the real data give."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluation.benched import items_of
from tests.evaluation.mtrag_runs import SIX, planned, ran
from turnmark.core.errors import RequestError


def write_trec(path, lists):
    lines = [
        f"{task} Q0 {name} 0 {10 - rank} x\n"
        for task, names in lists.items()
        for rank, name in enumerate(names.split())
    ]
    path.write_text("".join(lines))
    return path


def test_recorded_passages_are_answered_from(benchmark_root, searching, check_run):
    recorded = write_trec(Path("x.trec"), {
        "c1<::>1": "p6 gone p1 p2 p3 p4 p5", "c1<::>2": "p2", "c2<::>2": "p4 p5", "nobody": "p1",
    })  # fmt: skip
    run = ran(benchmark_root, Path("r"), setting="rag", passages=recorded, domains=("clapnq",))
    check_run(run.folder)
    assert searching.opened == [], "nothing is searched"
    assert run.shown("c1<::>1") == ["p6", "p1", "p2", "p3", "p4"], "five whose text is known"
    assert run.shown("c2<::>2") == ["p4", "p5"]
    # A task without a list is no test of anything: answered from nothing, it would be unknown for sure.
    assert {name: sample.kind for name, sample in run.samples.items() if sample.status == "failed"} == {
        "c1<::>3": "missing", "c2<::>1": "missing",
    }  # fmt: skip
    assert run.summary.specs["query"] == "recorded"
    notes = "\n".join(run.summary.notes)
    assert "--passages: 1 of 8 passages are not in the corpora here" in notes
    topped = ran(benchmark_root, Path("t"), setting="reference+rag", passages=recorded, domains=("clapnq",))
    shown = [topped.shown(name) for name in ("c1<::>1", "c1<::>2")]
    assert set(shown[0]) == {"p1", "p6", "p2", "p3", "p4"}
    assert any(names[0] not in ("p1", "p2") for names in shown), "a reference is not always first"
    again = ran(benchmark_root, Path("t2"), setting="reference+rag", passages=recorded, domains=("clapnq",))
    assert again.shown("c1<::>1") == shown[0], "the order is the task's"
    hiding = ran(benchmark_root, Path("h"), setting="rag", passages=recorded, domains=("clapnq",),
                 counterfactual=True)  # fmt: skip
    assert hiding.shown("c1<::>1#hidden") == ["p6", "p2", "p3", "p4", "p5"]


def test_passages_of_a_run_are_used_and_the_run_stays_unchanged(benchmark_root, searching):
    first = ran(benchmark_root, Path("first"), setting="rag")
    lists = {name: first.shown(name) for name in SIX}
    file = first.folder / "predictions.jsonl"
    file.write_text(file.read_text() + '{"id": "torn')  # as of a run that goes on
    before = file.read_bytes()
    searches = len(searching.asked)
    again = ran(benchmark_root, Path("again"), setting="rag", passages=first.folder)
    assert file.read_bytes() == before
    assert len(searching.asked) == searches
    assert {name: again.shown(name) for name in SIX} == lists
    # Passages that are handed in are read whole, and no sentence of theirs stands beside the answer.
    assert again.samples["c1<::>2"].prediction == "It was cast in 1858 [1], and twice [2]."


def test_reports_all_mistakes_of_recorded_passages(benchmark_root, tmp_path):
    with pytest.raises(RequestError) as caught:
        planned(benchmark_root, tmp_path / "x", domains=("govt",), query="rewrite", queries=Path("q.jsonl"),
                passages=Path("none"), counterfactual=True, generator="magic", retriever="odd")  # fmt: skip
    messages = "\n".join(caught.value.problems)
    for words in (
        "no generator is called 'magic'", "no retriever is called 'odd'",
        "--query: the setting reference searches for nothing",
        "--queries: the setting reference", "--passages: the setting reference", "--counterfactual hides passages",
        "--passages answers from a recorded retrieval", "--query and --queries name two",
        "no domain 'govt' in the data; there are: clapnq, fiqa", "--passages 'none': no such run folder or TREC run",
    ):  # fmt: skip
        assert messages.count(words) == 1, words
    assert not (tmp_path / "x").exists()


def test_queries_and_corpora_are_checked(benchmark_root, tmp_path):
    (benchmark_root / "corpora/passage_level/fiqa.jsonl").unlink()
    with pytest.raises(RequestError) as caught:
        planned(benchmark_root, tmp_path / "x", setting="rag", query="yesterday")
    messages = "\n".join(caught.value.problems)
    for words in ("no query mode is called 'yesterday'", "the passages of fiqa", "name the ones to use with --domains"):
        assert words in messages
    assert planned(benchmark_root, tmp_path / "x", setting="rag", domains=("clapnq",)).items == 5
    assert planned(benchmark_root, tmp_path / "x").items == 9, "the setting reference needs no corpus"
    with pytest.raises(RequestError, match="has no recorded queries"):
        planned(benchmark_root, tmp_path / "x", benchmark="mtrag-un", setting="rag", query="rewrite",
                domains=("clapnq",))  # fmt: skip
    wrong = write_trec(tmp_path / "x.trec", {"nobody": "p1"})
    with pytest.raises(RequestError, match="--passages: none of its 1 queries is a task of the data"):
        planned(benchmark_root, tmp_path / "x", setting="rag", passages=wrong, domains=("clapnq",))


@pytest.mark.parametrize(("benchmark", "setting", "items", "headline"), [
    ("mtrag", "reference", 423, 417), ("mtrag", "reference+rag", 203, 197), ("mtrag-un", "reference", 219, 219),
    ("mtrag-s", "reference", 607, 607),
])  # fmt: skip
def test_how_many_tasks_a_setting_has(real_data, benchmark, setting, items, headline):
    plan = planned(real_data, Path("r"), benchmark=benchmark, setting=setting)
    assert plan.items == items
    assert sum(item.headline for item in items_of(plan.task)) == headline
