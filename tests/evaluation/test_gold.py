"""What only the data know never reaches the system under test: every gold field of every task and setting."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from tests.evaluation.benched import assistant_of, bags_of_words, items_of
from tests.evaluation.requests import request_of
from turnmark.assistant.llm.calls.protocols import Completion, GeneratorError
from turnmark.assistant.types import Usage
from turnmark.corpora.benchmarks import compound_qa, inscoqa, kiwi, mtrag
from turnmark.evaluation.benchmarks.kiwi.kiwi_task import Instruction
from turnmark.evaluation.benchmarks.mtrag.setting_passages import MtragTurn
from turnmark.evaluation.storage.corpus_passages import FirstPassages
from turnmark.evaluation.tasks.declarations import evaluated_benchmarks
from turnmark.evaluation.tasks.registry import find_task, import_tasks
from turnmark.retrieval.types import Retriever

TYPED: dict[type, frozenset[str]] = {
    mtrag.MtragTask: frozenset({"id", "conversation", "turn", "domain", "history", "question", "contexts"}),
    inscoqa.InscoqaTask: frozenset({"id", "domain", "documents", "history", "question"}),
    compound_qa.CompoundQuestion: frozenset({"id", "capability", "type", "source_id", "context", "question"}),
    kiwi.KiwiTurn: frozenset({"id", "turn", "instruction", "previous", "coarse", "passages"}),
    kiwi.Session: frozenset({"index", "question", "passages", "papers", "turns"}),
}
"""What a user typed or ticked, what was found for it, and where it is. Whatever else a record has is gold."""
JUDGED = {"judge": {"answer"}, "analyse": {"answer", "rating", "comment"}}
"""Task -> what of a turn is what it asks about."""
CASES = [
    (name, task.name, setting, more)
    for name in evaluated_benchmarks()
    for task in import_tasks(name)
    for setting in task.settings or (None,)
    for more in (
        {},
        *([{"protocol": "paper"}] if name.startswith("mtrag") or task.name == "revise" else []),
        *([{"chain": True}] if task.name == "revise" else []),
    )
    if not (task.retrieves and (more or name != "mtrag")) and not (setting == "live" and more)
] + [("mtrag", "retrieval", None, {"query": "minimal"})]


class Listener(Retriever):
    """Keeps all that it is asked, as a model and as a retriever."""

    name, context_tokens, reply_tokens, deadline = "listener", 128_000, 512, 60.0

    def __init__(self, first: FirstPassages | None = None) -> None:
        self.heard: list[str] = []
        self.first = first

    def complete(self, messages: Any, **_: Any) -> Completion:
        self.heard += [message.content for message in messages]
        text = '{"questions": ["a", "b"], "answer": "It is so [1].", "search": [], "rewrite": "a"}'
        return Completion(text=text, finish_reason="stop", usage=Usage(calls=1), model="m", max_tokens=512)

    def search(self, queries: Any, top_k: int) -> Any:
        assert self.first is not None
        self.heard += [str(query) for query in queries]
        return self.first.search(queries, top_k)


def with_gold(record: Any, typed: frozenset[str]) -> Any:
    """The record with a mark in every field that is gold; no validation, so that labels have it too."""
    marks: dict[str, Any] = {}
    for name, field in type(record).model_fields.items():
        value = getattr(record, name)
        if name in typed:
            continue
        if value is None or isinstance(value, str):
            texts = "str" in str(field.annotation) or "Literal" in str(field.annotation)
            marks[name] = f"GOLD {name}" if texts else None
        elif isinstance(value, tuple):
            marks[name] = (f"GOLD {name}",)
    assert any(marks.values()) or isinstance(record, kiwi.Session)
    return record.model_copy(update=marks)


def marked(record: Any, judged: frozenset[str]) -> Any:
    if isinstance(record, MtragTurn):
        return replace(record, task=marked(record.task, judged))
    if isinstance(record, Instruction):
        return Instruction(marked(record.session, judged), marked(record.turn, judged))
    return with_gold(record, TYPED[type(record)] | judged)


@pytest.mark.parametrize(("name", "task_name", "setting", "more"), CASES)
def test_no_gold_field_is_in_a_request(name, task_name, setting, more, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path))
    request = request_of(benchmark=name, task=task_name, setting=setting, generator="openai:listener", **more)
    kind = find_task(name, task_name)
    assert kind is not None
    task = kind(request, setting)
    finders = {corpus: Listener(FirstPassages(path)) for corpus, path in task.corpora.items()}
    task = task.using(assistant_of(bags_of_words), finders)
    listener, items = Listener(), items_of(task)
    if task.batched:
        assert not any("GOLD" in str(task._query(item.id, item.domain)) for item in items)  # type: ignore[attr-defined]
        return
    for item in (*items[:3], items[-1]):
        record = item.task if task.retrieves else marked(item.task, frozenset(JUDGED.get(task_name, ())))
        gold = replace(item, task=record, reference="GOLD reference", labels={"GOLD": ("GOLD",)}, cluster="GOLD")
        with suppress(GeneratorError):  # what it says does not matter, what it was asked does
            task.answer(gold, listener)
    heard = listener.heard + [text for finder in finders.values() for text in finder.heard]
    assert heard, "somebody was asked"
    assert not [text for text in heard if "GOLD" in text]
