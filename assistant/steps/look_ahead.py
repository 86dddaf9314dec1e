"""Looking ahead: a sentence that the model is not sure of, as it would write it, becomes a query.

After FLARE (Jiang et al., "Active Retrieval Augmented Generation", EMNLP 2023, section 3.2): where a token of a
sentence is less likely than a threshold, the sentence without such tokens is searched for, and written again with what
is found. Here a whole draft is looked through at once, its first unsure sentences are searched for, and the answer is
written again once. It needs the probabilities of the tokens; an endpoint that gives none leaves the turn as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from turnmark.assistant.generators.base import TokenLogprob
from turnmark.corpora.text import sentences, strip_citations

UNSURE = 0.4
"""A sentence with a token less likely than this is searched for; such tokens are left out of the query."""
MOST_SEARCHES = 2


def unsure(text: str, tokens: Sequence[TokenLogprob]) -> list[str]:
    """Queries from the sentences that hold an unlikely token, in their order, at most `MOST_SEARCHES`.

    Marks and spaces are never unlikely: where a sentence ends says nothing about what it claims.

    Args:
        tokens: of the text, in order. Where they do not spell it there is no query.
    """
    spelt = "".join(token.token for token in tokens)
    begin = spelt.find(text)
    if begin < 0:
        return []
    places: list[tuple[int, int, int, float]] = []
    at = -begin
    for token in tokens:
        blank = len(token.token) - len(token.token.lstrip())  # tokens carry the space before them
        places.append((at, at + blank, at + len(token.token), exp(token.logprob)))
        at += len(token.token)
    queries: list[str] = []
    for start, end in sentences(text):
        doubtful = [
            (max(before, start), last)
            for before, first, last, likely in places
            if start <= first and last <= end + 1 and likely < UNSURE and any(map(str.isalnum, text[first:last]))
        ]
        if doubtful:
            queries.append(_without(text, start, end, doubtful))
    return [query for query in dict.fromkeys(queries) if query][:MOST_SEARCHES]


def _without(text: str, start: int, end: int, left_out: Sequence[tuple[int, int]]) -> str:
    """A sentence without some stretches of it; as it stands where nothing would be left."""
    kept, at = [], start
    for first, last in left_out:
        kept.append(text[at:first])
        at = last
    kept.append(text[at:end])
    query = " ".join(strip_citations("".join(kept)).split())
    return query if any(map(str.isalnum, query)) else " ".join(strip_citations(text[start:end]).split())
