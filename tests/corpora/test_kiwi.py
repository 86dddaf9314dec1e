"""KIWI: the answer before a turn, rating scales, every field, every kind of error, and arbitrary values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.reading import JSON, jsonl
from tests.corpora.reading import write as write_files
from turnmark.corpora.benchmarks import kiwi
from turnmark.corpora.types import Problem

FILE = "interaction_data_new.jsonl"


def turn(**changes: Any) -> dict[str, Any]:
    fields = {"instruction": "Shorten it.", "answer_1": "Short.", "answer_2": "", "rating": "good"} | changes
    return {key: value for key, value in fields.items() if value is not ...}


def row(*turns: Any, **changes: Any) -> dict[str, Any]:
    fields = {
        "original_question": "Why?",
        "model_name": "GPT-4",
        "initial_answer": "Because.",
        "interaction": list(turns) or [turn()],
    } | changes
    return {key: value for key, value in fields.items() if value is not ...}


def write(root: Path, *lines: Any, name: str = FILE) -> Path:
    return write_files(root, {name: jsonl(*lines)})


def ratings(root: Path, *values: Any) -> tuple[list[str], list[str]]:
    """Return the ratings read from sessions with one value each, and the problems of the file."""
    lines = [row(turn(rating=value), initial_answer=f"Draft {number}.") for number, value in enumerate(values)]
    loaded = kiwi.load_sessions(write(root, *lines))
    return [session.turns[0].rating for session in loaded.data], [str(problem) for problem in loaded.problems]


def test_reads_row_as_session(tmp_path: Path) -> None:
    passage = {"title": "Paper", "text": "A finding."}
    full_turn = turn(
        answer_2="Shorter.", rating="Bad", instruction_type="Stylistic", fine_type="condense", comment="Too long.",
        retrieved_passages=[passage], annotator="a7",
    )  # fmt: skip
    companion = {
        "question": "why? ", "related_work_paragraph": "Others asked.", "cited_papers": ["Paper"],
        "cited_paragraphs": [passage, "A loose one."],
    }  # fmt: skip
    write(tmp_path, companion, name="longform_sciqa.jsonl")
    loaded = kiwi.load_sessions(write(tmp_path, row(full_turn, turn(), retrieved_documents=["First."], timestamp=3)))
    assert loaded.problems == ()
    assert loaded.path == tmp_path / FILE
    finding = kiwi.PaperPassage(title="Paper", text="A finding.")
    assert loaded.data == (
        kiwi.Session(
            index=0, question="Why?", model="GPT-4", initial_answer="Because.",
            passages=(kiwi.PaperPassage(title="", text="First."),),
            papers=kiwi.Papers(
                question="why? ", related_work="Others asked.", cited_papers=("Paper",),
                paragraphs=(finding, kiwi.PaperPassage(title="", text="A loose one.")),
            ),
            turns=(
                kiwi.KiwiTurn(
                    id="0/0", turn=0, instruction="Shorten it.", previous="Because.", answer="Short.", edit="Shorter.",
                    rating="bad", coarse="stylistic", fine="Condense", comment="Too long.", passages=(finding,),
                ),
                kiwi.KiwiTurn(
                    id="0/1", turn=1, instruction="Shorten it.", previous="Shorter.", answer="Short.", edit=None,
                    rating="good",
                ),
            ),
        ),
    )  # fmt: skip


@pytest.mark.parametrize(("turns", "before"), [
    ([("A", None, "good")], ["I", "A"]),
    ([("A", "", "neutral")], ["I", "A"]),
    ([("A", " \n", "bad")], ["I", "I"]),
    ([("A", "E", "bad")], ["I", "E"]),
    ([("A", "E", "good"), ("B", None, "bad"), ("C", None, "bad"), ("D", None, "good")], ["I", "E", "E", "E", "D"]),
    ([("A", None, "bad"), ("B", "F", "neutral"), ("C", None, "bad")], ["I", "I", "F", "F"]),
    ([("", None, "neutral")], ["I", ""]),
])  # fmt: skip
def test_answer_before_each_turn(tmp_path: Path, turns: list[Any], before: list[str]) -> None:
    rows = [turn(answer_1=answer, answer_2=edit, rating=rating) for answer, edit, rating in turns]
    (session,) = kiwi.load_sessions(write(tmp_path, row(*rows, initial_answer="I"))).data
    last = session.turns[-1]
    after = kiwi.answer_after(last.previous, last.answer, last.edit, last.rating)
    assert [*(task.previous for task in session.turns), after] == before


@pytest.mark.parametrize(("values", "expected", "messages"), [
    (["good", "Neutral", " BAD "], ["good", "neutral", "bad"], []),
    ([1, 0, -1], ["good", "neutral", "bad"], []),
    ([2, 1, 0], ["good", "neutral", "bad"], []),
    (["1", "0", "-1"], ["good", "neutral", "bad"], []),
    ([2.0, "1", 0], ["good", "neutral", "bad"], []),
    ([1, 0, 1], ["good", "neutral", "good"], ["0 and 1 only"]),
    ([2, -1, "good"], ["good"], ["-1 (line 2) and 2 (line 1)", "'rating' is 2 (", "'rating' is -1 ("]),
    ([2, 3, 0.5, True, None, "", [], "great"], ["good"], [
        "'rating' is 3 (", "'rating' is 0.5 (", "'rating' is true (", "'rating' is missing", "'rating' is \"\" (",
        "'rating' is [] (", "'rating' is \"great\" (",
    ]),
])  # fmt: skip
def test_numbers_of_a_file_determine_the_scale(
    tmp_path: Path, values: list[Any], expected: list[str], messages: list[str]
) -> None:
    names, problems = ratings(tmp_path, *values)
    assert names == expected
    assert len(problems) == len(messages)
    assert all(part in problem for part, problem in zip(messages, problems, strict=True))


@pytest.mark.parametrize(("changes", "message"), [
    ({"original_question": ...}, "'original_question' is missing"),
    ({"initial_answer": ""}, "'initial_answer' is empty"),
    ({"interaction": []}, "'interaction' is empty"),
    ({"interaction": {}}, "'interaction' is not a list of objects"),
    ({"interaction": ["x"]}, "interaction[0]: a turn is str, not an object"),
    ({"interaction": [turn(instruction=...)]}, "interaction[0]: 'instruction' is missing"),
    ({"interaction": [turn(answer_1=["x"])]}, "interaction[0]: 'answer_1' is list, not text"),
    ({"interaction": [turn(answer_2=0)]}, "interaction[0]: 'answer_2' is int, not text"),
    ({"interaction": [turn(rating=...)]}, "interaction[0]: 'rating' is missing"),
    ({}, "the same session is already in line 1; the first is kept"),
])  # fmt: skip
def test_reports_unreadable_row_and_counts_it(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    loaded = kiwi.load_sessions(write(tmp_path, row(), row(**changes), b"", row(model_name="last")))
    assert [(session.index, session.turns[0].id) for session in loaded.data] == [(0, "0/0"), (2, "2/0")]
    assert [(problem.file, problem.line) for problem in loaded.problems] == [(FILE, 2)]
    assert message in loaded.problems[0].what


@pytest.mark.parametrize(("turns", "count", "message"), [
    ([turn(), turn(rating="so so"), turn()], 1, "interaction[1]: 'rating' is \"so so\""),
    ([turn(), 7, turn()], 1, "interaction[1]: a turn is int, not an object; 2 turns left out"),
    ([turn(), turn(), turn(answer_1=None)], 2, "interaction[2]: 'answer_1' is missing"),
])  # fmt: skip
def test_session_ends_at_unreadable_turn(tmp_path: Path, turns: list[Any], count: int, message: str) -> None:
    loaded = kiwi.load_sessions(write(tmp_path, row(*turns)))
    assert [len(session.turns) for session in loaded.data] == [count]
    (problem,) = loaded.problems
    assert (problem.line, message in problem.what) == (1, True)
    assert f"{len(turns) - count} turn" in problem.what


def test_leaves_out_only_unreadable_optional_fields(tmp_path: Path) -> None:
    odd = turn(error_type="odd", instruction_type="loud", fine_type=4, comment=["x"], retrieved_passages=7)
    well = turn(type="Reorganise", error_category="IGNORED")
    loaded = kiwi.load_sessions(write(tmp_path, row(odd, well, retrieved_passages=[3])))
    (session,) = loaded.data
    assert [(task.coarse, task.fine, task.error, task.comment, task.passages) for task in session.turns] == [
        (None, None, None, None, ()),
        (None, "Reorganize", "Ignored", None, ()),
    ]
    assert len(loaded.problems) == 6
    assert all(problem.line == 1 and "left out" in problem.what for problem in loaded.problems)


@pytest.mark.parametrize(("cited", "paragraphs", "titles", "expected"), [
    (["P", "R"], [["a", "b"], ["c"]], ("P", "R"), [("P", "a"), ("P", "b"), ("R", "c")]),
    (["P"], ["a", " ", "b"], ("P",), [("", "a"), ("", "b")]),
    ([{"title": "P"}, 17], [{"paper_title": "P", "paragraphs": ["a", "b"]}], ("P", "17"), [("P", "a"), ("P", "b")]),
    ([], [], (), []),
])  # fmt: skip
def test_reads_companion_rows_of_every_shape(
    tmp_path: Path, cited: Any, paragraphs: Any, titles: tuple[str, ...], expected: list[tuple[str, str]]
) -> None:
    companion = {"question": "Why?", "cited_papers": cited, "cited_paragraphs": paragraphs}
    loaded = kiwi.load_papers(write(tmp_path, companion, name="longform_sciqa/train.jsonl"))
    assert loaded.problems == ()
    (papers,) = loaded.data.values()
    assert papers.cited_papers == titles
    assert [(paragraph.title, paragraph.text) for paragraph in papers.paragraphs] == expected


def test_unreadable_companion_row_keeps_sessions(tmp_path: Path) -> None:
    good = {"question": "Why?", "cited_papers": ["P"], "cited_paragraphs": ["a"]}
    lines = [b"{", good | {"question": ""}, good | {"cited_papers": "P"}, good | {"cited_paragraphs": [4]}, good, good]
    write(tmp_path, *lines, name="longform_sciqa.jsonl")
    loaded = kiwi.load_sessions(write(tmp_path, row(), row(original_question="How?")))
    assert [session.papers is not None for session in loaded.data] == [True, False]
    assert [(problem.file, problem.line) for problem in loaded.problems] == [
        ("longform_sciqa.jsonl", line) for line in (1, 2, 3, 4, 6)
    ]


TURN_KEYS = "instruction answer_1 answer_2 rating instruction_type fine_type comment retrieved_passages".split()


@given(
    st.dictionaries(st.sampled_from([*row(), "retrieved_passages"]), JSON, max_size=2),
    st.lists(st.dictionaries(st.sampled_from(TURN_KEYS), JSON | st.sampled_from([-1, 0, 1, 2, "good"])), max_size=3),
    st.dictionaries(st.sampled_from(["question", "related_work_paragraph", "cited_papers", "cited_paragraphs"]), JSON),
)
def test_any_field_value_gives_a_session_or_a_problem(
    tmp_path_factory: Any, changes: dict[str, Any], turns: list[dict[str, Any]], companion: dict[str, Any]
) -> None:
    root = tmp_path_factory.mktemp("any")
    write(root, json.dumps(companion).encode(), name="longform_sciqa.jsonl")
    write(root, json.dumps(row(*(turn(**changed) for changed in turns), **changes)).encode())
    items = list(kiwi.stream_sessions(root))
    assert items
    assert all(isinstance(item, Problem | kiwi.Session) for item in items)
    assert sum(isinstance(item, kiwi.Session) for item in items) <= 1


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("gpt-4-0613", "GPT-4"), ("openai/gpt-4", "GPT-4"), ("gpt-3.5", "GPT-3.5-turbo"), ("gpt-4o", "gpt-4o"),
        ("meta-llama/Llama-2-70b-chat-hf", "LLaMA-2-70b-chat"), ("Llama-3.1-70B", "Llama-3.1-70B"),
    ],
)  # fmt: skip
def test_recognizes_spellings_of_the_models(written: str, name: str) -> None:
    assert kiwi.model_name(written) == name
