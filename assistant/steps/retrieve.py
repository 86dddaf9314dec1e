"""Finding evidence: the parts of a message searched for as one batch, and what a reader is shown of it.

The raw message is always searched; rewrites and search phrases only add. What is found small is read in full and shown
once: a hit grows to its section, neighbours in a section are one source, what repeats a better hit is left out, and the
sources of a document stand together, in its order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, zip_longest

from turnmark.assistant.budget import PASSAGE_MARKS, count_tokens
from turnmark.assistant.prompts import load_prompt
from turnmark.assistant.steps.history import sections_room
from turnmark.assistant.steps.understand import Nearest, not_known, understand, with_topic
from turnmark.assistant.turn import Part, Turn
from turnmark.assistant.types import Understanding, Usage
from turnmark.corpora.text import words
from turnmark.corpora.types import Message, Passage
from turnmark.retrieval.task_passages import ranked_by
from turnmark.retrieval.types import Hit, Query, Retriever, continues, neighbours_of, section_of

MORE_PER_PART = 800
"""Tokens of sections that each further part of a message adds to what a model reads."""
SEVERAL = 2
"""Hits of one document from which their neighbours are read too."""
REPEATED = 0.8
"""Share of its pairs of neighbouring words that a better passage has, from which a passage is left out."""


def turn_query(
    understanding: Understanding, history: Sequence[Message], message: str, nearest: Nearest = not_known
) -> Query:
    """What the turn searches for: the raw message in its conversation always, and its rewrites.

    A model's rewrite, or its verdict that the message needs none, is joined by the rewrite of the rules.
    """
    rewrites = [understanding.rewrite]
    if not understanding.topic:
        rewrites.append(with_topic(history, message, nearest)[1])
    variants = tuple(text for text in dict.fromkeys(rewrites) if text != message)
    return Query(text=message, history=tuple(history), standalone=understanding.standalone, variants=variants)


def conversation_query(history: Sequence[Message], message: str, nearest: Nearest = not_known) -> Query:
    """The query of the turn without a model: what `--query assistant` measures."""
    understood = understand(history, message, nearest)
    variants = () if understood.standalone else (understood.rewrite,)
    return Query(text=message, history=tuple(history), standalone=understood.standalone, variants=variants)


class SearchOnce:
    """One search for each part, and for the message if it has several. Evidence that was handed in replaces it."""

    name = "retrieve"
    rounds = 1

    def __call__(self, turn: Turn) -> None:
        if turn.evidence is not None:
            _rate(turn, turn.evidence)
        elif turn.retriever is not None:
            _search(turn, turn.retriever)
        self.show(turn)
        turn.report_hits()

    def show(self, turn: Turn) -> None:
        """Number the evidence as it was found, the best of each part first."""
        turn.hits.clear()
        turn.number(in_turns(part.hits for part in turn.parts))


class SearchTwice(SearchOnce):
    """The same, and once more for a part whose evidence is thin."""

    rounds = 2


class SearchAndRead(SearchOnce):
    """The search, and its hits grown to the sections that a model reads."""

    def show(self, turn: Turn) -> None:
        """Number the sections: until the room for them is full."""
        turn.hits.clear()
        found = in_turns(part.hits for part in turn.parts)
        if turn.evidence is not None:
            turn.hits.extend(found)
        else:
            read_sections(turn, found, turn.config.tokens + MORE_PER_PART * (len(turn.parts) - 1))


def _rate(turn: Turn, evidence: Sequence[Hit]) -> None:
    """Evidence that was handed in, for each part with the cosines that this part has, in the order given."""
    for part in turn.parts:
        part.hits = list(evidence)
        if len(turn.parts) > 1 and turn.embed is not None:
            texts = tuple(dict.fromkeys((part.text, part.question)))
            ranked = ranked_by([hit.passage for hit in evidence], texts, turn.embed)
            lists = {hit.passage.id: hit.found for hit in ranked}
            part.hits = [hit.model_copy(update={"found": lists[hit.passage.id]}) for hit in evidence]


def _search(turn: Turn, retriever: Retriever) -> None:
    """Search for every part; in a second round only for those that have a narrower query, as a variant."""
    parts = turn.parts if turn.round == 1 else [part for part in turn.parts if part.narrower]
    queries = [_query(turn, part) for part in parts]
    compound = len(turn.parts) > 1 and turn.round == 1
    message = [_message_query(turn)] if compound else []
    results = retriever.search([*queries, *message], turn.passages)
    for part, query, hits in zip(parts, queries, results, strict=False):
        reason = "thin evidence" if turn.round > 1 else "a part of the message" if compound else "the message"
        turn.searched(query, hits, reason, turn.parts.index(part) if len(turn.parts) > 1 else None)
        earlier = part.hits if turn.round > 1 else results[-1] if compound else []
        part.hits = drop_repeats([*hits, *earlier])[: 2 * turn.passages if earlier else turn.passages]
    for query in message:
        turn.message_hits = list(results[-1])
        turn.searched(query, results[-1], "the full message")


def _message_query(turn: Turn) -> Query:
    """What is searched for a compound message as one: with a model's words for its parts, if there are some."""
    query = turn_query(turn.understanding, turn.history, turn.message, turn.nearest)
    phrases = [phrase for part in turn.parts for phrase in part.phrases]
    questions = [part.question for part in turn.parts] if phrases else []
    more = tuple(text for text in dict.fromkeys((*questions, *phrases)) if text not in query.texts())
    return query.model_copy(update={"variants": (*query.variants, *more)})


def _query(turn: Turn, part: Part) -> Query:
    """What is searched for a part: as it was typed, complete in itself, and in the words of documents."""
    understood = turn.understanding
    if len(turn.parts) == 1:
        query = turn_query(understood, turn.history, turn.message, turn.nearest)
    else:
        variants = (part.question,) if part.question != part.text else ()
        history = () if understood.standalone else turn.history
        query = Query(text=part.text, history=history, standalone=understood.standalone, variants=variants)
    more = tuple(text for text in (*part.phrases, part.narrower) if text and text not in query.texts())
    return query.model_copy(update={"variants": (*query.variants, *more)})


def in_turns(lists: Iterable[Sequence[Hit]]) -> list[Hit]:
    """The first of each list, then the second of each; each passage once."""
    return drop_repeats([hit for rank in zip_longest(*lists) for hit in rank if hit is not None])


def drop_repeats(hits: Iterable[Hit]) -> list[Hit]:
    """Hits in their order, each passage once."""
    first: dict[str, Hit] = {}
    for hit in hits:
        first.setdefault(hit.passage.id, hit)
    return list(first.values())


def read_sections(turn: Turn, found: Sequence[Hit], tokens: int, previous: str = "") -> None:
    """Take `tokens` of what was found as what a model reads, or as much as its context has room for.

    Args:
        previous: the answer that is to be changed, which the prompt shows too.
    """
    shown = grow_sections(turn.retriever, found, tokens)
    if turn.generator is not None:
        prompt, questions = load_prompt("answer", turn.prompts), [part.question for part in turn.parts]
        room = sections_room(turn.generator, prompt, turn.history, turn.message, previous, *questions)
        fitting = shown if room >= tokens else grow_sections(turn.retriever, found, room)
        if fitting != shown:
            turn.use("answer", Usage(), "sections were cut or left out: the model's context is full")
        shown = fitting
    turn.hits.extend(shown)


def grow_sections(retriever: Retriever | None, hits: Sequence[Hit], tokens: int) -> list[Hit]:
    """What a model reads of hits, best first, until `tokens` are full; the first always.

    What repeats most words of a better one is left out. In the room that is left a hit whose section runs over several
    passages grows, best first. Nothing is shown twice: neighbours in one section are one source. The sources of a
    document stand together in its order, documents in the order of their best hits.
    """
    read: list[Hit] = []
    room = tokens
    for hit in hits:
        cost = _cost(hit.passage)
        if not any(_holds(other.passage, hit.passage) for other in read) and (cost <= room or not read):
            read.append(hit)
            room -= cost
    documents: dict[str, list[Passage]] = {}
    if retriever is not None:
        one_of = {hit.passage.document: hit.passage for hit in read}
        documents = {name: neighbours_of(retriever, passage) for name, passage in one_of.items()}
        for hit in list(read):
            _grow(hit, documents[hit.passage.document], read, tokens - _used(read, documents))
        _read_around(documents, read, tokens - _used(read, documents))
    return [_joined(source) for source in _sources(read, documents)]


def _used(read: Sequence[Hit], documents: Mapping[str, Sequence[Passage]]) -> int:
    return sum(_cost(_joined(source).passage) for source in _sources(read, documents))


def _grow(hit: Hit, document: Sequence[Passage], read: list[Hit], room: int) -> None:
    """Read on in the section of a hit, in both directions, as far as there is room."""
    section = section_of(hit.passage, document)
    known = {other.passage.id for other in read}
    low = high = next((at for at, passage in enumerate(section) if passage.id == hit.passage.id), 0)
    used = 0
    for at in _outward(low, len(section)):
        passage = section[at]
        cost = 0 if passage.id in known else count_tokens(passage.text) + 1  # and what is between them
        if at not in (low - 1, high + 1) or used + cost > room:
            continue
        low, high, used = min(low, at), max(high, at), used + cost
        if passage.id not in known:
            read.append(hit.model_copy(update={"passage": passage}))


def _read_around(documents: Mapping[str, Sequence[Passage]], read: list[Hit], room: int) -> None:
    """Read what stands next to sources, in documents that several of them are from: answers run on."""
    sources = _sources(read, documents)
    counts = Counter(source[0].passage.document for source in sources)
    rank = {hit.passage.id: n for n, hit in enumerate(read)}
    for source in sorted(sources, key=lambda source: min(rank[hit.passage.id] for hit in source)):
        head, tail = source[0].passage, source[-1].passage
        if counts[head.document] < SEVERAL:
            continue
        after = [passage for passage in documents[head.document] if passage.start >= tail.end][:1]
        before = [passage for passage in documents[head.document] if passage.end <= head.start][-1:]
        for passage in (*after, *before):
            if _cost(passage) <= room and not any(_holds(other.passage, passage) for other in read):
                read.append(Hit(passage=passage, score=0.0))
                room -= _cost(passage)


def _sources(read: Sequence[Hit], documents: Mapping[str, Sequence[Passage]]) -> list[list[Hit]]:
    """Hits as they are shown: by document, in its order, neighbours in one section together."""
    names = list(dict.fromkeys(hit.passage.document for hit in read))
    place = {passage.id: n for name in names for n, passage in enumerate(documents.get(name, ()))}
    sources: list[list[Hit]] = []
    for hit in sorted(read, key=lambda hit: (names.index(hit.passage.document), hit.passage.start)):
        before = sources[-1][-1].passage if sources else None
        if before is not None and _follows(hit.passage, before, place):
            sources[-1].append(hit)
        else:
            sources.append([hit])
    return sources


def _follows(passage: Passage, before: Passage, place: Mapping[str, int]) -> bool:
    """Whether a passage goes on where the one before it ends, in the same section."""
    known = passage.document == before.document and passage.id in place and before.id in place
    return known and place[passage.id] == place[before.id] + 1 and continues(passage, before)


def _joined(source: Sequence[Hit]) -> Hit:
    best = max(source, key=lambda hit: hit.score)
    return best.model_copy(update={"passage": join_passages([hit.passage for hit in source])})


def _cost(passage: Passage) -> int:
    return count_tokens(passage.indexed_text) + PASSAGE_MARKS


def _holds(passage: Passage, other: Passage) -> bool:
    """Whether a passage says what another says: that is a part of it, or nearly a copy."""
    if passage.document == other.document:
        return passage.start <= other.start and other.end <= passage.end
    pairs = _pairs(other.text)
    return len(pairs & _pairs(passage.text)) >= REPEATED * len(pairs)


@lru_cache(maxsize=512)
def _pairs(text: str) -> frozenset[tuple[str, str]]:
    """Neighbouring words: a long text may have all words of a short one, and say something else."""
    return frozenset(pairwise(("", *words(text))))


def _outward(start: int, count: int) -> Iterator[int]:
    """Positions from a start on, what follows first: a text goes on behind its beginning."""
    for distance in range(1, count):
        yield from (at for at in (start + distance, start - distance) if 0 <= at < count)


def join_passages(passages: Sequence[Passage]) -> Passage:
    """Neighbouring passages as one: the document's characters from the first to the last, white space between them."""
    head, tail = passages[0], passages[-1]
    if len(passages) == 1:
        return head
    text = head.text
    for before, after in pairwise(passages):
        gap = after.start - before.end  # white space, of which an indent may be a part
        text += "\n" * min(gap, 2) + " " * (gap - 2) + after.text
    return head.model_copy(
        update={
            "id": f"{head.document}-{head.start}-{tail.end}",
            "text": text,
            "end": tail.end,
            "page_starts": _joined_page_starts(passages),
        }
    )


def _joined_page_starts(passages: Sequence[Passage]) -> tuple[int, ...]:
    """Where pages begin in passages that follow each other; a page may begin between two of them."""
    starts = list(passages[0].page_starts)
    for before, after in pairwise(passages):
        last = (before.page or 0) + len(before.page_starts)
        starts += [after.start] * ((after.page or 0) - last)
        starts += after.page_starts
    return tuple(starts)
