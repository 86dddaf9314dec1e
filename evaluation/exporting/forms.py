"""Samples of a finished run in the formats of others: MTRAG's official form, InspectorRAGet.

Sources: https://github.com/IBM/mt-rag-benchmark (scripts/evaluation and mtrag-human/evaluations) and
https://github.com/IBM/InspectorRAGet. No data are needed: `browse.jsonl` holds the texts. Where one is longer than what
is kept there, a passage is written without its text (whoever reads it looks it up by its id), and a message as far as
it is known; both are counts.

The official form is a task of `generation_tasks` with `predictions`. In InspectorRAGet's file a run is a model; its
scores stand under `system`, or under `composite` where judges gave them. A score that failed or does not apply has no
entry. A task's `contexts` are those of the first run; a run that saw others has its own in the `evaluations`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from turnmark.corpora.mtrag import conversation_of
from turnmark.corpora.text import strip_citations
from turnmark.evaluation.agreement.rows import sample_metrics
from turnmark.evaluation.journal import read_records
from turnmark.evaluation.passages import HIDDEN
from turnmark.evaluation.records import ContextRef, Sample, Score
from turnmark.evaluation.report.browse import FILE, Browsed, SeenPassage
from turnmark.evaluation.report.stored import StoredRun, samples, scores
from turnmark.evaluation.trec import ranked

COLLECTIONS: Mapping[str, str] = {
    "clapnq": "mt-rag-clapnq-elser-512-100-20240503",
    "cloud": "mt-rag-ibmcloud-elser-512-100-20240502",
    "fiqa": "mt-rag-fiqa-beir-elser-512-100-20240501",
    "govt": "mt-rag-govt-elser-512-100-20240611",
}
"""Domain -> the `Collection` that MTRAG's tasks and its evaluation scripts name."""

_SPEAKERS = {"user": "user", "assistant": "agent"}
FILTERS = {
    "Question Type": "question_type",
    "Multi-Turn": "multi_turn",
    "Answerability": "answerability",
    "Turn": "turn",
    "Collection": "domain",
}
"""What a reader filters by -> our dimension."""


@dataclass
class Counts:
    """What became of the samples of a run on their way out.

    Attributes:
        written: samples.
        failed: that have no answer.
        repeats: of further repeats, left out.
        hidden: with hidden passages, which no official task is; left out.
        cut: messages and references that are known in part.
        textless: passages whose text is not known, or known in part.
        silent: samples of which the folder says no more than the answer.
        by_rank: samples whose scores do not fall with the rank.
    """

    written: int = 0
    failed: int = 0
    repeats: int = 0
    hidden: int = 0
    cut: int = 0
    textless: int = 0
    silent: int = 0
    by_rank: int = 0

    def notes(self, failed: str) -> Iterator[str]:
        """A line for everything that is not as one might expect.

        Args:
            failed: what was done with samples that have no answer.
        """
        notes = {
            f"failed or skipped samples: {failed}": self.failed,
            "further repeats are left out: a file has one answer for each task": self.repeats,
            "samples with hidden passages are left out: they are no tasks of the benchmark": self.hidden,
            "messages or references are known in part, since the run keeps 4,000 characters of each": self.cut,
            "passages are written without their texts: the run does not hold them whole": self.textless,
            "samples are written without their conversations: the run has no browse.jsonl; score it again": self.silent,
            "lists have 1 / rank for a score: their own scores do not fall with the rank": self.by_rank,
        }
        return (f"{count} {description}" for description, count in notes.items() if count)


@dataclass(frozen=True)
class ExportSample:
    """A sample, and what the folder of its run says of the task."""

    sample: Sample
    browsed: Browsed | None
    counts: Counts = field(repr=False)

    @property
    def conversation(self) -> str:
        """The conversation that the task is of."""
        return conversation_of(self.sample.id)

    @property
    def turn(self) -> str:
        """What stands after the last `<::>` of a task's id: the number of its turn; empty where there is none."""
        return self.sample.id.rpartition("<::>")[2] if "<::>" in self.sample.id else ""

    @property
    def answer(self) -> str:
        """The answer with its steps, without marks of citations: what is scored."""
        from turnmark.evaluation.benchmarks.turns import with_steps

        return strip_citations(with_steps(self.sample.prediction or "", self.sample.procedure)).strip()

    def labels(self, dimension: str) -> list[str]:
        """The values of a dimension."""
        return list(self.browsed.labels.get(dimension, ())) if self.browsed else []

    def messages(self) -> list[dict[str, str]]:
        """The conversation, the question last, as `input` has it."""
        if self.browsed is None:
            self.counts.silent += 1
            return [{"speaker": "user", "text": self.sample.query}] if self.sample.query else []
        messages = [(_SPEAKERS.get(turn.role, turn.role), turn.text) for turn in self.browsed.history]
        messages.append(("user", self.browsed.question))
        self.counts.cut += sum(bool(text.left_out) for _, text in messages)
        return [{"speaker": speaker, "text": text.text} for speaker, text in messages]

    def reference(self) -> str:
        """The reference answer; empty where the data has none."""
        if self.browsed is None:
            return ""
        self.counts.cut += bool(self.browsed.reference.left_out)
        return self.browsed.reference.text

    @cached_property
    def contexts(self) -> tuple[ContextRef, ...]:
        """The passages in the order in which the system was given them, with scores that fall with the rank.

        Whoever reads a file sorts by the score; where ours are of parts that were put together, they are 1 / rank.
        """
        refs = self.sample.contexts
        if ranked(refs) == refs:
            return refs
        self.counts.by_rank += 1
        return tuple(ref.model_copy(update={"score": 1 / rank}) for rank, ref in enumerate(refs, 1))

    def passages(self) -> list[dict[str, Any]]:
        """What the system was given, best first, as `contexts` has it."""
        stored_passages = {passage.id: passage for passage in self.browsed.passages} if self.browsed else {}
        passages: list[dict[str, Any]] = []
        for ref in self.contexts:
            title, text = _text(stored_passages.get(ref.document_id), ref.title, ref.text)
            self.counts.textless += text is None
            passage = {"document_id": ref.document_id, "title": title or None, "text": text, "score": ref.score}
            passages.append({name: value for name, value in passage.items() if value is not None})
        return passages

    def relevant(self) -> list[int]:
        """Places, from 0, of the relevant ones among `passages`."""
        relevant = {passage.id for passage in self.browsed.passages if passage.relevant} if self.browsed else set()
        return [index for index, ref in enumerate(self.contexts) if ref.document_id in relevant]


def _text(stored: SeenPassage | None, title: str | None, text: str | None) -> tuple[str | None, str | None]:
    if text is None and stored is not None and stored.text is not None and not stored.text.left_out:
        text = stored.text.text
    return title or (stored.title if stored else None), text


def export_samples(run: StoredRun, counts: Counts) -> Iterator[ExportSample]:
    """Every sample of a run that is to be written, in the order of the run's tasks; the others are counts."""
    stored = {entry.key: entry for entry in read_records(run.path / FILE, Browsed)}
    by_id: dict[str, Sample] = {}
    for sample in samples(run.path):
        if sample.repeat:
            counts.repeats += 1
        elif sample.id.endswith(HIDDEN):
            counts.hidden += 1
        else:
            by_id[sample.id] = sample
    order = {name: index for index, (name, _) in enumerate(stored)}
    for name in sorted(by_id, key=lambda name: order.get(name, len(order))):
        counts.written += 1
        counts.failed += by_id[name].status != "done"
        yield ExportSample(by_id[name], stored.get((name, 0)), counts)


# --- MTRAG -----------------------------------------------------------------------------------------------------------


def official(sample: ExportSample, benchmark: str) -> dict[str, Any]:
    """A line of the official form."""
    labels = {
        "answerability" if benchmark == "mtrag-un" else "Answerability": sample.labels("answerability"),
        "Question Type": sample.labels("question_type"),
        "Multi-Turn": sample.labels("multi_turn"),
    }
    domain = sample.sample.domain or ""
    line: dict[str, Any] = {
        "conversation_id": sample.conversation,
        "task_id": sample.sample.id,
        "task_type": "rag",
        "turn": sample.turn,
        # MTRAG-UN's own tasks name the bare domain.
        "Collection": domain if benchmark == "mtrag-un" else COLLECTIONS.get(domain, domain),
        "contexts": sample.passages(),
        "input": sample.messages(),
        "targets": [{"speaker": "agent", "text": text}] if (text := sample.reference()) else [],
        **labels,
        "predictions": [{"text": sample.answer}],
    }
    return {name: value for name, value in line.items() if value or name in ("contexts", "input")}


# --- InspectorRAGet --------------------------------------------------------------------------------------------------


def evaluation(runs: Sequence[tuple[str, StoredRun]], counts: Counts) -> dict[str, Any]:
    """The whole file.

    Args:
        runs: what to call each model, and its run; all of one benchmark.
    """
    lists = _Lists()
    for name, run in runs:
        lists.add(name, run, counts)
    first = runs[0][1].summary
    return {
        "name": f"{first.benchmark} {first.task}" + (f" ({first.setting})" if first.setting else ""),
        "filters": [name for name in FILTERS if any(name in task for task in lists.tasks.values())],
        "models": lists.models,
        "metrics": [_metric(name, lists.by[name], values) for name, values in lists.values.items()],
        "documents": list(lists.documents.values()),
        "tasks": list(lists.tasks.values()),
        "evaluations": lists.evaluations,
    }


class _Lists:
    """The lists of the file so far."""

    def __init__(self) -> None:
        self.models: list[dict[str, str]] = []
        self.by: dict[str, str] = {}
        self.values: dict[str, list[float]] = {}
        self.documents: dict[str, dict[str, str]] = {}
        self.tasks: dict[str, dict[str, Any]] = {}
        self.evaluations: list[dict[str, Any]] = []

    def add(self, name: str, run: StoredRun, counts: Counts) -> None:
        """Take in a run."""
        specs = ", ".join(f"{role} {spec}" for role, spec in run.summary.specs.items() if spec)
        self.models.append({"model_id": name, "name": name, "owner": specs or "not said"})
        answered = [row for row in export_samples(run, counts) if row.sample.status == "done"]
        measured = scores(run.path, [row.sample.key for row in answered], sample_metrics(run.summary))
        for exported in answered:
            sample = exported.sample
            refs = self._passages(exported)
            task = self.tasks.setdefault(sample.id, _task(exported, refs))
            other_contexts = {} if task["contexts"] == refs else {"contexts": refs}
            self.evaluations.append({
                "task_id": sample.id,
                "model_id": name,
                "model_response": exported.answer,
                **other_contexts,
                "annotations": self._annotations(measured[sample.key], run.summary.judging),
            })  # fmt: skip

    def _passages(self, exported: ExportSample) -> list[dict[str, str]]:
        for passage in exported.passages():
            document = {"document_id": passage["document_id"], "text": passage.get("text", "")}
            earlier = self.documents.get(passage["document_id"])
            if earlier is None or not earlier["text"]:
                title = {"title": passage["title"]} if "title" in passage else {}
                self.documents[passage["document_id"]] = document | title
        return [{"document_id": ref.document_id} for ref in exported.contexts]

    def _annotations(self, measured: Mapping[str, Score], judged: Mapping[str, Any]) -> dict[str, Any]:
        annotations: dict[str, Any] = {}
        for name, score in measured.items():
            if score.value is not None:
                self.by.setdefault(name, score.by)
                self.values.setdefault(name, []).append(score.value)
                annotations[name] = {"composite" if name in judged else "system": {"value": score.value}}
        return annotations


def _task(exported: ExportSample, refs: list[dict[str, str]]) -> dict[str, Any]:
    domain = exported.sample.domain or ""
    labels: dict[str, Any] = {name: exported.labels(dimension) for name, dimension in FILTERS.items()}
    labels |= {"Turn": exported.turn, "Collection": COLLECTIONS.get(domain, domain)}
    return {
        "task_id": exported.sample.id,
        "task_type": "rag",
        "input": exported.messages(),
        "contexts": refs,
        "targets": [{"speaker": "agent", "text": text}] if (text := exported.reference()) else [],
        "annotations": {"context_relevance": {"system": exported.relevant()}},
        **{name: value for name, value in labels.items() if value},
    }


def _metric(name: str, instrument: str, values: Sequence[float]) -> dict[str, Any]:
    return {
        "name": name,
        "display_name": name,
        "description": instrument,
        "author": "algorithm",
        "type": "numerical",
        "aggregator": "average",
        "range": _range(values),
    }


def _range(values: Sequence[float]) -> list[float]:
    """From, to and step of a scale: fractions are on one from 0 to 1, all else on one that holds every value."""
    low, high = min(0.0, *values), max(1.0, *values)
    if (low, high) == (0.0, 1.0):
        return [0, 1, 0.1]
    low, high = float(math.floor(low)), float(math.ceil(high))
    return [low, high, (high - low) / 10]
