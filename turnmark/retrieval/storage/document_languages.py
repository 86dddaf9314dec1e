"""Detects the languages of the documents of a build, on which their index terms depend.

What was detected in a document is stored, so an update looks only at new documents. It changes the language of others
only if another language becomes the main one, or becomes frequent or rare.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from turnmark.core.grouping import batched
from turnmark.corpora.text.languages import (
    MAX_CHARACTERS,
    CollectionLanguages,
    DetectedLanguage,
    find_language,
    is_sampled,
)
from turnmark.retrieval.storage.passage_writer import PassageWriter

_PAGE = 500
_UNDECIDED = DetectedLanguage("", 1)


def update_languages(store: PassageWriter) -> None:
    """Detect the languages of new documents, and choose those of all documents that need another one."""
    rows = store.select('SELECT "id", "detected", "weight", "language" FROM documents')
    found = {row[0]: DetectedLanguage(row[1], row[2]) for row in rows if row[1] is not None}
    first = {row[0] for row in rows if is_sampled(row[0], len(rows))}
    found |= _detect(store, first - found.keys())
    collection = CollectionLanguages.of([found[document] for document in first])
    if len(first) < len(rows) and len(collection.frequent) > 1:
        found |= _detect(store, [row[0] for row in rows if row[0] not in found])
        collection = CollectionLanguages.of(list(found.values()))
        first = set(found)
    mark = json.dumps([collection.main, sorted(collection.frequent)])
    same = store.get("languages") == mark
    to_choose = [row[0] for row in rows if not same or row[3] is None]
    # Documents of tables may get another language than the main one, which depends on their text.
    tables = [document for document in to_choose if found.get(document, _UNDECIDED).weight != 1]
    texts = {each: text for page in batched(tables, _PAGE) for each, text in _beginnings(store, page).items()}
    store.set_languages(
        {
            document: collection.choose(found[document] if document in first else _UNDECIDED, texts.get(document, ""))
            for document in to_choose
        }
    )
    if not same:
        store.note("languages", mark)


def _detect(store: PassageWriter, documents: Iterable[str]) -> dict[str, DetectedLanguage]:
    """Detect the languages of documents, and store them."""
    found: dict[str, DetectedLanguage] = {}
    for page in batched(sorted(documents), _PAGE):
        detected = {each: find_language(text) for each, text in _beginnings(store, page).items()}
        store.set_detected([(language, weight, each) for each, (language, weight) in detected.items()])
        found |= detected
    return found


def _beginnings(store: PassageWriter, documents: Sequence[str]) -> dict[str, str]:
    return store.beginnings(documents, 2 * MAX_CHARACTERS)
