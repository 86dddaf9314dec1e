"""Exports of a chat; `turnmark eval` runs on them."""

from __future__ import annotations

import json

import pytest
from markdown_it import MarkdownIt

from tests.assistant.exchanges import citation, folded, reply, turned
from tests.assistant.notes import over, scripted
from turnmark.assistant.sessions.conversation import (
    AssistantSwapped,
    Conversation,
    SessionBegan,
    SessionEvent,
    TurnAnswered,
    TurnEdited,
    TurnRated,
)
from turnmark.assistant.sessions.export import kiwi_files, mtrag_files, transcript
from turnmark.core.errors import RequestError
from turnmark.corpora.benchmarks import kiwi as kiwi_data
from turnmark.corpora.benchmarks import mtrag as mtrag_data

TALK = [
    "How do I keep a sourdough starter?",
    "/edit Feed the starter weekly and keep it cold. [1]",
    "How tall is Stack Nell lighthouse?",
    "/rate bad",
    "How do I bake sourdough the way the Anvick Bakehouse does it?",
    "/rate good",
    "Thanks!",
]


def talked(*events: SessionEvent) -> Conversation:
    return folded(SessionBegan(index="My Notes", generator="extractive"), *events)


def test_eval_runs_on_an_exported_chat(home, turnmark, tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    lines = [*TALK, f"/export mtrag {folder}", f"/export mtrag {folder}"]
    ran = turnmark("chat", "--index", "demo", stdin="\n".join(lines) + "\n")
    assert ran.code == 0, ran.err
    assert "note: 1 turn without a rating or an edit left out" in ran.out
    assert f"6 files in {folder}: would overwrite existing files; nothing was written" in ran.out

    tasks = list(mtrag_data.load_tasks(folder, "mtrag").data.values())
    assert [task.answerability for task in tasks][::2] == ["ANSWERABLE", "PARTIAL"]
    assert [task.turn for task in tasks] == [1, 2, 3]
    assert tasks[0].reference == "Feed the starter weekly and keep it cold."
    assert [message.content for message in tasks[1].history] == [TALK[0], tasks[0].reference]
    labels = mtrag_data.load_qrels(folder, "mtrag", "demo")
    assert labels.problems == ()
    assert set(labels.data) == {tasks[0].id, tasks[2].id}
    assert [context.document_id for context in tasks[0].contexts] == list(labels.data[tasks[0].id])
    for mode in ("last-turn", "rewrite", "questions"):
        assert set(mtrag_data.load_queries(folder, "demo", mode).data) == set(labels.data)

    monkeypatch.chdir(tmp_path)
    ran = turnmark("eval", "mtrag", "--data", folder, "--out", tmp_path / "run", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["metrics"]["rouge_l.word"]["n"] == 2
    words = ["--task", "retrieval", "--retriever", "bm25", "--out", tmp_path / "hits", "--json"]
    ran = turnmark("eval", "mtrag", "--data", folder, *words)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["metrics"]["recall@5"]["n"] == 2


def test_targets_are_approved_answers_and_names_cannot_break_a_table(tmp_path):
    evil = "a\tb\n/../x\u2028y"
    talk = talked(
        turned(1, "Who?\nReally?", "Ada [1].", evil),
        turned(2, "longer", "Ada Lovelace [1].", evil, kind="revise"), TurnRated(turn=2, rating="good"),
        AssistantSwapped(index="my-notes", generator="extractive"),
        turned(3, "When?", "May [1].", "b"), TurnRated(turn=3, rating="bad"),
        turned(4, "Where?", "In Rome [2].", "c", "d"), TurnEdited(turn=4, text="In London."),
        turned(5, "Why?", "Because."),
    )  # fmt: skip
    files, note = mtrag_files(talk.exchanges, "s", tmp_path, None)
    assert note == "1 turn without a rating or an edit left out"
    assert all(path.is_relative_to(tmp_path) and ".." not in path.parts for path in files)
    lines = files[tmp_path / "mtrag-human/generation_tasks/reference.jsonl"].encode().splitlines()
    tasks = [json.loads(line) for line in lines]
    assert [task["task_id"] for task in tasks] == ["s<::>1", "s<::>2", "s<::>3"]
    assert [[target["text"] for target in task["targets"]] for task in tasks] == [["Ada Lovelace."], [], ["In London."]]
    texts = ["Who?\nReally?", "Ada.", "longer", "Ada Lovelace.", "When?", "May.", "Where?"]
    assert [turn["text"] for turn in tasks[2]["input"]] == texts
    retrieval = tmp_path / "mtrag-human/retrieval_tasks"
    assert files[retrieval / "mynotes/qrels/dev.tsv"].splitlines()[1:] == ["s<::>1\ta_b_/../x_y\t1"]
    assert files[retrieval / "mynotesx/qrels/dev.tsv"].splitlines()[1:] == ["s<::>3\td\t1"]
    questions = json.loads(files[retrieval / "mynotesx/mynotesx_questions.jsonl"])
    assert questions["text"] == "|user|: Who? Really?\n|user|: When?\n|user|: Where?"
    corpus = [json.loads(row)["_id"] for row in files[tmp_path / "corpora/passage_level/mynotesx.jsonl"].splitlines()]
    assert corpus == ["b", "c", "d"]


def test_relevant_passages_of_a_section_and_of_a_count(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    text = "# Long\n\n" + "".join(f"Sentence {n} says that door {n} is painted blue.\n\n" for n in range(40))
    read = scripted(tmp_path, "Door 7 is painted blue. [1]")
    assistant = over(tmp_path / "n", read, long=text)
    answer = assistant.reply([], "How is door 7 painted?")
    (section,) = answer.citations
    index = assistant.index
    assert section.key not in index.store.rows_of([section.key]), "the section joins several passages"
    count = citation(2, "3 documents").model_copy(update={"id": "count:Count of “blue”: 3 times, 3 documents"})
    answer = answer.model_copy(update={"answer": f"{answer.answer} [2]", "citations": (section, count)})
    events = [TurnAnswered(turn=1, question="How is door 7 painted?", reply=answer), TurnRated(turn=1, rating="good")]
    exchanges = folded(SessionBegan(index="n"), *events).exchanges
    files, _ = mtrag_files(exchanges, "s", tmp_path, index)
    rows = [json.loads(row)["_id"] for row in files[tmp_path / "corpora/passage_level/n.jsonl"].splitlines()]
    labels = files[tmp_path / "mtrag-human/retrieval_tasks/n/qrels/dev.tsv"].splitlines()[1:]
    relevant = [label.split("\t")[1] for label in labels]
    assert len(relevant) > 1
    assert set(relevant) <= set(rows)
    files, _ = mtrag_files(exchanges, "s", tmp_path, None)
    (row,) = files[tmp_path / "corpora/passage_level/n.jsonl"].splitlines()
    assert json.loads(row)["_id"] == section.key


REVISED = [
    "How do I keep a sourdough starter?",
    "/revise as a list please",
    "/rate good one step a line",
    "/revise only the first 2 steps",
    "/rate bad",
    "/revise make it shorter",
    "/edit Feed it weekly. [1]",
    "How tall is Stack Nell lighthouse?",
]


def test_eval_kiwi_runs_on_exported_revisions(home, turnmark, tmp_path):
    folder = tmp_path / "mine"
    lines = [*REVISED, f"/export kiwi {folder}", f"/export kiwi {folder}"]
    ran = turnmark("chat", "--index", "demo", stdin="\n".join(lines) + "\n")
    assert ran.code == 0, ran.err
    assert "note: 1 revision without a rating written as neutral" in ran.out
    assert f"wrote 1 file in {folder}; score it with: turnmark eval kiwi --data {folder}" in ran.out
    assert f"1 file in {folder}: would overwrite existing files; nothing was written" in ran.out

    loaded = kiwi_data.load_sessions(folder)
    assert loaded.problems == ()
    (session,) = loaded.data
    assert (session.question, session.model) == (REVISED[0], "extractive")
    assert session.passages
    first, second, third = session.turns
    assert [turn.instruction for turn in session.turns] == [
        "as a list please", "only the first 2 steps", "make it shorter",
    ]  # fmt: skip
    assert [turn.rating for turn in session.turns] == ["good", "bad", "neutral"]
    assert (first.comment, first.previous) == ("one step a line", session.initial_answer)
    assert (second.previous, third.previous) == (first.answer, first.answer), (
        "a revision rated bad and not edited is dropped"
    )
    assert (first.edit, third.edit) == (None, "Feed it weekly.")

    run = turnmark.json("eval", "kiwi", "--data", folder, "--out", tmp_path / "run")
    assert (run["n"], run["failed"], run["metrics"]["edit_ratio"]["n"]) == (3, 0, 3)
    own = tmp_path / "answers.jsonl"
    own.write_text('{"id": "0/1", "prediction": "Feed it."}\n', encoding="utf-8")
    scored = turnmark.json("score", "kiwi", "--data", folder, "--predictions", own, "--out", tmp_path / "scored")
    assert scored["metrics"]["answer_words"]["mean"] == 2


def test_kiwi_export_needs_a_revision(tmp_path):
    talk = talked(
        turned(1, "Who?", "Ada [1].", "a"),
        TurnAnswered(turn=2, question="And when?", reply=reply("In May [1].", "b", rewrite="When was Ada born?")),
        turned(3, "longer", "In May 1815 [1].", "b", kind="revise"),
    )
    files, note = kiwi_files(talk.exchanges, tmp_path)
    (text,) = files.values()
    row = json.loads(text)
    assert (row["original_question"], row["initial_answer"]) == ("When was Ada born?", "In May.")
    assert [turn["answer_1"] for turn in row["interaction"]] == ["In May 1815."]
    assert row["retrieved_passages"] == [{"title": "B", "text": "text"}]
    assert note == "1 revision without a rating written as neutral"
    with pytest.raises(RequestError, match="no answer was revised yet"):
        kiwi_files(talk.exchanges[:2], tmp_path)


def test_transcript_shows_untrusted_text_without_activating_it():
    evil = reply(
        "A › B\nSee ![x](http://evil.example/p.png) <script>alert(1)</script> **the best** [1] [7]\n===\n", "a"
    ).model_copy(update={"citations": (citation(1, "a").model_copy(update={"title": "T](http://x) <b>\n# H"}),)})
    talk = talked(
        TurnAnswered(turn=1, question="# What\n<img src=x>", reply=evil),
        TurnRated(turn=1, rating="bad", comment="[link](http://x)"),
    )
    text = transcript(talk.exchanges, "talk")
    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
    inline = [child for token in tokens for child in token.children or []]
    assert not {"image", "link_open"} & {child.type for child in inline}
    assert {child.content for child in inline if child.type == "html_inline"} <= {"<sub>", "</sub>"}
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1", "h2"]
    assert "**the best** [^1-1]" in text
    assert "[^1-7]" not in text
    assert "A › B  \nSee" in text, "a line of a quotation stays a line"
    assert "[^1-1]: " in text


CODE = """**Call `x[1]`.** [1]
So:

- one

  ```py
  a[1] = *b

  ```
"""
NOT_CODE = ["```\n\n![x](http://e)", "a ```\n\n![x](http://e)\n```", "1. a\n   ```\n![x](http://e)\n   ```",
            "```a`b\n\n![x](http://e)\n```", "```\na ``` b"]  # fmt: skip


def test_transcript_keeps_code_unchanged():
    text = transcript(talked(turned(1, "How?", CODE, "a")).exchanges, "talk")
    assert CODE.replace(" [1]\n", " [^1-1]  \n") in text
    for answer in NOT_CODE:
        text = transcript(talked(turned(1, "How?", answer, "a")).exchanges, "talk")
        tokens = MarkdownIt("commonmark").parse(text)
        assert not any(child.type == "image" for token in tokens for child in token.children or [])
        assert tokens[-1].type == "paragraph_close", "text after the code is not code"
