"""Revisions of the last answer: recognizing a request, edits by rules, and rewriting by a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.assistant.notes import conversation, prompts_of, understanding, with_model
from tests.opened import assistant_over
from turnmark.assistant.citations.marks import cited_numbers
from turnmark.assistant.sessions.conversation import SessionBegan, TurnAnswered
from turnmark.assistant.sessions.session_files import new_session, read_session
from turnmark.assistant.steps.revise.edit_rules import apply_requests
from turnmark.assistant.steps.understand.earlier_answers import current_versions, last_answer
from turnmark.assistant.steps.understand.edit_requests import EditRequest, edit_requests, is_instruction
from turnmark.assistant.types import Event, Reply
from turnmark.assistant.wording.reply_texts import NEEDS_MODEL_TEXT, NOTHING_TO_CHANGE_TEXT, UNCHANGED_TEXT, UNSURE_TEXT
from turnmark.core.errors import RequestError
from turnmark.corpora.text.segmentation import strip_citations, words

LABELS = json.loads((Path(__file__).parent / "instruction_labels.json").read_text(encoding="utf-8"))
BEFORE = conversation("How is the bread made?", "It is baked. [1]")
TALK = conversation("Tell me of the kettle.", "The kettle is red. It boils water in four minutes. [1]")


# -- requests


@pytest.mark.parametrize("kind", ["instructions", "others"])
def test_classifies_labeled_messages(kind):
    wrong = [text for text in LABELS[kind] if is_instruction(BEFORE, text) is not (kind == "instructions")]
    assert wrong == []
    assert not any(is_instruction(BEFORE[:1], text) for text in LABELS[kind]), "there is no answer yet"


@pytest.mark.parametrize(
    ("message", "requests"),
    [
        ("as a list please", [EditRequest(kind="list")]),
        ("could you turn that into bullet points?", [EditRequest(kind="list")]),
        ("too long, make it shorter", [EditRequest(kind="shorter")]),
        ("only the first two", [EditRequest(kind="only", count=2)]),
        ("just the last 3 points", [EditRequest(kind="only", count=3, last=True)]),
        ("without the last one", [EditRequest(kind="without", count=1, last=True)]),
        ("just the steps", [EditRequest(kind="steps")]),
        ("in simpler words", [EditRequest(kind="other")]),
        ("swap the order", [EditRequest(kind="order")]),
        ("sorted alphabetically", [EditRequest(kind="order", option=True)]),
        ("in at most ten words", [EditRequest(kind="limit", count=10, option=True)]),
        ("drop the second one", [EditRequest(kind="without", at=2)]),
        ("only the part about Linux", [EditRequest(kind="only", about="linux")]),
        ("can I have only the logins?", [EditRequest(kind="only", about="logins")]),
        ("only the logins?", []),
        ("make that shorter, as a list", [EditRequest(kind="shorter"), EditRequest(kind="list")]),
        ("As a list, and only the first two please", [EditRequest(kind="only", count=2), EditRequest(kind="list")]),
        ("shorter and in simpler words", [EditRequest(kind="shorter"), EditRequest(kind="other")]),
        ("shorter, and what does it cost?", []),
        ("cut the cake in two", []),
        ("How do I make it shorter?", []),
        ("shorter " * 40, []),
    ],
)
def test_reads_edit_requests(message, requests):
    assert list(edit_requests(message)) == requests


@given(st.text(max_size=80))
def test_any_message_can_be_classified(message):
    is_instruction(BEFORE, message)
    assert not edit_requests(message) or len(message) > 2


@pytest.mark.data
def test_hardly_any_mtrag_message_is_taken_for_an_instruction(real_data):
    messages: set[str] = set()
    for file in sorted((real_data / "mt-rag-benchmark").rglob("*.jsonl")):
        with file.open(encoding="utf-8") as lines:
            for turns in (json.loads(line).get("input") for line in lines):
                rows = turns if isinstance(turns, list) else []
                messages |= {turn["text"] for turn in rows if turn["speaker"] == "user"}
    assert len(messages) > 1500
    assert sum(is_instruction(BEFORE, text) for text in messages) < 0.01 * len(messages)


# -- by rules

PROSE = "The boat is old. **She carries six cars.** Otters follow her."
STEPS = "Reset  \nHow to do it:\n\n1. Hold it.\n2. **Wait.**\n\n```\nwait\n\n```\n\n3. Go on. Rest.\n\nDone."
TABLE = "Shop › Fares  \nPaid:\n\n| tool | price |\n| --- | --- |\n| saw No. 3. | 2 pounds. |\n| axe | 4 |\n| hoe | |"
FARES = "Boats › Fares  \nA ticket costs £7. Cars cost £9."
FURTHER = f"{FARES}\n\n- *Age*: It is old.\n- *Boats › Otters*: They follow."
PARTS = f"Boats › Size  \n{PROSE}\n\n{FARES}\n\nI found nothing about “winter”."
ALL = "There are 3 documents:\n\n- boat.md\n- axe: a tool\n- apple: a fruit"


@pytest.mark.parametrize(
    ("answer", "message", "text"),
    [
        (PROSE, "as a list", "- The boat is old.\n- **She carries six cars.**\n- Otters follow her."),
        (STEPS, "as a list", "- Hold it.\n- **Wait.**\n- `wait`\n- Go on. Rest.\n- Done."),
        (PROSE, "only the last two, as a list", "- **She carries six cars.**\n- Otters follow her."),
        (PROSE, "shorter and in simpler words", ""),
        (PROSE, "shorter", "**She carries six cars.**"),
        (PARTS, "kürzer bitte", PARTS.replace(PROSE, "**She carries six cars.**").replace(" Cars cost £9.", "")),
        (FURTHER, "shorter", "Boats › Fares  \nA ticket costs £7."),
        (STEPS, "shorter", STEPS.replace("\n\nDone.", "")),
        (ALL, "make it shorter", ALL),
        (f"{UNSURE_TEXT}\n\n{PROSE}", "in one sentence", f"{UNSURE_TEXT}\n\n**She carries six cars.**"),
        (FURTHER, "in at most four words", "A ticket costs £7."),
        (PROSE, "in two words", ""),
        (PROSE, "only the first two", "The boat is old. **She carries six cars.**"),
        (PROSE, "without the last sentence", "The boat is old. **She carries six cars.**"),
        (PROSE, "without the second sentence", "The boat is old.\n\nOtters follow her."),
        (STEPS, "only the first two", "Reset  \n1. Hold it.\n2. **Wait.**"),
        (STEPS, "only step 3", "Reset  \n3. Go on. Rest."),
        (STEPS, "just the steps", "Reset  \n1. Hold it.\n2. **Wait.**\n3. Go on. Rest."),
        (PARTS, "only the part about otters", "Boats › Size  \nOtters follow her.\n\nI found nothing about “winter”."),
        (
            PARTS,
            "leave out the cars",
            PARTS.replace(" **She carries six cars.** ", "\n\n").replace(" Cars cost £9.", ""),
        ),
        (TABLE, "without the part about axes", TABLE.replace("\n| axe | 4 |", "")),
        (TABLE, "as a list", "- saw No. 3. – 2 pounds.\n- axe – 4\n- hoe"),
        (f"{UNSURE_TEXT}\n\n{TABLE}", "as a list", f"{UNSURE_TEXT}\n\n- saw No. 3. – 2 pounds.\n- axe – 4\n- hoe"),
        (
            "Yes.\n\n> Boats  \n> The boat is old.\n>\n> **She carries six cars.**",
            "as a list",
            "- Yes.\n\n- The boat is old.\n- **She carries six cars.**",
        ),
        ("- axe: 4\n- **hoe** – 2", "as a table", "| | |\n| --- | --- |\n| axe | 4 |\n| hoe | 2 |"),
        (PROSE, "as a table", ""),
        ("1. Hoe.\n2. **Axe.**", "in another order", "1. **Axe.**\n2. Hoe."),
        ("- hoe\n- Axe", "in alphabetical order", "- Axe\n- hoe"),
        (PROSE, "only the first nine", ""),
        (PROSE, "only the part about winter", ""),
        (PROSE, "just the steps", ""),
        (PROSE, "in simpler words", ""),
    ],
)
def test_applies_edit_requests_by_rules(answer, message, text):
    assert apply_requests(answer, edit_requests(message)) == text


REQUESTS = st.sampled_from([edit_requests(text) for text in LABELS["instructions"] if edit_requests(text)])
PIECES = st.lists(
    st.sampled_from(["One is so.", "**Two.**", "\n\n", "\n1. Do it.", "\n- x", "Head\n", "红。"]), max_size=8
)


@given(REQUESTS, PIECES.map(" ".join) | st.text(max_size=60))
@settings(max_examples=150)
def test_edits_by_rules_add_no_words(requests, answer):
    text = apply_requests(answer, requests)
    assert set(words(text)) <= set(words(answer))


def revised(message: str, history=TALK) -> Reply:
    return assistant_over("n").reply(history, message)


@pytest.mark.usefixtures("kitchen")
def test_answer_edited_by_rules_gets_citations():
    events: list[Event] = []
    reply = assistant_over("n").reply(TALK, "as a list please", events.append)
    assert reply.answer == "- The kettle is red. [1]\n- It boils water in four minutes. [1]"
    assert "".join(event.delta for event in events) == reply.answer
    assert reply.citations[0].document == "kettle.md"
    unsure = revised(
        "as a list", conversation("Tell me of the kettle.", f"{UNSURE_TEXT}\n\nIt boils water. It is red.")
    )
    assert (unsure.decision, unsure.answer.count("- ")) == ("partial", 2)
    assert (reply.trace.understanding.kind, reply.checks.grounded, reply.usage) == ("revision", 1.0, {})


@pytest.mark.usefixtures("kitchen")
@pytest.mark.parametrize(
    ("history", "message", "said"),
    [
        (TALK, "in simpler words please", NEEDS_MODEL_TEXT),
        (TALK, "only the first nine", NOTHING_TO_CHANGE_TEXT),
        (conversation("How?", "- One is so.\n- Two is so."), "as a list", "it is that already."),
        (conversation("How?", "I don't know: I found nothing about that."), "shorter", NOTHING_TO_CHANGE_TEXT),
    ],
)
def test_says_why_rules_cannot_change_the_answer(history, message, said):
    reply = revised(message, history)
    assert (reply.decision, reply.answer, reply.citations) == ("converse", f"{UNCHANGED_TEXT}{said}", ())


@pytest.mark.usefixtures("kitchen")
def test_instruction_refers_to_the_last_real_answer():
    talk = [*TALK, *conversation("in simpler words please", f"{UNCHANGED_TEXT}x", "ok thanks", "You're welcome.")]
    assert strip_citations(revised("only the first one", talk).answer) == "The kettle is red."
    assert last_answer(talk) == (0, "The kettle is red. It boils water in four minutes.")
    agreed = conversation("How is it made?", "Of dough. Shall I list the steps?", "ok", "1. Knead it.\n2. Bake it.")
    assert last_answer(agreed) == (0, "1. Knead it.\n2. Bake it.")
    assert strip_citations(assistant_over("n").revise(TALK, "shorter").answer) == "The kettle is red."
    with pytest.raises(RequestError, match="no answer yet"):
        assistant_over("n").revise([], "Make it shorter.")


# -- by a model

AS_TOLD = {"match": "The user wants it changed:", "text": "Red [1]; four minutes [1]."}
REVISION = {"match": "The user's new message:", "text": understanding(kind="revision")}


def test_model_rewrites_the_answer_with_citations(kitchen):
    assistant = with_model(kitchen, REVISION, AS_TOLD)
    events: list[Event] = []
    reply = assistant.reply(TALK, "in simpler words", events.append)
    assert reply.answer == "".join(event.delta for event in events) == "Red [1]; four minutes [1]."
    assert reply.citations[0].document == "kettle.md"
    assert {role: usage.calls for role, usage in reply.usage.items()} == {"understand": 1, "answer": 1}
    assert (reply.trace.understanding.kind, reply.checks.citations_valid) == ("revision", True)


TWO = conversation(
    "Who made the toaster?", "The toaster was made by Ada Berg.", "thanks", "You're welcome.",
    "Tell me of the kettle.", "The kettle is red. It boils water in four minutes. [1]",
    "in simpler words", f"{UNCHANGED_TEXT}x",
)  # fmt: skip


def test_revision_of_two_answers_sees_both_and_their_sources(kitchen):
    both = "Put who made the toaster and what the kettle is like in one list."
    combining = understanding(kind="revision", leans=True, rewrite=both)
    assistant = with_model(kitchen, {**REVISION, "text": combining}, "- Red [1]\n- Ada Berg [2]")
    asked = prompts_of(assistant)
    reply = assistant.reply(TWO, "put both in one list")
    earlier, _, rest = asked[-1].partition("Sections of the documents:")
    sections, _, last = rest.partition("Your last answer, which ends the conversation so far:")
    assert "> User: Who made the toaster?\n> Assistant: The toaster was made by Ada Berg.\n" in earlier
    assert earlier.rstrip().endswith("> User: Tell me of the kettle.")
    assert last == (
        "\n> The kettle is red. It boils water in four minutes.\n\nThe user wants it changed:\nput both in one list"
    )
    assert "kettle.md" in sections
    assert "toaster.md" in sections
    assert not any("welcome" in search.query for search in reply.trace.searches)
    assert {citation.document for citation in reply.citations} >= {"kettle.md", "toaster.md"}


KETTLES = ("Tell me of the kettle.", "The kettle is red. It boils [1].")
MADE = ("Who made the toaster?", "Ada Berg made the toaster [1].")


def answers(*texts: str, kind: str = "question") -> list[dict[str, str]]:
    """Return the script of turns that are understood as of a kind and answered with these texts."""
    understood = {"match": "The user's new message:", "text": understanding(kind=kind)}
    return [each for text in texts for each in (understood, {"match": "Sections of the documents:", "text": text})]


def test_revision_shows_the_sources_of_the_answer_without_a_search(kitchen):
    script = [*answers(KETTLES[1], MADE[1]), *answers("- Ada Berg [1]", "Frau Berg [1]", kind="revision")]
    chat = with_model(kitchen, *script).chat()
    asked = prompts_of(chat.assistant)
    first, second = chat.ask(KETTLES[0]), chat.ask(MADE[0])
    for instruction in ("as a list", "auf Deutsch"):
        reply = chat.ask(instruction)
        assert reply.trace.searches == ()
        assert [citation.id for citation in reply.citations] == [second.citations[0].id]
        assert "kettle.md" not in asked[-1], "no answer but the last one is meant"
    assert "> - Ada Berg [1]\n" in asked[-1], "the marks of the last version number the sections"
    assert first.citations[0].document == "kettle.md"
    assert reply.checks.citations_valid


def test_revision_shows_the_sources_of_the_earlier_answer_that_it_names(kitchen):
    script = [*answers(KETTLES[1], MADE[1]), *answers("Ada Berg [1]; the kettle boils [2].", kind="revision")]
    chat = with_model(kitchen, *script).chat()
    chat.ask(KETTLES[0])
    chat.ask(MADE[0])
    reply = chat.ask("together with what the kettle does")
    assert [citation.document for citation in reply.citations] == ["toaster.md", "kettle.md"]
    assert reply.trace.searches == ()


def test_replaced_versions_leave_the_conversation_that_is_understood(kitchen):
    script = [*answers(KETTLES[1]), *answers("- Red [1]", "- Rot [1]", kind="revision"), *answers(MADE[1])]
    chat = with_model(kitchen, *script).chat()
    asked = prompts_of(chat.assistant)
    for message in (KETTLES[0], "as a list", "auf Deutsch", MADE[0]):
        chat.ask(message)
    understand, answer = asked[-2:]
    for prompt in (understand, answer):
        assert "It boils" not in prompt.partition("Sections of the documents:")[0]
        assert "> User: as a list\n> User: auf Deutsch\n> Assistant: - Rot" in prompt
    revised = conversation("What is red?", "The kettle, which boils.", "as a list please", "- The kettle")
    assert [message.content for message in current_versions(revised)] == [
        "What is red?", "as a list please", "- The kettle",
    ]  # fmt: skip


def test_a_saved_conversation_keeps_the_sources_of_its_answers(kitchen):
    session = new_session(SessionBegan(index="n"))
    reply = with_model(kitchen, *answers(KETTLES[1])).reply([], KETTLES[0])
    session.record(TurnAnswered(turn=1, question=KETTLES[0], reply=reply))
    session.close()
    history = read_session(session.name)[0].history()
    revised = with_model(kitchen, *answers("Rot [1].", kind="revision")).reply(history, "auf Deutsch")
    assert revised.trace.searches == ()
    assert revised.citations[0].text == reply.citations[0].text


@pytest.mark.parametrize(("instruction", "searched"), [("add who made the toaster", True), ("make it shorter", False)])
def test_revise_searches_for_an_instruction_unless_it_is_about_layout(kitchen, instruction, searched):
    assistant = with_model(kitchen, AS_TOLD)
    asked = prompts_of(assistant)
    reply = assistant.revise(TALK, instruction)
    assert ("the instruction asks for more" in [search.why for search in reply.trace.searches]) is searched
    assert ("toaster.md" in asked[-1]) is searched


def test_searches_for_an_instruction_that_asks_for_more(kitchen):
    parts = [{"question": "Add who made the toaster.", "search": ["toaster made by"]}]
    assistant = with_model(
        kitchen,
        {"match": "The user's new message:", "text": understanding(kind="revision", parts=parts)},
        {"match": "Ada Berg", "text": "The kettle is red [1]. Ada Berg made the toaster [2]."},
    )
    reply = assistant.reply(TALK, "put in who made the toaster")
    assert "the instruction asks for more" in [search.why for search in reply.trace.searches]
    assert {citation.document for citation in reply.citations} >= {"kettle.md", "toaster.md"}
    assert cited_numbers(reply.answer) == [1, 2]


def test_small_model_revises_without_sources_and_after_the_rules(kitchen):
    quoted = conversation("What colour is the kettle?", "It is red.\n\n> Kettle\n> **The kettle is red.** It boils.")
    assistant = with_model(kitchen, "The kettle is red.", options="?size=small")
    reply = assistant.reply(quoted, "in simpler words")
    assert reply.answer == "The kettle is red. [1]"
    assert {role: usage.calls for role, usage in reply.usage.items()} == {"revise": 1}
    listed = with_model(kitchen, "x", options="?size=small").reply(TALK, "as a list please")
    assert listed.usage == {}
    assert listed.answer.startswith("- ")
