"""The prompts of the judges and of the papers' protocols, and the digests that recognize a paper's original prompt.

This project does not contain the papers' prompts. A user who copies one into a folder of prompts gets the paper's
instrument; a digest recognizes the copy. The digests are in `prompts/facts.json` of each benchmark. A digest is over
the text without white space, in lower case, with plain quotation marks and our names of the placeholders. Copies of a
prompt that exists only in print differ in punctuation, so their digests are over letters and digits.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from pydantic import Field

from turnmark.assistant.llm.prompts.prompt_files import ASSISTANT_PROMPTS, Prompt, PromptFolder, check_prompts
from turnmark.core.record import Record
from turnmark.evaluation.benchmark_files import benchmark_files

HERE = Path(__file__).parent
CASE = frozenset(("question", "history", "conversation", "answer", "reference", "passages"))
"""Placeholders of every prompt about one reply; `conversation` is the earlier turns and the question."""


class PromptFacts(Record):
    """The facts about a benchmark's prompts, from `prompts/facts.json` in its folder."""

    sources: str = Field(description="where the papers' versions are printed")
    about_one_reply: tuple[str, ...] = Field(default=(), description="prompts with the placeholders of `CASE`")
    papers: Mapping[str, tuple[str, ...]] = Field(
        default={}, description="name of a prompt -> digests of the paper's versions of it"
    )


@cache
def prompt_facts() -> PromptFacts:
    """Return the facts about the prompts of all benchmarks."""
    stated = [
        PromptFacts.model_validate_json(path.read_text(encoding="utf-8"))
        for path in benchmark_files("prompts/facts.json")
    ]
    papers = {name: digests for facts in stated for name, digests in facts.papers.items()}
    names = tuple(name for facts in stated for name in facts.about_one_reply)
    sources = "; ".join(facts.sources for facts in stated)
    return PromptFacts(sources=sources, about_one_reply=names, papers=papers)


JUDGES = PromptFolder(
    (HERE, *benchmark_files("prompts")),
    "the judges",
    lambda name: CASE if name in prompt_facts().about_one_reply else frozenset(),
)
OFFICIAL, OWN = "the paper's prompt", "a prompt of one's own"
"""Replace `rubrics.OWN_WORDS` in the description of an instrument."""
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_QUOTES = {ord("‘"): "'", ord("’"): "'", ord("“"): '"', ord("”"): '"', ord("–"): "-", ord("—"): "-"}


def own_prompts(directory: Path | None) -> dict[str, str]:
    """Check every file of a folder with the user's own prompts; return name -> SHA-256 of the assistant's prompts."""
    check_prompts(directory, ASSISTANT_PROMPTS, JUDGES)
    return ASSISTANT_PROMPTS.hashes(ASSISTANT_PROMPTS.names, directory)


def digest(prompt: Prompt) -> str:
    """Return 16 digits of a SHA-256 over a prompt's text without white space."""
    return _hash_text("".join(_normalize_text(prompt).split()))


def _normalize_text(prompt: Prompt) -> str:
    text = "".join(_PLACEHOLDER.sub(r"{\1}", section) for _, section in prompt.sections)
    return unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold()


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def asks_for_text(prompt: Prompt) -> bool:
    """Return whether a user's own prompt asks for plain text, as the papers' prompts do, instead of a JSON object."""
    return prompt.own and not any("JSON" in text for _, text in prompt.sections)


def find_origin(names: Iterable[str], directory: Path | None) -> str:
    """Return the origin of some prompts: `OFFICIAL` (all are the papers'), `OWN`, or empty (all are built in)."""
    names = tuple(names)
    if not JUDGES.replaced(names, directory):
        return ""
    for name in names:
        prompt = JUDGES.load(name, directory)
        letters = "".join(filter(str.isalnum, _normalize_text(prompt)))  # for prompts that exist only in print
        digests = {digest(prompt), _hash_text(letters)}
        if not prompt.own or digests.isdisjoint(prompt_facts().papers.get(name, ())):
            return OWN
    return OFFICIAL
