"""A run made by hand, which all tests of reports draw, and the golden files that they are held against."""

from __future__ import annotations

import os
from pathlib import Path

from tests.evaluation.run_records import SHOWN
from turnmark.core.home import write_json
from turnmark.evaluation.metric_style import find_style
from turnmark.evaluation.records import ContextRef, DataUsed, MetricSummary, PublishedRow, Sample, Score, Summary
from turnmark.evaluation.storage.journal import json_line

GOLDEN = Path(__file__).parent / "golden"
DEMO = "demo data: a small split that ships with Turnmark; its figures show that things work, and nothing else"
METRICS = (
    "rouge_l.word", "rouge_l.word[unicode]", "token_recall", "k_precision", "k_precision[+history]", "answer_words",
    "idk_rate", "unknown.f1", "rouge_l.word[lead]", "token_recall[lead]", "unknown.f1[always-unknown]",
)  # fmt: skip


def golden(name: str, text: str) -> None:
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


def row(system: str, setting: str, metrics: dict[str, float], n: int | None, differs: str, part: str) -> PublishedRow:
    aspects = tuple(differs.split())
    return PublishedRow(
        system=system, metrics=metrics, source="MTRAG Table 7, section 6.4", n=n, subset="all tasks",
        domains=("clapnq", "fiqa"), setting=setting, judge="four judges" if "rb_llm" in metrics else None,
        comparable=not aspects, differs=aspects, why="; ".join(f"{a}: differs" for a in aspects) or None, slice=part,
    )  # fmt: skip


SUMMARY = Summary(
    benchmark="mtrag", task="generation", setting="rag", data=DataUsed(name="demo", demo=True, fingerprint="f"),
    n=6, failed=1, skipped=1,
    metrics={name: figure.model_copy(update={"shown": find_style(name, SHOWN)}) for name, figure in {
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
    }.items()},
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


def scored(sample: Sample) -> list[Score]:
    """A line for every metric, as the engine writes them."""
    about = {"id": sample.id, "repeat": sample.repeat, "by": "test"}
    if sample.status == "failed":
        return [Score(metric=name, status="failed", reason=sample.reason, **about) for name in METRICS]
    if sample.status == "skipped":
        return [Score(metric=name, status="not_applicable", reason=sample.reason, **about) for name in METRICS]
    values = {"answer_words": float(len((sample.prediction or "").split())), "k_precision": 0.5}
    return [Score(metric=name, status="scored", value=values.get(name, 0.25), **about) for name in METRICS]


def write_run(path: Path, summary: Summary = SUMMARY, lines: tuple[Sample, ...] = SAMPLES) -> Path:
    """The folder of a finished run, as far as reports read it."""
    path.mkdir(parents=True)
    (path / "predictions.jsonl").write_text("".join(map(json_line, lines)), encoding="utf-8")
    all_scores = (score for sample in lines for score in scored(sample))
    (path / "scores.jsonl").write_text("".join(map(json_line, all_scores)), encoding="utf-8")
    write_json(path / "summary.json", summary.model_dump(mode="json"))
    return path


EVIL = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}\x1b[31m\u202e\u200bevil\x00</td></table>&amp;"
)
CLEAN = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}evil</td></table>&amp;"
