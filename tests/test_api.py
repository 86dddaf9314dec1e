"""The Python API, as the docstring of `turnmark` shows it, over the demo documents."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import turnmark as tm
from tests.conftest import ROOT
from tests.heavy import HEAVY
from tests.patience import PATIENCE
from turnmark.assistant.llm.calls.cancellation import TurnStopped, current_stop
from turnmark.assistant.llm.calls.protocols import Completion, PromptMessage
from turnmark.retrieval.types import Hit, Query

QUESTION = "How do I bake sourdough the way the Anvick Bakehouse does it?"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Write two documents."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "kettle.md").write_text("# Kettle\n\nDescale the kettle with vinegar once a month.\n")
    (folder / "stove.md").write_text("# Stove\n\nSweep the flue of the stove in autumn.\n")
    return folder


@pytest.fixture
def assistant(in_demo_home: None) -> tm.Assistant:
    """Open an assistant without a model over the demo documents."""
    return tm.Assistant(tm.Index.open("demo"))


def test_import_loads_nothing_heavy_and_every_public_name_exists() -> None:
    code = (
        "import sys, turnmark\n"
        f"print(sorted(set(sys.modules) & set({HEAVY!r})))\n"
        "print(all(getattr(turnmark, name) for name in turnmark.__all__))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["[]", "True"]
    with pytest.raises(AttributeError, match="no attribute 'Indexx'"):
        _ = tm.Indexx
    assert sorted(tm.__all__) == dir(tm)


def test_builds_opens_and_searches_an_index(notes: Path) -> None:
    (notes / "broken.pdf").write_bytes(b"no pdf")
    built = tm.Index.build(notes, "notes", retriever="bm25")
    assert [problem.file for problem in built.problems] == ["broken.pdf"]
    index = tm.Index.open("notes")
    assert (index.name, len(index), index.problems) == ("notes", 2, ())
    assert len({passage.id for passage in index}) == 2
    assert repr(index) == "Index('notes', 2 documents, 2 passages)"
    (hit,) = index.search("descale the kettle", top_k=1, retriever="bm25")
    assert hit.passage.document == "kettle.md"
    assert index.search("descale the kettle", retriever="bm25", where={"path": "stove*"}) == []
    assert [each.document for each in index.documents()] == ["kettle.md", "stove.md"]
    assert [(each.title, each.matches) for each in index.documents("flue")] == [("Stove", 1)]
    assert index.documents(where={"path": "pump*"}) == []
    with pytest.raises(tm.TurnmarkError, match="'colour'"):
        index.documents(where={"colour": "red"})


def test_reports_what_is_wrong_with_an_index(notes: Path) -> None:
    with pytest.raises(tm.TurnmarkError, match="no index is called 'nothing'"):
        tm.Index.open("nothing")
    with pytest.raises(tm.TurnmarkError, match="does not exist"):
        tm.Index.build(notes / "nowhere", "notes")
    index = tm.Index.build(notes, "notes", retriever="bm25")
    with pytest.raises(tm.TurnmarkError, match="bm25x"):
        index.search("kettle", retriever="bm25x")


def test_holds_a_conversation(assistant: tm.Assistant) -> None:
    chat = assistant.chat()
    first = chat.ask(QUESTION)
    assert first.decision == "partial"  # the steps say nothing of the Anvick Bakehouse
    assert first.text == first.answer
    assert first.steps == first.procedure
    assert len(first.steps) > 3
    assert first.citations[0].document == "handbook/sourdough-bakehouse-method.md"
    assert first.trace.searches
    steps: list[str] = []
    alone = assistant.reply(chat.history, "And how often is the dough folded?", lambda event: steps.append(event.step))
    assert {"understand", "retrieve", "decide", "answer", "verify"} <= set(steps)
    second = chat.ask("And how often is the dough folded?")
    assert second.rewrite == alone.rewrite != second.question
    assert "Fold the dough four times" in second.text
    assert chat.replies == [first, second]
    assert [message.role for message in chat.history] == ["user", "assistant"] * 2


def test_one_question_needs_no_conversation(assistant: tm.Assistant) -> None:
    alone = assistant.ask("How often is the dough folded?")
    assert alone.answer == assistant.reply([], "How often is the dough folded?").answer
    awaited = asyncio.run(assistant.areply([], "How often is the dough folded?"))
    assert (awaited.answer, awaited.citations) == (alone.answer, alone.citations)


def test_canceled_reply_stops_its_turn(notes: Path) -> None:
    tm.Index.build(notes, "notes", retriever="bm25")
    generator = SlowKettle()
    assistant = tm.Assistant("notes", generator, retriever="bm25")

    async def cancel() -> None:
        task = asyncio.create_task(assistant.areply([], "How is the kettle descaled?"))
        await asyncio.to_thread(generator.called.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert generator.stopped.is_set()


def test_notebook_shows_answer_and_sources_as_harmless_markdown(notes: Path) -> None:
    (notes / "kettle.md").write_text(
        "# Kettle ![x](http://e.example/p)\n\nDescale the *kettle* with vinegar <b>now</b>.\n"
    )
    tm.Index.build(notes, "notes", retriever="bm25")
    reply = tm.Assistant("notes").ask("How do I descale the kettle?")
    shown = reply._repr_markdown_()
    assert "vinegar" in shown
    assert "\\[1\\] Kettle" in shown
    assert "![" not in shown
    assert "<b>" not in MarkdownIt().render(shown)
    bold = reply.model_copy(update={"answer": "**![x](http://e.example/p)** and **<b>"})._repr_markdown_()
    assert "<p><strong>![x](http://e.example/p)</strong> and **&lt;b&gt;" in MarkdownIt().render(bold)


def test_streamed_turn_ends_in_the_same_reply_and_abandoned_turn_is_not_recorded(assistant: tm.Assistant) -> None:
    plain, streamed = assistant.chat(), assistant.chat()
    reply = plain.ask(QUESTION)
    assert str(reply) == reply.answer
    assert repr(reply).startswith("Reply(question=")
    events = list(streamed.stream(QUESTION))
    assert "".join(event.delta for event in events).strip()
    again = streamed.replies[-1]
    assert (again.answer, again.decision, again.checks) == (reply.answer, reply.decision, reply.checks)
    assert [citation.id for citation in again.citations] == [citation.id for citation in reply.citations]
    assert streamed.history == plain.history
    for _ in streamed.stream("And how often is the dough folded?"):
        break
    assert streamed.history == plain.history


class Kettle(tm.Retriever):
    """A custom retriever and generator."""

    name = "kettle"
    context_tokens = 4000
    reply_tokens = 200

    def __init__(self, hits: Sequence[Hit] = ()) -> None:
        self.hits = list(hits)
        self.prompts: list[str] = []

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        return [self.hits[:top_k] for _ in queries]

    def complete(self, messages: Sequence[PromptMessage], **_: object) -> Completion:
        self.prompts.append(messages[-1].content)
        raise tm.TurnmarkError("the kettle does not answer")


class SlowKettle(Kettle):
    """A generator that replies only when it is stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.called, self.stopped = threading.Event(), threading.Event()

    def complete(self, messages: Sequence[PromptMessage], **_: object) -> Completion:
        self.called.set()
        try:
            current_stop().wait(PATIENCE)
        except TurnStopped:
            self.stopped.set()
            raise
        raise tm.TurnmarkError("nobody stopped the kettle")


def test_uses_a_custom_retriever_unchanged(notes: Path) -> None:
    index = tm.Index.build(notes, "notes", retriever="bm25")
    (hit,) = index.search("stove", top_k=1, retriever="bm25")
    retriever: tm.Retriever = Kettle([hit])
    reply = tm.Assistant(index, retriever=retriever).chat().ask("When is the flue of the stove swept?")
    assert [citation.document for citation in reply.citations] == ["stove.md"]


def test_refuses_an_object_that_is_not_a_retriever(notes: Path) -> None:
    class Duck:
        """Has a name and a search, but not the methods that `Retriever` adds."""

        name, search = "duck", Kettle.search

    index = tm.Index.build(notes, "notes", retriever="bm25")
    with pytest.raises(tm.TurnmarkError, match=r"is a Duck, not a retriever; make it a subclass of"):
        tm.Assistant(index, retriever=Duck())  # type: ignore[arg-type]


def test_failed_turn_raises_in_the_calling_thread_and_changes_nothing(notes: Path) -> None:
    generator: tm.Generator = Kettle()
    index = tm.Index.build(notes, "notes", retriever="bm25")
    chat = tm.Assistant(index, generator, retriever="bm25").chat()
    for turn in (lambda: chat.ask("When is the flue swept?"), lambda: list(chat.stream("When is the flue swept?"))):
        with pytest.raises(tm.TurnmarkError, match="the kettle does not answer"):
            turn()
    assert chat.history == []


def test_runs_a_benchmark_and_compares_two_runs(
    assistant: tm.Assistant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = tm.evaluate("mtrag", assistant, setting="rag", domains=("almanac",), limit=4)
    assert run.path.parent == Path("runs")
    assert run.manifest.specs["generator"] == "extractive"
    rouge = run.metrics["rouge_l.word"]
    table = run.to_pandas()
    assert list(table["id"]) == [sample.id for sample in run.samples()]
    assert len(table) == 4
    assert rouge.mean == pytest.approx(table["rouge_l.word"].mean())
    assert "rouge_l.word" in str(run)

    words = tm.Assistant(assistant.index, retriever="bm25")
    second = tm.evaluate("mtrag", words, setting="rag", domains=("almanac",), limit=4)
    assert second.manifest.specs["retriever"].startswith("bm25")
    comparison = tm.compare([run, second.path])
    rows = comparison.to_pandas().set_index("metric")
    assert rows.loc["rouge_l.word", "difference"] == pytest.approx(
        second.metrics["rouge_l.word"].mean - rouge.mean  # type: ignore[operator]
    )
    assert "rouge_l.word" in str(comparison)

    again = tm.score("mtrag", run.path, setting="rag", out=tmp_path / "scored")
    assert again.metrics["rouge_l.word"].mean == pytest.approx(rouge.mean)
    assert tm.Run.open(again.path).summary == again.summary


def test_reports_what_is_wrong_with_a_run(notes: Path, tmp_path: Path) -> None:
    with pytest.raises(tm.TurnmarkError, match="no benchmark is called 'mtragg'"):
        tm.evaluate("mtragg")
    with pytest.raises(tm.TurnmarkError, match="name one benchmark"):
        tm.evaluate("all")
    index = tm.Index.build(notes, "notes", retriever="bm25")
    with pytest.raises(tm.TurnmarkError) as wrong:
        tm.evaluate("mtrag", tm.Assistant(index, Kettle(), "bm25"), setting="other", limit=-1)
    assert "its generator is an object" in str(wrong.value)
    assert "other" in str(wrong.value)
    assert "-1" in str(wrong.value)
    with pytest.raises(tm.TurnmarkError, match="setting belongs to generation"):
        tm.evaluate("mtrag", task="retrieval", setting="rag")
    with pytest.raises(tm.TurnmarkError) as wrong:
        tm.evaluate("inscoqa", protocol="paper", chain=True, prompts=tmp_path / "nowhere")
    for words in ("--protocol: inscoqa does not use it", "--chain: inscoqa does not use it", "nowhere"):
        assert words in str(wrong.value)
    with pytest.raises(tm.TurnmarkError, match="does not exist; name the folder of a run"):
        tm.Run.open(tmp_path / "nowhere")
