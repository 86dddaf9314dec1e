"""Answers of a model: one call over full sections, with its wording kept. A small model gets two stretches."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.assistant.notes import Room, conversation, hit, prompts_of, understanding, with_model
from turnmark.assistant.citations.marks import cited_numbers
from turnmark.assistant.citations.not_stated_mark import read_answer
from turnmark.assistant.llm.prompts.context_budget import count_tokens
from turnmark.assistant.llm.prompts.history import last_turns_within
from turnmark.assistant.steps.answer.answer_llm import answer_prompt, decision_of, format_section, procedure_in
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.types import Event, Understanding
from turnmark.assistant.wording.reply_texts import UNKNOWN_TEXT, UNSURE_TEXT
from turnmark.core.untrusted import escape_marks, quote_lines
from turnmark.corpora.types import CONTINUED_MARK, Passage
from turnmark.retrieval.index.build import build_index

KETTLE = "What colour is the kettle?"
TALK = conversation(KETTLE, "The kettle is red. [1]")
UNDERSTOOD = {"text": "{}", "match": "The user's new message:"}


def answering(kitchen, text: str, **options: object) -> Assistant:
    """Return an assistant whose model keeps the message unchanged and writes `text`."""
    return with_model(kitchen, UNDERSTOOD, {"text": text, "match": "Sections of the documents:"}, **options)


@pytest.mark.parametrize(
    "text",
    [
        "Red [1].",
        "No, it is **red** [1]; see `list[9]` and:\n\n```sh\nkettle[7] --on\n```\n\n- one [1]\n  - two [1]",
        "1. Fill it [1].\n2. Boil it [1].\n\n\nAliens wove it from cheese [1]. The documents do not say why.",
        "# Kettle\n\n| a | b |\n|---|---|\n| red | [1] |\n\nIs it? Yes. Grün — «rouge» 红 [1]",
        "I invented all of this and cite nothing.",
    ],
)
def test_answer_is_exactly_what_the_model_writes(kitchen, text):
    events: list[Event] = []
    reply = answering(kitchen, text).reply([], KETTLE, events.append)
    assert reply.answer == text
    assert "".join(event.delta for event in events) == text
    assert {role: usage.calls for role, usage in reply.usage.items()} == {"understand": 1, "answer": 1}
    assert not reply.checks.repaired


def test_all_parts_are_answered_in_one_call(kitchen):
    parts = '{"parts": [{"question": "What colour is the kettle?"}, {"question": "Who made the toaster?"}]}'
    text = "Red [1].\n\nAda Berg [2]."
    assistant = with_model(kitchen, parts, {"text": text, "match": "1. What colour is the kettle?\n2. Who made the"})
    reply = assistant.reply([], "kettle colour, and toaster maker?")
    assert (reply.answer, reply.decision) == (text, "answer")
    assert reply.usage["answer"].calls == 1
    assert [part.answered for part in reply.sub_questions] == [True, True]
    assert {citation.document for citation in reply.citations} == {"kettle.md", "toaster.md"}


def test_procedure_is_read_from_the_numbered_list(kitchen):
    text = "Do this:\n\n1. Fill it with water [1].\n2. Boil it [1, 1].\n   Wait.\n\nIt is red [1]."
    reply = answering(kitchen, text).reply([], "How do I use the kettle?")
    assert [step.citations for step in reply.procedure] == [(1,), (1,)]
    assert reply.procedure[0].step == "Fill it with water."
    assert reply.answer == text
    assert procedure_in("It takes 2. 5 litres are too many.") == ()
    assert procedure_in("1. Only one.") == ()
    assert procedure_in("- a [1]\n- b [1]") == ()


@pytest.mark.parametrize("gap", ["\n", "\n\n"])
def test_step_under_a_heading_includes_the_text_below(gap):
    text = (
        f"### Step 1: Light the oven{gap}Turn it to **220** °C [2].\n\n- Open the door.\n- Wait [1].\n\n"
        f"### Step 2: Bake the bread{gap}Put it in; arr[1] is the tray [2].\n\n## Tips\n\nEnjoy."
    )
    first, second = procedure_in(text)
    assert first.step == "Light the oven Turn it to 220 °C. Open the door. Wait."
    assert first.citations == (2, 1)
    assert second.step == "Bake the bread Put it in; arr[1] is the tray."
    assert procedure_in(f"### Step 1: A{gap}B.\n\n### Step 2: C{gap}D.\n\nEnjoy.")[1].step == "C D."


def test_no_call_is_made_if_nothing_is_found(kitchen):
    reply = with_model(kitchen, UNDERSTOOD).reply([], "Zyzzyva quux?")
    assert (reply.decision, reply.answer) == ("unknown", UNKNOWN_TEXT)
    assert "answer" not in reply.usage


@pytest.mark.parametrize(
    ("text", "parts", "decision"),
    [
        ("Red [1].", 1, "answer"),
        ("The documents do not say what it costs.", 1, "unknown"),
        ("The documents do not say what it costs. The kettle is red [1].", 1, "unknown"),
        ("The documents do not say what it costs. The kettle is red [1].", 2, "partial"),
        ("It is red [1]. The documents do not say what it costs.", 1, "partial"),
        ("Yes: you have to descale it [1].", 1, "answer"),
        ("No.", 1, "answer"),
        ("Do you mean the kettle or the toaster?", 1, "clarify"),
        ("It is red [1]. Shall I go on?", 1, "answer"),
        ("你是说水壶还是烤面包机？", 1, "clarify"),
        ("The documents do not say who. The documents do not say when.", 2, "unknown"),
        ("Darüber schweigen sie [0].", 1, "unknown"),
        ("[0] 手册对此只字未提。", 1, "unknown"),
        ("[0]", 1, "unknown"),
        ("Darüber schweigen sie [0]. Rot ist der Kessel [1].", 2, "partial"),
        ("Rot ist er [1]. Den Preis kennt niemand [0].", 1, "partial"),
        ("Rot ist er [1], den Preis kennt niemand [0].", 1, "partial"),
    ],
)
def test_decision_is_read_from_the_answer(text, parts, decision):
    assert decision_of(read_answer(text, 9), parts) == decision


# -- the prompt


def prompted(message: str, history=(), hits=(), generator=None, **more) -> tuple[str, list[str]]:
    understood = Understanding(rewrite=message, sub_questions=(message,))
    (system, user), notes = answer_prompt(generator or Room(), understood, message, history, hits, **more)
    assert (system.role, user.role) == ("system", "user")
    return user.content, notes


def test_section_has_its_source_and_quoted_text():
    passage = Passage(id="d-0", document="d", title="Tools", section=f"Lent {CONTINUED_MARK}", path="a/tools.md",
                      date="2024-05-01", text="Two days [2].\n\n\n\n[1] x", start=0, end=20)  # fmt: skip
    assert format_section(3, passage) == (
        "[3]\n> Tools › Lent (continued) (a/tools.md, 2024-05-01)\n> Two days (2).\n>\n> (1) x"
    )


@pytest.mark.parametrize("leans", [True, False])
@pytest.mark.parametrize("message", ["Yes", "and the toaster?", "What colour is the toaster?"])
def test_answer_prompt_always_shows_the_conversation(kitchen, message, leans):
    understood = f'{{"leans": {str(leans).lower()}, "rewrite": "What colour is the toaster?"}}'
    assistant = with_model(kitchen, understood, "Blue [1].")
    asked = prompts_of(assistant)
    assistant.reply(TALK, message)
    earlier, _, rest = asked[-1].partition("Sections of the documents:")
    assert earlier.endswith(
        "Conversation so far:\n> User: What colour is the kettle?\n> Assistant: The kettle is red.\n\n"
    )
    meant = "the message counts:\nWhat colour is the toaster?" in rest
    assert meant is (leans and message != "What colour is the toaster?")
    assert f"The user's message:\n{message}" in rest


@pytest.mark.parametrize(
    ("message", "questions", "shown"),
    [
        ("How hot, and how long?", ("How hot?", "How long?"), ""),
        ("How hot is it?", ("how hot is it",), ""),
        ("How hot, and how long?", ("How hot is the loaf?", "How long?"), "1. How hot is the loaf?\n2. How long?"),
    ],
)
def test_prompt_repeats_the_message_only_if_it_was_understood_with_other_words(message, questions, shown):
    understood = Understanding(rewrite=message, sub_questions=questions)
    (_, user), _ = answer_prompt(Room(), understood, message, (), [hit("Hot.")])
    assert user.content.partition("the message counts:\n")[2] == shown


def test_only_the_prompt_of_a_revision_says_how_to_change_an_answer():
    changed = "The user wants your last answer changed"
    assert changed not in prompted("And then?", TALK, [hit("Red.")])[0]
    assert changed in prompted("as a list", TALK[:1], [hit("Red.")], previous="Red [1].")[0]


@pytest.mark.parametrize("counts", [False, True])
def test_a_model_with_counting_tools_is_not_told_that_there_may_be_more(counts):
    understood = Understanding(rewrite="Which?", sub_questions=("Which?",))
    (system, _), _ = answer_prompt(Room(), understood, "Which?", (), [hit("Red.")], counts=counts)
    assert ("there may be more" in " ".join(system.content.split())) is not counts


LONG_TALK = conversation(*(f"{'Question' if n % 2 == 0 else 'Answer'} {n}: {'word ' * 100}" for n in range(60)))


@pytest.mark.parametrize(("context", "noted"), [(128_000, False), (4096, True)])
def test_prompt_shows_the_last_exchanges_and_keeps_room_for_sections(context, noted):
    found = [hit(f"Kettle {n}. " + "word " * 100, n) for n in range(1, 5)]
    prompt, notes = prompted("And then?", LONG_TALK, found, Room(context))
    earlier = prompt.partition("Sections of the documents:")[0]
    first = earlier.partition("Conversation so far:\n")[2]
    assert first.startswith("> […]\n> User: Question ")
    assert "Answer 59: word" in first
    assert count_tokens(earlier) < 2100
    assert "[4]\n" in prompt
    assert bool(notes) is noted


@pytest.mark.parametrize("answer", ["word " * 5000, "汉字" * 4000, "```\n" + "x\n" * 5000 + "```"])
def test_long_last_exchange_is_shortened_to_its_beginning(answer):
    prompt, _ = prompted("Yes", conversation("Old?", "Old.", "Shall I?", answer), [hit("A kettle.")])
    earlier = prompt.partition("Sections of the documents:")[0]
    assert "> User: Shall I?\n> Assistant: " in earlier
    assert "[…]" in earlier
    assert "Old." not in earlier
    assert count_tokens(earlier) < 2100


@given(st.lists(st.text(max_size=400), max_size=9), st.integers(0, 400))
@example(["", "", "", "0"], 8)
def test_shown_conversation_is_its_end_and_fits_the_limit(texts, tokens):
    talk = conversation(*texts)
    shown, left_out = last_turns_within(talk, tokens)
    assert count_tokens(shown) <= tokens
    assert 0 <= left_out <= len(talk)
    if left_out and shown:
        mark, first = shown.split("\n")[:2]
        assert mark == "> […]"
        assert first.startswith("> User:"), "an answer is shown only with its question"
    assert all(line.startswith(">") for line in shown.splitlines())


def test_prompts_of_a_conversation_share_their_prefix():
    """A server that caches prefixes then reads instructions and earlier turns only once."""
    section = [hit("The kettle is red.")]
    prompts = [
        prompted("Why?", TALK, section)[0],
        prompted("Since when?", [*TALK, *conversation("Why?", "It was painted.")], section)[0],
        prompted("shorter", [*TALK, *conversation("Why?")], section, previous="It was painted.")[0],
    ]
    same = prompts[0].partition("\n\nSections of the documents:")[0]
    assert "The kettle is red." in same
    assert all(prompt.startswith(same) for prompt in prompts)
    assert [prompt.splitlines()[-1] for prompt in prompts] == ["Why?", "Since when?", "shorter"]


# -- how much is read


def sections_shown(kitchen, message: str, *parts: str, words: int) -> list[str]:
    """Return the sections shown to a model, from twenty long notes on kettles and twenty on toasters."""
    folder = kitchen / "shelf"
    if not folder.exists():
        folder.mkdir()
        for name in [f"{name}{n}" for n in range(20) for name in ("kettle", "toaster")]:
            text = " ".join(f"{name}x{word}" for word in range(words))
            (folder / f"{name}.md").write_text(f"# On {name}\n\nThis is a {name.rstrip('0123456789')}. {text}\n")
        build_index(folder, "shelf", retriever="bm25")
    assistant = with_model(kitchen, understanding(*parts), "Red [1].", index="shelf")
    asked = prompts_of(assistant)
    assistant.reply([], message)
    sections = asked[-1].partition("Sections of the documents:\n\n")[2].partition("\n\nThe user's message:")[0]
    return re.split(r"\n\n(?=\[\d+\]\n)", sections)


def test_large_model_reads_ten_sections_per_question(kitchen):
    assert len(sections_shown(kitchen, "Which kettle is it?", words=5)) == 10


def test_message_with_two_parts_gets_more_tokens_of_sections(kitchen):
    message = "Which kettle is it, and which toaster?"
    one = sections_shown(kitchen, message, message, words=80)
    two = sections_shown(kitchen, message, "Which kettle is it?", "Which toaster is it?", words=80)
    assert 2500 < sum(map(count_tokens, one)) <= 3000
    assert 3100 < sum(map(count_tokens, two)) <= 3800


# -- a small model


def small_model_reply(
    kitchen, *texts: str, message: str = "How long does the kettle boil water?", history=(), streamed=None
):
    build_index(kitchen_notes(kitchen), "small", retriever="bm25")
    assistant = with_model(kitchen, *texts, index="small", options="?size=small")
    pieces = [] if streamed is None else streamed
    return assistant.reply(history, message, lambda event: pieces.append(event.delta or ""))


def kitchen_notes(kitchen):
    folder = kitchen / "small"
    folder.mkdir()
    (folder / "kettle.md").write_text("# Kettle\n\nThe kettle is red. It boils water in four minutes [3].\n")
    (folder / "reset.md").write_text("# Reset\n\nHow to reset the radio:\n\n1. Hold the button.\n2. Wait for it.\n")
    return folder


def test_small_model_answer_precedes_its_quotation(kitchen):
    reply = small_model_reply(kitchen, "How fast?\nSearch: time to boil", "In four minutes.")
    assert reply.answer == (
        "In four minutes.\n\n> Kettle\n> The kettle is red. **It boils water in four minutes (3).** [1]"
    )
    assert {role: usage.calls for role, usage in reply.usage.items()} == {"understand": 1, "answer": 1}
    assert cited_numbers(reply.answer) == [1]


@pytest.mark.parametrize(
    "written", ["Not stated.", "not stated", "[0]", "[0] Davon steht da nichts, auch sonst nirgends."]
)
def test_quotation_alone_is_the_answer_if_the_model_finds_none(kitchen, written):
    streamed: list[str] = []
    reply = small_model_reply(kitchen, "How fast?", written, streamed=streamed)
    assert reply.decision == "partial"
    assert reply.answer.startswith(f"{UNSURE_TEXT}\n\nKettle  \n")
    assert "".join(streamed) == reply.answer  # what the model wrote is not streamed


def test_answer_of_a_small_model_is_streamed_with_its_quotation(kitchen):
    streamed: list[str] = []
    reply = small_model_reply(kitchen, "How fast?", "In four minutes.", streamed=streamed)
    assert "".join(streamed) == reply.answer


# -- marks


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("a [1], b [1, 2] and c [2-4].", [1, 1, 2, 2, 3, 4]), ("[2–4, 7]", [2, 3, 4, 7]), ("[4-2]", [4, 2]),
        ("[2-4-1]", []), ("[1,]", []), ("[1234]", []), ("[1-999]", [1, 999]),
    ],
)  # fmt: skip
def test_reads_citation_numbers(text, numbers):
    assert cited_numbers(text) == numbers


@given(st.text(alphabet="[]123,-– ٣", max_size=30))
def test_citation_numbers_of_any_text_can_be_read(text):
    assert all(isinstance(number, int) for number in cited_numbers(text))
    assert cited_numbers(escape_marks(text)) == []


def test_prompt_repeats_the_table_head_above_each_part(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    head = "| service | port |\n|---|---|"
    rows = "".join(f"| service number {n} | {5000 + n} |\n" for n in range(600))
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "net.md").write_text(f"# Net\n\n## Ports\n\n{head}\n{rows}", encoding="utf-8")
    build_index(tmp_path / "net", "net", retriever="bm25")
    wanted = {"text": "The port is 5450 [1][2][3][4][5].", "match": "Sections of the documents:"}
    assistant = with_model(tmp_path, UNDERSTOOD, wanted, index="net")
    asked = prompts_of(assistant)
    sources = [citation.text for citation in assistant.reply([], "Which port has service number 450?").citations]
    assert "| service number 450 | 5450 |" in "\n".join(sources)
    later = [text for text in sources if not text.startswith("#")]
    assert later
    for text in later:  # the text of a citation contains only the document's characters
        assert text.startswith("| service number")
        assert quote_lines(f"{head}\n{text}") in asked[-1]
