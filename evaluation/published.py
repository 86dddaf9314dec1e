"""What has been published, as facts (`published.json`), and whether a figure of ours may be set against it.

A published figure is comparable only where the documents, the domains, the subset, the number of queries, the query
mode and the metric's variant all agree. Everything else is shown with the differences in words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field, TypeAdapter

from corpora.types import Record
from evaluation.records import Breakdowns, Metrics, PublishedRow

Extent = Literal["full", "partial", "other", "unknown"]


class Fact(Record):
    """One published row, as printed."""

    system: str
    benchmark: str
    task: str
    query: str = Field(description="query mode")
    domains: tuple[str, ...]
    subset: str = Field(description="which queries of these domains, in words")
    dimension: str | None = Field(default=None, description="our breakdown that holds the subset; None: all queries")
    value: str | None = None
    n: int
    corpus: Literal["full"]
    metric: str = Field(description="what computed it")
    metrics: dict[str, float]
    source: str
    note: str | None = None


class Ran(Record):
    """What of a run decides whether a published row may be set beside it."""

    benchmark: str
    task: str
    query: str | None = Field(description="query mode; None where a file of another system does not say")
    domains: tuple[str, ...]
    corpora: Mapping[str, Extent] = Field(description="domain -> how much of its published corpus was searched")
    passages: Mapping[str, str] = Field(default_factory=dict, description="domain -> `N of M passages`")
    metric: str
    metrics: Metrics
    breakdowns: Breakdowns


@lru_cache(maxsize=1)
def facts() -> tuple[Fact, ...]:
    """Every published row that Turnwise knows, in the order of the file."""
    content = json.loads(Path(__file__).with_name("published.json").read_text(encoding="utf-8"))
    return TypeAdapter(tuple[Fact, ...]).validate_python(content)


def beside(ran: Ran, known: Sequence[Fact] | None = None) -> tuple[PublishedRow, ...]:
    """The published rows for what ran: those of its benchmark and task, without single domains that did not run."""
    relevant = (
        fact
        for fact in (facts() if known is None else known)
        if (fact.benchmark, fact.task) == (ran.benchmark, ran.task)
        and (len(fact.domains) > 1 or fact.domains[0] in ran.domains)
    )
    return tuple(_row(fact, ran) for fact in relevant)


def _row(fact: Fact, ran: Ran) -> PublishedRow:
    where, ours = _slice(fact, ran)
    differences = _differences(fact, ran, where, ours)
    return PublishedRow(
        system=fact.system,
        metrics=fact.metrics,
        source=fact.source,
        n=fact.n,
        subset=fact.subset,
        domains=fact.domains,
        query=fact.query,
        note=fact.note,
        comparable=not differences,
        differs=tuple(differences),
        why="; ".join(differences.values()) or None,
        slice=where,
    )


def _slice(fact: Fact, ran: Ran) -> tuple[str | None, Metrics | None]:
    """Our figures for the same queries: where they stand and what they are; None where we have none."""
    if fact.dimension is not None:
        if set(fact.domains) != set(ran.domains):
            return None, None
        part = ran.breakdowns.get(fact.dimension, {}).get(fact.value or "")
        return (f"{fact.dimension}={fact.value}", part) if part else (None, None)
    if set(fact.domains) == set(ran.domains):
        return "all", ran.metrics
    if len(fact.domains) == 1:
        return f"domain={fact.domains[0]}", ran.breakdowns.get("domain", {}).get(fact.domains[0])
    return None, None


def _differences(fact: Fact, ran: Ran, where: str | None, ours: Metrics | None) -> dict[str, str]:
    """Aspect -> what differs, in words."""
    found: dict[str, str] = {}
    shared = [domain for domain in fact.domains if domain in ran.domains]
    if not shared:
        found["domains"] = f"domains: published {', '.join(fact.domains)}, here {', '.join(ran.domains)}"
        found["documents"] = "documents: other ones were searched here"
    elif where is None and set(fact.domains) != set(ran.domains):
        found["domains"] = f"domains: published {', '.join(fact.domains)}, here {', '.join(ran.domains)}"
    if where is None and fact.dimension is not None and set(fact.domains) == set(ran.domains):
        found["subset"] = f"subset: published {fact.subset}, here no query is labelled so"
    counts = {metric.n for name, metric in (ours or {}).items() if name in fact.metrics}
    if ours is not None and counts != {fact.n}:
        found["n"] = f"n: published {fact.n} queries, here {' or '.join(map(str, sorted(counts))) or 'none'}"
    short = [domain for domain in shared if ran.corpora.get(domain, "unknown") in ("partial", "other")]
    silent = [domain for domain in shared if ran.corpora.get(domain, "unknown") == "unknown"]
    if short:
        amounts = ", ".join(f"{domain} {ran.passages.get(domain, 'in part')}" for domain in short)
        found["documents"] = f"documents: published over the full corpora, here {amounts}"
    elif silent:
        found["documents"] = "documents: published over the full corpora, the run file does not say what was searched"
    if ran.query is None:
        found["query"] = f"query: published with {fact.query}, the run file does not say what was searched for"
    elif ran.query != fact.query:
        found["query"] = f"query: published with {fact.query}, here {ran.query}"
    if ran.metric != fact.metric:
        found["metric"] = f"metric: published by {fact.metric}, here by {ran.metric}"
    return found
