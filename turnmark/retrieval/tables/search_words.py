"""Words by which stored tables and their rows are searched."""

from __future__ import annotations

import re

from turnmark.corpora.text.segmentation import CHARACTER


def split_unspaced(text: str) -> str:
    """Return a text for the full-text index, in which characters of scripts without spaces are words."""
    return text if text.isascii() else CHARACTER.sub(r" \g<0> ", text)


def search_words(text: str) -> list[str]:
    """Return the words of a text in lower case, as the full-text index splits them."""
    return re.findall(r"[^\W_]+", split_unspaced(text.lower()))


def remove_plural(word: str) -> str:
    """Return an English word without the ending of a plural."""
    return word[:-1] if len(word) > 3 and word.endswith("s") else word


def match_both_numbers(word: str) -> str:
    """Return the query of the full-text index of rows for a word.

    The index has no stems, since they confuse names: "many" would find "Mani".
    """
    singular = remove_plural(word)
    return " OR ".join(f'"{form}"' for form in dict.fromkeys((word, singular, f"{singular}s")))
