"""Messages about the collection or the program, answered without a model."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.assistant.notes import notes
from tests.opened import assistant_over
from tests.servers import Say, ScriptedServer
from turnmark.assistant.steps.answer.answer_collection import MAX_LISTED_DOCUMENTS
from turnmark.assistant.steps.understand.collection_questions import collection_question
from turnmark.corpora.types import Message
from turnmark.retrieval.index.build import build_index


@pytest.fixture
def shelf(home, tmp_path):
    folder = notes(
        tmp_path / "shelf",
        plans="---\ndate: 2024-01-02\n---\n# Plans\n\nThe Standard plan includes one vault. "
        "There are many documents in it, newest first.\n",
        sync="---\ndate: 2024-03-20\n---\n# Sync\n\nSync keeps the files equal. Help is in the help menu.\n",
        theme="# Theme\n\nA theme changes the colors. What you can do with it is listed below.\n",
    )
    build_index(folder, "shelf", retriever="bm25")
    return assistant_over("shelf")


@pytest.mark.parametrize(
    ("message", "topic", "language"),
    [
        ("How many documents are there?", "count", "en"), ("how many files do you have in total", "count", "en"),
        ("Can you tell me how many pages you have?", "count", "en"), ("Count the documents", "count", "en"),
        ("what documents do you have?", "list", "en"), ("List all documents", "list", "en"),
        ("Please show me your files", "list", "en"), ("What's in this collection?", "list", "en"),




        ("What can you do?", "help", "en"), ("Help", "help", "en"), ("help!", "help", "en"), ("Who are you?",
        "help", "en"),
        ("How do I use this program?", "help", "en"), ("What questions can I ask?", "help", "en"),
        ("summarize the documents", "summarize", "en"), ("Can you summarise all files?", "summarize", "en"),
        ("Give me an overview of your documents", "summarize", "en"), ("What are the documents about?", "summarize",
        "en"),
        ("How many documents does this index contain?", "count", "en"), ("How many files?", "count", "en"),
        ("list all the documents you have", "list", "en"), ("what topics do you cover?", "list", "en"),

        ("Wie viele Dokumente gibt es?", "count", "de"), ("Welche Dateien hast du?", "list", "de"),
        ("Liste alle Dokumente auf", "list", "de"),
        ("Was kannst du?", "help", "de"), ("Hilfe", "help", "de"),
        ("Fasse die Dokumente zusammen", "summarize", "de"), ("Worum geht es in den Dokumenten?", "summarize", "de"),
        ("Combien de documents y a-t-il ?", "count", "fr"), ("Quels documents as-tu ?", "list", "fr"),

        ("Que peux-tu faire ?", "help", "fr"), ("Aide", "help", "fr"), ("Résume les documents", "summarize", "fr"),
        ("¿Cuántos documentos hay?", "count", "es"), ("¿Qué documentos tienes?", "list", "es"),

        ("¿Qué puedes hacer?", "help", "es"), ("Ayuda", "help", "es"), ("Resume los documentos", "summarize", "es"),
        ("有多少个文档？", "count", "zh"), ("你有哪些文档？", "list", "zh"), ("列出所有文档", "list", "zh"),
        ("你能做什么？", "help", "zh"),
        ("总结所有文档", "summarize", "zh"),
    ],
)  # fmt: skip
def test_questions_about_the_collection_are_recognized(message, topic, language):
    question = collection_question(message)
    assert question is not None
    assert (question.topic, question.language, question.words) == (topic, language, "")


@pytest.mark.parametrize(
    "message",
    [
        "How many documents do I need for a visa?", "How many files are there in a vault?",
        "How many pages can a note have?",
        "What documents do you need for a passport?", "Which is the newest version of the firmware?",
        "List all documents that I must bring", "Help me install the printer", "What can you do with a theme?",
        "What can I do?", "Who are you to decide?", "Summarize the sync page", "Summarize the vacation policy",
        "What did I ask for in the contract?", "How do I list all files in a folder?", "What is the latest release?",
        "Wie viele Dokumente brauche ich für den Antrag?", "Welche Unterlagen muss ich mitbringen?",
        "Hilfe beim Einrichten", "Combien de documents faut-il fournir ?", "Quels documents dois-je fournir ?",
        "¿Cuántos documentos necesito?", "¿Qué documentos hay que presentar?", "需要多少个文件？", "文件有哪些格式？",
        "what is the latest report?", "How many notes does the free plan allow?", "How do I get help?",
        "", "?", "How many documents " + "and files " * 40,
    ],
)  # fmt: skip
def test_ordinary_questions_are_not_about_the_collection(message):
    assert collection_question(message) is None


LABELED = tomllib.loads(Path(__file__).with_name("collection_labels.toml").read_text("utf-8"))
"""Messages about the collection and similar questions by language."""


@pytest.mark.parametrize("language", LABELED)
def test_messages_about_the_collection_and_similar_questions_are_told_apart(language):
    found = {text: collection_question(text) for _, text in LABELED[language]["about"]}
    topics = {text: asked and (asked.topic, asked.language, asked.words) for text, asked in found.items()}
    assert topics == {text: (topic, language, "") for topic, text in LABELED[language]["about"]}
    assert [text for text in LABELED[language]["other"] if collection_question(text)] == []


@pytest.mark.parametrize(
    "message", ["How many documents are there?", "what documents do you have?", "list all documents"]
)
def test_documents_are_counted_and_listed_with_sources(shelf, message):
    reply = shelf.reply([], message)
    assert reply.answer == "There are 3 documents:\n\n- Plans [1]\n- Sync [2]\n- Theme [3]"
    assert [citation.title for citation in reply.citations] == ["Plans", "Sync", "Theme"]
    assert reply.decision == "answer"


def test_long_list_is_shortened(home, tmp_path):
    build_index(
        notes(tmp_path / "m", **{f"n{n:02}": f"# Note {n}\n\nText.\n" for n in range(40)}), "m", retriever="bm25"
    )
    answer = assistant_over("m").reply([], "list all documents").answer
    assert answer.startswith("There are 40 documents:\n\n- Note 0 [1]\n")
    assert answer.endswith(f"\n- … and {40 - MAX_LISTED_DOCUMENTS} more")


def test_documents_about_something_are_ranked(shelf):
    reply = shelf.reply([], "What files do you have about sync?")
    assert reply.answer == "The documents nearest to “sync”:\n\n- Sync [1]"
    assert "nearest to" not in shelf.reply([], "What files do you have about gardening?").answer


@pytest.mark.parametrize(
    ("message", "heading", "end"),
    [
        ("summarize tour.md", "Tour", "- Chapter 1: Start\n- Chapter 2: Return\n\nA summary takes a language"),
        ("What does the tour say?", "Tour", "- Chapter 1: Start"),
        ("what is in chapter 2", "Tour › Chapter 2: Return", "A summary takes"),
        ("Was steht in Kapitel 2?", "Tour › Chapter 2: Return", "Eine Zusammenfassung braucht"),
        ("résume tour.md", "Tour", "Un résumé demande"),
        ("¿Qué dice el capítulo 2?", "Tour › Chapter 2: Return", "Un resumen necesita"),
        ("第二章讲了什么？", "", ""),
        ("第2章讲了什么？", "Tour › Chapter 2: Return", "总结需要"),
        ("tour.mdを要約して", "Tour", "要約には"),
        ("summarize the gardening guide", "", ""),
    ],
)
def test_a_named_document_is_outlined(shelf, tmp_path, message, heading, end):
    chapters = "## Chapter 1: Start\n\nGo north.\n\n## Chapter 2: Return\n\nThe ferry sails back.\n"
    folder = notes(tmp_path / "tours", tour=f"# Tour\n\nA walk.\n\n{chapters}", ferry="# Ferry\n\nThe ferry is red.\n")
    build_index(folder, "tours", retriever="bm25")
    answer = assistant_over("tours").reply([], message).answer
    assert answer.startswith(f"{heading} [1]\n") if heading else "--generator" not in answer
    assert end in answer


def test_a_question_that_names_a_document_is_searched_in_it(shelf):
    reply = shelf.reply([], "what is listed in theme.md?")
    assert {citation.title for citation in reply.citations} == {"Theme"}
    assert {hit.title for search in reply.trace.searches for hit in search.hits} == {"Theme"}


@pytest.mark.parametrize(
    ("message", "beginning"),
    [("Help", "I answer questions by"), ("What can you do?", "I answer"), ("Hilfe", "Ich beantworte Fragen"),
     ("Que peux-tu faire ?", "Je réponds"), ("你能做什么？", "我引用您的文档")],
)  # fmt: skip
def test_help_says_what_the_program_does(shelf, message, beginning):
    reply = shelf.reply([], message)
    assert reply.answer.startswith(beginning)
    assert (reply.decision, reply.citations) == ("converse", ())


def test_a_summary_takes_a_model(shelf):
    chat = shelf.chat()
    chat.ask("What does a theme change?")
    answer = chat.ask("summarize the documents").answer  # not a request to shorten the last answer
    assert answer.startswith("A summary takes a language model (`--generator`).")
    assert answer.endswith("There are 3 documents:\n\n- Plans [1]\n- Sync [2]\n- Theme [3]")


def test_a_follow_up_returns_to_the_topic_before(shelf):
    history = [Message(role="user", content="What does a theme change?"),
               Message(role="assistant", content="The colors. [1]"),
               Message(role="user", content="How many documents are there?"),
               Message(role="assistant", content="There are 3 documents:")]  # fmt: skip
    assert "theme" in shelf.reply(history, "and how do I get it?").rewrite


def test_a_small_model_is_not_asked_what_can_be_counted(shelf):
    with ScriptedServer(Say("There are 2 documents.")) as server:
        small = assistant_over("shelf", f"openai:tiny@{server.url}?size=small")
        reply = small.reply([], "How many documents are there?")
    assert reply.answer.startswith("There are 3 documents:")
    assert server.bodies == []
