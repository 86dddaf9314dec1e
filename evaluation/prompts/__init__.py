"""The prompts of the judges and of the papers' protocols, and the digests that recognise a paper's original prompt.

This project does not contain the papers' prompts. A user who copies one into a folder of prompts gets the paper's
instrument; a digest recognises the copy. It is over the text without white space, in lower case, with plain quotation
marks and our names of the placeholders. Sources: `rb-llm` MTRAG Figure 6 (the repository's judge_utils.py has the same
text); `idk` MTRAG Figure 8 with the examples of judge_utils.py; `clarification` underspecified_eval.py, for MTRAG-UN
Figure 6. The other prompts exist only in print, and copies of it differ in punctuation, so their digests are over
letters and digits: `inseval` InsCoQA appendix E, `pairwise` and `compound-extract` Compound-QA Tables 17 and 19
(without the lines between /* and */), `kiwi-verdict` KIWI appendix A.5.1, zero-shot and few-shot.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path

from turnmark.assistant.prompts import ASSISTANT, Prompt, PromptFolder, check_prompts
from turnmark.evaluation.benchmark_files import benchmark_files

HERE = Path(__file__).parent
CASE = frozenset(("question", "history", "conversation", "answer", "reference", "passages"))
"""Placeholders of every prompt about one reply; `conversation` is the earlier turns and the question."""
OVER_CASES = ("rb-llm", "rl-mtb", "idk", "claims", "claim-verdicts", "clarification", "implied-questions", "inseval")
"""The prompts about one reply."""
JUDGES = PromptFolder(
    (HERE, *benchmark_files("prompts")), "the judges", lambda name: CASE if name in OVER_CASES else frozenset()
)

PAPERS: Mapping[str, tuple[str, ...]] = {
    "rb-llm": ("1996041c5ba951a8",),
    "idk": ("8e9f35533a79d111",),
    "clarification": ("191d880a78861855",),
    "inseval": ("92a80560f414ab6e",),
    "pairwise": ("3f5f7b897c6277af",),
    "compound-extract": ("59154a2bb09f4a6b",),
    "kiwi-verdict": ("635a76e743d4e45e", "250e2ce38075eaf2"),
}
"""Name of a prompt -> digests of the paper's versions of it."""
OFFICIAL, OWN = "the paper's prompt", "a prompt of one's own"
"""Replace `rubrics.OWN_WORDS` in the description of an instrument."""
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_QUOTES = {ord("‘"): "'", ord("’"): "'", ord("“"): '"', ord("”"): '"', ord("–"): "-", ord("—"): "-"}


def own_prompts(directory: Path | None) -> dict[str, str]:
    """Check every file of a folder with the user's own prompts; return name -> SHA-256 of the assistant's prompts."""
    check_prompts(directory, ASSISTANT, JUDGES)
    return ASSISTANT.hashes(ASSISTANT.names, directory)


def digest(prompt: Prompt) -> str:
    """16 digits of a SHA-256 over a prompt's text without white space."""
    return _hashed("".join(_plain(prompt).split()))


def letters_digest(prompt: Prompt) -> str:
    """16 digits of a SHA-256 over a prompt's letters and digits, for prompts that exist only in print."""
    return _hashed("".join(filter(str.isalnum, _plain(prompt))))


def _plain(prompt: Prompt) -> str:
    text = "".join(_PLACEHOLDER.sub(r"{\1}", section) for _, section in prompt.sections)
    return unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold()


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def asks_for_text(prompt: Prompt) -> bool:
    """Whether a user's own prompt asks for plain text, as the papers' prompts do, instead of a JSON object."""
    return prompt.own and not any("JSON" in text for _, text in prompt.sections)


def whose(names: Iterable[str], directory: Path | None) -> str:
    """The origin of some prompts: `OFFICIAL` (all are the papers'), `OWN`, or empty (all are built in)."""
    names = tuple(names)
    if not JUDGES.replaced(names, directory):
        return ""
    for name in names:
        prompt = JUDGES.load(name, directory)
        digests = {digest(prompt), letters_digest(prompt)}
        if not prompt.own or digests.isdisjoint(PAPERS.get(name, ())):
            return OWN
    return OFFICIAL
