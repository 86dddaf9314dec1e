"""The prompts of the judges and of the papers' protocols, and how a user's prompt is known to be a paper's own.

The texts of the papers' prompts are not in this project; a digest tells them. It is over the text without white space,
in lower case, typographic quotation marks made plain, each placeholder by our name for it. Sources: `rb-llm` MTRAG
Figure 6 (judge_utils.py of the repository prints the same); `idk` MTRAG Figure 8 with the examples of judge_utils.py;
`clarification` underspecified_eval.py, for MTRAG-UN Figure 6. Of the others there is only the print, whose punctuation
depends on who copied it, so their digests are over letters and digits alone: `inseval` InsCoQA appendix E, `pairwise`
and `compound-extract` Compound-QA Tables 17 and 19 (without the lines between /* and */), `kiwi-verdict` KIWI appendix
A.5.1, zero-shot and few-shot.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path

from turnmark.assistant.prompts import ASSISTANT, Prompt, PromptFolder, check_prompts

HERE = Path(__file__).parent
CASE = frozenset(("question", "history", "conversation", "answer", "reference", "passages"))
"""What every prompt over one reply can show; `conversation` is the earlier turns and the question."""
OVER_CASES = ("rb-llm", "rl-mtb", "idk", "claims", "claim-verdicts", "clarification", "implied-questions", "inseval")
"""The prompts over one reply."""
JUDGES = PromptFolder(HERE, "the judges", lambda name: CASE if name in OVER_CASES else frozenset())

PAPERS: Mapping[str, tuple[str, ...]] = {
    "rb-llm": ("1996041c5ba951a8",),
    "idk": ("8e9f35533a79d111",),
    "clarification": ("191d880a78861855",),
    "inseval": ("92a80560f414ab6e",),
    "pairwise": ("3f5f7b897c6277af",),
    "compound-extract": ("59154a2bb09f4a6b",),
    "kiwi-verdict": ("635a76e743d4e45e", "250e2ce38075eaf2"),
}
"""Prompt -> digests of those that its paper used."""
OFFICIAL, OWN = "the paper's prompt", "a prompt of one's own"
"""What a published figure's instrument is held against, instead of `rubrics.OWN_WORDS`."""
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_QUOTES = {ord("‘"): "'", ord("’"): "'", ord("“"): '"', ord("”"): '"', ord("–"): "-", ord("—"): "-"}


def own_prompts(directory: Path | None) -> dict[str, str]:
    """Name -> SHA-256 of the assistant's prompts, after a look at every file of a folder with prompts of one's own."""
    check_prompts(directory, ASSISTANT, JUDGES)
    return ASSISTANT.hashes(ASSISTANT.names, directory)


def digest(prompt: Prompt) -> str:
    """16 digits of a SHA-256 over what a prompt says, however it is laid out."""
    return _hashed("".join(_plain(prompt).split()))


def letters_digest(prompt: Prompt) -> str:
    """The same over letters and digits alone, for prompts of which there is only a print."""
    return _hashed("".join(filter(str.isalnum, _plain(prompt))))


def _plain(prompt: Prompt) -> str:
    text = "".join(_PLACEHOLDER.sub(r"{\1}", section) for _, section in prompt.sections)
    return unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold()


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def asks_for_text(prompt: Prompt) -> bool:
    """Whether a prompt of the user's own wants its reply as text, as the papers' do, and not as an object."""
    return prompt.own and not any("JSON" in text for _, text in prompt.sections)


def whose(names: Iterable[str], directory: Path | None) -> str:
    """Whose prompts a measure asks with: `OFFICIAL`, `OWN`, or empty for the built-in ones."""
    names = tuple(names)
    if not JUDGES.replaced(names, directory):
        return ""
    prompts = {name: JUDGES.load(name, directory) for name in names}
    papers = (
        prompt.own and not {digest(prompt), letters_digest(prompt)}.isdisjoint(PAPERS.get(name, ()))
        for name, prompt in prompts.items()
    )
    return OFFICIAL if all(papers) else OWN
