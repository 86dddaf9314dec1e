"""Recognize sentences that refuse a question in languages other than English, by the kinds of words in one clause.

A model has many wordings for "the documents do not say", so the table `refusals.toml` has the words of each language
instead: for the sources, for negation, and for being said or found. A clause with all three is a refusal. Quoted words,
conditions and subordinate clauses are left out first: in "If the message “file not found” appears, check the path" and
"The documents say that returns are not possible" nothing is missing.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from turnmark.assistant.wording.phrases import fold
from turnmark.corpora.text.languages import UNSPACED_LANGUAGES

MAX_CHARACTERS_BEFORE = 60
"""Maximum characters before the refusing clause at the beginning of a reply: "Thank you for the question, but …"."""
MAX_CLAUSE_CHARACTERS = 240
"""Maximum length of a refusing clause; a longer one has all kinds of words by chance."""
_CLAUSE_ENDS = re.compile(r"[,;:，、；：–—؛،。؟]")
_QUOTED_TEXT = re.compile(
    '“[^“”]*”|„[^“”„]*[“”]|”[^”]*”|«[^«»]*»|»[^«»]*«|‘[^‘’\']{2,}[\'’](?!\\w)|"[^"]*"|「[^「」]*」|`[^`]*`'
)
_FIELDS = ("sources", "within", "not", "states", "found", "facts", "about", "whole", "conditions", "clauses", "duties")
_ARABIC_VOWELS = re.compile("[\u064b-\u0652]")


class RefusalParts:
    """The words of refusals in one language.

    Args:
        language: its code.
        row: its row of the table.
    """

    def __init__(self, language: str, row: Mapping[str, str]) -> None:
        # Korean attaches particles to its words, so a word may begin or end inside a longer one.
        self._spaced = language not in UNSPACED_LANGUAGES and language != "ko"
        parts = {"sources": row.get("sources", "(?!)"), "facts": row.get("facts", "(?!)")}
        for name in _FIELDS:
            text = row.get(name, "(?!)")
            for part, words in parts.items():
                text = text.replace(f"{{{part}}}", words)
            parts[name] = text
        self._parts = {**parts, "beginnings": f"{parts['conditions']}|{parts['clauses']}"}
        self._named = frozenset(row)

    def may_refuse(self, folded: str) -> bool:
        """Return whether a folded text has a negation, without which nothing is a refusal."""
        return self._has(folded, "not" if "not" in self._named else "whole")

    def lacks(self, sentence: str, opens: bool = False) -> bool:
        """Return whether a sentence says that something is missing.

        Args:
            opens: whether only the beginning of the sentence counts.
        """
        pieces = list(self._main_clauses(sentence))
        before = 0
        for number, piece in enumerate(pieces):
            if opens and before > MAX_CHARACTERS_BEFORE:
                return False
            if self._refuses(piece) or (piece and self._refuses(self._continued(pieces, number))):
                return True
            before += len(piece)
        return False

    def _continued(self, pieces: Sequence[str], number: int) -> str:
        """Return a clause together with the one that continues it.

        "According to the documents, it is not possible" continues in the next clause, "The documents, which are
        from 2020, do not say it" in the one after that.
        """
        only_place = self._pattern("within").fullmatch(pieces[number]) is not None
        following = pieces[number + (1 if only_place else 2) :]
        return f"{pieces[number]} {following[0]}" if following else ""

    def is_subordinate(self, clause: str) -> bool:
        """Return whether a clause, without what is before it, only says what is missing, or a condition."""
        return self._leaves_out(self._fold(clause), first=False)

    def _main_clauses(self, sentence: str) -> Iterator[str]:
        """Yield the folded clauses of a sentence; "" for one that is left out."""
        for number, clause in enumerate(_CLAUSE_ENDS.split(_QUOTED_TEXT.sub(" ", sentence))):
            text = self._fold(clause)
            if self._leaves_out(text, first=number == 0):
                yield ""
                continue
            cut = self._pattern("beginnings").search(text, 1)
            yield text[: cut.start()].rstrip() if cut else text

    def _leaves_out(self, text: str, first: bool) -> bool:
        return bool(self._begins("conditions").match(text) or (not first and self._begins("clauses").match(text)))

    def _refuses(self, clause: str) -> bool:
        if not clause or len(clause) > MAX_CLAUSE_CHARACTERS or self._has(clause, "duties"):
            return False
        if self._has(clause, "whole"):
            return True
        if not self._has(clause, "not"):
            return False
        told = self._has(clause, "states", "facts")
        if told and self._has(clause, "sources"):
            return True
        return (told or self._has(clause, "found")) and self._has(clause, "within", "about")

    def _has(self, clause: str, *fields: str) -> bool:
        return any(self._pattern(field).search(clause) for field in fields)

    @cache  # noqa: B019
    def _pattern(self, field: str) -> re.Pattern[str]:
        words = rf"(?:{self._parts[field]})"
        return re.compile(rf"(?:^|(?<= )){words}(?= |$)" if self._spaced else words)

    @cache  # noqa: B019
    def _begins(self, field: str) -> re.Pattern[str]:
        return re.compile(rf"(?:{self._parts[field]})" + ("(?= |$)" if self._spaced else ""))

    @staticmethod
    def _fold(text: str) -> str:
        return fold(_ARABIC_VOWELS.sub("", unicodedata.normalize("NFC", text)))


@cache
def refusal_parts() -> Mapping[str, RefusalParts]:
    """Return the words of refusals by language."""
    rows = tomllib.loads(Path(__file__).with_name("refusal_clauses.toml").read_text("utf-8"))
    return {language: RefusalParts(language, row) for language, row in rows.items()}
