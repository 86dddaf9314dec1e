"""The demo splits of InsCoQA, Compound-QA and KIWI: enough of everything, and true to the demo documents."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.tools import make_demo as make
from turnmark.corpora import compound_qa, inscoqa, kiwi

DOCUMENTS = make.DEMO_ROOT / "documents"
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


@cache
def documents() -> dict[str, str]:
    return {
        file.relative_to(DOCUMENTS).as_posix(): file.read_text(encoding="utf-8") for file in DOCUMENTS.rglob("*.md")
    }


def titled(name: str) -> tuple[str, str]:
    """A document's title, and its text below the title."""
    raw = documents()[name]
    _, _, end, title = next(iter(make.headings(raw)))
    return title, raw[end:].strip()


def unknown_numbers(text: str, *sources: str) -> set[str]:
    """The numbers of a text that none of its sources has."""
    numbers = {number for source in sources for number in NUMBER.findall(source)}
    return set(NUMBER.findall(text)) - numbers


def tasks() -> list[inscoqa.Task]:
    return list(inscoqa.load_tasks(inscoqa.DEMO_ROOT).data.values())


def questions() -> list[compound_qa.Task]:
    return list(compound_qa.load_tasks(compound_qa.DEMO_ROOT).data.values())


def sessions() -> tuple[kiwi.Session, ...]:
    return kiwi.load_sessions(kiwi.DEMO_ROOT).data


@pytest.mark.parametrize("task", tasks(), ids=lambda task: task.id)
def test_inscoqa_is_true_to_its_documents(task: inscoqa.Task) -> None:
    for document in task.documents:
        assert (document.title, document.text) == titled(document.id)
    sources = [document.text for document in task.documents]
    replies = [message.content for message in task.history if message.role == "assistant"]
    for text in (*replies, task.answer, *task.procedure):
        assert not unknown_numbers(text, *sources), text
        assert not re.match(r"\d+\.|[-*•]", text)  # plain text, and no step counts itself
    lines = [line for line in "\n".join(sources).splitlines() if line.strip()]
    copied = [step for step in task.procedure if any(step in line for line in lines)]
    assert len(copied) < len(task.procedure)  # the steps combine documents, they are not one of them


@pytest.mark.parametrize("task", questions(), ids=lambda task: task.id)
def test_compound_qa_is_true_to_its_context(task: compound_qa.Task) -> None:
    assert 1 <= task.question.count("?") <= 4
    if task.context is None:
        return
    for paragraph in task.context.split("\n\n"):
        assert any(paragraph in text for text in documents().values()), paragraph
    # 14:00 and 23:00 are worked out, and written in words; every other number stands in the context.
    assert not unknown_numbers(task.reference, task.context, task.question)


@pytest.mark.parametrize("session", sessions(), ids=lambda session: str(session.index))
def test_kiwi_is_true_to_its_papers(session: kiwi.Session) -> None:
    assert len(session.papers.cited_papers) >= 4  # section 3.1
    titles = {titled(name)[0]: titled(name)[1] for name in documents()}
    assert set(session.papers.cited_papers) == {paragraph.title for paragraph in session.papers.paragraphs}
    passages = [*session.passages, *session.papers.paragraphs]
    passages += [passage for turn in session.turns for passage in turn.passages]
    for passage in passages:
        assert passage.text in titles[passage.title]
    sources = [titles[title] for title in {passage.title for passage in passages}]
    for text in (session.initial_answer, *(turn.answer for turn in session.turns)):
        assert not unknown_numbers(text, *sources), text
    for turn in session.turns:
        assert not unknown_numbers(turn.edit or "", *sources)
