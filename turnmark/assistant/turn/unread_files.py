"""Notes about files that a question may be about, judged by their names, but that were not read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from turnmark.assistant.steps.verify.claim_support import stems
from turnmark.assistant.wording.reply_texts import UNREAD_FILE_TEXT, UNREAD_TYPE_TEXT, in_language
from turnmark.core.untrusted import ellipsize, one_line
from turnmark.corpora.readers import describe_left_out
from turnmark.corpora.text.function_words import content_words
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.index.source_reading import FileNotes
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.types import Hit

MIN_NAME_WORDS = 2
"""Minimum content words of a question that an unread file's name must contain, if the question has as many."""
MAX_NAME_CHARACTERS = 120
_BETWEEN_WORDS = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")


def unread_file_note(index: Index, question: str, language: str, hits: Sequence[Hit]) -> str:
    """Return a note about the unread file whose name has the most words of a question, and why it was not read.

    Args:
        hits: the passages of the reply. If one is from a file with the same name and another suffix, the note is empty.
    """
    wanted = [stemmed for word in content_words(question, language) if (stemmed := stems(word, language))]
    shown = {PurePosixPath(hit.passage.document).stem for hit in hits}
    best, best_count = ("", ""), min(MIN_NAME_WORDS, len(wanted)) - 1
    for file, reason in (entry for part in index.parts for entry in unread_files(part, language)):
        name = PurePosixPath(file).stem
        parts = _BETWEEN_WORDS.split(name)
        found = stems(f"{' '.join(parts)} {''.join(parts)}", language)  # a compound may be written in parts
        matched = [each for each in wanted if each <= found]
        if len(matched) > max(best_count, 0) and name not in shown and not all("".join(m).isdigit() for m in matched):
            best, best_count = (file, reason), len(matched)
    if not best[0]:
        return ""
    file, reason = (ellipsize(one_line(text), MAX_NAME_CHARACTERS) for text in best)
    return in_language(UNREAD_FILE_TEXT, language).replace("{reason}", reason).replace("{file}", file)


def unread_files(index: StoredIndex, language: str) -> Iterator[tuple[str, str]]:
    """Yield the files of which an index has no document, with the reason."""
    unknown_type = in_language(UNREAD_TYPE_TEXT, language)
    for file in index.manifest.unread_files:
        yield file, unknown_type
    without_documents = """SELECT "path", "known" FROM files
        WHERE "known" != '{}' AND "path" NOT IN (SELECT "file" FROM documents)"""
    for file, stored in index.store.select(without_documents):
        notes = FileNotes.model_validate_json(stored)
        problems = "; ".join(problem.what for problem in notes.problems)
        yield file, problems or describe_left_out(notes.left_out) or unknown_type
