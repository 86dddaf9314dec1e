"""Compound-QA's other settings: the paper's modes, one question a turn, four orders; and what is measured of parts."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Turnmark
from tests.evaluation.benched import done, items_of, minilm, values
from tests.evaluation.compounds import CONTEXT, QUESTION, row, written
from tests.servers import Say, ScriptedServer
from turnmark.assistant.generators import GeneratorError, open_generator
from turnmark.evaluation.benchmarks import compound_modes as modes
from turnmark.evaluation.benchmarks.base import Case, Item
from turnmark.evaluation.benchmarks.compound_qa import CompoundQA
from turnmark.evaluation.benchmarks.turns import Parts
from turnmark.evaluation.metrics import language
from turnmark.evaluation.records import Sample, SubAnswer

THREE = "When was the lamp lit? What did the lamp burn? Until when did the horn sound?"


def bench_of(root: Path, setting: str | None, *rows: Any, embed: bool = False, **more: Any) -> CompoundQA:
    return CompoundQA(written(root, *rows), Parts(embed=minilm if embed else None), (), setting, **more)


def asked(bench: CompoundQA, item: Item, *replies: Any, options: str = "") -> tuple[Sample, list[dict[str, Any]]]:
    with ScriptedServer(*replies) as server:
        return bench.answer(item, open_generator(f"openai:tiny@{server.url}?retries=0{options}")), server.bodies


# --- the paper's modes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(modes.PROMPTS))
def test_a_mode_asks_once_with_question_and_fenced_context(tmp_path: Path, mode: str) -> None:
    bench = bench_of(tmp_path, mode, row(), row(ID="x_2", context=None))
    with_context, closed = items_of(bench)
    sample, [body] = asked(bench, with_context, Say("<think>Hm.</think>In 1868; rape oil."))
    [message] = body["messages"]
    assert message["role"] == "user"
    assert QUESTION in message["content"]
    assert f"\n{CONTEXT}\n</text-" in message["content"]
    assert ("step by step" in message["content"]) == (mode == "cot")
    assert ("ferry" in message["content"]) == (mode == "few-shot")
    assert (sample.prediction, sample.decision, sample.usage["answer"].calls) == ("In 1868; rape oil.", "answer", 1)
    sample, [body] = asked(bench, closed, Say("I don't know."))
    assert "<text-" not in body["messages"][0]["content"]
    assert sample.decision == "unknown"


def test_temperature_and_limit_are_the_papers_unless_the_spec_says_otherwise(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, "vanilla", row())
    [item] = items_of(bench)
    _, [body] = asked(bench, item, Say("Yes."), options="&deadline=20")
    assert (body["temperature"], body["max_tokens"]) == (0.3, 1024)
    spec = "openai:tiny?temperature=0.9&max_tokens=77"
    assert modes.tuning_of(spec) == modes.Tuning(None, None)
    assert modes.tuning_of("openai:tiny?max_tokens=77") == modes.Tuning(0.3, None)
    own = bench_of(tmp_path, "vanilla", row(), tuning=modes.tuning_of(spec))
    _, [body] = asked(own, item, Say("Yes."), options="&temperature=0.9&max_tokens=77")
    assert (body["temperature"], body["max_tokens"]) == (0.9, 77)


def test_a_reply_that_reaches_the_limit_stands_and_an_empty_one_is_kept_as_empty(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, "cot", row())
    [item] = items_of(bench)
    sample, bodies = asked(bench, item, Say("First, the lamp", finish_reason="length"))
    assert (sample.prediction, len(bodies)) == ("First, the lamp", 1)
    assert "cut at the limit of 1024 tokens" in sample.notes[0]
    sample, _ = asked(bench, item, Say("<think>So.</think>"))
    assert (sample.status, sample.prediction, sample.usage["answer"].calls) == ("done", "", 1)
    assert sample.notes == ("the reply is empty (stop)",)
    with pytest.raises(GeneratorError, match="content filter"):
        asked(bench, item, Say("", finish_reason="content_filter"))


def test_an_empty_reply_of_the_turn_stays_in_the_mean(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, None, row(context=None))
    [item] = items_of(bench)
    sample, _ = asked(bench, item, Say(""))
    assert (sample.status, sample.prediction) == ("done", "")
    assert sample.notes[0].startswith("the reply is empty: ")
    assert values(bench, item, sample)["rouge_l.word"] == 0.0


# --- one question a turn ---------------------------------------------------------------------------------------------


def test_a_dialogue_asks_the_parts_one_by_one_with_what_was_said_before(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, "dialogue", row(com_question=THREE), embed=True)
    [item] = items_of(bench)
    sample, bodies = asked(bench, item, Say("It was lit in 1868."), Say("I don't know."), Say("Until 2005."))
    assert [len(body["messages"]) for body in bodies] == [1, 3, 5]
    assert [body["temperature"] for body in bodies] == [0.3] * 3
    last = bodies[2]["messages"]
    assert [message["role"] for message in last] == ["user", "assistant"] * 2 + ["user"]
    assert "What did the lamp burn?" not in last[0]["content"]
    assert [message["content"] for message in last[1:]] == [
        "It was lit in 1868.", "What did the lamp burn?", "I don't know.", "Until when did the horn sound?",
    ]  # fmt: skip
    assert sample.sub_answers == (
        SubAnswer(question="When was the lamp lit?", answer="It was lit in 1868."),
        SubAnswer(question="What did the lamp burn?", answer="I don't know."),
        SubAnswer(question="Until when did the horn sound?", answer="Until 2005."),
    )
    assert (sample.decision, sample.usage["answer"].calls) == ("partial", 3)
    assert sample.prediction == "It was lit in 1868.\n\nI don't know.\n\nUntil 2005."


def test_a_dialogue_without_a_model_is_the_assistants_turns(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, "dialogue", row(), embed=True)
    [item] = items_of(bench)
    sample = bench.answer(item, None)
    first, second = sample.sub_answers
    assert (first.question, second.question) == ("When was the lamp lit?", "What did the lamp burn?")
    assert "The lamp was lit in 1868." in first.answer
    assert "rape oil" in second.answer
    assert sample.decision == "answer"
    scores = values(bench, item, sample)
    assert (scores["part_coverage"], scores["omitted[code]"]) == (1.0, 0.0)


def test_a_model_takes_the_question_apart_where_that_is_asked_for(tmp_path: Path) -> None:
    parts = Parts(forms=("understand=llm",))
    bench = CompoundQA(written(tmp_path, row()), parts, (), "dialogue")
    [item] = items_of(bench)
    listed = json.dumps({"questions": ["When was it lit?", " ", "What\ndid it burn?"]})
    sample, bodies = asked(bench, item, Say(listed), Say("1868."), Say("Oil."))
    assert [part.question for part in sample.sub_answers] == ["When was it lit?", "What did it burn?"]
    assert (len(bodies), sample.usage["answer"].calls) == (3, 3)
    sample, _ = asked(bench, item, Say('{"questions": []}'), Say("1868."))
    assert [part.question for part in sample.sub_answers] == [QUESTION]
    with pytest.raises(GeneratorError, match="not taken apart"):
        asked(bench, item, Say("no list"))


def references_of(case: Case) -> list[str]:
    return [text for name, text in case.more if name.startswith("reference ")]


def test_the_parts_are_those_of_the_references_where_there_are_some(tmp_path: Path) -> None:
    name = "Understanding/Factual-Statement/x_1"
    pairs = (SubAnswer(question="Lit when?", answer="In 1868."), SubAnswer(question="Burnt what?", answer="Oil."))
    bench = bench_of(tmp_path, "dialogue", row(), references={name: pairs})
    [item] = items_of(bench)
    sample, bodies = asked(bench, item, Say("1868."), Say("Oil."))
    assert "Questions: Lit when?" in bodies[0]["messages"][0]["content"]
    context = bench.context(item, sample)
    assert (context.parts, context.given) == (("Lit when?", "Burnt what?"), ("1868.", "Oil."))
    assert references_of(context) == ["In 1868.", "Oil."]


# --- orders ----------------------------------------------------------------------------------------------------------


def test_four_orders_put_every_part_in_every_place(tmp_path: Path) -> None:
    """Table 20, as printed."""
    bench = bench_of(tmp_path, "positions", row(com_question=THREE), row(ID="x_2"))
    items = items_of(bench)
    name = "Understanding/Factual-Statement/x_1"
    assert [item.id for item in items] == [f"{name}#order{n}" for n in (1, 2, 3, 4)]
    a, b, c = THREE.replace("? ", "?|").split("|")
    assert [item.task.question for item in items] == [f"{a} {b} {c}", f"{b} {a} {c}", f"{b} {c} {a}", f"{c} {a} {b}"]
    assert [bench.facts(item).labels["order"] for item in items] == [(f"order{n}",) for n in (1, 2, 3, 4)]
    assert len({bench.facts(item).cluster for item in items}) == 1
    placed = {(part, place) for order in modes.ORDERS for place, part in enumerate(order)}
    assert len(placed) == 9
    another = CompoundQA(written(tmp_path, row(com_question=THREE), kind="Cause-and-Effect"), Parts(), (), "positions")
    assert len(items_of(another)) == 4, "only Factual-Statement questions are asked in other orders"


def test_what_is_covered_is_told_by_part_and_place(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, "positions", row(com_question=THREE), embed=True)
    item = items_of(bench)[2]  # 2, 3, 1
    scores = values(bench, item, done(item, "The lamp burned rape oil. It was lit in 1868, the lamp."))
    cells = {name: value for name, value in scores.items() if name.startswith("part_coverage.") and value is not None}
    assert cells == {"part_coverage.q2@1": 1.0, "part_coverage.q3@2": 0.0, "part_coverage.q1@3": 1.0}
    assert scores["part_coverage"] == pytest.approx(2 / 3)


def test_references_follow_the_order(tmp_path: Path) -> None:
    parts = THREE.replace("? ", "?|").split("|")
    pairs = tuple(SubAnswer(question=part, answer=str(n)) for n, part in enumerate(parts, 1))
    bench = bench_of(
        tmp_path, "positions", row(com_question=THREE), references={"Understanding/Factual-Statement/x_1": pairs}
    )
    for item, order in zip(items_of(bench), modes.ORDERS, strict=True):
        context = bench.context(item, done(item, "So."))
        assert references_of(context) == [str(place + 1) for place in order]
        assert " ".join(context.parts) == item.task.question


def test_an_id_of_the_data_may_look_like_one_of_an_order(tmp_path: Path) -> None:
    name = "Understanding/Factual-Statement/x#order2"
    parts = THREE.replace("? ", "?|").split("|")
    pairs = {name: tuple(SubAnswer(question=part, answer=str(n)) for n, part in enumerate(parts, 1))}
    bench = bench_of(tmp_path, None, row(ID="x#order2", com_question=THREE), references=pairs)
    [item] = items_of(bench)
    context = bench.context(item, done(item, "So."))
    assert (context.order, references_of(context)) == ((), ["1", "2", "3"])
    assert "order" not in bench.facts(item).labels
    bench = bench_of(tmp_path, "positions", row(ID="x#order2", com_question=THREE), references=pairs)
    last = items_of(bench)[3]
    assert last.id == f"{name}#order4"
    assert references_of(bench.context(last, done(last, "So."))) == ["3", "1", "2"]
    assert bench.facts(last).labels["order"] == ("order4",)


def test_a_setting_without_a_sample_is_named(turnmark: Turnmark, tmp_path: Path) -> None:
    written(tmp_path, row())
    ran = turnmark("eval", "compound-qa", "--data", tmp_path, "--setting", "positions")
    assert (ran.code, "compound-qa positions: there is nothing to answer" in ran.err) == (2, True), ran.err


@given(st.sampled_from(list(permutations(range(3)))), st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_every_value_has_one_cell(order: tuple[int, ...], covered: list[float]) -> None:
    cells = modes.by_place("x", order, covered)
    assert set(cells) <= set(modes.places("x"))
    assert [cells[f"x.q{part + 1}@{place + 1}"] for place, part in enumerate(order)] == covered
    assert modes.by_place("x", order, covered[:2]) == {}


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "omitted", "merged"),
    [
        ("The lamp was lit in 1868. The lamp burned rape oil.", 0.0, 0.0),
        ("The lamp burned rape oil.", 1.0, 0.0),
        ("The lamp was lit in 1868 and what the lamp burned was rape oil.", 0.0, 1.0),
        ("Goats graze on the hill.", 1.0, 0.0),
        ("I don't know.", None, None),
    ],
)
def test_errors_by_code(tmp_path: Path, reply: str, omitted: float | None, merged: float | None) -> None:
    bench = bench_of(tmp_path, None, row(), embed=True)
    [item] = items_of(bench)
    scores = values(bench, item, done(item, reply))
    assert (scores["omitted[code]"], scores["merged[code]"]) == (omitted, merged)


@pytest.mark.parametrize(
    ("text", "than", "differs"),
    [
        ("压缩代表的是压力，它是由于作用在物体上的力导致的体积变化。", "What do compressions represent here?", True),
        ("The lamp was lit in the year 1868.", "When was the lamp lit for the first time?", False),
        ("1868", "When was the lamp lit for the first time?", None),
        ("Лампу зажгли в тысяча восемьсот шестьдесят восьмом году.", "When was the lamp lit?", True),
    ],
)
def test_another_writing_system_is_another_language(text: str, than: str, differs: bool | None) -> None:
    assert language.another_language(text, than) is differs


def test_kana_and_han_are_one_writing_system_and_hardly_any_letters_are_none() -> None:
    assert language.script("これはいくらですか。東京です。") == "CJK"
    assert language.script("它和力有什么关系？这是什么东西？") == "CJK"
    assert language.script("이것은 얼마입니까? 서울입니다.") == "HANGUL"
    assert language.script("x = 3") is None


def test_another_language_in_the_same_letters_takes_the_classifier() -> None:
    pytest.importorskip("py3langid")
    german = "Die Lampe wurde im Jahre 1868 zum ersten Mal angezündet und brannte Rapsöl bis zum Ende des Krieges."
    english = "When was the lamp lit for the first time, and what did it burn until the end of the war?"
    assert language.another_language(german, english) is True
    assert language.another_language(english, english) is False
    assert language.language("Oslo") is None


@settings(deadline=None)  # the first example loads the classifier
@given(st.text(max_size=200), st.text(max_size=200))
def test_no_text_breaks_the_languages(first: str, second: str) -> None:
    assert language.another_language(first, second) in (True, False, None)
    assert language.another_language(first, first) in (False, None)


# --- from the command line -------------------------------------------------------------------------------------------


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_modes_need_a_model_and_the_default_is_named_decompose(turnmark: Turnmark, tmp_path: Path) -> None:
    for mode in modes.PROMPTS:
        ran = turnmark("eval", "compound-qa", "--setting", mode, "--domains", "Baking")
        assert ran.code == 2
        assert "--generator" in ran.err
        assert "no domain 'Baking'" in ran.err
    for flag in ([], ["--setting", "decompose"]):
        ran = turnmark("eval", "compound-qa", *flag, "--limit", "2", "--dry-run", "--json")
        described = json.loads(ran.out)
        assert described["setting"] is None
    assert turnmark("eval", "mtrag", "--references", "x").code == 2
    ran = turnmark("eval", "compound-qa", "--references", tmp_path)
    assert (ran.code, "--references" in ran.err) == (2, True)


def test_a_mode_is_run_and_what_its_prompt_says_is_part_of_the_run(
    turnmark: Turnmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")
    with ScriptedServer(Say("The lamp was lit in 1868.")) as server:
        spec = f"openai:tiny@{server.url}?cache=0"
        words = ("eval", "compound-qa", "--setting", "vanilla", "--limit", "2", "--generator", spec, "--out")
        assert turnmark(*words, tmp_path / "r").code == 0
    manifest = json.loads((tmp_path / "r/manifest.json").read_text())
    assert manifest["setting"] == "vanilla"
    assert list(manifest["inputs"]) == ["prompt compound-vanilla"]
    assert [row["prediction"] for row in lines(tmp_path / "r/predictions.jsonl")] == ["The lamp was lit in 1868."] * 2
    ran = turnmark("score", "compound-qa", "--predictions", tmp_path / "r", "--out", tmp_path / "again", "--json")
    assert (ran.code, json.loads(ran.out)["setting"]) == (0, "vanilla")


def test_rows_that_cannot_be_read_are_counted_and_cost_no_other(turnmark: Turnmark, tmp_path: Path) -> None:
    source = written(
        tmp_path / "compound-qa", row(), '{"ID": "' + "x" * (50 * 1024 * 1024) + '"}', row(com_question=["a", "b"]),
        row(ID="x_4", com_reference=None), row(ID="x_5", com_question=""), row(), "[]", row(ID="x_8", context=None),
    )  # fmt: skip
    [file] = source.root.glob("data/*/*.jsonl")
    with file.open("ab") as more:
        more.write(json.dumps(row(ID="x_9", com_question="Où? Là?"), ensure_ascii=False).encode("latin-1") + b"\n")
    ran = turnmark("eval", "compound-qa", "--data", source.root, "--out", tmp_path / "run", "--json")
    assert ran.code == 0, ran.err
    summary = json.loads(ran.out)
    assert (summary["n"], summary["failed"]) == (2, 0)
    skipped = [note for note in summary["notes"] if note.startswith("skipped: data/")]
    lines_of = [int(note.split(":")[2]) for note in skipped]
    assert lines_of == [2, 3, 4, 5, 6, 7, 9]
    assert "Traceback" not in ran.err


def test_the_cells_of_table_2_are_a_breakdown_where_there_are_several_capabilities(tmp_path: Path) -> None:
    written(tmp_path, row())
    source = written(tmp_path, row(), capability="Knowledge")
    cells = [CompoundQA(source, Parts()).facts(item).labels for item in items_of(CompoundQA(source, Parts()))]
    assert [labels["capability+type"] for labels in cells] == [
        ("Understanding, Factual-Statement",), ("Knowledge, Factual-Statement",),
    ]  # fmt: skip
    labels = CompoundQA(source, Parts(), ["Knowledge"])
    assert "capability+type" not in labels.facts(items_of(labels)[0]).labels
    from turnmark.evaluation.published import Ran, beside
    from turnmark.evaluation.records import MetricSummary

    measured_here = {"win_rate": MetricSummary(mean=0.5, ci95=(0.4, 0.6), n=100, failed=0, not_applicable=0)}
    rows = beside(Ran(
        benchmark="compound-qa", task="generation", setting="vanilla", query=None, domains=(), metrics=measured_here,
        variants={}, judges=("openai:gpt-3.5-turbo",),
        breakdowns={"capability": {"Understanding": measured_here, "Knowledge": measured_here},
                    "type": {"Factual-Statement": measured_here, "Cause-and-Effect": measured_here},
                    "capability+type": {"Knowledge, Factual-Statement": measured_here}},
    ))  # fmt: skip
    slices = {row.slice for row in rows if row.subset == "Knowledge, Factual-Statement"}
    assert slices == {"capability+type=Knowledge, Factual-Statement"}
