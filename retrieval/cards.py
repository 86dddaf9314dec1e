"""What embedding models' cards say is put in front of a text, for models whose own configuration leaves it out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from turnmark.corpora.types import Record


class Prompts(Record):
    """What is put in front of a query and of a passage. None: nothing is said of it here."""

    query: str | None = None
    passage: str | None = None


NOTHING = Prompts()

# Name of the model without its owner -> prompts. The BGE table of FlagEmbedding's README ("query instruction for
# retrieval"; passages need none), and the E5 cards' first question.
_CARDS: tuple[tuple[re.Pattern[str], Prompts], ...] = (
    (
        re.compile(r"bge-(small|base|large)-en(-v1\.5)?"),
        Prompts(query="Represent this sentence for searching relevant passages: ", passage=""),
    ),
    (
        re.compile(r"bge-(small|base|large)-zh(-v1\.5)?"),
        Prompts(query="为这个句子生成表示以用于检索相关文章：", passage=""),
    ),
    (
        re.compile(r"(multilingual-)?e5-(small|base|large)(-v2|-unsupervised)?"),
        Prompts(query="query: ", passage="passage: "),
    ),
)


def card_prompts(model: str) -> Prompts:
    """What the card of a model prescribes; nothing where we know none.

    Args:
        model: a hub name, or a folder called like one; a snapshot in the hub's cache is known by its repository.
    """
    parts = Path(model).parts
    names = [part.rpartition("--")[2] for part in parts if part.startswith("models--")] or list(parts[-1:])
    for pattern, prompts in _CARDS:
        if names and pattern.fullmatch(names[-1].lower()):
            return prompts
    return NOTHING


def effective_prompts(model: str, configured: Mapping[str, str | None], asked: Prompts = NOTHING) -> tuple[str, str]:
    """What is put in front of a query and of a passage.

    That is what was asked for, or else what the model's configuration says; only where that says nothing at all, what
    its card does.

    Args:
        configured: the prompts of a sentence-transformers model by name. For passages the library takes `document`,
            which it makes up as empty where a model has only `passage` or `corpus`: here the first that is not empty.
    """
    query = configured.get("query") or ""
    passage = next(filter(None, (configured.get(name) for name in ("document", "passage", "corpus"))), "")
    if not query and not passage:
        card = card_prompts(model)
        query, passage = card.query or "", card.passage or ""
    return (
        query if asked.query is None else asked.query,
        passage if asked.passage is None else asked.passage,
    )
