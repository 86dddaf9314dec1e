"""The 200 labels of later turns: what the file must be, which samples they reach, and how our own rule does on them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmark.corpora import mtrag
from turnmark.corpora.errors import RequestError
from turnmark.evaluation.benchmarks.mtrag_data import read_standalone, standalone_labels, task_facts

SEED = 20261121
HEAD = "# a comment\ntask_id\tlabel\n"


def a_task(name: str, standalone: bool | None = None) -> mtrag.Task:
    conversation, _, turn = name.rpartition("<::>")
    return mtrag.Task(
        id=name, conversation=conversation, turn=int(turn), domain="clapnq", history=(), question="q", reference="r",
        contexts=(), standalone=standalone,
    )  # fmt: skip


def test_the_packaged_labels_are_200_later_turns() -> None:
    labels = standalone_labels()
    assert Counter(labels.values()) == {True: 114, False: 86}
    assert min(int(name.rpartition("<::>")[2]) for name in labels) == 2
    assert standalone_labels() is labels


def test_a_label_reaches_its_task_and_no_other_turn_of_the_conversation() -> None:
    name, alone = next(iter(standalone_labels().items()))
    expected = "standalone" if alone else "non-standalone"
    assert task_facts(a_task(name, standalone=not alone), "clapnq").labels["standalone"] == (expected,)
    first = name.rpartition("<::>")[0] + "<::>1"
    assert "standalone" not in task_facts(a_task(first, standalone=True), "clapnq").labels


def test_elsewhere_the_mark_of_the_data_counts() -> None:
    assert task_facts(a_task("another<::>2", standalone=False), "x").labels["standalone"] == ("non-standalone",)
    assert "standalone" not in task_facts(a_task("another<::>2"), "x").labels


def test_every_mistake_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "labels.tsv"
    rows = ("a<::>2\tstandalone", "a<::>2\tnon-standalone", "", "a<::>1\tstandalone", "b\tS", "<::>3\tstandalone", "c")
    path.write_text(HEAD + "\n".join(rows))
    with pytest.raises(RequestError) as caught:
        read_standalone(path)
    assert [problem.removeprefix("labels.tsv, ").split(";")[0] for problem in caught.value.problems] == [
        "line 4: 'a<::>2' has a label already",
        "line 6: 'a<::>1' is no task id of a later turn (<conversation><::><turn>)",
        "line 7: 'b' is no task id of a later turn (<conversation><::><turn>)",
        "line 7: label 'S'",
        "line 8: '<::>3' is no task id of a later turn (<conversation><::><turn>)",
        "line 9: 1 cells",
    ]


def test_a_file_without_column_names_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels.tsv"
    path.write_text("a<::>2\tstandalone\n")
    with pytest.raises(RequestError, match="the columns are task_id and label"):
        read_standalone(path)


IDS = st.from_regex(r"[0-9a-f]{1,8}<::>([2-9]|1[0-9])", fullmatch=True)


@given(st.dictionaries(IDS, st.booleans(), max_size=5), st.text(max_size=30))
def test_what_was_written_is_read_and_anything_else_is_a_mistake(
    tmp_path_factory: pytest.TempPathFactory, labels: dict[str, bool], junk: str
) -> None:
    path = tmp_path_factory.mktemp("labels") / "labels.tsv"
    text = HEAD + "".join(f"{name}\t{'standalone' if alone else 'non-standalone'}\n" for name, alone in labels.items())
    path.write_text(text, encoding="utf-8")
    assert read_standalone(path) == labels
    path.write_text(text + junk, encoding="utf-8")
    try:
        label_of = read_standalone(path)
    except RequestError as error:
        problems = error.problems
    else:
        problems = []
        assert set(labels.items()) <= set(label_of.items())
    assert all("labels.tsv, line " in problem for problem in problems)


@pytest.mark.data
def test_the_turns_are_those_that_the_seed_draws(real_data: Path) -> None:
    tasks = mtrag.load_tasks(real_data / "mt-rag-benchmark", "mtrag").data
    drawn: set[str] = set()
    for domain in ("clapnq", "fiqa"):
        qrels = mtrag.load_qrels(real_data / "mt-rag-benchmark", "mtrag", domain).data
        later = [query for query in qrels if tasks[query].turn > 1]
        random.Random(SEED).shuffle(later)
        drawn.update(later[:100])
    assert drawn == set(standalone_labels())


@pytest.mark.data
def test_our_rule_agrees_with_most_labels(real_data: Path) -> None:
    from turnmark.assistant.steps.understand import stands_alone, understand

    tasks = mtrag.load_tasks(real_data / "mt-rag-benchmark", "mtrag").data
    rule, turns = Counter[tuple[bool, bool]](), Counter[tuple[bool, bool]]()
    for name, alone in standalone_labels().items():
        task = tasks[name]
        rule[alone, stands_alone(task.history, task.question)] += 1
        turns[alone, understand(task.history, task.question).standalone] += 1
    for name, counts in (("stands_alone", rule), ("understand", turns)):
        cells = [counts[pair] for pair in ((False, False), (False, True), (True, False), (True, True))]
        accuracy = (cells[0] + cells[3]) / sum(cells)
        print(f"{name}: accuracy {accuracy:.3f}; labelled N, S in rows, found N, S in columns: {cells}")
        assert sum(cells) == 200
        assert accuracy >= 0.70
