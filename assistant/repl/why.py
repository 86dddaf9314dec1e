"""`/why`: how a turn came to its reply, from the reply's trace and the events that its steps reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from turnmark.assistant.session import Exchange
from turnmark.assistant.types import Event, Reply, Search
from turnmark.corpora.console import inert

MOST_SHOWN = 12


def trace_lines(exchange: Exchange) -> Iterator[str]:
    """The trace in lines, made inert; what belongs to a step is indented under it."""
    reply = exchange.reply
    yield f"question: {inert(exchange.question)}"
    yield from _understood(reply)
    for number, search in enumerate(reply.trace.searches, 1):
        yield from _search(number, search, reply)
    if not reply.trace.searches:
        yield from _found(exchange.events)
    yield from _decided(exchange)
    yield from _outcome(exchange)
    yield from _cost(reply)


def _understood(reply: Reply) -> Iterator[str]:
    understanding = reply.trace.understanding
    if understanding:
        traits = [
            name
            for name, holds in (
                ("asks for steps", understanding.wants_procedure),
                ("needs the conversation", not understanding.standalone),
                ("can be read in several ways", understanding.underspecified),
            )
            if holds
        ]
        yield f"  understood as: {', '.join([understanding.kind, *traits])}"
    if reply.rewrite and reply.rewrite != reply.question:
        yield f"  rewritten: {inert(reply.rewrite)}"
    for part in reply.sub_questions if len(reply.sub_questions) > 1 else ():
        yield f"  part ({'answered' if part.answered else 'not answered'}): {inert(part.text)}"
    for reading in understanding.readings if understanding else ():
        yield f"  reading: {inert(reading)}"


def _search(number: int, search: Search, reply: Reply) -> Iterator[str]:
    about = f", part {search.part + 1}" if search.part is not None and len(reply.sub_questions) > 1 else ""
    round_note = f", round {search.round}" if search.round > 1 else ""
    yield f"search {number}{about}{round_note}: {inert(search.why)}"
    for query in (search.query, *search.variants):
        yield f"  query: {inert(query)}"
    for rank, hit in enumerate(search.hits[:MOST_SHOWN], 1):
        cosine = "" if hit.similarity is None else f", cosine {hit.similarity:.3f}"
        yield f"  {rank:>2}. {hit.score:.4g}{cosine}  {inert(hit.id)}"
    if not search.hits:
        yield "  nothing was found"
    if len(search.hits) > MOST_SHOWN:
        yield f"  … {len(search.hits) - MOST_SHOWN} more"


def _found(events: Iterable[Event]) -> Iterator[str]:
    """What the events say was looked at, where the trace has no search: evidence that was handed in, say."""
    hits = [event.detail.get("hits") for event in events if event.step == "retrieve"]
    if hits and isinstance(hits[-1], list | tuple) and hits[-1]:
        yield "looked at"
        for rank, hit in enumerate(hits[-1], 1):
            name, score = (hit[0], hit[1]) if isinstance(hit, list | tuple) and len(hit) == 2 else (hit, None)
            figure = f"{score:.4g}  " if isinstance(score, float | int) else ""
            yield f"  {rank:>2}. {figure}{inert(name)}"


def _decided(exchange: Exchange) -> Iterator[str]:
    trace = exchange.reply.trace
    if trace.judgement is None:
        for event in exchange.events:
            if event.step == "decide" and event.text:
                yield f"decided: {inert(event.text)}"
        return
    yield f"decided: {trace.judgement.decision}, confidence {trace.judgement.confidence:.2f}"
    yield f"  because {inert(trace.judgement.reason)}"
    for missing in trace.judgement.missing:
        yield f"  missing: {inert(missing)}"
    for number, part in enumerate(trace.parts, 1):
        yield f"  part {number}: {part.decision}, confidence {part.confidence:.2f}, {inert(part.reason)}"


def _outcome(exchange: Exchange) -> Iterator[str]:
    """What stands at the end, and what the person said of it."""
    reply, checks = exchange.reply, exchange.reply.checks
    yield f"outcome: {reply.decision}"
    if checks.grounded is not None:
        yield f"  grounded: {checks.grounded:.2f}, citations {'valid' if checks.citations_valid else 'not all valid'}"
    if checks.procedure_valid is not None:
        yield f"  procedure: {'valid' if checks.procedure_valid else 'not valid'}, {len(reply.procedure)} steps"
    if checks.repaired:
        yield "  repaired once"
    if exchange.rating:
        yield f"  rated: {exchange.rating}{f' ({inert(exchange.comment)})' if exchange.comment else ''}"
    if exchange.edit is not None:
        score = f", {inert(exchange.metric)} {exchange.score:.2f} to the original" if exchange.score is not None else ""
        yield f"  edited{score}"
    for name, relevant in exchange.labels.items():
        yield f"  labelled {'relevant' if relevant else 'irrelevant'}: {inert(name)}"


def _cost(reply: Reply) -> Iterator[str]:
    yield f"parts: {inert(reply.generator)}"
    if reply.timings:
        seconds = " · ".join(f"{inert(step)} {value:.2f} s" for step, value in reply.timings.items())
        yield f"  seconds: {seconds}"
    for role, usage in reply.usage.items():
        cost = f", cost {usage.cost:.4f}" if usage.cost is not None else ""
        calls = f"{usage.calls} call{'s'[: usage.calls != 1]}"
        cached = f" ({usage.cached_tokens} cached)" if usage.cached_tokens else ""
        tokens = f"{usage.prompt_tokens}{cached} + {usage.completion_tokens} tokens"
        yield f"  {inert(role)}: {calls}, {tokens}{cost}"
    if not reply.usage:
        yield "  no language model was asked"
    if reply.trace.forms:
        yield f"  forms: {' · '.join(f'{inert(step)} {inert(form)}' for step, form in reply.trace.forms.items())}"
    for note in reply.notes:
        yield f"  note: {inert(note)}"
