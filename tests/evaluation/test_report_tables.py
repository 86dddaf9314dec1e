"""A run made by hand, which all tests of reports draw; and what of it the tables choose and leave out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from turnmark.corpora.errors import RequestError
from turnmark.corpora.home import write_json
from turnmark.evaluation.journal import json_line
from turnmark.evaluation.records import ContextRef, DataUsed, MetricSummary, PublishedRow, Sample, Score, Summary
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.stored import read_run, samples, scores, tally

GOLDEN = Path(__file__).parent / "golden"
DEMO = "demo data: a small split that ships with Turnmark; its figures show that things work, and nothing else"
METRICS = (
    "rouge_l.word", "rouge_l.word[unicode]", "token_recall", "k_precision", "k_precision[+history]", "answer_words",
    "idk_rate", "unknown.f1", "rouge_l.word[lead]", "token_recall[lead]", "unknown.f1[always-unknown]",
)  # fmt: skip


def compare(name: str, text: str) -> None:
    """Against the golden file; TURNMARK_UPDATE_GOLDEN=1 writes it anew."""
    path = GOLDEN / name
    if os.environ.get("TURNMARK_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def metric(
    mean: float | None, low: float = 0, high: float = 0, n: int = 4, failed: int = 1, na: int = 1
) -> MetricSummary:
    return MetricSummary(
        mean=mean, ci95=None if mean is None else (low, high), n=n if mean is not None else 0, failed=failed,
        not_applicable=na,
    )  # fmt: skip


def row(system: str, setting: str, metrics: dict[str, float], n: int | None, differs: str, where: str) -> PublishedRow:
    aspects = tuple(differs.split())
    return PublishedRow(
        system=system, metrics=metrics, source="MTRAG Table 7, section 6.4", n=n, subset="all tasks",
        domains=("clapnq", "fiqa"), setting=setting, judge="four judges" if "rb_llm" in metrics else None,
        comparable=not aspects, differs=aspects, why="; ".join(f"{a}: differs" for a in aspects) or None, slice=where,
    )  # fmt: skip


SUMMARY = Summary(
    benchmark="mtrag", task="generation", setting="rag", data=DataUsed(name="demo", demo=True, fingerprint="f"),
    n=6, failed=1, skipped=1,
    metrics={
        "rouge_l.word": metric(0.28713, 0.241, 0.3331),
        "rouge_l.word[unicode]": metric(0.2911, 0.2451, 0.3391),
        "token_recall": metric(0.4519, 0.3901, 0.5128),
        "k_precision": metric(0.9312, 0.9013, 0.9551),
        "k_precision[+history]": metric(0.9523, 0.9302, 0.9704),
        "answer_words": metric(63.254, 51.21, 77.849),
        "idk_rate": metric(0.25, 0, 0.5),
        "unknown.f1": metric(0.6667, 0.4, 1, n=3, na=2),
        "rouge_l.word[lead]": metric(0.2204, 0.1803, 0.2598),
        "token_recall[lead]": metric(0.3101, 0.2604, 0.3592),
        "unknown.f1[always-unknown]": metric(0.4, 0.2, 0.5714, n=5, na=0),
        "unknown.auroc": metric(None, na=5),
    },
    breakdowns={
        "domain": {
            "clapnq": {"rouge_l.word": metric(0.3012, 0.25, 0.35, n=2), "k_precision": metric(0.94, 0.9, 0.98, n=2)},
            "fiqa": {"rouge_l.word": metric(0.2731, 0.22, 0.33, n=2), "k_precision": metric(0.92, 0.88, 0.96, n=2)},
        },
        "answerability": {
            "ANSWERABLE": {"rouge_l.word": metric(0.31, 0.28, 0.34, n=3), "k_precision": metric(0.95, 0.9, 1, n=3)},
            "UNANSWERABLE": {"rouge_l.word": metric(None), "k_precision": metric(0.87, 0.87, 0.87, n=1)},
        },
    },
    published=(
        row("Llama 3.1 405B", "reference", {"rouge_l.word": 0.301, "token_recall": 0.48}, 64, "setting n", "all"),
        row("GPT-4o", "rag", {"rouge_l.word": 0.29, "token_recall": 0.459}, 4, "", "all"),
        row("Llama 3.1 405B", "rag", {"rouge_l.word": 0.301}, None, "n data", "domain=clapnq"),
        row("GPT-4o", "rag", {"rb_llm": 0.76}, 842, "n judge metric", "all"),
    ),
    usage={
        "generator": {"calls": 1234, "prompt_tokens": 1234567, "completion_tokens": 89012, "cost": 0.31234},
        "rewriter": {"calls": 6, "prompt_tokens": 800, "completion_tokens": 90, "cost": None},
    },
    seconds={"answer": 12.34, "score": 0.56, "total": 13.2},
    notes=(DEMO, "budget: 1 sample was not tried"),
    specs={"generator": "openai:gpt-4o", "retriever": "hybrid", "query": "assistant"},
)  # fmt: skip

REAL = SUMMARY.model_copy(update={"data": DataUsed(name="mt-rag-benchmark", demo=False, fingerprint="f")})
"""The same on the benchmark's own data, beside which published rows may stand."""

SAMPLES = (
    Sample(id="c1<::>1", status="done", domain="clapnq", query="Who made the bell?", rewrite="who made Big Ben",
           contexts=(ContextRef(document_id="p1", score=3.5),), prediction="A founder in London.", decision="answer"),
    Sample(id="c1<::>2", status="done", domain="clapnq", query="When was it cast, and\nwhere?", decision="partial",
           prediction="In 1858.\n\n- It was cast twice."),
    Sample(id="c2<::>1", status="failed", reason="no answer within 60 s", kind="timeout", domain="fiqa",
           query="What is a bond?", attempts=3),
    Sample(id="c2<::>2", status="done", domain="fiqa", query="Is it safe?", prediction="I do not know.",
           decision="unknown"),
    Sample(id="c2<::>3", status="done", domain="fiqa", query="And a share?", decision="answer",
           prediction="A share is a part of it. " * 200, repeat=1),
    Sample(id="c3<::>1", status="skipped", reason="the budget of 10 tokens is spent", domain="fiqa", query="Why?"),
)  # fmt: skip


def scored(of: Sample) -> list[Score]:
    """A line for every metric, as the engine writes them."""
    about = {"id": of.id, "repeat": of.repeat, "by": "test"}
    if of.status == "failed":
        return [Score(metric=name, status="failed", reason=of.reason, **about) for name in METRICS]
    if of.status == "skipped":
        return [Score(metric=name, status="not_applicable", reason=of.reason, **about) for name in METRICS]
    values = {"answer_words": float(len((of.prediction or "").split())), "k_precision": 0.5}
    return [Score(metric=name, status="scored", value=values.get(name, 0.25), **about) for name in METRICS]


def write_run(path: Path, summary: Summary = SUMMARY, lines: tuple[Sample, ...] = SAMPLES) -> Path:
    """The folder of a finished run, as far as reports read it."""
    path.mkdir(parents=True)
    (path / "predictions.jsonl").write_text("".join(map(json_line, lines)), encoding="utf-8")
    every = (score for sample in lines for score in scored(sample))
    (path / "scores.jsonl").write_text("".join(map(json_line, every)), encoding="utf-8")
    write_json(path / "summary.json", summary.model_dump(mode="json"))
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run")


# --- tables ----------------------------------------------------------------------------------------------------------


def test_variants_stand_under_their_metric_and_baselines_are_called_so() -> None:
    labels = [(label, below) for _, label, below in tables.arranged(SUMMARY.metrics)]
    assert labels == [
        ("rouge_l.word", False), ("[unicode]", True), ("[lead] baseline", True), ("token_recall", False),
        ("[lead] baseline", True), ("k_precision", False), ("[+history]", True), ("answer_words", False),
        ("idk_rate", False), ("unknown.f1", False), ("[always-unknown] baseline", True), ("unknown.auroc", False),
    ]  # fmt: skip
    assert tables.arranged(["rl_f[embedded]"]) == [("rl_f[embedded]", "rl_f[embedded]", False)]


def test_metrics_are_chosen_by_what_they_tell_and_only_with_values_first() -> None:
    assert tables.chosen(SUMMARY.metrics, 2) == ["rouge_l.word", "k_precision"]
    some = {"rouge_l.word": metric(None), "answer_words": metric(3.0), "odd": metric(1.0)}
    assert tables.chosen(some, 3) == ["answer_words", "rouge_l.word"]
    assert tables.chosen({"judge_score[embedded]": metric(1.0), "x": metric(1.0)}, 3) == ["judge_score[embedded]"]
    assert tables.chosen({"odd": metric(1.0), "odd[lead]": metric(1.0)}, 3) == ["odd"]
    assert tables.chosen({}, 3) == []


@pytest.mark.parametrize(("name", "value", "shown"), [
    ("rouge_l.word", 0.28713, "0.2871"), ("rouge_l.word[lead]", 1.0, "1.0000"), ("answer_words", 63.254, "63.3"),
    ("edit_distance", 213.0, "213.0"), ("length_ratio", 0.645, "0.65"), ("judge_score[embedded]", 7.5, "7.50"),
    ("unknown.f1", None, "-"),
])  # fmt: skip
def test_every_metric_has_its_digits(name: str, value: float | None, shown: str) -> None:
    assert tables.figure(name, value) == shown


# --- what lies in a folder -------------------------------------------------------------------------------------------


def test_the_tally_counts_what_became_of_the_samples(run: Path) -> None:
    with open(run / "predictions.jsonl", "a", encoding="utf-8") as file:
        file.write('{"id": "x"}\nno json\n{"id": "torn", "status"')
    found = tally(run, 2)
    assert found is not None
    assert (found.n, found.unreadable, found.first) == (6, 3, (("c1<::>1", 0), ("c1<::>2", 0)))
    assert found.failures == {"timeout": 1}
    assert found.skipped == {"the budget of 10 tokens is spent": 1}
    assert [sample.id for sample in samples(run)] == [sample.id for sample in SAMPLES]
    assert tally(run / "nowhere") is None


def test_reasons_without_end_do_not_fill_the_memory(tmp_path: Path) -> None:
    failed = tuple(Sample(id=str(i), status="failed", reason=f"reason {i}") for i in range(500))
    found = tally(write_run(tmp_path / "r", lines=failed))
    assert found is not None
    assert len(found.failures) == 101
    assert sum(found.failures.values()) == 500
    assert next(iter(tables.reasons(found))).startswith("failed: other reasons (400), ")


def test_scores_are_found_in_any_order(run: Path) -> None:
    path = run / "scores.jsonl"
    path.write_text("".join(reversed(path.read_text(encoding="utf-8").splitlines(keepends=True))), encoding="utf-8")
    keys = [SAMPLES[4].key, SAMPLES[0].key]
    found = scores(run, keys, ["answer_words", "k_precision"])
    assert {key: {name: one.value for name, one in mine.items()} for key, mine in found.items()} == {
        ("c2<::>3", 1): {"answer_words": 1400.0, "k_precision": 0.5},
        ("c1<::>1", 0): {"answer_words": 4.0, "k_precision": 0.5},
    }
    assert scores(run / "nowhere", keys, ["k_precision"]) == {keys[0]: {}, keys[1]: {}}


def test_a_folder_of_all_benchmarks(tmp_path: Path) -> None:
    write_run(tmp_path / "all/mtrag")
    entries = {"mtrag": SUMMARY.model_dump(mode="json"), "kiwi": {"skipped": "no data"}}
    write_json(tmp_path / "all/summary.json", entries)
    found = read_run(tmp_path / "all")
    assert found.several
    assert found.entries == {"mtrag": SUMMARY, "kiwi": "no data"}
    assert [one.path for one in found.runs] == [tmp_path / "all/mtrag"]


@pytest.mark.parametrize("name", ["../run", "/etc", "a/b", "..", ""])
def test_a_name_in_a_summary_never_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    write_run(tmp_path / "run")
    write_json(tmp_path / "all/summary.json", {name: SUMMARY.model_dump(mode="json"), "b": {"n": 1}})
    with pytest.raises(RequestError) as caught:
        read_run(tmp_path / "all")
    assert f"benchmark {name!r}: use up to 100 letters" in caught.value.problems[0]
    assert "benchmark 'b', field " in caught.value.problems[1]


@pytest.mark.parametrize(("content", "said"), [
    ("", "is not JSON"), ("[" * 100_000, "is not JSON"), ("[]", "field all:"),
    ('{"mtrag": 3}', "field benchmark: Field required"),
    ('{"benchmark": "mtrag"}', "field task: Field required"),
])  # fmt: skip
def test_what_is_no_summary_is_said(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "summary.json").write_text(content)
    with pytest.raises(RequestError) as caught:
        read_run(tmp_path)
    assert said in str(caught.value)
    assert str(tmp_path) in str(caught.value)
