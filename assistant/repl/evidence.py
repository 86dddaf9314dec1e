"""`/relevant` and `/irrelevant`: the person repairs the passages, and the turn is answered again from what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from turnmark.assistant.session import Exchange, Labelled
from turnmark.assistant.types import Citation
from turnmark.corpora.console import shown
from turnmark.corpora.errors import RequestError
from turnmark.corpora.types import Passage
from turnmark.retrieval.types import Hit, Query

if TYPE_CHECKING:
    from turnmark.assistant.repl.chat import Chat


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
    found = {hit.id: hit.score for search in exchange.reply.trace.searches for hit in search.hits}
    passages = _stored(chat, list(found))
    return tuple(_citation(n, passages[name], found[name]) for n, name in enumerate(filter(passages.get, found), 1))


def _label(chat: Chat, command: str, argument: str, value: bool) -> None:
    last = chat.need_last()
    there = candidates(chat, last)
    if not there:
        raise RequestError(f"{command}: the last answer rests on no sources")
    words = argument.replace(",", " ").split()
    if not words:
        raise RequestError(f"{command}: which? Give numbers of /sources, 1 to {len(there)}")
    wrong = [word for word in words if not (word.isdecimal() and len(word) < 10 and 1 <= int(word) <= len(there))]
    if wrong:
        raise RequestError([f"{command} {shown(word)}: there are sources 1 to {len(there)}" for word in wrong])
    chosen = [there[int(word) - 1] for word in dict.fromkeys(words)]
    chat.record(
        Labelled(turn=last.turn, labels={one.id: value for one in chosen}, passages=tuple(dict.fromkeys(chosen)))
    )
    hits, trusted = _repaired(chat, there)
    chat.say(f"answered again from {len(hits)} passage{'s'[: len(hits) != 1]}:", style="dim")
    chat.answer_again("evidence", hits, trusted)


def _repaired(chat: Chat, there: Sequence[Citation]) -> tuple[list[Hit], bool]:
    """The evidence as the labels leave it, and whether a person vouches for it.

    What is labelled relevant, if anything is. Else what is not labelled irrelevant, filled up to as many passages as
    there were with the next that the retriever finds.
    """
    last = chat.need_last()
    known = {citation.id: citation for citation in (*last.seen, *there)}
    good = [known[name] for name, label in last.labels.items() if label and name in known]
    if good:
        return _hits(chat, good), True
    kept = [citation for citation in there if last.labels.get(citation.id) is not False]
    hits = _hits(chat, kept)
    wanted = min(len(there), max(chat.assistant.passages, len(kept)))
    if chat.assistant.retriever is not None and len(hits) < wanted:
        before = chat.conversation.history(len(chat.conversation.exchanges) - 1)
        variants = (last.reply.rewrite,) if last.reply.rewrite not in ("", last.question) else ()
        query = Query(text=last.question, history=tuple(before), variants=variants)
        found = chat.assistant.retriever.search([query], wanted + len(last.labels))[0]
        scored = {hit.passage.id: hit for hit in found}
        hits = [scored.get(hit.passage.id, hit) for hit in hits]
        new = [hit for hit in found if hit.passage.id not in last.labels and hit.passage.id not in {c.id for c in kept}]
        hits += new[: wanted - len(hits)]
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
