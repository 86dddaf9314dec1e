"""Run folders made by hand, for what compares runs and asks whether they agree with people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.evaluation.run_records import summarize
from turnmark.core.home import write_json
from turnmark.evaluation.records import DataUsed, RunManifest, Sample, Score, Summary
from turnmark.evaluation.scores.score_tally import Facts, write_facts
from turnmark.evaluation.storage.journal import json_line

IDS = tuple(f"c{conversation}<::>{turn}" for conversation in range(1, 7) for turn in (1, 2, 3))
"""Eighteen turns of six conversations."""

Values = Mapping[str, Mapping[str, float | str | None]]
"""Metric -> task id -> value; None: not applicable; a text: failed with it."""


def facts_of(name: str) -> Facts:
    """Conversations 1 to 3 are ClapNQ's, and the last turn of the first is no question."""
    conversation, _, turn = name.partition("<::>")
    labels = {
        "domain": ("clapnq" if conversation in ("c1", "c2", "c3") else "fiqa",),
        "turn": ("first" if turn == "1" else "later",),
        "question_type": ("Factoid", "Keyword") if turn == "2" else ("Factoid",),
    }
    return Facts(cluster=conversation, labels=labels, headline=name != "c1<::>3")


def write_run(
    path: Path,
    values: Values,
    *,
    answers: Mapping[str, str] | None = None,
    skipped: Sequence[str] = (),
    failed: Sequence[str] = (),
    instruments: Mapping[str, str] | None = None,
    repeats: Sequence[Values] = (),
    with_facts: bool = True,
    **manifest: Any,
) -> Path:
    """The folder of a finished run with these scores.

    Args:
        answers: task id -> answer; `answer of c1<::>1` where it has none.
        instruments: metric -> what measured it.
        repeats: the values of further repeats.
        manifest: fields of the manifest that differ from the usual ones.
    """
    run_manifest = RunManifest.model_validate({
        "benchmark": "mtrag", "task": "generation", "setting": "reference", "specs": {"generator": path.name},
        "data": {"name": "mt-rag-benchmark", "demo": False, "fingerprint": "f" * 64}, "domains": ("clapnq", "fiqa"),
        "seed": 0, "version": "0.1.0", "started": "2026-01-01T00:00:00+00:00", "repeat": 1 + len(repeats), **manifest,
    })  # fmt: skip
    scores: list[Score] = []
    samples: list[Sample] = []
    ids = list(dict.fromkeys(name for per_id in values.values() for name in per_id))
    for name in ids:
        for repeat, mine in enumerate((values, *repeats)):
            status = "skipped" if name in skipped else "failed" if name in failed else "done"
            text = (answers or {}).get(name, f"answer of {name}")
            samples.append(Sample(
                id=name, repeat=repeat, status=status, reason=None if status == "done" else "the budget is spent",
                domain=facts_of(name).labels["domain"][0], query=f"question of {name}?",
                prediction=None if name in skipped else text,
            ))  # fmt: skip
            for metric, per_id in mine.items():
                scores.append(
                    _score(name, repeat, metric, per_id.get(name), (instruments or {}).get(metric, "a library"))
                )
    path.mkdir(parents=True)
    (path / "predictions.jsonl").write_text("".join(map(json_line, samples)), encoding="utf-8")
    (path / "scores.jsonl").write_text("".join(map(json_line, scores)), encoding="utf-8")
    write_json(path / "manifest.json", run_manifest.model_dump(mode="json"))
    metrics, breakdowns = summarize(scores, {name: facts_of(name) for name in ids}, 0)
    summary = Summary(
        benchmark=run_manifest.benchmark, task=run_manifest.task, setting=run_manifest.setting,
        data=DataUsed.model_validate(run_manifest.data),
        n=len(samples), failed=0, skipped=len(skipped), metrics=metrics, breakdowns=breakdowns, published=(),
        seconds={}, notes=("demo data: a split",) if run_manifest.data.demo else (), specs=run_manifest.specs,
    )  # fmt: skip
    write_json(path / "summary.json", summary.model_dump(mode="json"))
    if with_facts:
        with write_facts(path) as write:
            for name in ids:
                write(name, facts_of(name))
    return path


def _score(name: str, repeat: int, metric: str, value: float | str | None, instrument: str) -> Score:
    about = {"id": name, "repeat": repeat, "metric": metric, "by": instrument}
    if isinstance(value, str):
        return Score(status="failed", reason=value, **about)
    if value is None:
        return Score(status="not_applicable", reason="there is nothing to compare with", **about)
    return Score(status="scored", value=value, **about)


def shifted(
    shift: float, metrics: Sequence[str] = ("rouge_l.word", "token_recall"), ids: Sequence[str] = IDS
) -> Values:
    """A value for every id that grows with its index, and is `shift` more at odd indices, half of it at others."""
    return {
        metric: {name: round(index / 100 + (shift if index % 2 else shift / 2), 4) for index, name in enumerate(ids)}
        for metric in metrics
    }


HEADLINE = [name for name in IDS if facts_of(name).headline]
"""The samples that count in the headline."""
