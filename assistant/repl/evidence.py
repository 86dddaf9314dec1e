"""`/relevant` and `/irrelevant`: the person repairs the passages, and the turn is answered again from what is left."""

from __future__ import annotations

from collections.abc import Sequence

from turnmark.assistant.repl.chat import Chat
from turnmark.assistant.session import Exchange, Labelled
from turnmark.assistant.types import Citation
from turnmark.corpora.console import inert
from turnmark.corpora.errors import RequestError
from turnmark.corpora.types import Passage
from turnmark.retrieval.types import Hit, Query


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
    return tuple(_citation(n, passages[name], scores[name]) for n, name in enumerate(filter(passages.get, scores), 1))


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
    return [Hit(passage=stored.get(citation.id) or _passage(citation), score=citation.score) for citation in citations]


def _stored(chat: Chat, names: list[str]) -> dict[str, Passage]:
    """The passages of the index by id, as far as it has them."""
    if chat.opened is None or not names:
        return {}
    store = chat.opened.index.store
    rows = store.rows_of(names)
    return {passage.id: passage for passage in store.by_rows(list(rows.values()))}


def _passage(citation: Citation) -> Passage:
    return Passage(
        id=citation.id, document=citation.document, title=citation.title, text=citation.text, start=citation.start,
        end=citation.end, path=citation.path, page=citation.page,
    )  # fmt: skip


def _citation(n: int, passage: Passage, score: float) -> Citation:
    return Citation(
        n=n, id=passage.id, document=passage.document, title=passage.title, path=passage.path, page=passage.page,
        start=passage.start, end=passage.end, text=passage.text, score=score,
    )  # fmt: skip
