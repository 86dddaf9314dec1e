"""MTRAG generation in every setting, and from recorded passages: what is shown, and every value by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation import writer
from tests.evaluation.benched import items_of
from tests.evaluation.conftest import TURNS, WordCount, write_benchmark
from tests.evaluation.mtrag_runs import SIX, planned, ran
from turnmark.core.errors import RequestError
from turnmark.corpora.text.segmentation import strip_citations
from turnmark.corpora.types import CONTINUED_MARK, Passage
from turnmark.evaluation.storage import corpus_passages
from turnmark.retrieval.types import Hit, Query, Retriever


def prompts():
    return writer.WRITERS[0].prompts


def prompt_of(question):
    matching = [prompt for prompt in prompts() if writer.asked_in(prompt) == question]
    assert len(matching) == 1
    return matching[0]


def test_reference_setting_matches_hand_computed_values(benchmark_root, searching, check_run):
    run = ran(benchmark_root, Path("r"))
    check_run(run.folder)
    assert searching.opened == [], "nothing is searched"
    assert (run.summary.n, run.summary.failed, run.summary.setting) == (9, 1, "reference")
    assert {name: run.shown(name) for name in run.samples} == {
        "c1<::>1": ["p1"], "c1<::>2": ["p2", "p3"], "c1<::>3": [], "c2<::>1": ["p4"], "c2<::>2": [],
        "c3<::>1": ["f1", "f2"], "c3<::>2": ["f2"], "c4<::>1": [], "c4<::>2": ["f4"],
    }  # fmt: skip
    assert {name: sample.decision for name, sample in run.samples.items() if sample.decision != "answer"} == {
        "c1<::>3": "converse", "c2<::>1": "unknown", "c4<::>1": None,
    }  # fmt: skip
    assert len(prompts()) == 8, "no model is asked for a courtesy"
    assert "(none were found)" in prompt_of("who owns it now"), "an unanswerable task, which has no passages"

    # LCS / lengths of answer and reference, without marks, with steps as numbered lines. The refusal for want of
    # passages ("I don't know: I found nothing about that in the documents.") has 12 tokens, of which the reference's
    # 5 ("I do not know.") share "i" and "know". "It is [1]." stays, whatever the passages say.
    assert run.samples["c3<::>2"].prediction == "It is [1]."
    rouge = {
        "c1<::>1": 2 * 5 / (6 + 7), "c1<::>2": 2 * 4 / (7 + 6), "c2<::>1": 0.0, "c2<::>2": 0.0,
        "c3<::>1": 2 * 5 / (8 + 5), "c3<::>2": 2 * 2 / (2 + 7), "c4<::>2": 2 * 2 / (10 + 5),
    }  # fmt: skip
    rouge_of = run.values("rouge_l.word")
    talk = rouge_of.pop("c1<::>3")
    assert rouge_of == pytest.approx(rouge)
    assert run.metrics["rouge_l.word"].mean == pytest.approx(sum(rouge.values()) / 7)
    assert (run.metrics["rouge_l.word"].n, run.metrics["rouge_l.word"].failed) == (7, 1)
    assert run.summary.breakdowns["answerability"]["CONVERSATIONAL"]["rouge_l.word"].mean == talk
    recall = {
        "c1<::>1": 4 / 5, "c1<::>2": 4 / 5, "c2<::>1": 0.0, "c2<::>2": 0.0, "c3<::>1": 1.0, "c3<::>2": 2 / 6,
        "c4<::>2": 3 / 5,
    }  # fmt: skip
    assert {k: v for k, v in run.values("token_recall").items() if k in recall} == pytest.approx(recall)
    expected = {
        "c1<::>1": 4 / 5, "c1<::>2": 5 / 7, "c2<::>1": 0.0, "c2<::>2": None, "c3<::>1": 1.0, "c3<::>2": 1 / 2,
        "c4<::>2": 3 / 9,
    }  # fmt: skip
    assert {k: v for k, v in run.values("k_precision").items() if k in expected} == pytest.approx(expected)
    recall_of = {"c1<::>1": 4 / 5, "c1<::>2": 6 / 7, "c2<::>2": None, "c3<::>2": 1.0}
    assert {k: v for k, v in run.values("k_precision[+history]").items() if k in recall_of} == pytest.approx(recall_of)
    assert run.values("answer_words")["c4<::>2"] == 10
    assert run.metrics["idk_rate"].mean == pytest.approx(1 / 7)
    # "the bell was made by a": as many words as the answer has, of which the reference shares "the bell".
    assert run.values("rouge_l.word[lead]")["c1<::>1"] == pytest.approx(2 * 2 / (6 + 7))
    assert run.values("token_recall[lead]")["c1<::>1"] == pytest.approx(2 / 5)
    assert not [name for name in run.metrics if name.startswith(("unknown.", "clarify.", "hidden."))]


@pytest.mark.parametrize(("reply", "size", "right"), [
    ("It was built by the town in 1858.", "large", 7), ("I don't know.", "large", 1),
    # Where a small model refuses, its turn quotes the passages, if there are any.
    ("It was built by the town in 1858.", "small", 7), ("I don't know.", "small", 8),
])  # fmt: skip
def test_answerability_of_a_model_that_always_answers_or_refuses(benchmark_root, tmp_path, reply, size, right):
    """Seven of the eight labeled tasks can be answered, and one is unanswerable."""
    (tmp_path / "replies.jsonl").write_text((json.dumps({"text": reply}) + "\n") * 40)
    generator = f"replay:{tmp_path / 'replies.jsonl'}?size={size}"
    run = ran(benchmark_root, tmp_path / "r", generator=generator, judge=("embedded",))
    accuracy = run.metrics["answerability_accuracy[embedded]"]
    assert (accuracy.n, accuracy.mean) == (8, right / 8)


def test_conversational_tasks_count_only_in_a_breakdown(benchmark_root):
    run = ran(benchmark_root, Path("r"))
    sizes = {d: {v: m["answer_words"].n for v, m in values.items()} for d, values in run.summary.breakdowns.items()}
    assert sizes == {
        "domain": {"clapnq": 4, "fiqa": 3}, "turn": {"first": 3, "later": 4},
        "answerability": {"ANSWERABLE": 4, "CONVERSATIONAL": 1, "PARTIAL": 2, "UNANSWERABLE": 1},
        "question_type": {"Explanation": 2, "Factoid": 4, "Keyword": 1, "Non-Question": 1, "Opinion": 1},
        "multi_turn": {"Clarification": 1, "Follow-up": 3, "N/A": 3}, "references": {"at most two": 7},
    }  # fmt: skip
    assert run.metrics["answer_words"].n == 7


def test_histories_are_the_recorded_ones(benchmark_root, tmp_path):
    ran(benchmark_root, tmp_path / "r")
    prompt = prompt_of("when was it cast")
    assert "who made the bell" in prompt
    assert "answer 1" in prompt
    for text in ("A founder in London", "Founder", "cast in 1858."):
        assert text not in prompt, "neither what was answered here, nor a reference of an earlier turn"
    assert "the bell was made by a founder" not in prompt, "a passage of an earlier turn"


def test_mtrag_un_shows_up_to_ten_references_and_measures_clarify(tmp_path, check_run):
    many = [f"m{number}" for number in range(12)]
    turns = [*TURNS, ("c5", 1, "clapnq", "which one", "which one", "UNDERSPECIFIED", ["Factoid"], "N/A", [])]
    root = write_benchmark(tmp_path / "data", turns)
    path = root / "mtragun-human/generation_tasks/reference.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0]["contexts"] = [{"document_id": name, "text": f"bell {name}"} for name in many]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = ran(root, tmp_path / "r", benchmark="mtrag-un")
    check_run(run.folder)
    assert run.shown("c1<::>1") == many[:10]
    assert "bell m9" in prompt_of("who made the bell")
    assert "bell m10" not in prompt_of("who made the bell")
    # Nobody asked back: no precision; the one underspecified task was missed.
    precision, recall, f1 = (run.metrics[f"clarify.{name}"] for name in ("precision", "recall", "f1"))
    assert (precision.mean, precision.n, precision.not_applicable) == (None, 0, 8)
    assert (recall.mean, recall.n) == (0.0, 1)
    assert (f1.mean, f1.n) == (0.0, 1)


def test_mtrag_s_has_no_labels_and_works(benchmark_root, tmp_path, searching):
    path = benchmark_root / "mtrag-synthetic/generation_tasks/synthetic.jsonl"
    path.parent.mkdir(parents=True)
    rows = [json.loads(line) for line in (benchmark_root / "mtrag-human/generation_tasks/reference.jsonl").open()]
    for row in rows:
        for context in row["contexts"]:
            context["document_id"] = f"hash of {context['document_id']}"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = ran(benchmark_root, tmp_path / "r", benchmark="mtrag-s", setting="rag")
    assert (run.summary.n, run.summary.failed) == (9, 1)
    assert run.shown("c1<::>1") == ["p1", "p6", "p2", "p4"]
    assert not any(name.startswith("clarify") for name in run.metrics)
    with pytest.raises(RequestError, match="no passage of the tasks is in the corpora under its id"):
        planned(benchmark_root, tmp_path / "x", benchmark="mtrag-s", setting="rag", counterfactual=True)


def test_references_are_topped_up_to_five_on_tasks_with_at_most_two(searching, check_run):
    turns = [(*turn[:8], ["p1", "p2", "p3"]) if turn[:2] == ("c2", 1) else turn for turn in TURNS]
    root = write_benchmark(Path("data"), turns)
    run = ran(root, Path("r"), setting="reference+rag")
    check_run(run.folder)
    assert "c2<::>1" not in run.samples, "it has three"
    assert sorted(run.shown("c1<::>1")) == ["p1", "p2", "p4", "p6"], "the reference once"
    assert sorted(run.shown("c1<::>2")) == ["p1", "p2", "p3"]
    assert sorted(run.shown("c3<::>1")) == ["f1", "f2", "f3", "f4", "f5"]
    assert sorted(run.shown("c2<::>2")) == sorted(["p6"]), "what nobody referenced is searched for all the same"
    assert sorted(run.shown("c1<::>3")) == sorted([]), "a courtesy is not"
    assert set(searching.asked) == {turn[3] for turn in turns if turn[:2] not in (("c2", 1), ("c1", 3))}
    assert not any(name.startswith("unknown.") for name in run.metrics)


CHAPTERS = "python:tests.evaluation.test_mtrag_generation:retriever"
SECTION_TEXTS = ("The bell is old.", "A founder in London made the bell.", "It hangs in the tower.")


def _section() -> list[Passage]:
    passages, start = [], 0
    for n, text in enumerate(SECTION_TEXTS):
        section = f"Bells {CONTINUED_MARK}" if n else "Bells"
        end = start + len(text)
        name = f"book-{start}-{end}"
        passages.append(
            Passage(id=name, document="book", title="Book", section=section, text=text, start=start, end=end)
        )
        start = end + 2
    return passages


class Chapters(Retriever):
    """Finds the second of three passages for every query."""

    name = CHAPTERS

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        return [[Hit(passage=_section()[1], score=1.0)] for _ in queries]

    def neighbors(self, passage: Passage) -> list[Passage]:
        return [each for each in _section() if each.document == passage.document]


def retriever(index: object) -> Chapters:
    """The factory that `CHAPTERS` names."""
    return Chapters()


def test_in_the_rag_setting_a_model_reads_the_full_section_of_what_was_found(benchmark_root, tmp_path):
    ran(benchmark_root, tmp_path / "r", setting="rag", retriever=CHAPTERS, only=("c1<::>1",))
    prompt = prompt_of("who made the bell")
    assert "[1]\n> Book › Bells\n" in prompt
    assert [line.removeprefix("> ") for line in prompt.splitlines() if line.startswith("> ") and "." in line] == list(
        SECTION_TEXTS
    )


def test_rag_setting_matches_hand_computed_values(benchmark_root, tmp_path, searching, check_run):
    run = ran(benchmark_root, tmp_path / "r", setting="rag")
    check_run(run.folder)
    assert run.shown("c1<::>1") == ["p1", "p6", "p2", "p4"]
    assert sorted(run.shown("c3<::>1")) == ["f1", "f2", "f3", "f4", "f5"]
    assert len(set(searching.asked)) == 8, "each task, but the courtesy"
    assert searching.asked.count("who owns it now") == 1, "a model that reads gets one search"
    assert run.samples["c1<::>1"].prediction == "A founder in London made it [1]."
    # Shared with p1, p6, p2 and p4: all but "it".
    assert run.values("k_precision")["c1<::>1"] == pytest.approx(4 / 5)
    # "it was cast in 1858 and twice": p1, p2 and p3 have neither "it" nor "and".
    assert run.values("k_precision")["c1<::>2"] == pytest.approx(5 / 7)
    # Said to be unknown: c2::1, which is partial; not c2::2. One of seven (c4::1 failed) is unanswerable.
    figures: dict[str, Any] = {
        name: (summed.mean, summed.n) for name, summed in run.metrics.items() if name.startswith("unknown.")
    }
    assert figures == {
        "unknown.precision": (0.0, 1), "unknown.recall": (0.0, 1), "unknown.f1": (0.0, 2),
        "unknown.precision[hedged]": (0.0, 1), "unknown.recall[hedged]": (0.0, 1), "unknown.f1[hedged]": (0.0, 2),
        "unknown.precision[always-unknown]": (pytest.approx(1 / 7), 7), "unknown.recall[always-unknown]": (1.0, 1),
        "unknown.f1[always-unknown]": (pytest.approx(2 / 8), 7), "unknown.auroc": (1.0, 7),
    }  # fmt: skip
    assert {name for name, metric in run.scores if metric == "unknown.f1"} == set(run.samples), "a line for each"
    assert run.scores["c1<::>3", "unknown.f1"].status == "not_applicable"
    assert run.scores["c4<::>1", "unknown.f1"].status == "failed"


def test_hidden_passages_are_never_shown(benchmark_root, searching, check_run):
    run = ran(benchmark_root, Path("r"), setting="rag", counterfactual=True)
    unhidden = ran(benchmark_root, Path("whole"), setting="rag")
    check_run(run.folder)
    hidden = [name for name in run.samples if name.endswith("#hidden")]
    assert hidden == [f"{name}#hidden" for name in (*SIX[:5], "c4<::>1", SIX[5])]
    relevant = {f"{turn[0]}<::>{turn[1]}#hidden": set(turn[8]) for turn in TURNS}
    for name in hidden:
        assert not relevant[name] & set(run.shown(name)), name
        assert run.samples[name].status == "failed" or run.shown(name), "others move up"
    assert run.shown("c1<::>1#hidden") == ["p6", "p2", "p4"]
    # The headline is that of the tasks as they are, and one figure more.
    extra: Any = run.metrics.pop("hidden.auroc")
    assert run.metrics == unhidden.metrics
    assert {d: v for d, v in run.summary.breakdowns.items() if d != "counterfactual"} == unhidden.summary.breakdowns
    # Six pairs (both halves of c4::1 failed); with its passages shown, a task is the surer in all but one tie.
    assert (extra.mean, extra.n) == (pytest.approx(11 / 12), 12)
    # Without their passages they are unanswerable; the writer says so of one of six, and nothing refuses in its place.
    part: Any = run.summary.breakdowns["counterfactual"]["hidden"]
    assert (part["unknown.recall"].mean, part["unknown.recall"].n) == (pytest.approx(1 / 6), 6)
    assert part["rouge_l.word"].n == 0, "there is no reference answer to it"
    assert part["hidden.auroc"] == extra


def test_pair_needs_both_halves_and_a_hit_in_the_top_three(benchmark_root, searching):
    only = ("c1<::>1", "c1<::>1#hidden", "c3<::>1#hidden", "c2<::>1")
    run = ran(benchmark_root, Path("r"), setting="rag", counterfactual=True, only=only)
    assert run.summary.n == 4
    assert (run.metrics["hidden.auroc"].n, run.metrics["hidden.auroc"].mean) == (2, 1.0)

    class Worst(WordCount):
        def search(self, queries, top_k):
            lists = super().search(queries, len(self.passages))
            return [list(reversed(hits))[:top_k] for hits in lists]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_passages, "open_corpus", lambda corpus, *_: (Worst(corpus), "worst"))
        run = ran(benchmark_root, Path("w"), setting="rag", counterfactual=True, only=("c1<::>1", only[1]))
    assert run.shown("c1<::>1").index("p1") == 3
    assert "hidden.auroc" not in run.metrics


@pytest.mark.parametrize(("mode", "queries"), [
    ("last-turn", ["when was it cast", "who owns it now"]),
    ("last-1", ["when was it cast", "who owns it now"]),
    ("rewrite", ["when was the bell cast"]),  # nothing is recorded for an unanswerable task
    ("conversation", [
        "who made the bell\nanswer 1\nwhen was it cast", "how tall is the tower\nanswer 1\nwho owns it now",
    ]),
    ("last-9", ["who made the bell\nwhen was it cast", "how tall is the tower\nwho owns it now"]),
])  # fmt: skip
def test_each_mode_searches_for_its_query(benchmark_root, tmp_path, searching, mode, queries):
    run = ran(benchmark_root, tmp_path / "r", setting="rag", query=mode, only=("c1<::>2", "c2<::>2"))
    assert searching.asked == queries
    assert run.summary.specs["query"] == mode
    # Searched for by a query of another kind, unanswerable tasks alone would be told from the others.
    assert run.samples["c2<::>2"].kind == ("missing" if mode == "rewrite" else None)
    rewrite = run.samples["c1<::>2"].rewrite
    assert rewrite == (None if queries[0] == "when was it cast" else queries[0])


def test_variants_are_searched_with_their_conversation(benchmark_root, searching):
    own = Path("own.jsonl")
    own.write_text('{"_id": "c1<::>2", "text": "when was it cast", "variants": ["bell 1858"]}\n')
    ran(benchmark_root, Path("r"), setting="rag", queries=own, only=("c1<::>2",))
    [query] = [query for retriever in searching.opened for query in retriever.asked]
    assert (query.text, query.variants) == ("when was it cast", ("bell 1858",))
    assert [message.content for message in query.history] == ["who made the bell", "answer 1"]


# --- live ------------------------------------------------------------------------------------------------------------


def live(root: Path, out: str, **more: Any) -> Any:
    return ran(root, Path(out), setting="live", live=True, **more)


def test_live_conversation_continues_from_our_own_replies(benchmark_root, searching, check_run):
    run = live(benchmark_root, "r")
    check_run(run.folder)
    assert run.summary.setting == "live"
    first, second = run.samples["c3<::>1"], run.samples["c3<::>2"]
    assert first.history == ()
    assert [(turn.role, turn.content) for turn in second.history or ()] == [
        ("user", "what is a bond"), ("assistant", strip_citations(first.prediction or "")),
    ]  # fmt: skip
    assert not any(row.comparable for row in run.summary.published)
    assert run.metrics["unknown.f1"].n > 0, "it searches, so that refusing is a test"


def test_turns_outside_the_run_are_asked_but_not_scored(benchmark_root, searching):
    whole = live(benchmark_root, "whole")
    alone = live(benchmark_root, "alone", only=("c3<::>2",))
    assert list(alone.samples) == ["c3<::>2"]
    assert alone.samples["c3<::>2"].history == whole.samples["c3<::>2"].history
    calls = {name: sum(used.calls for used in run.samples["c3<::>2"].usage.values()) for name, run in
             {"whole": whole, "alone": alone}.items()}  # fmt: skip
    assert calls["alone"] > calls["whole"]


def test_live_turn_after_a_failed_one_fails_and_is_retried(benchmark_root, searching):
    run = live(benchmark_root, "r")
    failed = [sample for sample in run.samples.values() if sample.status == "failed"]
    assert [sample.id for sample in failed] == ["c4<::>1", "c4<::>2"]
    assert "turn c4<::>1 has no answer to continue from" in (failed[1].reason or "")


def test_live_contradicts_another_setting(turnmark):
    said = turnmark.refused("eval", "mtrag", "--live", "--setting", "reference", "--query", "last-turn")
    assert "--live is a separate setting and cannot be combined with --setting reference" in said
    assert "leave --query, --queries, --passages and --protocol out" in said
    assert "--live: kiwi does not use it" in turnmark.refused("eval", "kiwi", "--live")


def write_trec(path, lists):
    lines = [
        f"{task} Q0 {name} 0 {10 - rank} x\n"
        for task, names in lists.items()
        for rank, name in enumerate(names.split())
    ]
    path.write_text("".join(lines))
    return path


def test_recorded_passages_are_answered_from(benchmark_root, searching, check_run):
    recorded = write_trec(Path("x.trec"), {
        "c1<::>1": "p6 gone p1 p2 p3 p4 p5", "c1<::>2": "p2", "c2<::>2": "p4 p5", "nobody": "p1",
    })  # fmt: skip
    run = ran(benchmark_root, Path("r"), setting="rag", passages=recorded, domains=("clapnq",))
    check_run(run.folder)
    assert searching.opened == [], "nothing is searched"
    assert run.shown("c1<::>1") == ["p6", "p1", "p2", "p3", "p4"], "five whose text is known"
    assert run.shown("c2<::>2") == ["p4", "p5"]
    # A task without a list is no test of anything: answered from nothing, it would be unknown for sure.
    assert {name: sample.kind for name, sample in run.samples.items() if sample.status == "failed"} == {
        "c1<::>3": "missing", "c2<::>1": "missing",
    }  # fmt: skip
    assert run.summary.specs["query"] == "recorded"
    notes = "\n".join(run.summary.notes)
    assert "--passages: 1 of 8 passages are not in the corpora here" in notes
    topped = ran(benchmark_root, Path("t"), setting="reference+rag", passages=recorded, domains=("clapnq",))
    shown = [topped.shown(name) for name in ("c1<::>1", "c1<::>2")]
    assert set(shown[0]) == {"p1", "p6", "p2", "p3", "p4"}
    assert any(names[0] not in ("p1", "p2") for names in shown), "a reference is not always first"
    again = ran(benchmark_root, Path("t2"), setting="reference+rag", passages=recorded, domains=("clapnq",))
    assert again.shown("c1<::>1") == shown[0], "the order is the task's"
    hiding = ran(benchmark_root, Path("h"), setting="rag", passages=recorded, domains=("clapnq",),
                 counterfactual=True)  # fmt: skip
    assert hiding.shown("c1<::>1#hidden") == ["p6", "p2", "p3", "p4", "p5"]


def test_passages_of_a_run_are_used_and_the_run_stays_unchanged(benchmark_root, searching):
    first = ran(benchmark_root, Path("first"), setting="rag")
    lists = {name: first.shown(name) for name in SIX}
    file = first.folder / "predictions.jsonl"
    file.write_text(file.read_text() + '{"id": "torn')  # as of a run that goes on
    before = file.read_bytes()
    searches = len(searching.asked)
    again = ran(benchmark_root, Path("again"), setting="rag", passages=first.folder)
    assert file.read_bytes() == before
    assert len(searching.asked) == searches
    assert {name: again.shown(name) for name in SIX} == lists
    # Passages that are handed in are read whole, and no sentence of theirs stands beside the answer.
    assert again.samples["c1<::>2"].prediction == "It was cast in 1858 [1], and twice [2]."


def test_reports_all_mistakes_of_recorded_passages(benchmark_root, tmp_path):
    with pytest.raises(RequestError) as caught:
        planned(benchmark_root, tmp_path / "x", domains=("govt",), query="rewrite", queries=Path("q.jsonl"),
                passages=Path("none"), counterfactual=True, generator="magic", retriever="odd")  # fmt: skip
    messages = "\n".join(caught.value.problems)
    for words in (
        "no generator is called 'magic'", "no retriever is called 'odd'",
        "--query: the setting reference searches for nothing",
        "--queries: the setting reference", "--passages: the setting reference", "--counterfactual hides passages",
        "--passages answers from a recorded retrieval", "--query and --queries name two",
        "no domain 'govt' in the data; there are: clapnq, fiqa", "--passages 'none': no such run folder or TREC run",
    ):  # fmt: skip
        assert messages.count(words) == 1, words
    assert not (tmp_path / "x").exists()


def test_queries_and_corpora_are_checked(benchmark_root, tmp_path):
    (benchmark_root / "corpora/passage_level/fiqa.jsonl").unlink()
    with pytest.raises(RequestError) as caught:
        planned(benchmark_root, tmp_path / "x", setting="rag", query="yesterday")
    messages = "\n".join(caught.value.problems)
    for words in ("no query mode is called 'yesterday'", "the passages of fiqa", "name the ones to use with --domains"):
        assert words in messages
    assert planned(benchmark_root, tmp_path / "x", setting="rag", domains=("clapnq",)).items == 5
    assert planned(benchmark_root, tmp_path / "x").items == 9, "the setting reference needs no corpus"
    with pytest.raises(RequestError, match="has no recorded queries"):
        planned(benchmark_root, tmp_path / "x", benchmark="mtrag-un", setting="rag", query="rewrite",
                domains=("clapnq",))  # fmt: skip
    wrong = write_trec(tmp_path / "x.trec", {"nobody": "p1"})
    with pytest.raises(RequestError, match="--passages: none of its 1 queries is a task of the data"):
        planned(benchmark_root, tmp_path / "x", setting="rag", passages=wrong, domains=("clapnq",))


@pytest.mark.parametrize(("benchmark", "setting", "items", "headline"), [
    ("mtrag", "reference", 423, 417), ("mtrag", "reference+rag", 203, 197), ("mtrag-un", "reference", 219, 219),
    ("mtrag-s", "reference", 607, 607),
])  # fmt: skip
def test_how_many_tasks_a_setting_has(real_data, benchmark, setting, items, headline):
    plan = planned(real_data, Path("r"), benchmark=benchmark, setting=setting)
    assert plan.items == items
    assert sum(item.headline for item in items_of(plan.task)) == headline
