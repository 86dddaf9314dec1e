"""Reuses the passages and vectors of an earlier generation, for other settings or to compact an index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from turnmark.core.grouping import batched
from turnmark.retrieval.index.encoders import TOKENS, VECTORS, Encoder, Values
from turnmark.retrieval.index.generation import Generation
from turnmark.retrieval.ranking.postings import NUMBER_TYPE, Postings
from turnmark.retrieval.ranking.vectors import FlatVectors, TokenIndex
from turnmark.retrieval.search.opened_index import DENSE, SPARSE, StoredIndex
from turnmark.retrieval.storage.passage_store import PASSAGES_FILE
from turnmark.retrieval.storage.passage_writer import SPARSE_POSTINGS, SPARSE_TYPE, STAYS

_PAGE = 2000
_POSTED_TERMS = 20_000


def take_over(index: StoredIndex, place: Generation, encoders: Sequence[Encoder], passages: bool = True) -> None:
    """Copy the values that the same models made, and the passages with what is known about their files.

    Args:
        index: an index as it was published.
        place: a new generation.
        passages: whether the passages are copied, too. They get their terms as new passages do.
    """
    if passages:
        _copy_passages(index, place)
    models = {DENSE: index.manifest.embedder, SPARSE: index.manifest.splade}
    for encoder in encoders:
        model = models[encoder.name]
        if model is None or model.fingerprint != encoder.fingerprint or (encoder.tokens and not index.manifest.tokens):
            continue
        if encoder.name == SPARSE:
            _copy_sparse(index, place)
            continue
        for hashes, values in _stored_pages(index, encoder):
            place.values[DENSE].add(hashes, values)


def _slots_in_use(index: StoredIndex, encoder: str) -> list[tuple[str, int]]:
    """Return the contents of the passages of an index with their slots, by slot."""
    slots = index.rows.slots if encoder == DENSE else index.rows.sparse_slots
    used = set(slots.tolist())
    rows = index.store.select('SELECT "hash", "slot" FROM contents WHERE "encoder" = ? ORDER BY "slot"', [encoder])
    return [(content, slot) for content, slot in rows if slot in used]


def _stored_pages(index: StoredIndex, encoder: Encoder) -> Iterator[tuple[list[str], Values]]:
    """Yield the contents of an index with their vectors and tokens, a page at a time."""
    contents = _slots_in_use(index, DENSE)
    slots = np.array([slot for _, slot in contents], dtype=np.int64)
    vectors = FlatVectors(index.files, slots, encoder.dimension)
    tokens = TokenIndex(index.files, slots, encoder.dimension) if encoder.tokens else None
    for start in range(0, len(contents), _PAGE):
        page = contents[start : start + _PAGE]
        values = {VECTORS: list(vectors.of(range(start, start + len(page))))}
        if tokens is not None:
            values[TOKENS] = [tokens.pooled(slot) for _, slot in page]
        yield [content for content, _ in page], values


def _copy_sparse(index: StoredIndex, place: Generation) -> None:
    contents = _slots_in_use(index, SPARSE)
    new_slots = {slot: number for number, (_, slot) in enumerate(contents)}
    place.store.add_contents(SPARSE, 0, [content for content, _ in contents])
    # Postings of slots that are no longer in use are left out.
    number_of = np.full(max(new_slots, default=0) + 1, -1, dtype=NUMBER_TYPE)
    number_of[list(new_slots)] = list(new_slots.values())
    old = Postings(index.store.select, SPARSE_POSTINGS, SPARSE_TYPE)
    for terms in batched(sorted(old.terms()), _POSTED_TERMS):
        postings = {}
        for term in terms:
            numbers, values = old.of(term)
            known = numbers < len(number_of)
            renumbered, values = number_of[numbers[known]], values[known]
            order = np.argsort(renumbered, kind="stable")[int((renumbered < 0).sum()) :]
            if len(order):
                postings[term] = (renumbered[order], values[order])
        with place.store.db:
            Postings(place.store.select, SPARSE_POSTINGS, SPARSE_TYPE).add(place.store.db, postings)


_COPIED = """
INSERT INTO passages SELECT n."new", p."id", p."document", p."title", p."text", p."start", p."end", p."path",
    p."section", p."page", p."page_starts", p."date", p."header", p."hash", ?, ?
    FROM temp.numbers n JOIN old.passages p ON p."key" = n."old" ORDER BY n."new";
INSERT INTO documents SELECT * FROM old.documents;
INSERT INTO files SELECT * FROM old.files;
INSERT INTO fields SELECT * FROM old.fields;
INSERT INTO state SELECT * FROM old.state WHERE "name" IN ('made_by', 'languages');
"""


def _copy_passages(index: StoredIndex, place: Generation) -> None:
    """Copy the passages of an index in the order of their rows. If its last build was interrupted, none are copied."""
    store, keys = place.store, index.rows.keys.tolist()
    if index.store.select(
        'SELECT 1 FROM passages WHERE "made" > ? OR ("gone" > ? AND "gone" < ?) LIMIT 1',
        [index.manifest.revision, index.manifest.revision, STAYS],
    ):
        return
    store.db.execute("ATTACH ? AS old", [str(index.files / PASSAGES_FILE)])
    try:
        with store.db:
            store.db.execute('CREATE TEMP TABLE numbers ("old" INTEGER PRIMARY KEY, "new" INTEGER)')
            store.db.executemany("INSERT INTO temp.numbers VALUES (?, ?)", zip(keys, range(len(keys)), strict=True))
            for statement in filter(str.strip, _COPIED.split(";")):
                store.db.execute(statement, [store.revision, STAYS] if "?" in statement else [])
            store.db.execute("DROP TABLE temp.numbers")
    finally:
        store.db.execute("DETACH old")
