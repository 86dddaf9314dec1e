"""Chooses the embedder of an index by the languages of its documents, and warns if an embedder does not know them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from turnmark.corpora.downloads.small_models import MODELS, MULTILINGUAL, is_complete
from turnmark.corpora.text.languages import MAX_CHARACTERS, detect_languages, language_name
from turnmark.corpora.types import Document
from turnmark.retrieval.embedding.embedders import DEFAULT_EMBEDDER, languages_of

MIN_FOREIGN_SHARE = 0.2
"""Minimum share of passages in languages that an embedder was not made for at which another one is better."""
AHEAD_DOCUMENTS, AHEAD_CHARACTERS = 50, 300_000
"""How much of a new source is read before its embedder is chosen: passages are as long as the embedder can read."""
_PASSAGE_CHARACTERS = 1000


def choose_embedder(languages: Mapping[str, int]) -> str:
    """Return the spec of the default embedder for passages in these languages (language -> number of passages)."""
    foreign = foreign_languages(DEFAULT_EMBEDDER, languages)
    return MULTILINGUAL.name if foreign and is_complete(MODELS[MULTILINGUAL.name]) else DEFAULT_EMBEDDER


def foreign_languages(embedder: str, languages: Mapping[str, int]) -> tuple[str, ...]:
    """Return the languages that an embedder was not made for; none if they have less than a fifth of the passages."""
    known = languages_of(embedder)
    if known is None:
        return ()
    foreign = {language: count for language, count in languages.items() if language and language not in known}
    if sum(foreign.values()) < max(1, MIN_FOREIGN_SHARE * sum(languages.values())):
        return ()
    return tuple(foreign)


def languages_of_documents(documents: Iterable[Document]) -> dict[str, int]:
    """Return language -> about how many passages some documents have in it."""
    read = {document.id: document for document in documents}
    detected = detect_languages({name: document.text[: 2 * MAX_CHARACTERS] for name, document in read.items()})
    counts: Counter[str] = Counter()
    for name, language in detected.items():
        counts[language] += 1 + len(read[name].text) // _PASSAGE_CHARACTERS
    return dict(counts)


def embedder_advice(embedder: str, languages: Mapping[str, int], chosen: bool) -> str:
    """Return advice if an embedder was not made for the languages of an index, and an empty text otherwise.

    Args:
        chosen: whether the build chose the embedder, so that the same build may choose another one.
    """
    foreign = foreign_languages(embedder, languages)
    if not foreign:
        return ""
    count = sum(languages[language] for language in foreign)
    again = "the same build again" if chosen else f"the build with --embedder {MULTILINGUAL.name}"
    return (
        f"{count} of {sum(languages.values())} passages are in languages that the embedder {embedder} does not know "
        f"({', '.join(foreign[:5])}); for better search: {_fetch_command()}{again}"
    )


def advice_for_question(embedder: str, languages: Mapping[str, int], asked: str, index: str) -> str:
    """Return advice if few documents are in the language of a question and the embedder does not know both, or "".

    Args:
        index: name of the index.
    """
    known, main = languages_of(embedder), next(iter(languages), asked)
    few = languages.get(asked, 0) < MIN_FOREIGN_SHARE * sum(languages.values())
    if known is None or {asked, main} <= known or not few:
        return ""
    return (
        f"the question is in {language_name(asked)} and most documents are in {language_name(main)}, which the "
        f"embedder {embedder} does not compare; for better search: {_fetch_command()}turnmark index build FOLDER "
        f"--name {index} --embedder {MULTILINGUAL.name}"
    )


def _fetch_command() -> str:
    """Return the command that comes before a build with the multilingual embedder; empty if it has been fetched."""
    return "" if is_complete(MODELS[MULTILINGUAL.name]) else f"turnmark model get {MULTILINGUAL.name}, then "
