"""Queries reworded by a language model, then searched: the run of a mode that asks one.

A query is searched as soon as its wordings are there, many queries being reworded at once by the engine that answers
samples: deadlines, pace, budget and resuming are its own. A wording that does not come is left out and noted; the query
is searched all the same. Only a key that is refused fails it: then none of the queries would get a wording.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from turnmark.assistant.generators.base import Generator, GeneratorError, make_ready
from turnmark.assistant.steps import rewrites
from turnmark.assistant.types import Usage
from turnmark.corpora.console import inert, shown_progress
from turnmark.corpora.home import write_atomic
from turnmark.corpora.rows import RAW
from turnmark.corpora.text import plain
from turnmark.corpora.types import Passage
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.benchmarks.mtrag_plan import Plan
from turnmark.evaluation.benchmarks.mtrag_queries import Asking
from turnmark.evaluation.benchmarks.mtrag_retrieval import (
    DEPTH,
    Clock,
    Kept,
    Opener,
    contexts_of,
    finish,
    kept_indexes,
    open_corpus,
    queries_of,
    resume,
)
from turnmark.evaluation.budget import open_ledger
from turnmark.evaluation.engine import HOPELESS, Job, Outcome, generate
from turnmark.evaluation.limits import Bounded
from turnmark.evaluation.passages import OneAtATime
from turnmark.evaluation.records import Sample, Summary
from turnmark.evaluation.report.page import write_page
from turnmark.evaluation.rundir import RunFolder, open_run
from turnmark.retrieval.types import Query, Retriever

OPENING_WORDS = 12
QUERIES = "queries.jsonl"
"""The file of a run that holds what was searched for, as `--queries` takes it."""


class Rewording:
    """Rewords a query and searches for it. Called from many threads at once.

    Args:
        retrievers: domain -> retriever; safe to call from many threads.
    """

    def __init__(self, asking: Asking, retrievers: Mapping[str, Retriever]) -> None:
        self._asking, self._retrievers = asking, retrievers

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """The sample of an item, whose task is the query as it was typed.

        Raises:
            GeneratorError: the endpoint refuses the key: no other query would fare better.
            TurnmarkError: the retriever gave nonsense.
        """
        assert generator is not None, "a mode that asks a model is planned with one"
        query: Query = item.task
        retriever = self._retrievers[item.domain or ""]
        began, seconds = time.monotonic(), self._asking.seconds
        wordings = self._asking.mode.make(rewrites.Asked(
            generator=Bounded(generator, began + seconds, seconds),
            history=query.history,
            message=query.text,
            openings=lambda wording: openings(retriever, query, wording),
            prompts=self._asking.prompts,
            seconds=seconds,
        ))  # fmt: skip
        if not HOPELESS.isdisjoint(wordings.left_out.values()):
            raise GeneratorError("auth", "; ".join(wordings.notes), wordings.usage)
        worded = time.monotonic()
        full_query = rewrites.query_with(query.history, query.text, wordings.variants, self._asking.mode.weights)
        contexts = contexts_of(retriever, retriever.search([full_query], DEPTH)[0])
        return Sample(
            id=item.id,
            status="done",
            domain=item.domain,
            query=query.text,
            rewrite="\n".join(full_query.variants) or None,
            variants=wordings.variants,
            left_out=wordings.left_out,
            contexts=contexts,
            notes=wordings.notes,
            usage={"rewrite": wordings.usage} if wordings.usage != Usage() else {},
            timings={"rewrite": worded - began, "search": time.monotonic() - worded},
        )


def openings(retriever: Retriever, query: Query, wording: str) -> list[str]:
    """What the documents around a query are about: titles of what is found by it and its wording, each once.

    A passage without a title gives its first words.
    """
    full_query = query.model_copy(update={"variants": () if wording == query.text else (wording,)})
    hits = retriever.search([full_query], 2 * rewrites.OPENINGS)[0]
    return list(dict.fromkeys(filter(None, (_opening(hit.passage) for hit in hits))))[: rewrites.OPENINGS]


def _opening(passage: Passage) -> str:
    return " ".join((passage.title or plain(passage.text)).split()[:OPENING_WORDS])


def run_asking(
    plan: Plan, opener: Opener | None = None, kept_for_corpus: Kept | None = None
) -> tuple[Summary, Path, bool]:
    """As `mtrag_retrieval.run_eval`, for a plan whose mode asks a language model.

    Returns:
        The summary, the folder it is in, and whether the work was given up because of failures.

    Raises:
        RequestError: finished samples come from another index than would be searched now.
        TurnmarkError: the folder is in use.
    """
    asking = plan.asking
    assert asking is not None, "asked for only where the mode asks a model"
    clock = Clock()
    kept_for_corpus = kept_for_corpus or (kept_indexes if opener is None else None)
    with open_run(plan.folder, plan.manifest) as run:
        resumed = resume(plan, run, kept_for_corpus)
        items, retrievers = _open(plan, run, clock, opener or open_corpus)
        outcome = Outcome()
        if items:
            with clock.phase("search"):
                outcome = _work(plan, asking, run, items, Rewording(asking, retrievers))
        samples = [sample for query in plan.ids if (sample := run.samples.get((query, 0)))]
        write_atomic(run.path / QUERIES, "".join(recorded_rows(samples, asking.mode.weights)))
        notes = [*outcome_notes(samples), *([outcome.stopped] if outcome.stopped else [])]
        summary = finish(plan, run, clock, resumed, notes)
    write_page(plan.folder)
    return summary, plan.folder, outcome.gave_up


def _open(plan: Plan, run: RunFolder, clock: Clock, opener: Opener) -> tuple[list[Item], dict[str, Retriever]]:
    """The queries still to be searched, and a retriever for each domain that has any."""
    items: list[Item] = []
    retrievers: dict[str, Retriever] = {}
    for domain, corpus in plan.corpora.items():
        pending = queries_of(plan, run, domain)
        if not pending:
            continue
        with clock.phase("index"):
            retriever, index = opener(corpus, plan.manifest.specs["retriever"], plan.embedder)
            run.searches(domain, index)
        retrievers[domain] = OneAtATime(retriever)
        items += [Item(task_id, query, domain) for task_id, query in pending]
    return items, retrievers


def _work(plan: Plan, asking: Asking, run: RunFolder, items: Sequence[Item], rewording: Rewording) -> Outcome:
    guess = mean_sample(plan) if asking.budget is not None else None
    ledger = open_ledger(asking.spec, asking.budget, run.samples, guess)
    with shown_progress() as progress:
        progress.start(f"rewording and searching {inert(plan.manifest.benchmark)}", len(items))
        jobs = (Job(item) for item in items)
        make_ready(asking.generator)
        return generate(jobs, rewording.answer, asking.generator, run, asking.limits, ledger, progress)


def estimated(plan: Plan) -> dict[str, Any]:
    """Calls and tokens by role, were no message to stand alone; from prompts rendered with passages of the data."""
    from turnmark.evaluation.benchmarks.mtrag_queries import NoQuery
    from turnmark.evaluation.budget import estimate
    from turnmark.evaluation.passages import FirstPassages

    assert plan.asking is not None, "asked for only where the mode asks a model"
    assert plan.queries is not None, "a plan of plan_eval has queries"
    retrievers: dict[str, Retriever] = {name: FirstPassages(path) for name, path in plan.corpora.items()}
    items: list[Item] = []
    for task_id, domain in plan.ids.items():
        try:
            items.append(Item(task_id, plan.queries.query(task_id), domain))
        except NoQuery:
            continue
    return estimate(items, len(items), Rewording(plan.asking, retrievers).answer, plan.asking.generator)


def mean_sample(plan: Plan) -> Usage:
    """What one query takes by the estimate."""
    used = estimated(plan).values()
    prompt, completion = (sum(usage[key] for usage in used) for key in ("prompt_tokens", "completion_tokens"))
    n = max(1, len(plan.ids))
    return Usage(prompt_tokens=prompt // n, completion_tokens=completion // n)


def recorded_rows(samples: Iterable[Sample], weights: Mapping[str, float]) -> Iterable[str]:
    """What was searched for, a line of a query file each; see `turnmark.corpora.rows`. Queries that failed have
    none.
    """
    for sample in samples:
        if sample.status != "done":
            continue
        row: dict[str, Any] = {"_id": sample.id, "text": sample.query, "variants": dict(sample.variants)}
        if weights and sample.variants:
            row["weights"] = {name: weights.get(name, 1.0) for name in (RAW, *sample.variants)}
        yield json.dumps(row, ensure_ascii=True) + "\n"


def outcome_notes(samples: Sequence[Sample]) -> list[str]:
    """How many queries were searched as typed, and which wordings did not come, why, and how often."""
    done_samples = [sample for sample in samples if sample.status == "done"]
    notes: list[str] = []
    needless = sum(not sample.variants and not sample.left_out for sample in done_samples)
    if needless:
        notes.append(f"{needless} of {len(done_samples)} queries need no rewrite: they were searched as typed")
    bare = [sample for sample in done_samples if sample.left_out and not sample.variants]
    if bare:
        reasons = Counter(reason for sample in bare for reason in set(sample.left_out.values()))
        notes.append(f"{len(bare)} of {len(done_samples)} queries were searched without a rewrite: {_counted(reasons)}")
    partly: dict[str, Counter[str]] = {}
    for sample in done_samples:
        for name, reason in sample.left_out.items() if sample.variants else ():
            partly.setdefault(name, Counter())[reason] += 1
    for name, reasons in partly.items():
        notes.append(f"{name} was left out of {reasons.total()} of {len(done_samples)} queries: {_counted(reasons)}")
    return notes


def _counted(reasons: Counter[str]) -> str:
    return ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in reasons.most_common())
