"""KIWI's analysis and its rules: types, operations, errors, Tables 2, 3, 4, 6 and section 4.3, the command."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evaluation.benched import open_task
from tests.evaluation.kiwis import ANSWER, four_turns, items_of, means, session, turn, written
from tests.evaluation.reported import golden
from tests.servers import Say, ScriptedServer
from turnmark.assistant.citations.marks import spaced_sentences
from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.corpora.benchmarks import kiwi
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.kiwi.analysis import (
    KiwiAnalyse,
    TurnLabels,
    error_by_rules,
    retrieved_by_rules,
)
from turnmark.evaluation.benchmarks.kiwi.rubrics import Operation, analyze_revision, operations, type_of
from turnmark.evaluation.records import Summary
from turnmark.evaluation.report.output_formats import draw
from turnmark.evaluation.report.paper_comparison import paper_tables


def made(**changes):
    return kiwi.KiwiTurn.model_validate({
        "id": "0/0", "turn": 0, "instruction": "Who paid for it?", "previous": ANSWER, "answer": ANSWER, "edit": None,
        "rating": "bad",
    } | changes)  # fmt: skip


def test_rules_compare_the_texts_if_the_comment_is_uninformative():
    assert error_by_rules(made(comment="Meh.")) == "Ignored"  # nothing was changed
    shortened = {"instruction": "Shorten it without losing any figure.", "answer": "The lamp was lit."}
    assert error_by_rules(made(**shortened)) == "Constraint failure"
    assert error_by_rules(made(answer=f"{ANSWER} A king paid.")) == "Others"


def test_retrieval_is_compared_with_the_users_edit():
    passages = ({"title": "", "text": "The crown paid for the lamp in gold."},)
    paid, built = "The crown paid for the lamp.", "Ellis built the tower of granite."
    for edit, verdict in (
        (f"{ANSWER} {paid}", "all"),
        (f"{ANSWER} {paid} {built}", "some"),
        (f"{ANSWER} {built}", "none"),
    ):
        assert retrieved_by_rules(made(edit=edit, passages=passages)) == verdict
    assert retrieved_by_rules(made(edit="The lamp was lit in 1868.", passages=passages)) is None  # nothing was put in
    assert retrieved_by_rules(made(passages=passages)) is None
    assert retrieved_by_rules(made(edit=f"{ANSWER} {paid}")) is None


def test_table_6_counts_words_as_written(tmp_path):
    before, after = "Lit in 1868 [0]. It burned oil [1].", "Lit in 1868."
    bench = open_task(KiwiAnalyse, written(tmp_path, session(turn(answer_1=after), initial_answer=before)))
    figures = means(bench)
    assert (figures["source_words"], figures["target_words"]) == (8, 3)
    assert (figures["length_ratio"], figures["edit_distance"]) == (3 / 8, 6)


def test_table_values_match_hand_computed_values(tmp_path):
    figures = means(four_turns(tmp_path))
    assert figures["good"] == 2 / 4
    assert figures["turns_per_session"] == 4 / 2
    assert figures["edited"] == 1 / 4
    assert figures["information_seeking"] == 1 / 3  # one turn's user ticked nothing
    assert [figures[f"instruction[{name}]"] for name in ("Remove", "More information", "Condense")] == [0.25, 0.5, 0.25]
    assert sum(figures[f"instruction[{name}]"] for name in kiwi.FINE_TYPES) == 1
    assert (figures["good[Remove]"], figures["good[More information]"], figures["good[Condense]"]) == (1.0, 0.5, 0.0)
    assert figures["information_seeking[More information]"] == 1.0
    assert figures["instruction_accuracy"] == 1 / 2  # Reorganize is the label, Condense what the rules say
    assert figures["type_accuracy"] == 3 / 3
    assert figures["error_accuracy"] == 1.0
    assert (figures["error[Unrequested change]"], figures["error[Constraint failure]"]) == (0.5, 0.5)
    assert figures["retrieved[all]"] == 1.0
    # Table 6, over the good turns and the edited one: 10 words become 6, 6 become 9, 10 become 13.
    assert figures["length_ratio"] == pytest.approx((6 / 10 + 9 / 6 + 13 / 10) / 3)
    assert figures["edit_distance"] == pytest.approx((4 + 3 + 3) / 3)
    assert figures["edit_ratio"] == pytest.approx((4 / 10 + 3 / 6 + 3 / 10) / 3)
    assert figures["source_words"] == pytest.approx(26 / 3)
    assert figures["target_words"] == pytest.approx(28 / 3)
    assert figures["instruction_words"] == pytest.approx((6 + 4 + 3) / 3)


def labeler(body):
    """Says of every prompt what it asks for."""
    system = body["messages"][0]["content"]
    if "one of eight categories" in system:
        return Say('{"category": "Expand coverage"}')
    if "one of five categories" in system:
        return Say('{"category": "Ignored"}')
    assert "how much of what is needed" in system
    return Say('{"retrieved": "some"}')


def test_model_is_asked_only_applicable_questions(tmp_path):
    bench = four_turns(tmp_path)
    readings, calls = [], []
    with ScriptedServer(labeler) as server:
        generator = open_generator(f"openai:tiny@{server.url}?retries=0")
        for item in items_of(bench):
            sample = bench.answer(item, generator)
            readings.append(bench.context(item, sample).labels)
            calls.append(sum(used.calls for used in sample.usage.values()))
    good = TurnLabels(instruction="Expand coverage")
    assert calls == [1, 3, 2, 1]  # good; bad, with comment and passages; neutral, with comment; good
    assert readings == [
        good, TurnLabels(instruction="Expand coverage", error="Ignored", retrieved="some"),
        TurnLabels(instruction="Expand coverage", error="Ignored"), good,
    ]  # fmt: skip
    assert {body["temperature"] for body in server.bodies} == {0}
    prompts = [body["messages"][-1]["content"] for body in server.bodies]
    assert "It also removed the rest." in prompts[2]
    assert "The crown paid for it." in prompts[3]


def test_the_demo_is_analysed_and_its_tables_are_the_papers(turnmark, monkeypatch, check_run):
    monkeypatch.setenv("COLUMNS", "140")
    ran = turnmark.ok("eval", "kiwi", "--task", "analyse", "--out", "run")
    check_run(Path("run"))
    table = ran.out[ran.out.index("As KIWI Table 2") : ran.out.index("seconds:")]
    golden("kiwi_tables.txt", "".join(f"{line.rstrip()}\n" for line in table.splitlines()))
    check_narrow(Summary.model_validate_json(Path("run/summary.json").read_bytes()))
    page = Path("run/report.html").read_text()
    assert "As KIWI Table 6" in page
    turnmark.ok("report", "run", "--markdown", "run.md")
    assert "As KIWI Table 3" in Path("run.md").read_text()


def check_narrow(summary):
    """At 80 columns every figure is there whole; names may be folded between words."""
    from rich.console import Console

    for table in paper_tables([("this run", summary)]):
        console = Console(width=80, record=True, file=io.StringIO())
        draw(table, console)
        lines = console.export_text().splitlines()
        assert all(len(line) <= 80 for line in lines)
        for row in table.rows:
            assert any(all(cell in line for cell in row.cells[1:-1]) for line in lines), row
        if "Table 3" in table.title:
            assert all(any(line.startswith(name.split()[0]) for line in lines) for name in kiwi.FINE_TYPES)


def test_published_rows_match_differently_spelled_model_names(turnmark):
    source = written(Path("data"), session(model_name="gpt-4"), session(model_name="llama2"))
    ran = turnmark.json("eval", "kiwi", "--task", "analyse", "--data", source.root)
    slices = {row["slice"] for row in ran["published"] if row["metrics"].get("good") in (0.59, 0.27)}
    assert slices == {"model=GPT-4", "model=LLaMA-2-70b-chat"}


FERRY, TWO, THREE = "She is a ferry.", "She carries six cars.", "Otters follow her."
FERRY_ANSWER = f"{FERRY} {TWO}\n\n{THREE}"
FOUR = "The lamp was lit in 1868. It burned rape oil. The horn came later. Both were built by Ellis."
OIL = "Remove the sentence about rape oil."


def demo_turns():
    sessions = [session for session in kiwi.stream_sessions(kiwi.DEMO_ROOT) if not isinstance(session, Problem)]
    return [turn for session in sessions for turn in session.turns]


@pytest.mark.parametrize(("instruction", "revised", "rating", "error", "reason"), [
    # done, and nothing else
    (OIL, "The lamp was lit in 1868. The horn came later. Both were built by Ellis.", "good", "Others", ""),
    ('Add "It stands on a rock." at the end.', f"{FOUR} It stands on a rock.", "good", "Others", ""),
    ("Who paid for it?", f"{FOUR} The crown paid.", "good", "Others", ""),
    ("Remove the second sentence.", "The lamp was lit in 1868. The horn came later. Both were built by Ellis.", "good",
     "Others", ""),
    ("Leave it exactly as it is.", FOUR, "good", "Others", ""),
    # ignored
    (OIL, FOUR, "bad", "Ignored", "nothing that was asked for was done"),
    # what was to be kept is gone
    ("Make it shorter, without losing any figure.", "It burned rape oil. The horn came later.", "neutral",
     "Constraint failure", "figures are gone: 1868"),
    # a change that nobody asked for: one sentence of four, beyond a fifth; three of four
    ("Copy the answer as it stands.", f"Yes. {FOUR}", "neutral", "Unrequested change", "insert 'Yes.'"),
    (OIL, "The lamp was lit in 1868. The horn came much later, in fog and snow and rain. Both were built by Ellis.",
     "neutral", "Unrequested change", "25% of the sentences changed unasked: replace 'The horn came later.'"),
    ("Who paid for it?", "The crown paid for all of the works on this rock.", "bad", "Unrequested change", "100% of"),
])  # fmt: skip
def test_rules_find_the_errors_of_revisions(instruction, revised, rating, error, reason):
    reading = analyze_revision(instruction, FOUR, revised)
    assert (reading.rating, reading.error) == (rating, error), reading
    assert (reason or "no broken constraint") in reading.reason


def test_tolerates_one_changed_sentence_unless_the_rest_must_stay():
    many = " ".join(f"Stone {n} was laid in 18{n}." for n in range(10, 20))
    first = many.replace("Stone 10 was laid in 1810. ", "").replace("laid in 1811", "blessed and painted red in 1811")
    loose = analyze_revision("Remove what is about Stone 10.", many, first)
    strict = analyze_revision("Remove what is about Stone 10. Leave the rest exactly as it is.", many, first)
    assert (loose.rating, strict.rating) == ("good", "neutral")


def test_rules_agree_with_most_ratings_of_the_demo_split():
    """What it misses there are faults of content: a figure that is wrong, a reason that is beside the point."""
    turns = demo_turns()
    wrong = {
        turn.id
        for turn in turns
        if (analyze_revision(turn.instruction, turn.previous, turn.answer).rating == "good") != (turn.rating == "good")
    }
    assert (wrong, len(turns)) == ({"3/1", "5/1", "5/2"}, 23)
    kinds = [type_of(turn.instruction) for turn in turns]
    assert sum(kind.coarse == turn.coarse for kind, turn in zip(kinds, turns, strict=True)) == 23
    assert sum(kind.fine == turn.fine for kind, turn in zip(kinds, turns, strict=True)) >= 21


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([OIL, "Who paid?", "Shorten it."]),
    st.lists(st.sampled_from(["A lamp.", "Oil.", "A horn."]), min_size=1),
)
def test_citation_marks_do_not_count(instruction, parts):
    marked = " ".join(f"{part[:-1]} [{n}]." for n, part in enumerate(parts, 1))
    assert analyze_revision(instruction, FOUR, marked) == analyze_revision(instruction, FOUR, " ".join(parts))


def test_citation_marks_count_where_the_instruction_is_about_them():
    before = "The lamp was lit in 1868 [1]. It burned rape oil [2]."
    instruction = "Remove all citations from the answer."
    assert analyze_revision(instruction, before, before).error == "Ignored"
    assert analyze_revision(instruction, before, "The lamp was lit in 1868. It burned rape oil.").rating == "good"


@pytest.mark.timeout(60)
def test_long_runs_of_blanks_are_read_quickly():
    """Rules tried each of them as a beginning, which took minutes; found by fuzzing."""
    order = f"Add a sentence{' ' * 100_000}at the end,\n\n but leave the rest."
    assert analyze_revision(order, f"One.{' ' * 20_000}Two.", "One. Two. Three.").rating == "good"


@pytest.mark.parametrize(
    ("instruction", "coarse", "fine"),
    [
        ("How well do the best models do on these datasets?", "information-seeking", "More information"),
        ("Keep the text as it is, but extract examples from papers 0 and 1.", "information-seeking", "Expand coverage"),
        ("Do all of the methods you mention require training?", "information-seeking", "Clarification"),
        ("Remove the repeated techniques in the last paragraph.", "stylistic", "Remove"),
        ('At the end, add the sentence "Evaluation is hard."', "stylistic", "Specific edit"),
        ("Please shorten the answer to a maximum of 6 paragraphs.", "stylistic", "Condense"),
        ("Reorganize the answer so that results come first", "stylistic", "Reorganize"),
        ("Don't change anything but copy it as it is.", "stylistic", "Others"),
        ("Make it sing!", "stylistic", "Others"),
    ],
)  # fmt: skip
def test_classifies_instruction_types(instruction, coarse, fine):
    kind = type_of(instruction)
    assert (kind.coarse, kind.fine) == (coarse, fine)


@given(st.text(max_size=80))
def test_any_instruction_has_a_type(instruction):
    assert type_of(instruction).fine in kiwi.FINE_TYPES


TEXTS = st.lists(
    st.sampled_from([FERRY, TWO, THREE, "It rained.", "Snow. [2]", "\n- An item here", "\n\nWhy? [3][4]"]), max_size=6
).map(" ".join)


def test_operations_of_each_kind():
    assert operations(
        f"{FERRY_ANSWER} It is old.", f"It is old. {FERRY} She carries ten cars.\n\nA lunch is served. Rain."
    ) == (
        Operation(kind="move", before="It is old.", after="It is old."),
        Operation(kind="replace", before=TWO, after="She carries ten cars."),
        Operation(kind="rewrite", before=THREE, after="A lunch is served."),
        Operation(kind="insert", before="", after="Rain."),
    )
    assert operations(FERRY_ANSWER, " ".join(FERRY_ANSWER.split())) == ()


def said(text):
    return [" ".join(piece.text.split()) for piece in spaced_sentences(text)]


@given(st.one_of(TEXTS, st.text(max_size=80)), st.one_of(TEXTS, st.text(max_size=80)))
@settings(max_examples=150)
def test_operations_account_for_every_changed_sentence(before, after):
    changes = operations(before, after)
    gone = Counter(op.before for op in changes if op.kind in ("remove", "replace", "rewrite"))
    come = Counter(op.after for op in changes if op.kind in ("insert", "replace", "rewrite"))
    moved = Counter(op.before for op in changes if op.kind == "move")
    old, new = Counter(said(before)), Counter(said(after))
    assert gone <= old
    assert moved <= old & new
    assert old - gone + come == new
    # What is in no operation stands in both texts, in one order.
    assert len(said(before)) - gone.total() - moved.total() == len(said(after)) - come.total() - moved.total()
    assert (not changes) == (said(before) == said(after))
