"""What a chat exports, and that `turnmark eval` runs on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.assistant.exchanges import citation, folded, reply, turned
from tests.assistant.talk import Talk
from tests.conftest import Turnmark
from turnmark.assistant.export import export_session, markdown, mtrag
from turnmark.assistant.session import Began, Conversation, Labelled, Rated, Swapped, Turned
from turnmark.assistant.session_files import new_session
from turnmark.corpora import kiwi as kiwi_data
from turnmark.corpora import mtrag as mtrag_data
from turnmark.corpora.errors import RequestError

TALK = [
    "How do I keep a sourdough starter?",
    "/relevant 1 2",
    "/irrelevant 1",
    "/edit Feed the starter weekly and keep it cold. [1]",
    "Who won the 1998 World Cup?",
    "/rate good it cannot know",
    "How do I bake sourdough the way the Anvick Bakehouse does it?",
    "/rate good",
    "Thanks!",
]


def talked(*events: object) -> Conversation:
    return folded(Began(index="My Notes", generator="extractive"), *events)


def test_a_chat_becomes_a_benchmark_that_eval_runs_on(home, turnmark, tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    lines = [*TALK, f"/export mtrag {folder}", f"/export mtrag {folder}", f"/export mtrag {folder / 'all'} all"]
    ran = turnmark("chat", "--index", "demo", stdin="\n".join(lines) + "\n")
    assert ran.code == 0, ran.err
    assert f"6 files in {folder}: there already; nothing was written" in ran.out

    tasks = list(mtrag_data.load_tasks(folder, "mtrag").data.values())
    assert [task.answerability for task in tasks] == ["ANSWERABLE", "UNANSWERABLE", "ANSWERABLE"]
    assert [task.turn for task in tasks] == [1, 2, 3]
    assert tasks[0].reference == "Feed the starter weekly and keep it cold."
    assert [message.content for message in tasks[1].history] == [TALK[0], tasks[0].reference]
    assert tasks[2].question_types == ("How-To",)
    assert len(mtrag_data.load_tasks(folder / "all", "mtrag").data) == 4

    labels = mtrag_data.load_qrels(folder, "mtrag", "demo")
    assert labels.problems == ()
    assert set(labels.data) == {tasks[0].id, tasks[2].id}
    assert sorted(labels.data[tasks[0].id].values()) == [0, 1]
    assert [context.document_id for context in tasks[0].contexts] == [
        name for name, grade in labels.data[tasks[0].id].items() if grade
    ]
    for mode in ("last-turn", "rewrite", "questions"):
        assert set(mtrag_data.load_queries(folder, "demo", mode).data) == set(labels.data)

    monkeypatch.chdir(tmp_path)
    ran = turnmark("eval", "mtrag", "--data", folder, "--out", tmp_path / "run", "--json")
    assert ran.code == 0, ran.err
    summary = json.loads(ran.out)
    assert summary["n"] == 3
    assert summary["metrics"]["rouge_l.word"]["n"] == 3
    words = ["--task", "retrieval", "--retriever", "bm25", "--out", tmp_path / "hits", "--json"]
    ran = turnmark("eval", "mtrag", "--data", folder, *words)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["metrics"]["recall@5"]["n"] == 2


REVISED_TALK = [
    "How do I keep a sourdough starter?",
    '/revise Add "Name the jar." at the end.',
    "/rate good",
    "/revise Hocus pocus.",
    "/rate bad nothing happened at all",
    "/revise Shorten the answer to at most 12 words.",
    "/rate neutral too short now",
    "/edit Feed it weekly and keep it in a jar.",
]


def test_a_chat_is_revised_rated_exported_and_measured_in_all_three_tasks(
    home: Path, turnmark: Turnmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mine"
    ran = turnmark("chat", "--index", "demo", stdin="\n".join([*REVISED_TALK, f"/export kiwi {folder}"]) + "\n")
    assert ran.code == 0, ran.err
    assert f"score it: turnmark eval kiwi --data {folder}" in " ".join(ran.out.split())

    loaded = kiwi_data.load_sessions(folder)
    assert loaded.problems == ()
    (session,) = loaded.data
    assert session.question == REVISED_TALK[0]
    assert session.model == "extractive"
    added, danced, shortened = session.turns
    assert [turn.instruction for turn in session.turns] == [
        line.removeprefix("/revise ") for line in REVISED_TALK if line.startswith("/revise ")
    ]
    assert (added.rating, danced.rating, shortened.rating) == ("good", "bad", "neutral")
    assert added.previous == session.initial_answer
    assert added.answer.startswith(session.initial_answer)
    assert added.answer.endswith("Name the jar.")
    assert (danced.comment, danced.answer) == ("nothing happened at all", added.answer)
    assert shortened.previous == added.answer  # the bad revision that nobody edited was dropped
    assert shortened.edit == "Feed it weekly and keep it in a jar."

    monkeypatch.chdir(tmp_path)
    metrics = {}
    for task in ("revise", "judge", "analyse"):
        ran = turnmark("eval", "kiwi", "--data", folder, "--task", task, "--out", task, "--json")
        assert ran.code == 0, ran.err
        metrics[task] = json.loads(ran.out)
        assert (metrics[task]["failed"], metrics[task]["data"]["demo"]) == (0, False)
    assert [metrics[task]["n"] for task in ("revise", "judge", "analyse")] == [3, 1, 3]
    figures = metrics["analyse"]["metrics"]
    assert figures["good"]["mean"] == pytest.approx(1 / 3)
    assert figures["edited"]["mean"] == pytest.approx(1 / 3)
    assert figures["edit_ratio"]["n"] == 2  # the good revision and the edited one
    # The chat revised by rules, as `eval` does: the same instructions give the same revisions again.
    again = [json.loads(line)["prediction"] for line in Path("revise/predictions.jsonl").read_text().splitlines()]
    assert again[0] == added.answer
    assert again[1] == danced.answer


def test_only_what_the_person_spoke_of_is_exported(tmp_path):
    talk = talked(turned(1, "Who?", "Ada [1].", "a"), turned(2, "When?", "May [1].", "b"), Rated(turn=2, rating="bad"))
    with pytest.raises(RequestError, match="no turn was rated"):
        mtrag(talk.exchanges[:1], "s", tmp_path, None)
    plan = mtrag(talk.exchanges, "s", tmp_path, None)
    rows = [
        json.loads(line) for line in plan.files[tmp_path / "mtrag-human/generation_tasks/reference.jsonl"].splitlines()
    ]
    assert [row["task_id"] for row in rows] == ["s<::>2"]
    assert rows[0]["targets"] == []  # a bad answer is no target
    assert rows[0]["contexts"] == []
    assert rows[0]["Collection"] == "mt-rag-mynotes"
    assert not any("qrels" in str(path) for path in plan.files)


def test_labels_go_before_citations_and_what_is_called_irrelevant_stays_out(tmp_path):
    labelled = talked(
        turned(1, "Who?", "Ada [1][2].", "a", "b", "c"), Rated(turn=1, rating="good"),
        Labelled(turn=1, labels={"c": True}, passages=(citation(3, "c"),)),
    )  # fmt: skip
    cited = talked(
        turned(1, "Who?", "Ada [1][2].", "a", "b", "c"), Rated(turn=1, rating="good"),
        Labelled(turn=1, labels={"b": False}, passages=(citation(2, "b"),)),
    )  # fmt: skip
    for talk, expected in ((labelled, {"c": "1"}), (cited, {"a": "1", "b": "0"})):
        plan = mtrag(talk.exchanges, "s", tmp_path, None)
        text = next(text for path, text in plan.files.items() if path.name == "dev.tsv")
        assert {line.split("\t")[1]: line.split("\t")[2] for line in text.splitlines()[1:]} == expected


def test_a_revision_that_is_approved_is_the_target_of_its_turn(tmp_path):
    talk = talked(
        turned(1, "Who?", "Ada [1].", "a"),
        turned(2, "longer", "Ada Lovelace [1].", "a", kind="revise"), Rated(turn=2, rating="good"),
        turned(3, "When?", "May [1].", "b"), Rated(turn=3, rating="good"),
    )  # fmt: skip
    plan = mtrag(talk.exchanges, "s", tmp_path, None)
    text = plan.files[tmp_path / "mtrag-human/generation_tasks/reference.jsonl"]
    first, second = (json.loads(line) for line in text.splitlines())
    assert first["targets"][0]["text"] == "Ada Lovelace."
    assert (second["turn"], second["task_id"]) == ("2", "s<::>3")
    assert [turn["text"] for turn in second["input"]] == ["Who?", "Ada Lovelace.", "When?"]
    questions = next(text for path, text in plan.files.items() if path.name == "mynotes_questions.jsonl")
    assert json.loads(questions.splitlines()[-1])["text"] == "|user|: Who?\n|user|: When?"


def test_names_of_documents_cannot_break_a_table(tmp_path):
    evil = "a\tb\n/../x\u2028y"
    talk = talked(turned(1, "Who?\nReally?", "Ada [1].", evil), Rated(turn=1, rating="good"))
    plan = mtrag(talk.exchanges, "s", tmp_path, None)
    assert all(path.is_relative_to(tmp_path) and ".." not in path.parts for path in plan.files)
    plan.write()
    labels = mtrag_data.load_qrels(tmp_path, "mtrag", "mynotes")
    assert labels.problems == ()
    assert list(labels.data["s<::>1"]) == ["a_b_/../x_y"]
    corpus = [json.loads(line) for line in (tmp_path / "corpora/passage_level/mynotes.jsonl").read_bytes().splitlines()]
    assert [row["_id"] for row in corpus] == ["a_b_/../x_y"]


def test_two_indexes_are_two_domains(tmp_path):
    talk = talked(
        turned(1, "Who?", "Ada [1].", "a"), Rated(turn=1, rating="good"),
        Swapped(index="my-notes", generator="extractive"),
        turned(2, "When?", "May [1].", "b"), Rated(turn=2, rating="good"),
    )  # fmt: skip
    plan = mtrag(talk.exchanges, "s", tmp_path, None)
    names = {path.name for path in plan.files if path.parent.name == "passage_level"}
    assert names == {"mynotes.jsonl", "mynotesx2.jsonl"}


def test_a_transcript_shows_what_documents_say_and_runs_none_of_it():
    evil = reply("See ![x](http://evil.example/p.png) <script>alert(1)</script> **b** [1] [7]\n===\n", "a")
    evil = evil.model_copy(
        update={"citations": (citation(1, "a").model_copy(update={"title": "T](http://x) <b>\n# H"}),)}
    )
    talk = talked(
        Turned.model_validate({"turn": 1, "question": "# What\n<img src=x>", "reply": evil}),
        Rated(turn=1, rating="bad", comment="[link](http://x)"),
    )
    text = markdown(talk.exchanges, "talk")
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
    inline = [child.type for token in tokens for child in token.children or []]
    assert "image" not in inline
    assert "link_open" not in inline
    html = [child.content for token in tokens for child in token.children or [] if child.type == "html_inline"]
    assert set(html) <= {"<sub>", "</sub>"}
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1", "h2"]
    assert "[^1-1]" in text
    assert "[^1-7]" not in text
    assert "[^1-1]: " in text


def test_files_are_not_overwritten_unless_a_person_says_so(home, tmp_path):
    path = tmp_path / "talk.md"
    path.write_text("mine", encoding="utf-8")
    questions, answers = list[str](), [False, True]

    def confirm(question: str) -> bool:
        questions.append(question)
        return answers.pop(0)

    talk = Talk(confirm=confirm)
    talk("Who won the 1998 World Cup?")
    talk(f"/export markdown {path}")
    assert path.read_text(encoding="utf-8") == "mine"
    talk(f"/export markdown {path}")
    assert path.read_text(encoding="utf-8").startswith("# Conversation")
    assert [str(path) in question for question in questions] == [True, True]


def test_the_target_must_be_what_the_format_needs(tmp_path: Path):
    session = new_session(Began(index="demo", generator="extractive"), keep=False)
    with pytest.raises(RequestError, match="nothing to export"):
        export_session("markdown", session, tmp_path / "x.md", None)
    session.record(turned(1, "Who?", "Ada."))
    session.record(Rated(turn=1, rating="good"))
    file = tmp_path / "file"
    file.write_text("x", encoding="utf-8")
    with pytest.raises(RequestError, match="mtrag needs a folder"):
        export_session("mtrag", session, file, None)
    with pytest.raises(RequestError, match="markdown needs a file"):
        export_session("markdown", session, tmp_path, None)
