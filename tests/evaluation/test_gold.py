"""What only the data know never reaches the system under test: every gold field of every benchmark and setting."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from tests.evaluation.benched import items_of, minilm
from turnmark.assistant.generators.base import Completion, GeneratorError
from turnmark.assistant.types import Usage
from turnmark.corpora import compound_qa, inscoqa, kiwi, mtrag
from turnmark.evaluation.benchmarks.kiwi_turns import Instruction
from turnmark.evaluation.benchmarks.mtrag_evidence import Turn
from turnmark.evaluation.benchmarks.registry import BENCHMARKS, load_tasks
from turnmark.evaluation.benchmarks.turns import Parts
from turnmark.evaluation.request import EvalRequest

TYPED: dict[type, frozenset[str]] = {
    mtrag.Task: frozenset({"id", "conversation", "turn", "domain", "history", "question", "contexts"}),
    inscoqa.Task: frozenset({"id", "domain", "documents", "history", "question"}),
    compound_qa.Task: frozenset({"id", "capability", "type", "source_id", "context", "question"}),
    kiwi.Turn: frozenset({"id", "turn", "instruction", "previous", "coarse", "passages"}),
    kiwi.Session: frozenset({"index", "question", "passages", "papers", "turns"}),
}
"""What a user typed or ticked, what was found for it, and where it is. Whatever else a record has is gold."""
SETTINGS = [
    (name, setting, protocol)
    for name in BENCHMARKS
    for setting in (load_tasks(name)[0].settings or (None,))
    if setting not in ("rag", "reference+rag")
    for protocol in (("turn", "paper") if name.startswith(("mtrag", "kiwi")) else ("turn",))
]


class Listener:
    """Keeps all that it is asked."""

    name, context_tokens, reply_tokens, deadline = "listener", 128_000, 512, 60.0

    def __init__(self) -> None:
        self.heard: list[str] = []

    def complete(self, messages: Any, **_: Any) -> Completion:
        self.heard += [message.content for message in messages]
        text = '{"questions": ["a", "b"], "answer": "It is so [1].", "search": [], "rewrite": "a"}'
        return Completion(text=text, finish_reason="stop", usage=Usage(calls=1), model="m", max_tokens=512)


def with_gold(record: Any) -> Any:
    """The record with a mark of its own in every field that is gold; no validation, so that labels have it too."""
    marks: dict[str, Any] = {}
    for name, field in type(record).model_fields.items():
        if name in TYPED[type(record)]:
            continue
        value = getattr(record, name)
        if value is None or isinstance(value, str):
            marks[name] = (
                f"GOLD {name}" if "str" in str(field.annotation) or "Literal" in str(field.annotation) else None
            )
        elif isinstance(value, tuple):
            marks[name] = (f"GOLD {name}",)
    assert any(marks.values()) or isinstance(record, kiwi.Session)
    return record.model_copy(update=marks)


def marked(task: Any) -> Any:
    if isinstance(task, Turn):
        return replace(task, task=with_gold(task.task))
    if isinstance(task, Instruction):
        return Instruction(with_gold(task.session), with_gold(task.turn))
    return with_gold(task)


@pytest.mark.parametrize(("name", "setting", "protocol"), SETTINGS)
def test_no_gold_field_is_in_a_request(name, setting, protocol, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path))
    request = EvalRequest(benchmark=name, setting=setting, protocol=protocol, generator="openai:listener")
    task = load_tasks(name)[0]
    assert task.open is not None
    bench = task.open(request, setting).build(Parts(embed=minilm), {})
    listener = Listener()
    items = items_of(bench)
    for item in [*items[:6], *items[-2:]]:
        with suppress(GeneratorError):  # what it says does not matter, what it was asked does
            bench.answer(replace(item, task=marked(item.task)), listener)  # type: ignore[arg-type]
    assert listener.heard, "a model was asked"
    assert not [text for text in listener.heard if "GOLD" in text]
