"""The retrieve step: search for all parts of a message in one batch, and grow the hits to the sections a model reads.

The raw message is always searched; rewrites and search phrases only add to it. For a model, a hit grows to its section,
adjacent passages of a section become one source, a passage that repeats a better hit is left out, and the sources
of a document follow each other in the document's order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, zip_longest

from turnmark.assistant.llm.prompts.context_budget import PASSAGE_MARK_TOKENS, count_tokens
from turnmark.assistant.llm.prompts.history import sections_room
from turnmark.assistant.llm.prompts.prompt_files import load_prompt
from turnmark.assistant.steps.retrieve.definitions import definition_hits
from turnmark.assistant.steps.retrieve.long_tables import limit_rows
from turnmark.assistant.steps.step_results import Evidence, Part, PartEvidence, UnderstoodMessage
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.steps.understand.understand_rules import insert_topic, topic_terms, understand, with_topic
from turnmark.assistant.types import Understanding, Usage
from turnmark.assistant.wording.phrases import defined_subject
from turnmark.core.grouping import group_pairs, runs
from turnmark.corpora.tables.markdown_tables import tables_of
from turnmark.corpora.text.function_words import language_of
from turnmark.corpora.text.segmentation import words
from turnmark.corpora.types import Message, Passage
from turnmark.retrieval.search.task_passages import ranked_by
from turnmark.retrieval.tables.table_store import TableStore
from turnmark.retrieval.types import Hit, Query, Retriever, continues, section_of

TOKENS_PER_FURTHER_PART = 800
"""Tokens of sections that each further part of a message adds to the limit."""
TABLE_SEARCH_DEPTH = 30
"""Number of hits whose tables are kept, since the vector of a passage says little about one row of its table."""
MIN_HITS, MAX_HITS_WITHOUT_PHRASE, HITS_PER_PHRASE = 3, 6, 3
"""Minimum hits that are shown; maximum hits that are kept if no search phrase finds them; hits of a phrase that count
as found."""
MAX_HITS_IN_OTHER_LANGUAGE = 2
"""Maximum hits without a search phrase in the language of a question that is not the main one of the documents."""
MIN_FILLED_SHARE = 0.6
"""Share of the room that sections fill before further hits are only named."""
MIN_SOURCES_TO_EXTEND = 2
"""Minimum sources from one document for which the passages next to them are read, too."""
MIN_REPEATED_SHARE = 0.8
"""Minimum share of a passage's word pairs in a better passage. From there on it is left out as a repetition."""


def turn_query(
    understanding: Understanding,
    history: Sequence[Message],
    message: str,
    languages: tuple[str, ...] = (),
) -> Query:
    """Return the query of a message: the raw message with its conversation, and its rewrites as variants.

    If a model understood the message, the rewrite by rules is added to its own.
    """
    rewrites = [understanding.rewrite]
    if not understanding.topic:
        rewrites.append(with_topic(history, message, languages)[1])
    variants = tuple(text for text in dict.fromkeys(rewrites) if text != message)
    topic = topic_terms(history, languages) if understanding.standalone else ()
    in_context = insert_topic(message, topic) if topic else ""
    return Query(
        text=message,
        history=tuple(history),
        standalone=understanding.standalone,
        variants=variants,
        in_context=in_context,
    )


def conversation_query(
    history: Sequence[Message],
    message: str,
    languages: tuple[str, ...] = (),
) -> Query:
    """Return the query of a turn without a model, which `--query assistant` measures."""
    return turn_query(understand(history, message, languages), history, message, languages)


class SingleSearch:
    """Retrieve step that searches once for each part, and once for a compound message as a whole.

    Given evidence replaces the search.
    """

    name = "retrieve"
    depth = 0
    """Number of hits among which tables are looked for (`Part.tables`); 0: only the evidence."""

    def __call__(self, turn: Turn, understood: UnderstoodMessage, /) -> Evidence:
        retriever = turn.retriever
        if turn.evidence is not None:
            found = _use_given_evidence(turn, understood.parts, turn.evidence)
        elif retriever is None:
            found = Evidence(tuple(PartEvidence(**vars(part)) for part in understood.parts))
        else:
            found = _search_parts(turn, retriever, understood, max(turn.top_k, self.depth))
            found = replace(found, parts=tuple(self.sift(turn, retriever, understood, part) for part in found.parts))
        return replace(found, hits=tuple(self.choose_evidence(turn, found.parts)))

    def sift(self, turn: Turn, retriever: Retriever, understood: UnderstoodMessage, part: PartEvidence) -> PartEvidence:  # noqa: ARG002
        """Return a part that was searched for with the hits that are kept, and with further ones."""
        return part

    def choose_evidence(self, turn: Turn, parts: Sequence[PartEvidence]) -> Sequence[Hit]:  # noqa: ARG002
        """Return the evidence in the order of its numbers, the best hit of each part first."""
        return hits_of_parts(parts)


class QuotableSearch(SingleSearch):
    """Retrieve step for quotations, which adds definitions, and keeps tables from lower ranks."""

    depth = TABLE_SEARCH_DEPTH

    def sift(self, turn: Turn, retriever: Retriever, understood: UnderstoodMessage, part: PartEvidence) -> PartEvidence:  # noqa: ARG002
        """Add definitions of what the part asks about."""
        subject = defined_subject(part.text, turn.languages)
        defined = definition_hits(turn, subject) if subject else []
        return replace(part, hits=tuple(drop_copies([*part.hits, *defined])))


class SectionSearch(SingleSearch):
    """Retrieve step for a large model, with one search whose hits grow to full sections."""

    tokens_share = 1.0
    """Share of the limit of tokens that the sections may have."""
    adds_adjacent = True
    """Whether passages next to the sections are shown, too."""

    def sift(self, turn: Turn, retriever: Retriever, understood: UnderstoodMessage, part: PartEvidence) -> PartEvidence:
        """Keep the first hits, the first hit of each search phrase, and further hits that a phrase found, too.

        The fusion loses a section that only one phrase finds. If the question is in another language than most
        documents, the few pages in its language come first, whatever they are about, so that phrases count for more.
        """
        if not part.phrases:
            return part
        queries = [Query(text=phrase, standalone=True, where=understood.where) for phrase in part.phrases]
        results = retriever.search(queries, HITS_PER_PHRASE)
        found = {hit.passage.id for hits in results for hit in hits}
        in_other = bool(turn.languages) and turn.language != turn.languages[0]
        ranked = _limit_language(part.hits, turn, found) if in_other else part.hits
        kept = [hit for rank, hit in enumerate(ranked) if rank < MAX_HITS_WITHOUT_PHRASE or hit.passage.id in found]
        lowest = min((hit.score for hit in kept), default=0.0)  # scores of another search cannot be compared
        added = [hit for hits in results for hit in hits[: HITS_PER_PHRASE if in_other else 1]]
        known = {hit.passage.id for hit in kept}
        new = [hit.model_copy(update={"score": lowest}) for hit in added if hit.passage.id not in known]
        return replace(part, hits=tuple(drop_copies([*kept[:MIN_HITS], *new, *kept[MIN_HITS:]])))

    def choose_evidence(self, turn: Turn, parts: Sequence[PartEvidence]) -> Sequence[Hit]:
        """Return the sections, within the limit of tokens; given evidence stays as it is."""
        hits = self.hits_to_read(parts)
        if turn.evidence is not None:
            return hits
        long = self.long_tables(turn)
        tokens = round(self.tokens_share * (turn.config.tokens + TOKENS_PER_FURTHER_PART * (len(parts) - 1)))
        shown = {hit.passage.id for hit in hits}
        further = [hit for hit in self.further_hits(parts) if hit.passage.id not in shown]
        while True:
            few = limit_rows(long, hits) if long else hits
            if not further or self._fills(turn, few, tokens, long):
                return read_sections(turn, parts, few, tokens, long=long, adjacent=self.adds_adjacent)
            hits = [*hits, further.pop(0)]

    def _fills(self, turn: Turn, hits: Sequence[Hit], tokens: int, long: TableStore | None) -> bool:
        """Return whether the sections of hits use so much of the room that further hits are only named."""
        sections = grow_sections(turn.retriever, hits, tokens, long, adjacent=self.adds_adjacent)
        return sum(_token_cost(hit.passage) for hit in sections) >= MIN_FILLED_SHARE * tokens

    def hits_to_read(self, parts: Sequence[PartEvidence]) -> list[Hit]:
        """Return the hits to show, best first."""
        return hits_of_parts(parts)

    def further_hits(self, parts: Sequence[PartEvidence]) -> Sequence[Hit]:  # noqa: ARG002
        """Return the hits that are shown only while there is room."""
        return ()

    def long_tables(self, turn: Turn) -> TableStore | None:  # noqa: ARG002
        """Return the tables that are shown in part if they are long, or None if sections contain all rows."""
        return None


def _limit_language(hits: Sequence[Hit], turn: Turn, found: Collection[str]) -> list[Hit]:
    """Return hits with at most `MAX_HITS_IN_OTHER_LANGUAGE` in the language of the message.

    Args:
        found: ids of passages that stay, since a search phrase found them.
    """
    kept: list[Hit] = []
    room = MAX_HITS_IN_OTHER_LANGUAGE
    for hit in hits:
        is_counted = hit.passage.id not in found and language_of(hit.passage.text, turn.languages) == turn.language
        room -= is_counted
        if room >= 0 or not is_counted:
            kept.append(hit)
    return kept


def hits_of_parts(parts: Sequence[PartEvidence]) -> list[Hit]:
    """Return what the searches for the parts of a message found, the best hit of each part first."""
    return interleave(part.hits for part in parts)


def _use_given_evidence(turn: Turn, parts: Sequence[Part], evidence: Sequence[Hit]) -> Evidence:
    """Assign the given evidence to each part, in its order. If there are several parts, each gets its own
    similarities."""
    found = []
    for part in parts:
        hits = list(evidence)
        if len(parts) > 1 and turn.embed is not None:
            texts = tuple(dict.fromkeys((part.text, part.question)))
            ranked = ranked_by([hit.passage for hit in evidence], texts, turn.embed)
            found_by_id = {hit.passage.id: hit.found for hit in ranked}
            hits = [hit.model_copy(update={"found": found_by_id[hit.passage.id]}) for hit in evidence]
        found.append(PartEvidence(**vars(part), hits=tuple(hits)))
    return Evidence(tuple(found))


def _tables(further: Sequence[Hit], hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Return the further hits that contain table rows and belong to the documents of the hits."""
    documents = {hit.passage.document for hit in hits}
    known = {hit.passage.id for hit in hits}
    return tuple(
        hit
        for hit in drop_repeats(further)
        if hit.passage.id not in known and hit.passage.document in documents and tables_of(hit.passage.text)
    )


def _search_parts(turn: Turn, retriever: Retriever, understood: UnderstoodMessage, depth: int) -> Evidence:
    """Search for each part of a message, and for a compound message also as a whole.

    Args:
        depth: hits to find for a part, of which the first `turn.top_k` are its evidence.
    """
    is_compound = len(understood.parts) > 1
    queries = [_query(turn, understood, part) for part in understood.parts]
    of_message = [_message_query(turn, understood)] if is_compound else []
    results = retriever.search([*queries, *of_message], depth)
    message_hits = results[-1][: turn.top_k] if is_compound else []
    why = "a part of the message" if is_compound else "the message"
    parts = []
    for number, (part, query) in enumerate(zip(understood.parts, queries, strict=True)):
        ranked = drop_copies(results[number])
        found, further = ranked[: turn.top_k], ranked[turn.top_k :]
        turn.searched(query, found, why, number if is_compound else None)
        hits = drop_copies([*found, *message_hits])[: 2 * turn.top_k]
        parts.append(PartEvidence(**vars(part), hits=tuple(hits), tables=_tables(further, hits)))
    for query in of_message:
        turn.searched(query, message_hits, "the full message")
    return Evidence(tuple(parts), message_hits=tuple(message_hits))


def _whole_query(turn: Turn, understood: UnderstoodMessage) -> Query:
    """Return `turn_query` for the message of a turn."""
    query = turn_query(understood.understanding, turn.history, understood.asked, turn.languages)
    return query.model_copy(update={"where": understood.where})


def _message_query(turn: Turn, understood: UnderstoodMessage) -> Query:
    """Return one query for a compound message, with a model's questions and search phrases as variants."""
    phrases = [phrase for part in understood.parts for phrase in part.phrases]
    questions = [part.question for part in understood.parts] if phrases else []
    return _with_variants(_whole_query(turn, understood), dict.fromkeys((*questions, *phrases)))


def _query(turn: Turn, understood: UnderstoodMessage, part: Part) -> Query:
    """Return the query of a part: as typed, with its complete question and its search phrases as variants."""
    if len(understood.parts) == 1:
        query = _whole_query(turn, understood)
    else:
        variants = (part.question,) if part.question != part.text else ()
        standalone = understood.understanding.standalone
        history = () if standalone else turn.history
        query = Query(text=part.text, history=history, standalone=standalone, variants=variants, where=understood.where)
    return _with_variants(query, part.phrases)


def _with_variants(query: Query, texts: Iterable[str]) -> Query:
    """Add texts to the variants of a query, except those that it already has."""
    known = query.texts()
    variants = [text for text in texts if text not in known]
    return query.model_copy(update={"variants": (*query.variants, *variants)})


_NAVIGATION_PAGE = re.compile(r"(?:.*/)?_(?:menu|sidebar|navbar|nav|toc|header|footer)\.\w+", re.IGNORECASE)


def is_navigation(passage: Passage) -> bool:
    """Return whether a passage belongs to a page of a wiki or site that only has links, such as `_Sidebar.md`."""
    return _NAVIGATION_PAGE.fullmatch(passage.as_stored().document) is not None


def interleave(lists: Iterable[Sequence[Hit]]) -> list[Hit]:
    """Interleave lists of hits: the first hit of each list, then the second of each; each passage once."""
    interleaved = [hit for same_rank in zip_longest(*lists) for hit in same_rank if hit is not None]
    return drop_repeats(interleaved)


def drop_repeats(hits: Iterable[Hit]) -> list[Hit]:
    """Return hits in their order, each passage once."""
    return [same[0] for same in group_pairs((hit.passage.id, hit) for hit in hits).values()]


def drop_copies(hits: Iterable[Hit]) -> list[Hit]:
    """Return what a search found in its order, each text once: copies of a document have the same passages."""
    return [same[0] for same in group_pairs((hit.passage.indexed_text, hit) for hit in hits).values()]


def read_sections(
    turn: Turn,
    parts: Sequence[Part],
    hits: Sequence[Hit],
    tokens: int,
    previous: str = "",
    *,
    long: TableStore | None = None,
    adjacent: bool = True,
) -> list[Hit]:
    """Return the sections of hits, within `tokens` and within the room of the model's context.

    Args:
        parts: the questions, which the prompt shows as well.
        hits: best first.
        previous: the answer to revise, which the prompt shows as well.
        long, adjacent: see `grow_sections`.
    """
    sections = grow_sections(turn.retriever, hits, tokens, long, adjacent=adjacent)
    if turn.generator is not None:
        prompt = load_prompt("answer", turn.prompts)
        questions = [part.question for part in parts]
        room = sections_room(turn.generator, prompt, turn.history, turn.message, previous, *questions)
        if room < tokens:
            fitting = grow_sections(turn.retriever, hits, room, long, adjacent=adjacent)
            if fitting != sections:
                turn.use("answer", Usage(), "sections were cut or left out: the model's context is full")
            sections = fitting
    return sections


def grow_sections(
    retriever: Retriever | None,
    hits: Sequence[Hit],
    tokens: int,
    long: TableStore | None = None,
    *,
    adjacent: bool = True,
) -> list[Hit]:
    """Return the sections that a model reads, made from hits within `tokens`; the first hit is always included.

    A hit that repeats a better one is left out. Within the remaining tokens, hits grow to their sections, best first,
    and passages next to their sections are added. Adjacent passages of a section become one source. The sources of a
    document keep its order, and documents are ordered by their best hits.

    Args:
        retriever: finds the passages next to a hit, or None if hits do not grow.
        hits: best first.
        long: the tables to whose rows hits do not grow, or None if they grow to all passages.
        adjacent: whether passages next to the sections are added.
    """
    read: list[Hit] = []
    room = tokens
    for hit in hits:
        cost = _token_cost(hit.passage)
        is_repetition = any(repeats(hit.passage, better.passage) for better in read)
        if not is_repetition and (cost <= room or not read):
            read.append(hit)
            room -= cost
    documents: dict[str, list[Passage]] = {}  # all passages of each document that was read
    if retriever is not None:
        passage_of_document = {hit.passage.document: hit.passage for hit in read}
        documents = {name: retriever.neighbors(passage) for name, passage in passage_of_document.items()}
        for hit in list(read):
            room = tokens - _tokens_used(read, documents)
            _extend_section(hit, documents[hit.passage.document], read, room, long)
        if adjacent:
            _add_adjacent_passages(documents, read, tokens - _tokens_used(read, documents))
    return [join_source(source) for source in group_sources(read, documents)]


def _tokens_used(read: Sequence[Hit], documents: Mapping[str, Sequence[Passage]]) -> int:
    """Return the tokens of the sources of hits."""
    return sum(_token_cost(join_source(source).passage) for source in group_sources(read, documents))


def _extend_section(hit: Hit, document: Sequence[Passage], read: list[Hit], room: int, long: TableStore | None) -> None:
    """Add the passages around a hit in its section to `read`, in both directions, within `room` tokens.

    Args:
        long: the tables at whose rows the section is not read on.
    """
    section = section_of(hit.passage, document)
    read_ids = {other.passage.id for other in read}
    start = next((position for position, passage in enumerate(section) if passage.id == hit.passage.id), 0)
    first = last = start
    used = 0
    for position in sorted(range(len(section)), key=lambda at: (abs(at - start), at < start))[1:]:
        passage = section[position]
        cost = 0 if passage.id in read_ids else count_tokens(passage.text) + 1  # 1 for the white space between them
        if position not in (first - 1, last + 1) or used + cost > room:
            continue
        if long is not None and long.long_table_of(passage):
            continue
        first = min(first, position)
        last = max(last, position)
        used += cost
        if passage.id not in read_ids:
            read.append(hit.model_copy(update={"passage": passage}))


def _add_adjacent_passages(documents: Mapping[str, Sequence[Passage]], read: list[Hit], room: int) -> None:
    """Add the passages after and before each source to `read`, within `room` tokens, best source first.

    Only in documents of several sources: there the answer often continues in the text next to them.
    """
    sources = group_sources(read, documents)
    counts = Counter(source[0].passage.document for source in sources)
    rank = {hit.passage.id: position for position, hit in enumerate(read)}
    for source in sorted(sources, key=lambda source: min(rank[hit.passage.id] for hit in source)):
        first = source[0].passage
        last = source[-1].passage
        if counts[first.document] < MIN_SOURCES_TO_EXTEND:
            continue
        after = [passage for passage in documents[first.document] if passage.start >= last.end]
        before = [passage for passage in documents[first.document] if passage.end <= first.start]
        for passage in (*after[:1], *before[-1:]):
            cost = _token_cost(passage)
            if cost <= room and not any(repeats(passage, other.passage) for other in read):
                read.append(Hit(passage=passage, score=0.0))
                room -= cost


def group_sources(read: Sequence[Hit], documents: Mapping[str, Sequence[Passage]]) -> list[list[Hit]]:
    """Group hits into sources: ordered by document and place in it, with adjacent passages of a section together."""
    names = list(dict.fromkeys(hit.passage.document for hit in read))
    # id of a passage -> position in its document
    positions = {passage.id: at for name in names for at, passage in enumerate(documents.get(name, ()))}
    ordered = sorted(read, key=lambda hit: (names.index(hit.passage.document), hit.passage.start))
    return runs(ordered, lambda before, hit: _follows(hit.passage, before.passage, positions))


def _follows(passage: Passage, before: Passage, positions: Mapping[str, int]) -> bool:
    """Return whether a passage comes directly after another in the same section."""
    if passage.document != before.document or passage.id not in positions or before.id not in positions:
        return False
    return positions[passage.id] == positions[before.id] + 1 and continues(passage, before)


def join_source(source: Sequence[Hit]) -> Hit:
    """Join the passages of a source into one hit, with the score of the best."""
    best = max(source, key=lambda hit: hit.score)
    return best.model_copy(update={"passage": join_passages([hit.passage for hit in source])})


def _token_cost(passage: Passage) -> int:
    return count_tokens(passage.indexed_text) + PASSAGE_MARK_TOKENS


def repeats(passage: Passage, other: Passage) -> bool:
    """Return whether a passage is a part of another one in the same document, or a near-copy of one in another
    document."""
    if passage.document == other.document:
        return other.start <= passage.start and passage.end <= other.end
    pairs = _word_pairs(passage.text)
    return len(pairs & _word_pairs(other.text)) >= MIN_REPEATED_SHARE * len(pairs)


@lru_cache(maxsize=512)
def _word_pairs(text: str) -> frozenset[tuple[str, str]]:
    """Return the pairs of adjacent words. Single words are not enough: a long text may have all words of a short one
    but say something else."""
    return frozenset(pairwise(("", *words(text))))


def join_passages(passages: Sequence[Passage]) -> Passage:
    """Join consecutive passages into one that covers the document from the first to the last.

    White space between them, which passages do not contain, becomes line breaks and spaces of the same length.
    """
    first = passages[0]
    last = passages[-1]
    if len(passages) == 1:
        return first
    text = first.text
    for before, after in pairwise(passages):
        gap = after.start - before.end  # may include an indent
        text += "\n" * min(gap, 2) + " " * (gap - 2) + after.text
    return first.model_copy(
        update={
            "id": f"{first.document}-{first.start}-{last.end}",
            "text": text,
            "end": last.end,
            "page_starts": _joined_page_starts(passages),
        }
    )


def _joined_page_starts(passages: Sequence[Passage]) -> tuple[int, ...]:
    """Return the offsets in the document at which the pages after the first begin, for passages in a row.

    A page that begins between two passages starts at the second.
    """
    starts = list(passages[0].page_starts)
    for before, after in pairwise(passages):
        last_page = (before.page or 0) + len(before.page_starts)
        starts += [after.start] * ((after.page or 0) - last_page)
        starts += after.page_starts
    return tuple(starts)
