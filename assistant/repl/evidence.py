"""What the last answer rests on: its trace for `/why`; `/relevant` and `/irrelevant`, by which a person repairs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from turnmark.assistant.repl.chat import Chat
from turnmark.assistant.session import Exchange, Labelled, passage_of
from turnmark.assistant.types import Citation, Event, Reply, Search
from turnmark.corpora.console import inert
from turnmark.corpora.errors import RequestError
from turnmark.corpora.types import Passage
from turnmark.retrieval.types import Hit, Query

MOST_SHOWN = 12


def trace_lines(exchange: Exchange) -> Iterator[str]:
    """The trace in lines, made inert; what belongs to a step is indented under it."""
    reply = exchange.reply
    yield f"question: {inert(exchange.question)}"
    yield from _understood(reply)
    for number, search in enumerate(reply.trace.searches, 1):
        yield from _search(number, search, reply)
    if not reply.trace.searches:
        yield from _given(exchange.events)
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


def _given(events: Iterable[Event]) -> Iterator[str]:
    """What was looked at where nothing was searched, since the evidence was handed in."""
    hits = [event.detail["hits"] for event in events if event.step == "retrieve" and event.detail.get("hits")]
    if hits:
        yield "looked at"
        for rank, (name, score) in enumerate(hits[-1], 1):
            yield f"  {rank:>2}. {score:.4g}  {inert(name)}"


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


def relevant(chat: Chat, argument: str) -> None:
    """These passages belong to the question: answer from them, and from nothing else."""
    _label(chat, "/relevant", argument, True)


def irrelevant(chat: Chat, argument: str) -> None:
    """These passages do not belong to the question: answer without them."""
    _label(chat, "/irrelevant", argument, False)


def candidates(chat: Chat, exchange: Exchange) -> tuple[Citation, ...]:
    """The passages that numbers mean: those the answer rests on; where it rests on none, what was found."""
    if exchange.reply.citations or exchange.reply.decision == "converse":
        return exchange.reply.citations
    scores = {hit.id: hit.score for search in exchange.reply.trace.searches for hit in search.hits}
    passages = _stored(chat, list(scores))
    return tuple(
        Citation(n=n, score=scores[name], **passages[name].model_dump(include=set(Citation.model_fields)))
        for n, name in enumerate(filter(passages.get, scores), 1)
    )


def _label(chat: Chat, command: str, argument: str, relevant: bool) -> None:
    last = chat.need_last()
    sources = candidates(chat, last)
    if not sources:
        raise RequestError(f"{command}: the last answer rests on no sources")
    numbers = argument.replace(",", " ").split()
    if not numbers:
        raise RequestError(f"{command}: which? Give numbers of /sources, 1 to {len(sources)}")
    invalid = [text for text in numbers if not (text.isdecimal() and len(text) < 10 and 1 <= int(text) <= len(sources))]
    if invalid:
        raise RequestError([f"{command} {inert(text)}: there are sources 1 to {len(sources)}" for text in invalid])
    labelled = [sources[int(text) - 1] for text in dict.fromkeys(numbers)]
    labels = {citation.id: relevant for citation in labelled}
    chat.record(Labelled(turn=last.turn, labels=labels, passages=tuple(dict.fromkeys(labelled))))
    hits, trusted = _repaired(chat, sources)
    chat.say(f"answered again from {len(hits)} passage{'s'[: len(hits) != 1]}:", style="dim")
    chat.answer_again("evidence", hits, trusted)


def _repaired(chat: Chat, sources: Sequence[Citation]) -> tuple[list[Hit], bool]:
    """The evidence as the labels leave it, and whether a person vouches for it.

    What is labelled relevant, if anything is. Else what is not labelled irrelevant, filled up to as many passages as
    there were with the next that the retriever finds.
    """
    last = chat.need_last()
    by_id = {citation.id: citation for citation in (*last.seen, *sources)}
    relevant = [by_id[name] for name, label in last.labels.items() if label and name in by_id]
    if relevant:
        return _hits(chat, relevant), True
    remaining = [citation for citation in sources if last.labels.get(citation.id) is not False]
    hits = _hits(chat, remaining)
    count = min(len(sources), max(chat.assistant.passages, len(remaining)))
    if chat.assistant.retriever is not None and len(hits) < count:
        variants = (last.reply.rewrite,) if last.reply.rewrite not in ("", last.question) else ()
        query = Query(text=last.question, history=tuple(chat.history_before_last()), variants=variants)
        results = chat.assistant.retriever.search([query], count + len(last.labels))[0]
        scored = {hit.passage.id: hit for hit in results}
        hits = [scored.get(hit.passage.id, hit) for hit in hits]
        used = {citation.id for citation in remaining} | set(last.labels)
        hits += [hit for hit in results if hit.passage.id not in used][: count - len(hits)]
    return hits, False


def _hits(chat: Chat, citations: Sequence[Citation]) -> list[Hit]:
    stored = _stored(chat, [citation.id for citation in citations])
    return [
        Hit(passage=stored.get(citation.id) or passage_of(citation), score=citation.score) for citation in citations
    ]


def _stored(chat: Chat, names: list[str]) -> dict[str, Passage]:
    """The passages of the index by id, as far as it has them."""
    if chat.opened is None or not names:
        return {}
    store = chat.opened.index.store
    rows = store.rows_of(names)
    return {passage.id: passage for passage in store.by_rows(list(rows.values()))}
