"""The retrievers by name: a line names a `turnmark.retrieval.search.Kind`, or a `factory(spec, index=index)`."""

from __future__ import annotations

from turnmark.corpora.specs import Entry, Registry

_BUILT_IN = "turnmark.retrieval.registry:"
_CHROMA = Entry(_BUILT_IN + "CHROMA", "hybrid with the vectors on a Chroma server; …://HOST:PORT")
_ELASTIC = Entry(
    "turnmark.retrieval.elastic:ELASTIC",
    "…://HOST:PORT/INDEX; options query=bm25|knn|hybrid|elser, text, title, vector, sparse, inference",
    "elasticsearch",
)
RETRIEVERS = Registry(
    "retriever",
    {
        "bm25": Entry(_BUILT_IN + "BM25_ONLY", "BM25 (Lucene variant, stemmed); options k1, b, language"),
        "dense": Entry(_BUILT_IN + "DENSE", "embeddings; dense:MODEL for another than MiniLM"),
        "conversational": Entry(
            _BUILT_IN + "CONVERSATIONAL",
            "the default: knows the turns before, reranks by late interaction; options weight, splade, rerank=none",
        ),
        "hybrid": Entry(_BUILT_IN + "HYBRID", "dense and BM25, fused; options weight, splade, depth, fusion"),
        "splade": Entry(
            "turnmark.retrieval.sparse:SPLADE_ONLY", "splade:MODEL, a sparse encoder; options precision, depth"
        ),
        "python": Entry(_BUILT_IN + "PYTHON", "python:pkg.mod:factory, called with the index"),
        "llama-index": Entry(_BUILT_IN + "LLAMA_INDEX", "llama-index:pkg.mod:factory, a LlamaIndex retriever"),
        **dict.fromkeys(("chroma+http", "chroma+https"), _CHROMA),
        **dict.fromkeys(("elasticsearch+http", "elasticsearch+https"), _ELASTIC),
    },
    group="turnmark.retrievers",
)
