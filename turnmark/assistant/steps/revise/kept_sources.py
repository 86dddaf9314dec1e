"""The sources behind the answers of a conversation, which a revision shows again.

An answer comes with its sources if it is an `AnswerMessage`. If only its text is known, they are searched for.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from turnmark.assistant.citations.marks import with_numbers
from turnmark.assistant.llm.prompts.context_budget import PASSAGE_MARK_TOKENS, count_tokens
from turnmark.assistant.llm.prompts.tool_definitions import is_computed
from turnmark.assistant.sessions.conversation import sources_used
from turnmark.assistant.steps.answer.computed_sources import computed_source
from turnmark.assistant.steps.retrieve.retrieve_sections import conversation_query, interleave, join_passages
from turnmark.assistant.steps.step_results import Computation, Evidence, SourceList, UnderstoodMessage
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.steps.understand.earlier_answers import answers_in, last_answer
from turnmark.assistant.steps.verify.claim_support import content_stems
from turnmark.assistant.types import AnswerMessage, Citation
from turnmark.core.errors import RequestError
from turnmark.corpora.text.segmentation import strip_citations
from turnmark.corpora.types import Passage
from turnmark.retrieval.tables.table_records import QueryResult
from turnmark.retrieval.types import Hit, Query

MAX_SEARCHED_SOURCES = 4
"""Maximum passages of an answer whose sources have to be searched for."""


def last_answer_with_marks(turn: Turn) -> tuple[str, SourceList]:
    """Return the last answer, with marks if its sources were kept, and its sources, numbered in their order."""
    sources = SourceList(Evidence(()))
    position = answers_in(turn.history)[-1]
    numbers = _add_sources(turn, position, sources)
    answer = turn.history[position]
    if isinstance(answer, AnswerMessage) and answer.content == strip_citations(answer.reply.answer):
        return with_numbers(answer.reply.answer, numbers), sources
    return strip_citations(answer.content), sources


def add_earlier_sources(turn: Turn, understood: UnderstoodMessage, sources: SourceList) -> None:
    """Add the sources of the earlier answers that an instruction names, best fit first, within the limit of tokens.

    An instruction names an answer by content words that it shares with the answer or its question, and that the last
    answer lacks. A model's rewrite names what "both" or "the first one" stands for.
    """
    *earlier, last = answers_in(turn.history)
    asked = content_stems(f"{turn.message} {understood.understanding.rewrite}", turn.language)
    asked -= _stems_of_exchange(turn, last)
    fits = {position: len(asked & _stems_of_exchange(turn, position)) for position in earlier}
    for position in sorted(filter(fits.__getitem__, earlier), key=lambda position: (-fits[position], -position)):
        used = sum(count_tokens(hit.passage.text) + PASSAGE_MARK_TOKENS for hit in sources.hits)
        if used < turn.config.tokens:
            _add_sources(turn, position, sources)


def _stems_of_exchange(turn: Turn, position: int) -> frozenset[str]:
    """Return the stems of the content words of an answer and of the message before it."""
    texts = (message.content for message in turn.history[max(0, position - 1) : position + 1])
    return content_stems("\n".join(texts), turn.language)


def _add_sources(turn: Turn, position: int, sources: SourceList) -> Mapping[int, int]:
    """Add the sources of an answer; return their new numbers by the numbers that the answer cites."""
    answer = turn.history[position]
    if not isinstance(answer, AnswerMessage):
        sources.number(_search_sources(turn, position))
        return {}
    numbers: dict[int, int] = {}
    for citation in sources_used(answer.reply):
        passage = _passage_of(turn, citation, sources)
        [numbers[citation.n]] = sources.number([Hit(passage=passage, score=citation.score)])
    return numbers


def _passage_of(turn: Turn, citation: Citation, sources: SourceList) -> Passage:
    """Return a cited passage: as the index has it, which knows its date and pages, if its text is still the same.

    Of a computed source, the statement runs again for the values by which the revision is checked; what is shown is the
    result that the answer cites.
    """
    names = set(Citation.model_fields) & set(Passage.model_fields)
    passage = Passage(**{name: getattr(citation, name) for name in names})
    if citation.index:
        update = {name: f"{citation.index}:{getattr(citation, name)}" for name in ("id", "document")}
        passage = passage.model_copy(update=update)
    if citation.statement:
        result = _result_of(turn, citation)
        if result.tables:
            passage = computed_source(citation.statement, citation.text, result.tables)
        sources.computed[passage.id] = Computation(citation.statement, result)
    elif turn.retriever is not None and not is_computed(citation.id):
        document = turn.retriever.neighbors(passage)
        inside = [each for each in document if passage.start <= each.start and each.end <= passage.end]
        if inside and (joined := join_passages(inside)).text == passage.text:
            return joined
    return passage


def _result_of(turn: Turn, citation: Citation) -> QueryResult:
    """Run the statement of a computed source again; without its tables, only the rows that it rests on are known."""
    store = turn.retriever.tables() if turn.retriever else None
    with suppress(RequestError):  # the tables are no longer there
        if store is not None:
            return store.run(citation.statement).model_copy(update={"basis": citation.basis})
    return QueryResult(columns=(), rows=(), basis=citation.basis)


def _search_sources(turn: Turn, position: int) -> list[Hit]:
    """Search for the sources of an answer of which only the text is known, by this text and by its question."""
    if turn.retriever is None:
        return []
    history = turn.history[: position + 1]
    question_at, answer = last_answer(history)
    queries = [Query(text=answer)]
    if question_at is not None:
        question = history[question_at].content
        queries.append(conversation_query(history[:question_at], question, turn.languages))
    results = turn.retriever.search(queries, turn.top_k)
    for query, hits in zip(queries, results, strict=True):
        turn.searched(query, hits, "the sources of an earlier answer")
    return interleave(results)[:MAX_SEARCHED_SOURCES]
