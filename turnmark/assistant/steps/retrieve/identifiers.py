"""Identifiers and versions in a question, such as E-4867, ISO 27001 or v3.0.0: another one is no answer.

"E-5741" has almost the same vector as "E-4867", so cosines cannot tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnmark.assistant.types import Judgment
from turnmark.retrieval.types import Hit

_CODE = re.compile(
    r"(?<![\w.])(?:(?P<letters>[^\W\d_]{1,6})[-_]?(?P<digits>\d{2,10})(?P<tail>[a-zA-Z]{0,2})"
    r"|(?P<capitals>(?-i:[A-Z]{1,6})) (?P<spaced>\d{3,10}))(?![\w]|\.\d)"
    r"|(?<![\w.])(?:[vV]\.? ?(?P<version>\d+(?:\.\d+){1,4})|(?P<dotted>\d+(?:\.\d+){2,4}))(?!\w|\.\d)"
    r"|\b(?:error|code|fehler\w*|erreur|ticket|issue|bug|case|order|part|model|status|no\.|nr\.|#) ?"
    r"(?:code |number |no\.? |nr\.? )?#?(?P<number>\d{3,10})(?!\w|[.,]\d)",
    re.IGNORECASE,
)


def identifiers_in(text: str) -> tuple[str, ...]:
    """Return the identifiers and versions of a text in one spelling, each once: `e4867`, `3.0.0`.

    A word in lower case before a number with a space ("page 12") is no identifier.
    """
    found = ("".join(part for part in match.groups() if part).lower() for match in _CODE.finditer(text))
    return tuple(dict.fromkeys(found))


def has_identifier(text: str, identifier: str) -> bool:
    """Return whether a text has an identifier in any spelling."""
    runs = re.findall(r"[\d.]+|[^\W\d_]+", identifier)
    gap = r"[-_\s.]{0,2}"
    pattern = gap.join(map(re.escape, runs))
    if len(runs) == 1 and "." in identifier:
        pattern = rf"(?:v\.?\s?)?{pattern}(?:\.0)*"
    return re.search(rf"(?<![^\W_])(?<!\.){pattern}(?![^\W_]|\.\d)", text, re.IGNORECASE) is not None


def judge_identifiers(question: str, hits: Sequence[Hit], judgment: Judgment) -> Judgment:
    """Return the judgment of a question; an answer is not sure if an identifier of the question is in no passage."""
    names = identifiers_in(question)
    if not names or not hits:
        return judgment
    texts = [hit.passage.indexed_text for hit in hits]
    missing = next((name for name in names if not any(has_identifier(text, name) for text in texts)), "")
    if missing and judgment.decision == "answer":
        reason = f"“{missing}” is in no passage that was found"
        return judgment.model_copy(update={"decision": "partial", "reason": reason})
    return judgment
