"""The rows of the ablation: each a retriever by its spec, or the default's ranking with something changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from retrieval.types import Query
from tests.benchmarks.conversation_rank import Setup
from tests.benchmarks.conversation_sets import CONTEXTS, all_questions, last_turn

Asked = Callable[[Query], Query]


@dataclass(frozen=True)
class Row:
    """A name, and either a setup or the spec of a retriever with what it is asked, made of the whole query."""

    name: str
    setup: Setup | None = None
    spec: str = ""
    asked: Asked = last_turn


def _whole(query: Query) -> Query:
    return query


_NO_LATE = Setup(late=0.0)
_DENSE = replace(_NO_LATE, bm25=0.0)
MESSAGE, CONTEXT, REWRITE = "message", "context", "rewrite"
DEFAULT = Row("+ late interaction: conversational", Setup())

ROWS: Sequence[tuple[str, Sequence[Row]]] = (
    ("without the default's parts", (
        Row("bm25, last turn", spec="bm25"),
        Row("dense, last turn", spec="dense"),
        Row("hybrid, last turn", spec="hybrid"),
        Row("hybrid, all questions as one text", spec="hybrid", asked=all_questions),
        Row("hybrid, last turn and rewrite", spec="hybrid", asked=_whole),
    )),
    ("built up, each row with those above it", (
        Row("dense, mean of the message's own tokens", replace(_DENSE, views=(MESSAGE,), answers=0.0)),
        Row("+ mean of earlier answers", replace(_DENSE, views=(MESSAGE,))),
        Row("+ the message in context", replace(_DENSE, views=(MESSAGE, CONTEXT))),
        Row("+ the rewrite", _DENSE),
        Row("+ BM25: conversational?rerank=none", _NO_LATE),
        Row("  the same by reciprocal ranks", replace(_NO_LATE, fusion="rrf")),
        DEFAULT,
    )),
    ("the default, one part left out", (
        Row("without the message alone in the vector", Setup(views=(CONTEXT, REWRITE))),
        Row("without the message in context", Setup(views=(MESSAGE, REWRITE))),
        Row("without the rewrite in the vector", Setup(views=(MESSAGE, CONTEXT))),
        Row("without the rewrite anywhere",
            Setup(views=(MESSAGE, CONTEXT), terms=(MESSAGE,), late_texts=(MESSAGE,))),
        Row("without earlier answers", Setup(answers=0.0)),
        Row("without BM25", Setup(bm25=0.0)),
        Row("without late interaction", _NO_LATE),
    )),
    ("the default, another late interaction", (
        Row("for the message only", Setup(late_texts=(MESSAGE,))),
        Row("tokens count evenly, not by idf", Setup(late_mean="even")),
        *(Row(f"of {depth} hits", Setup(late_depth=depth)) for depth in (20, 50, 100, 300)),
    )),
    ("the default, another context", (
        *(Row(f"{tokens} tokens of the last answer", Setup(views=(MESSAGE, f"context {tokens}", REWRITE)))
          for tokens in CONTEXTS),
        Row("the last question instead", Setup(views=(MESSAGE, "last question", REWRITE))),
        Row("the first question instead", Setup(views=(MESSAGE, "first question", REWRITE))),
        Row("earlier answers: the last one only", Setup(answers_are="last answer")),
        Row("earlier answers: all alike", Setup(answers_are="answers evenly")),
    )),
    ("the default, context weighed by a classifier of leaning messages", (
        Row("the vector's context", Setup(lean="vector")),
        Row("BM25's and late interaction's rewrite too", Setup(lean="all")),
    )),
    ("the default, and more", (
        Row("longer passages preferred (.2)", Setup(length=0.2)),
        Row("best passage of the same document (.2)", Setup(document=0.2)),
        Row("whitened vectors (-.25)", Setup(whiten=-0.25)),
    )),
)  # fmt: skip
