"""The 200 labels of later turns: what the file must be, which samples they reach, and how our own rule does on them."""

from __future__ import annotations

from collections import Counter

import pytest

from turnmark.corpora.benchmarks import mtrag
from turnmark.evaluation.benchmarks.mtrag.data import standalone_labels, task_item


def a_task(name, standalone=None):
    conversation, _, turn = name.rpartition("<::>")
    return mtrag.MtragTask(
        id=name, conversation=conversation, turn=int(turn), domain="clapnq", history=(), question="q", reference="r",
        contexts=(), standalone=standalone,
    )  # fmt: skip


def test_the_packaged_labels_are_200_later_turns():
    labels = standalone_labels()
    assert Counter(labels.values()) == {True: 114, False: 86}
    assert min(int(name.rpartition("<::>")[2]) for name in labels) == 2
    assert standalone_labels() is labels


def test_a_label_reaches_its_task_and_no_other_turn_of_the_conversation():
    name, alone = next(iter(standalone_labels().items()))
    expected = "standalone" if alone else "non-standalone"
    assert task_item(a_task(name, standalone=not alone), "clapnq").labels["standalone"] == (expected,)
    first = name.rpartition("<::>")[0] + "<::>1"
    assert "standalone" not in task_item(a_task(first, standalone=True), "clapnq").labels


def test_without_our_labels_the_label_of_the_data_counts():
    assert task_item(a_task("another<::>2", standalone=False), "x").labels["standalone"] == ("non-standalone",)
    assert "standalone" not in task_item(a_task("another<::>2"), "x").labels


@pytest.mark.data
def test_our_rule_agrees_with_most_labels(real_data):
    from turnmark.assistant.steps.understand.understand_rules import understand, with_topic

    tasks = mtrag.load_tasks(real_data / "mt-rag-benchmark", "mtrag").data
    rule, turns = Counter[tuple[bool, bool]](), Counter[tuple[bool, bool]]()
    for name, alone in standalone_labels().items():
        task = tasks[name]
        rule[alone, not with_topic(task.history, task.question)[0]] += 1
        turns[alone, understand(task.history, task.question).standalone] += 1
    for name, counts in (("with_topic", rule), ("understand", turns)):
        cells = [counts[pair] for pair in ((False, False), (False, True), (True, False), (True, True))]
        accuracy = (cells[0] + cells[3]) / sum(cells)
        print(f"{name}: accuracy {accuracy:.3f}; labelled N, S in rows, found N, S in columns: {cells}")
        assert sum(cells) == 200
        assert accuracy >= 0.70
