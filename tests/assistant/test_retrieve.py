"""The searches of a turn, and the sections shown to a model within a token limit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.assistant.notes import Room, understood_as
from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.llm.prompts.context_budget import PASSAGE_MARK_TOKENS, count_tokens, cut_material
from turnmark.assistant.steps.answer.answer_llm import turn_prompt
from turnmark.assistant.steps.retrieve.retrieve_sections import (
    QuotableSearch,
    SectionSearch,
    SingleSearch,
    grow_sections,
    join_passages,
)
from turnmark.assistant.steps.step_results import Evidence, UnderstoodMessage
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.turn.components import AssistantParts
from turnmark.corpora.chunking import chunk, regex_tokens
from turnmark.corpora.readers.markup.markdown import blocks
from turnmark.corpora.types import CONTINUED_MARK, Document, Passage
from turnmark.retrieval.types import Hit, Query, Retriever


class Notes(Retriever):
    """A retriever that finds passages containing a word of the query, and records its queries."""

    name = "notes"

    def __init__(self, *passages: Passage) -> None:
        self.passages = passages
        self.asked: list[Query] = []

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        self.asked += queries
        found = []
        for query in queries:
            words = {word.strip("?,.").lower() for text in query.texts() for word in text.split() if len(word) > 3}
            hits = [each for each in self.passages if words & set(each.text.lower().replace(".", "").split())]
            found.append([Hit(passage=each, score=1 / n) for n, each in enumerate(hits[:top_k], 1)])
        return found

    def neighbors(self, passage: Passage) -> list[Passage]:
        return [each for each in self.passages if each.document == passage.document]


def cut(text: str, name: str = "d", size: int = 40) -> list[Passage]:
    return chunk(Document(id=name, title=name, text=text, blocks=tuple(blocks(text))), regex_tokens, size)


def passage(document: str, start: int, text: str) -> Passage:
    return Passage(id=f"{document}-{start}", document=document, title="", text=text, start=start, end=start + 1)


def hits(*passages: Passage) -> list[Hit]:
    return [Hit(passage=passage, score=1 / n) for n, passage in enumerate(passages, 1)]


LONG = "".join(f"Rule {n} says that nobody may feed the otters of pond {n}.\n\n" for n in range(12))
DOCUMENT = f"# Handbook\n\nWelcome.\n\n## Otters\n\n{LONG}## Boats\n\nBoats are lent on Mondays.\n"
CUT = cut(DOCUMENT)
OTTERS = [passage for passage in CUT if "Otters" in passage.section]


# -- sections


def test_hit_grows_to_its_section_and_no_further():
    (shown,) = grow_sections(Notes(*CUT), hits(OTTERS[1]), 3000)
    passage = shown.passage
    assert "Rule 0 says" in passage.text
    assert "Rule 11 says" in passage.text
    assert "Boats are" not in passage.text
    assert passage.text == DOCUMENT[passage.start : passage.end]
    assert passage.id == f"d-{passage.start}-{passage.end}"


@pytest.mark.parametrize("room", [60, 150, 250, 400])
def test_sections_fit_the_limit_and_include_the_first_hit(room):
    shown = grow_sections(Notes(*CUT), hits(OTTERS[1], CUT[-1], OTTERS[-1]), room)
    costs = [count_tokens(hit.passage.indexed_text) + PASSAGE_MARK_TOKENS for hit in shown]
    assert sum(costs) <= room or len(shown) == 1
    assert any(OTTERS[1].text in hit.passage.text for hit in shown)


OTHER = cut("# Harbour\n\nBoats leave the harbour at nine.\n\n## Fees\n\nA berth costs four pounds.\n", "other")


def test_sources_are_in_document_order_and_documents_best_first():
    found = hits(OTTERS[4], OTHER[0], OTTERS[1], OTTERS[2], CUT[0])
    shown = grow_sections(Notes(*CUT, *OTHER), found, sum(count_tokens(hit.passage.indexed_text) + 32 for hit in found))
    assert [hit.passage.document for hit in shown] == ["d", "d", "d", "other"]
    assert shown[0].passage.text == CUT[0].text
    # The second and third pieces are adjacent in one section, so they become one source.
    assert shown[1].passage.text == DOCUMENT[OTTERS[1].start : OTTERS[2].end]
    assert shown[2].passage.text.startswith(OTTERS[4].text)
    assert shown[1].score == found[2].score, "the score of the better one"


FOUND = st.lists(st.sampled_from([*CUT, *OTHER]), min_size=1, max_size=8, unique_by=lambda each: each.id)


@given(FOUND, st.integers(50, 700))
def test_sections_neither_overlap_nor_touch(found, room):
    shown = [hit.passage for hit in grow_sections(Notes(*CUT, *OTHER), hits(*found), room)]
    assert shown[0].document == found[0].document
    assert len([name for name, _ in groupby(shown, lambda each: each.document)]) <= 2, "adjacent per document"
    for before, after in pairwise(shown):
        if before.document == after.document:
            assert before.end <= after.start
            between = [each for each in (*CUT, *OTHER) if before.end <= each.start < after.start]
            assert between or not after.section.endswith(CONTINUED_MARK)


def test_small_context_gets_the_best_sections_and_a_note():
    question = "Who feeds otters, who lends boats?"
    turn, wide = (
        Turn(question, config=AssistantConfig(top_k=6), retriever=Notes(*CUT), generator=Room(size, 200))  # type: ignore[arg-type]
        for size in (1350, 9000)
    )
    found = SectionSearch()(turn, understood_as(question))
    prompt, notes = turn_prompt(turn, understood_as(question), found)
    assert found.hits
    assert found.parts[0].hits[0].passage.text in found.hits[0].passage.text
    assert f"[{len(found.hits)}]\n" in prompt[-1].content, "all chosen sections fit"
    assert notes == []
    assert turn.notes == ["sections were cut or left out: the model's context is full"]
    assert cut_material(turn.notes) == {"sections"}
    more = SectionSearch()(wide, understood_as(question))
    assert wide.notes == []
    assert sum(len(hit.passage.text) for hit in more.hits) > sum(len(hit.passage.text) for hit in found.hits)


def test_a_section_is_cut_only_if_its_continuation_is_not_shown():
    first, second, *_ = (each.model_copy(update={"path": "d.md"}) for each in OTTERS)
    notes = Notes(*(each.model_copy(update={"path": "d.md"}) for each in CUT))
    for sections, mark in (((first,), "(cut: read after [1])"), ((first, second), "(cut: read after [2])")):
        turn = Turn("Who feeds otters?", retriever=notes, generator=Room(9000))
        prompt, _ = turn_prompt(
            turn, understood_as(turn.message), Evidence((), hits=tuple(hits(*sections))), counts=True
        )
        assert [line for line in prompt[-1].content.splitlines() if line.startswith("(cut")] == [mark]


def test_near_duplicates_are_left_out():
    text = "Boats are lent on Mondays to whoever has a licence and knows the bay and its tides."
    one, copy, other = (cut(each, name)[0] for name, each in (
        ("a", text), ("b", text.replace("Mondays", "Tuesdays")), ("c", "Boats are painted in spring.")))  # fmt: skip
    assert [hit.passage.document for hit in grow_sections(None, hits(one, copy, other), 3000)] == ["a", "c"]


@given(st.lists(st.text(alphabet="ab \n.-", max_size=80), min_size=1, max_size=8), st.integers(16, 40))
def test_joined_passages_equal_the_document_text(paragraphs, size):
    text = "\n\n".join(each.strip() for each in paragraphs if each.strip()) or "a"
    passages = cut(text, size=size)
    if passages:
        one = join_passages(passages)
        assert (one.start, one.end) == (passages[0].start, passages[-1].end)
        assert len(one.text) == one.end - one.start
        assert one.text.split() == text[one.start : one.end].split()


# -- searches


def search(
    message: str, notes: Notes, *questions: str, step: SingleSearch = QuotableSearch(), top_k: int = 6, **fields: Any
) -> tuple[Turn, UnderstoodMessage, Evidence]:
    """Run the first round of a retrieve step."""
    evidence = fields.pop("evidence", None)
    turn = Turn(message, config=AssistantConfig(top_k=top_k), retriever=notes, evidence=evidence)
    understood = understood_as(message, *questions, **fields)
    return turn, understood, step(turn, understood)


def test_searches_each_part_and_the_message():
    notes = Notes(*CUT)
    parts, phrases = ("Who feeds otters?", "When are boats lent?"), (("pond rules",), ("Mondays", "hire"))
    turn, _, found = search("who feeds otters and boats?", notes, *parts, rewrite="Both?", phrases=phrases)
    assert [(query.text, query.variants) for query in notes.asked] == [
        ("Who feeds otters?", ("pond rules",)),
        ("When are boats lent?", ("Mondays", "hire")),
        ("who feeds otters and boats?", ("Both?", *parts, "pond rules", "Mondays", "hire")),
    ]
    assert [hit.passage.id for hit in found.message_hits] == [row.id for row in turn.searches[-1].hits]
    assert [search.part for search in turn.searches] == [0, 1, None]
    assert "Boats" in found.parts[1].hits[0].passage.text
    ids = [hit.passage.id for hit in found.hits]
    assert len(ids) == len(set(ids))
    assert list(found.hits[:2]) == [part.hits[0] for part in found.parts]


def test_pages_in_the_language_of_the_question_do_not_fill_the_prompt_of_other_documents():
    german = [passage("urlaub", n, f"Der Urlaub der Abteilung {n} ist in dem Kalender zu planen.") for n in range(6)]
    english = [passage(f"leave{n}", n, f"Parental leave of team {n} is twelve weeks.") for n in range(2)]
    notes = Notes(*german, *english)
    turn = Turn("Wie plane ich den Urlaub der Eltern?", config=AssistantConfig(top_k=6), retriever=notes)
    understood = understood_as(turn.message, phrases=(("parental leave",),))
    for languages, in_german, in_english in (("en", "de"), 2, 2), (("de", "en"), 6, 1):
        turn.languages = languages
        found = SectionSearch()(turn, understood).parts[0].hits
        shown = [hit.passage in german for hit in found]
        assert (shown.count(True), shown.count(False)) == (in_german, in_english)


def test_copies_of_a_document_leave_room_for_others():
    copies = [passage(name, n, f"Otters eat fish {n}.") for n in range(2) for name in ("plan", "plan-copy")]
    _, _, found = search("What do otters eat?", Notes(*copies, passage("report", 0, "Otters eat crabs.")), top_k=3)
    assert [hit.passage.id for hit in found.hits] == ["plan-0", "plan-1", "report-0"]


def test_given_copies_stay():
    given_hits = hits(passage("plan", 0, "Otters eat fish."), passage("plan-copy", 0, "Otters eat fish."))
    _, _, found = search("What do otters eat?", Notes(), evidence=given_hits)
    assert [hit.passage.id for hit in found.hits] == ["plan-0", "plan-copy-0"]


def test_keeps_lower_ranked_tables_of_found_documents():
    prose = [passage("d", n, f"Otters eat fish {n}.") for n in range(3)]
    ours, other = (passage(name, 9, f"| otters | fish |\n|---|---|\n| Tom | {name} |") for name in "de")
    _, _, found = search("How many fish do otters eat?", Notes(*prose[:2], ours, other, prose[2]), top_k=2)
    (part,) = found.parts
    assert [hit.passage.id for hit in part.hits] == ["d-0", "d-1"]
    assert [hit.passage.id for hit in part.tables] == ["d-9"], "only tables, and only from found documents"
    assert found.hits == part.hits, "the evidence consists of the best hits"


def test_given_evidence_is_shown_unchanged_without_a_search():
    notes, given_hits = Notes(*CUT), hits(*CUT[:3], CUT[0])
    turn, _, found = search("Who feeds otters?", notes, step=SectionSearch(), evidence=given_hits)
    assert [hit.passage for hit in found.hits] == CUT[:3]
    assert (notes.asked, turn.searches) == ([], [])


def test_findings_start_with_the_hits_of_the_whole_message():
    found = Notes(*CUT)
    assistant = Assistant.from_parts(AssistantConfig(), AssistantParts(retriever=found))
    findings = assistant.find([], "Who feeds otters? When are boats lent?")
    assert [search.part for search in findings.searches] == [0, 1, None]
    shown, message = [hit.passage.id for hit in findings.hits], [row.id for row in findings.searches[-1].hits]
    assert shown[: len(message)] == message
    assert len(set(shown)) == len(shown)
    assert not findings.fallback
