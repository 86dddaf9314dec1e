"""Adapters that make a LlamaIndex retriever usable in Turnmark, and a Turnmark retriever usable in LlamaIndex."""

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
from turnmark.core.specs import Spec
from turnmark.core.untrusted import describe_error
from turnmark.corpora.types import Passage
from turnmark.retrieval.ranking.fusion import RankedList, RankedRows, fuse
from turnmark.retrieval.search.opened_index import SearchableIndex
from turnmark.retrieval.search.retriever_factory import call_factory, only_part
from turnmark.retrieval.search.retriever_kinds import Options
from turnmark.retrieval.search.retrievers import VARIANT_WEIGHT
from turnmark.retrieval.storage.picture_store import PictureStore
from turnmark.retrieval.types import Hit, Query, Retriever

LIST_NAME = "llama-index"
"""Name of the ranking in `Hit.found`."""
FUSION_DEPTH = 100
"""Number of nodes requested per text if several lists are fused; small because the retriever may be a paid service."""


class LlamaIndexRetriever(Retriever):
    """A LlamaIndex retriever, used as a Turnmark retriever.

    A node with the id of a passage is that passage; any other node becomes a new passage. Nodes are ordered by score.
    If a node has no score, the list keeps its order, and the scores are 1 / rank. A message and its variants are
    searched one after the other, and the lists are fused.

    Args:
        name: the spec in normal form.
        inner: a LlamaIndex `BaseRetriever`. Its `similarity_top_k` is raised to the `top_k` of a search, never lowered.
        index: the index with the passages that nodes are matched to.
    """

    def __init__(self, name: str, inner: Any, index: SearchableIndex) -> None:
        self.name, self._inner, self.index = name, inner, index
        # One search at a time: `similarity_top_k` is set on the retriever, which may not be safe for threads.
        self._lock = threading.Lock()

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        if any(query.where for query in queries):
            raise RequestError(f"--where: {self.name} takes no filter; omit --where, or use another retriever")
        return [self._hits(query, top_k) for query in queries]

    def neighbors(self, passage: Passage) -> list[Passage]:
        return self.index.neighbors(passage)

    def pictures(self) -> PictureStore | None:
        return self.index.pictures

    def _hits(self, query: Query, k: int) -> list[Hit]:
        texts = query.texts()
        depth = k if len(texts) == 1 else max(k, FUSION_DEPTH)
        passages: list[Passage] = []
        rows: dict[str, int] = {}
        lists = []
        for number, text in enumerate(texts):
            scored_passages = self._found(text, depth)
            for passage, _ in scored_passages:
                if rows.setdefault(passage.id, len(passages)) == len(passages):
                    passages.append(passage)
            name, weight = (f"{LIST_NAME}+{number}", VARIANT_WEIGHT) if number else (LIST_NAME, 1.0)
            pairs = [(rows[passage.id], score) for passage, score in scored_passages]
            lists.append(RankedList(name, RankedRows.from_pairs(pairs), weight))
        fused = fuse(lists, k)
        return [
            Hit(passage=passages[row], score=score, found=found_in)
            for (row, score), found_in in zip(fused.rows, fused.provenance(), strict=True)
        ]

    def _found(self, text: str, k: int) -> list[tuple[Passage, float]]:
        """Return the `k` best passages for a text with their scores, best first, without duplicates."""
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
                configured = getattr(self._inner, "similarity_top_k", None)
                if isinstance(configured, int) and configured < k:
                    self._inner.similarity_top_k = k
                nodes = list(self._inner.retrieve(text))
        except TurnmarkError:
            raise
        except Exception as error:  # a third party's retriever may raise anything
            raise TurnmarkError(f"retriever {self.name} failed: {describe_error(error)}") from None
        return nodes

    def _passages(self, nodes: Sequence[Any]) -> list[Passage]:
        rows = self.index.store.rows_of([str(node.node.node_id) for node in nodes])
        indexed = dict(zip(rows, self.index.store.by_rows(list(rows.values())), strict=True))
        return [indexed.get(str(node.node.node_id)) or passage_of(node.node) for node in nodes]


def _score(node: Any) -> float | None:
    """Return a node's score, or None if it is not a finite number."""
    try:
        score = float(node.score)
    except (TypeError, ValueError):
        return None
    return score if math.isfinite(score) else None


def passage_of(node: Any) -> Passage:
    """Convert a LlamaIndex node to a passage with the node's text and the metadata that LlamaIndex's readers write.

    `document` is the node's `ref_doc_id`, or else its file, or else its id. A node without offsets starts at 0.
    """
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    path = _metadata(node, "file_path", "path", "file_name")
    page = _metadata(node, "page_label", "page")
    start = getattr(node, "start_char_idx", None)
    start = start if isinstance(start, int) and start >= 0 else 0
    return Passage(
        id=str(node.node_id),
        document=str(getattr(node, "ref_doc_id", None) or path or node.node_id),
        title=_metadata(node, "title", "document_title", "file_name"),
        text=text,
        start=start,
        end=start + len(text),
        path=path,
        section=_metadata(node, "section", "header_path"),
        page=int(page) if page.isascii() and page.isdigit() and len(page) < 10 else None,
        date=_metadata(node, "date"),
        header=_metadata(node, "table_header"),
    )


def _metadata(node: Any, *keys: str) -> str:
    """Return, as text, the value of the first of these keys that a node's metadata contains; empty if it has none."""
    for key in keys:
        value = node.metadata.get(key)
        if isinstance(value, str | int) and str(value):
            return str(value)
    return ""


def open_llama_index(spec: Spec, index: SearchableIndex, _: Options) -> Retriever:
    """Open `llama-index:pkg.mod:factory`: `factory(index)` returns a LlamaIndex retriever, or an object with
    `as_retriever()`.
    """
    only_part(spec, index)
    retriever = call_factory(spec, index, lambda made: made.as_retriever() if hasattr(made, "as_retriever") else made)
    if not isinstance(retriever, BaseRetriever):
        raise RequestError(
            f"retriever {str(spec)!r} returned a {type(retriever).__name__}, which is neither a LlamaIndex "
            "BaseRetriever nor an object with as_retriever()"
        )
    return LlamaIndexRetriever(str(spec), retriever, index)


def as_llama_index(retriever: Retriever, top_k: int = 10) -> TurnmarkRetriever:
    """Wrap a Turnmark retriever as a LlamaIndex `BaseRetriever` that returns `top_k` nodes; see `node_of`."""
    return TurnmarkRetriever(retriever, top_k)


class TurnmarkRetriever(BaseRetriever):  # type: ignore[misc]
    """A LlamaIndex retriever that searches with a Turnmark retriever and returns `similarity_top_k` nodes."""

    def __init__(self, retriever: Retriever, similarity_top_k: int) -> None:
        super().__init__()
        self.retriever, self.similarity_top_k = retriever, similarity_top_k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self.retriever.search([Query(text=query_bundle.query_str)], self.similarity_top_k)[0]
        return [NodeWithScore(node=node_of(hit.passage), score=hit.score) for hit in hits]


def node_of(passage: Passage) -> TextNode:
    """Convert a passage to a LlamaIndex `TextNode`; `passage_of` converts it back.

    The node has the ids of the passage and the document. Its metadata contains `title`, `section`, `file_path`,
    `page_label`, `date`, and `table_header` if the passage begins within a table.
    """
    metadata = {"title": passage.title, "file_path": passage.path, "section": passage.section}
    if passage.page is not None:
        metadata["page_label"] = str(passage.page)
    if passage.date:
        metadata["date"] = passage.date
    if passage.header:
        metadata["table_header"] = passage.header
    return TextNode(
        id_=passage.id,
        text=passage.text,
        metadata=metadata,
        start_char_idx=passage.start,
        end_char_idx=passage.end,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=passage.document)},
    )
