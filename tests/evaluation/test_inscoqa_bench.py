"""InsCoQA behind the protocol: on its demo split, on written samples, with and without a language model."""

from __future__ import annotations

import json
import re

import pytest

from tests.evaluation.benched import asked, assistant_of, done, only, open_task, values
from tests.evaluation.conftest import WordCount
from tests.evaluation.instructions import row, written
from tests.servers import Say
from turnmark.corpora.benchmarks import inscoqa
from turnmark.corpora.readers import read_rows
from turnmark.corpora.text.segmentation import strip_citations
from turnmark.corpora.types import Document, Problem
from turnmark.evaluation.benchmarks.inscoqa.generation import InsCoQA, pool, write_pool
from turnmark.evaluation.benchmarks.inscoqa.rubrics import judged_steps
from turnmark.evaluation.records import ContextRef
from turnmark.evaluation.tasks.items import Item

DEMO = inscoqa.locate(None)


def test_model_gets_documents_and_conversation_and_returns_steps(tmp_path):
    history = [["Is there an oven?", "Yes, in the yard."]]
    bench = open_task(InsCoQA, written(tmp_path, row(history=history)), "documents")
    item = only(bench)
    reply = "Bake it in the yard's oven [1].\n\nSteps:\n1. Light the oven [1]\n2. Bake the bread. [1]"
    sample, [body] = asked(bench, item, Say(reply))
    prompt = body["messages"][-1]["content"]
    assert prompt.index("Yes, in the yard.") < prompt.index("1. Light the oven.") < prompt.index("How do I bake bread?")
    assert [step["step"] for step in sample.procedure] == ["Light the oven", "Bake the bread."]
    assert sample.prediction == reply
    assert bench.context(item, sample).answer == strip_citations(reply)
    assert sample.usage["answer"].calls == 1
    values(bench, item, sample)


def test_pool_contains_every_document_once(tmp_path):
    path = tmp_path / "pool.jsonl"
    count = write_pool(inscoqa.stream_tasks(DEMO.root), path)
    rows = list(read_rows(path))
    assert not [entry for entry in rows if isinstance(entry, Problem)]
    assert len(rows) == count == len({entry.id for entry in rows if isinstance(entry, Document)})
    tasks = list(inscoqa.load_tasks(DEMO.root).data.values())
    for document in (document for task in tasks for document in task.documents):
        mine = [entry for entry in rows if isinstance(entry, Document) and entry.id.rsplit("-", 2)[0] == document.id]
        assert "".join("".join(entry.text.split()) for entry in mine) == "".join(document.text.split())
        assert all(entry.title.startswith(document.title) for entry in mine)
    again = tmp_path / "again.jsonl"
    write_pool(inscoqa.stream_tasks(DEMO.root), again)
    assert again.read_bytes() == path.read_bytes()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["again.jsonl", "pool.jsonl"]


def test_same_id_with_different_texts_gives_two_documents(tmp_path):
    evil = {"id": "../../oven", "title": "", "text": "The oven is in the yard."}
    another = evil | {"text": "The oven is in the kitchen."}
    source = written(
        tmp_path / "data", row(documents=[evil]), row(id="b", documents=[another]), row(id="c", documents=[evil])
    )
    tasks = list(inscoqa.stream_tasks(source.root))
    [first, second] = pool(tasks)
    assert first.id == "../../oven-0-24"
    assert second.id.startswith("../../oven~")
    assert second.id.endswith("-0-27")
    assert [entry.id for entry in pool(tasks)] == [first.id, second.id]
    write_pool(tasks, tmp_path / "out" / "pool.jsonl")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["data", "out"]
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == ["pool.jsonl"]


def test_rag_answers_from_the_retrieved_passages(tmp_path):
    source = written(
        tmp_path, row(), row(id="b", documents=[{"id": "x", "title": "Bread", "text": "Bread needs salt."}])
    )
    path = tmp_path / "pool.jsonl"
    write_pool(inscoqa.stream_tasks(source.root), path)
    bench = open_task(InsCoQA, source, "rag").using(assistant_of(passages=1), {"pool": WordCount(path)})
    item = next(item for item in bench.items() if isinstance(item, Item))
    sample = bench.answer(item, None)
    assert [context.document_id for context in sample.contexts] == ["oven-0-58"]
    assert bench.context(item, sample).passages == (inscoqa.load_tasks(source.root).data["a"].documents[0].text,)
    scores = values(
        bench, item, done(item, "Bread needs salt.", contexts=(ContextRef(document_id="x-0-17", score=1.0),))
    )
    assert scores["k_precision"] == 1.0
    foreign = ContextRef(document_id="unheard of", score=1.0, text="Salt and pepper.")
    assert bench.context(item, done(item, "", contexts=(foreign,))).passages == ("Salt and pepper.",)
    nothing = values(bench, item, done(item, "Bread.", contexts=(ContextRef(document_id="unheard of", score=1.0),)))
    assert nothing["k_precision"] is None
    assert nothing["rouge_l.word"] is not None


def test_labels_and_clusters(tmp_path):
    first_document, two = ({"id": "1", "title": "", "text": text} for text in ("First.", "Second."))
    source = written(
        tmp_path,
        row(documents=[first_document, two | {"id": "2"}]),
        row(id="b", documents=[two, first_document | {"id": "2"}], history=[["Hello?", "Yes."]]),
        row(id="c", documents=[{"id": "1", "title": "", "text": "Third."}], domain="Study"),
    )
    bench = open_task(InsCoQA, source, "documents")
    first, second, third = (item.facts for item in bench.items() if isinstance(item, Item))
    assert first.cluster == second.cluster != third.cluster
    assert first.labels == {
        "domain": ("Gourmet",), "turn": ("first",), "split": ("test",),
    }  # fmt: skip
    assert second.labels["turn"] == ("later",)
    assert third.labels["domain"] == ("Study",)
    item = next(iter(bench.items()))
    assert isinstance(item, Item)
    assert bench.rankings(item, done(item, "x")) == {}


def test_broken_lines_of_the_data_are_reported(turnmark, tmp_path):
    latin = json.dumps(row(id="ü"), ensure_ascii=False).encode("latin-1")
    lines = [
        json.dumps(entry).encode() for entry in (row(), row(id="b", documents=[]), row(id="c", procedure="x"), row())
    ]
    (tmp_path / "test.jsonl").write_bytes(b"\n".join([*lines, latin, b"{cut", json.dumps(row(id="z")).encode()]))
    summary = turnmark.json("eval", "inscoqa", "--data", tmp_path, "--out", tmp_path / "r")
    assert (summary["n"], summary["failed"]) == (2, 0)
    skipped = [note for note in summary["notes"] if "test.jsonl:" in note]
    assert [re.findall(r"test.jsonl:(\d)", note) for note in skipped] == [["2"], ["3"], ["4"], ["5"], ["6"]]
    assert "the id 'a' is already in line 1" in skipped[2]


def test_a_split_is_chosen_by_its_file(tmp_path):
    source = written(written(tmp_path, row(id="t"), split="train").root, row(id="v"), split="validation")
    assert only(open_task(InsCoQA, source)).id == "v"
    source = written(source.root, row(id="x"))
    assert only(open_task(InsCoQA, source)).id == "x"
    item = only(open_task(InsCoQA, source, data=tmp_path / "validation.jsonl"))
    assert (item.id, item.labels["split"]) == ("v", ("validation",))


def test_reply_in_two_parts_is_parsed_when_scored(tmp_path):
    """As the models of the paper answered, in a file of predictions that holds what they wrote."""
    bench = open_task(InsCoQA, written(tmp_path, row(answer="Bake it.")), "documents")
    item = only(bench)
    context = bench.context(
        item, done(item, "Answer: Bake it.\nProcedural instructions: 1. Light it. 2. Bake [1].", marks=1)
    )
    assert (context.answer, judged_steps(context)[0]) == ("Bake it.", ["Light it.", "Bake."])
    untold = bench.context(item, done(item, "Set arr[0] to [1, 2, 3] [1]."))
    assert untold.answer == "Set arr[0] to [1, 2, 3].", "a list and an index are no marks"
    assert judged_steps(bench.context(item, done(item, "Light it. Bake it.")))[0] == ["Light it.", "Bake it."], (
        "as it is"
    )


KETTLE = {
    "id": "kettle",
    "title": "水壶除垢",
    "text": "步骤：\n\n1. 往水壶里倒入白醋。\n2. 把白醋烧开。\n3. 用清水冲洗两遍。",
}
CHINESE = row(
    documents=[KETTLE], question="怎样给水壶除垢？", answer="先倒入白醋并烧开，再用清水冲洗两遍。",
    procedure=["倒入白醋。", "把白醋烧开。", "用清水冲洗两遍。"],
)  # fmt: skip


def test_chinese_sample_is_measured_by_characters(tmp_path):
    bench = open_task(InsCoQA, written(tmp_path, CHINESE), "documents")
    (note,) = bench.notes
    assert note.startswith("the embedder minilm does not know the language of the data (zh); ")
    item = only(bench)
    sample = bench.answer(item, None)
    assert [step["step"] for step in sample.procedure] == ["往水壶里倒入白醋。", "把白醋烧开。", "用清水冲洗两遍。"]
    measured = values(bench, item, done(item, "倒入白醋，烧开，用清水冲洗 [1]。", marks=1))
    assert [measured[name] for name in ("rouge_l.word", "token_recall", "k_precision")] == [None, None, None]
    assert measured["token_recall[unicode]"] == 11 / 16
    assert measured["k_precision[unicode]"] == 1
    assert measured["rouge_l.word[unicode]"] == pytest.approx(2 * 11 / (11 + 16))


def test_judge_by_an_english_embedder_is_not_applicable_to_chinese(tmp_path):
    item = only(bench := open_task(InsCoQA, written(tmp_path, CHINESE), "documents"))
    context = bench.context(item, done(item, "倒入白醋，烧开。"))
    embedded = [rubric for rubric in InsCoQA.rubrics("documents", "minilm") if rubric.name.endswith("[embedded]")]
    reasons = [rubric.without(context) for rubric in embedded]
    assert reasons == ["the embedder minilm cannot read this script; name another one with --embedder"] * 2
