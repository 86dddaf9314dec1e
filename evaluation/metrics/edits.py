"""What a revision changed: the statistics of KIWI's table 6 (appendix A.3), for one turn.

The paper names the columns (`# words` of source and target, `Len ratio`, `Edit distance`, `Edit ratio`) and defines
none. Its rows leave one reading: for "Condense", 388 words become 234 at an edit distance of 213, a length ratio of .64
and an edit ratio of .55. 234 / 388 = .60 and 213 / 388 = .55, while 213 / 234 = .91; and the edit ratios of "More
information" (.85 at 227 and 340 words, distance 162) are out of reach of a division by the target or the longer text.
So both ratios divide by the source, turn by turn, and the table shows means over turns. The distance is Levenshtein's
over words: an insertion, a deletion and a substitution cost 1 each. (The rows "Remove" and "Reorganize" agree in all
of target words, both ratios and the distance, which looks like a slip of the pen: nothing is concluded from them.)

A word is what stands between white space, with its case and its punctuation, since an edit of either is an edit; a Han
or kana character is a word of its own. The caller strips citation marks (`turnmark.corpora.text.strip_citations`) on
both sides.
"""

from __future__ import annotations

import re
from functools import cache

from turnmark.corpora.text import CJK


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile(rf"[{CJK}]|[^\s{CJK}]+")


def edit_words(text: str) -> list[str]:
    """The words an edit can touch: `text.split()`, but every Han or kana character by itself."""
    return _pattern().findall(text)


def length_ratio(revised: str, previous: str) -> float | None:
    """`length_ratio`: words of the revised answer / words of the previous one. 0 or more; 1 is the same length.

    None where the previous answer has no word. Source: KIWI table 6, "Len ratio".
    """
    before = len(edit_words(previous))
    return len(edit_words(revised)) / before if before else None


def edit_distance(revised: str, previous: str) -> float:
    """`edit_distance`: the fewest words to insert, delete or replace to get from one to the other. Symmetric.

    A number of words, from the difference of the lengths to the longer length; always measured, 0 for two empty
    answers. Source: KIWI table 6, "Edit distance".
    """
    from rapidfuzz.distance import Levenshtein

    return float(Levenshtein.distance(edit_words(previous), edit_words(revised)))


def edit_ratio(revised: str, previous: str) -> float | None:
    """`edit_ratio`: `edit_distance` / words of the previous answer. 0 or more; above 1 where much was added.

    None where the previous answer has no word. Source: KIWI table 6, "Edit ratio".
    """
    before = len(edit_words(previous))
    return edit_distance(revised, previous) / before if before else None
