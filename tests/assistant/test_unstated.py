"""A model says by the mark `[0]` that the documents do not state something, in any language; nobody sees the mark."""

from __future__ import annotations

import pytest

from tests.assistant.notes import with_model
from turnmark.assistant.citations.mark_forms import with_standard_marks
from turnmark.assistant.citations.not_stated_mark import MarkFilter, read_answer
from turnmark.assistant.types import Event
from turnmark.assistant.wording.reply_texts import UNKNOWN_TEXT

UNDERSTOOD = {"text": "{}", "match": "The user's new message:"}


@pytest.mark.parametrize(
    ("written", "shown", "unstated"),
    [
        ("Davon steht dort kein Wort [0].", "Davon steht dort kein Wort.", ("Davon steht dort kein Wort.",)),
        ("[0] 手册只字未提。", "手册只字未提。", ("手册只字未提。",)),
        ("手册只字未提[0]。", "手册只字未提。", ("手册只字未提。",)),
        ("Rot [1]. Der Preis fehlt [0].", "Rot [1]. Der Preis fehlt.", ("Der Preis fehlt.",)),
        ("[0]", "", ("",)),
        ("Red [1]; see `list[0]` and\n\n```py\nx = arr[0]\n```", None, ()),
        ("arr[0] is the first one [1].", None, ()),
    ],
)
def test_the_mark_is_read_and_removed(written, shown, unstated):
    answer = read_answer(written, 9)
    assert answer.text == (written if shown is None else shown)
    assert answer.unstated == unstated


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
@pytest.mark.parametrize(
    "written",
    ["[0] Davon steht dort kein Wort.", "Rot [1]. Der Preis fehlt [0]. Er ist alt [1].", "手册只字未提[0]。",
     "Red [1]; see `list[0]`.", "Ends with a bracket [", "A [0", "- one [1]\n- nothing more [0]\n"],
)  # fmt: skip
def test_the_stream_is_the_answer_without_the_mark(written, size):
    pieces: list[str] = []
    shown = MarkFilter(pieces.append, 9)
    for start in range(0, len(written), size):
        shown(written[start : start + size])
    shown.finish()
    assert "".join(pieces).strip() == read_answer(written, 9).text


def answered(kitchen, text: str):
    events: list[Event] = []
    assistant = with_model(kitchen, UNDERSTOOD, {"text": text, "match": "Sections of the documents:"})
    reply = assistant.reply([], "Was kostet der kettle?", events.append)
    return reply, "".join(event.delta or "" for event in events)


def test_a_marked_reply_is_a_refusal_in_any_language(kitchen):
    reply, streamed = answered(kitchen, "Hvad den koster, bliver ikke omtalt [0].")
    assert (reply.decision, reply.citations) == ("unknown", ())
    assert reply.answer == streamed == "Hvad den koster, bliver ikke omtalt."
    assert not reply.sub_questions[0].answered


def test_a_marked_sentence_is_no_claim(kitchen):
    reply, streamed = answered(kitchen, "The kettle is red [1]. Hvad den koster, bliver ikke omtalt [0].")
    assert reply.decision == "partial"
    assert reply.checks.unsupported == ()
    assert "[0]" not in reply.answer
    assert "[0]" not in streamed


def test_a_reply_of_the_mark_alone_becomes_the_refusal(kitchen):
    reply, streamed = answered(kitchen, "[0]")
    assert reply.decision == "unknown"
    assert reply.answer == streamed
    assert reply.answer != UNKNOWN_TEXT  # it is in German


SENTENCES = "Boil it for 30 minutes{}. Then rinse it three times{}."


@pytest.mark.parametrize(
    "form",
    ["【1】", "【1†L3-L5】", "[^1]", "[Source 1]", "(1)", "[[1]]", r"\[1\]", " ¹", "[id=1]", "[1](kettle.md)", "`[1]`",
     "<sup>1</sup>", "[1: kettle.md]", "[#1]", "［1］", "[section 1]", "[ref1]", "[cite: 1]", "[S1]", "[١]",
     "[Doc 1]"],
)  # fmt: skip
def test_reads_other_forms_of_a_citation(form):
    written = SENTENCES.format(f" {form}".replace("  ", " "), f" {form}".replace("  ", " "))
    expected = SENTENCES.format(" [1]", " [1]")
    assert read_answer(written, 3).text == expected
    pieces = []
    shown = MarkFilter(pieces.append, 3)
    for character in written:
        shown(character)
    shown.finish()
    assert "".join(pieces) == expected


@pytest.mark.parametrize(
    "text",
    ["(1) Boil it. (2) Rinse it.", "Do (1) boil, (2) rinse.", "See step (1).", "Repeat it three times (3).",
     "It has 5 m².", "【9】 is not shown.", "It is in [Source 9].", "Write `list[1]` or `[^1]: x`.",
     "```\nx = a[1]\n```", "[Section 1](#s1) has it.", "It was so in 2019 (2)."],
)  # fmt: skip
def test_keeps_what_is_no_citation(text):
    assert read_answer(text, 3).text == text


def test_removes_a_fence_around_an_answer_with_citations():
    assert read_answer("```markdown\nBoil it [1].\n```", 3).text == "Boil it [1]."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Run:\n\n```bash\napt install kettle [1]\nkettle --on [2]\n```\n\nThen wait.",
         "Run:\n\n```bash\napt install kettle \nkettle --on \n```\n[1] [2]\n\nThen wait."),
        ("```python\nx = [1]\nreturn [1]\nf(x)[1]\n```\nDone [2].",
         "```python\nx = [1]\nreturn [1]\nf(x)[1]\n```\nDone [2]."),
        ("Run:\n```\nkettle [7]\n```", "Run:\n```\nkettle [7]\n```"),
    ],
)  # fmt: skip
def test_marks_behind_lines_of_code_move_behind_the_block(text, shown):
    assert with_standard_marks(text, 3) == shown
