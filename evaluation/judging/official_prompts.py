"""Which prompts of one's own are those that the papers used, told by a digest: their texts are not in this project.

A digest is over the text without white space, in lower case, typographic quotation marks made plain, each placeholder
by our name for it: how a copy is wrapped and indented does not matter, and every word does.

Sources: `rb-llm` MTRAG Figure 6 (the paper and judge_utils.py of the repository print the same); `idk` MTRAG Figure 8
with the examples that judge_utils.py has; `clarification` underspecified_eval.py, for MTRAG-UN Figure 6.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path

from turnmark.assistant.prompts import Prompt
from turnmark.evaluation.prompts import OwnPrompt, load_prompt, own_names

PAPERS: Mapping[str, str] = {
    "rb-llm": "1996041c5ba951a8",
    "idk": "8e9f35533a79d111",
    "clarification": "191d880a78861855",
}
"""Prompt -> digest of the one that its paper used."""
OFFICIAL, OWN = "the paper's prompt", "a prompt of one's own"
"""What a published figure's instrument is held against, in place of `measures.OWN_WORDS`."""
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_QUOTES = {ord("‘"): "'", ord("’"): "'", ord("“"): '"', ord("”"): '"', ord("–"): "-", ord("—"): "-"}


def digest(prompt: Prompt) -> str:
    """16 digits of a SHA-256 over what a prompt says, however it is laid out."""
    text = "".join(_PLACEHOLDER.sub(r"{\1}", section) for _, section in prompt.sections)
    plain = unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold()
    return hashlib.sha256("".join(plain.split()).encode("utf-8")).hexdigest()[:16]


def is_papers(name: str, directory: Path | None) -> bool:
    """Whether the prompt that is asked with is the one of the paper."""
    prompt = load_prompt(name, directory)
    return isinstance(prompt, OwnPrompt) and name in PAPERS and digest(prompt) == PAPERS[name]


def whose(names: Iterable[str], directory: Path | None) -> str:
    """Whose prompts a measure asks with: `OFFICIAL`, `OWN`, or empty for the built-in ones."""
    names = tuple(names)
    if not own_names(names, directory):
        return ""
    return OFFICIAL if all(is_papers(name, directory) for name in names) else OWN
