"""LlamaIndex and Turnmark find for each other: any LlamaIndex retriever by name, and ours as a LlamaIndex retriever."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import (
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)

from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.specs import Spec, load_python
from turnmark.corpora.types import Passage
from turnmark.retrieval.fusion import RankedList, TopK, fuse
from turnmark.retrieval.index import Index
from turnmark.retrieval.search import VARIANT_WEIGHT
from turnmark.retrieval.servers import redact
from turnmark.retrieval.types import Hit, Query, Retriever

LIST = "llama-index"

DEPTH = 100
"""Nodes asked for a text where several lists are fused: what finds them may be a paid service a call away."""


class LlamaIndexRetriever:
    """A LlamaIndex retriever as one of ours; see `turnmark.retrieval.types.Retriever`.

    A node whose id is a passage's id is that passage; any other becomes a new passage. The order is by the
    nodes' scores; where a list has a node without one, it stays in the order given with scores 1 / rank. A message and
    its variants are searched one by one and fused.

    Args:
        name: the spec in normal form.
        inner: a LlamaIndex `BaseRetriever`. Its own `similarity_top_k` is raised to what is asked, never lowered.
        index: whose passages nodes may be.
    """

    def __init__(self, name: str, inner: Any, index: Index) -> None:
        self.name, self._inner, self.index = name, inner, index
        # A retriever of unknown make, on which `similarity_top_k` is set: one search at a time.
        self._lock = threading.Lock()

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """See `turnmark.retrieval.types.Retriever.search`."""
        if any(query.where for query in queries):
            raise RequestError(f"--where: {self.name} takes no filter; leave --where out, or use another retriever")
        return [self._hits(query, k) for query in queries]

    def neighbours(self, passage: Passage) -> list[Passage]:
        """The index's passages of the same document, in reading order; none for a document that it lacks."""
        return self.index.neighbours(passage)

    def _hits(self, query: Query, k: int) -> list[Hit]:
        texts = query.texts()
        depth = k if len(texts) == 1 else max(k, DEPTH)
        passages: list[Passage] = []
        rows: dict[str, int] = {}
        lists = []
        for number, text in enumerate(texts):
            found = self._found(text, depth)
            for passage, _ in found:
                if rows.setdefault(passage.id, len(passages)) == len(passages):
                    passages.append(passage)
            name, weight = (f"{LIST}+{number}", VARIANT_WEIGHT) if number else (LIST, 1.0)
            lists.append(RankedList(name, TopK.from_pairs((rows[each.id], score) for each, score in found), weight))
        fused = fuse(lists, k)
        return [
            Hit(passage=passages[row], score=score, found=found_in)
            for (row, score), found_in in zip(fused.rows, fused.provenance(), strict=True)
        ]

    def _found(self, text: str, k: int) -> list[tuple[Passage, float]]:
        """The `k` best passages for a text with their scores, best first, none twice."""
        nodes = self._retrieve(text, k)
        scores = [score for score in map(_score, nodes) if score is not None]
        if len(scores) < len(nodes):
            scores = [1 / rank for rank in range(1, len(nodes) + 1)]
        best: dict[str, tuple[Passage, float]] = {}
        for passage, score in zip(self._passages(nodes), scores, strict=True):
            if passage.text.strip() and (passage.id not in best or best[passage.id][1] < score):
                best[passage.id] = (passage, score)
        return sorted(best.values(), key=lambda pair: -pair[1])[:k]

    def _retrieve(self, text: str, k: int) -> list[Any]:
        try:
            with self._lock:
                if isinstance(configured := getattr(self._inner, "similarity_top_k", None), int) and configured < k:
                    self._inner.similarity_top_k = k
                nodes = list(self._inner.retrieve(text))
        except TurnmarkError:
            raise
        except Exception as error:  # whatever a third party's retriever raises; it is reported, not swallowed
            raise TurnmarkError(f"retriever {self.name} failed: {redact(error)}") from None
        return nodes

    def _passages(self, nodes: Sequence[Any]) -> list[Passage]:
        """A passage a node, in their order."""
        rows = self.index.store.rows_of([str(node.node.node_id) for node in nodes])
        ours = dict(zip(rows, self.index.store.by_rows(list(rows.values())), strict=True))
        return [ours.get(str(node.node.node_id)) or passage_of(node.node) for node in nodes]


def _score(node: Any) -> float | None:
    """A node's score, where it is a number."""
    try:
        score = float(node.score)
    except (TypeError, ValueError):
        return None
    return score if math.isfinite(score) else None


def passage_of(node: Any) -> Passage:
    """A LlamaIndex node as a passage: its text without metadata, and of the metadata what LlamaIndex's readers write.

    `document` is the node's `ref_doc_id`, else its file, else its own id; without offsets it starts at 0.
    """
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    path = _told_by(node, "file_path", "path", "file_name")
    page = _told_by(node, "page_label", "page")
    start = getattr(node, "start_char_idx", None)
    start = start if isinstance(start, int) and start >= 0 else 0
    return Passage(
        id=str(node.node_id),
        document=str(getattr(node, "ref_doc_id", None) or path or node.node_id),
        title=_told_by(node, "title", "document_title", "file_name"),
        text=text,
        start=start,
        end=start + len(text),
        path=path,
        section=_told_by(node, "section", "header_path"),
        page=int(page) if page.isascii() and page.isdigit() and len(page) < 10 else None,
        date=_told_by(node, "date"),
    )


def _told_by(node: Any, *keys: str) -> str:
    """The first of these metadata that is there, as text; empty where none is."""
    values = (node.metadata.get(key) for key in keys)
    return next((str(value) for value in values if isinstance(value, str | int) and str(value)), "")


def open_llama_index_retriever(spec: Spec, index: Index) -> Retriever:
    """`llama-index:pkg.mod:factory`: `factory(index)` gives a LlamaIndex retriever, or what has `as_retriever()`."""
    factory = load_python(spec.argument, "retriever")
    try:
        retriever = factory(index)
        if not isinstance(retriever, BaseRetriever) and hasattr(retriever, "as_retriever"):
            retriever = retriever.as_retriever()
    except TurnmarkError:
        raise
    except Exception as error:
        raise RequestError(f"retriever {str(spec)!r}: its factory failed: {redact(error)}") from None
    if not isinstance(retriever, BaseRetriever):
        raise RequestError(
            f"retriever {str(spec)!r} gave a {type(retriever).__name__}, which is neither a LlamaIndex BaseRetriever "
            "nor has as_retriever()"
        )
    return LlamaIndexRetriever(str(spec), retriever, index)


def as_llama_index(retriever: Retriever, k: int = 10) -> TurnmarkRetriever:
    """One of our retrievers as a LlamaIndex `BaseRetriever` that gives `k` nodes; see `node_of`."""
    return TurnmarkRetriever(retriever, k)


class TurnmarkRetriever(BaseRetriever):  # type: ignore[misc]
    """A Turnmark retriever; `similarity_top_k` is how many nodes it gives."""

    def __init__(self, retriever: Retriever, similarity_top_k: int) -> None:
        super().__init__()
        self.retriever, self.similarity_top_k = retriever, similarity_top_k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self.retriever.search([Query(text=query_bundle.query_str)], self.similarity_top_k)[0]
        return [NodeWithScore(node=node_of(hit.passage), score=hit.score) for hit in hits]


def node_of(passage: Passage) -> TextNode:
    """A passage as a LlamaIndex `TextNode`, from which `passage_of` makes the same passage again.

    The ids are the passage's and the document's; title, section, `file_path` and `page_label` are in its metadata.
    """
    metadata = {"title": passage.title, "file_path": passage.path, "section": passage.section}
    if passage.page is not None:
        metadata["page_label"] = str(passage.page)
    if passage.date:
        metadata["date"] = passage.date
    return TextNode(
        id_=passage.id,
        text=passage.text,
        metadata=metadata,
        start_char_idx=passage.start,
        end_char_idx=passage.end,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=passage.document)},
    )
