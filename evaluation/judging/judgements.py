"""What is judged and what came of it: a case, its prompt, the outcome of one judge, the file that keeps every outcome.

A prompt that is too long for a judge's context is cut where that hurts least, and the outcome says so: first the ends
of the passages, the longest ones most; then the oldest turns; then whole passages, the last ones first. Question, reply
and reference are never cut: a judgement of a part of a reply is none of the reply.

Prompts of one's own that are those of a paper are told by a digest; their texts are not in this project. It is over the
text without white space, in lower case, typographic quotation marks made plain, each placeholder by our name for it.
Sources: `rb-llm` MTRAG Figure 6 (judge_utils.py of the repository prints the same); `idk` MTRAG Figure 8 with the
examples that judge_utils.py has; `clarification` underspecified_eval.py, for MTRAG-UN Figure 6. Of the others there is
only the print, whose punctuation depends on who copied it, so their digests are over letters and digits alone:
`inseval` InsCoQA appendix E, `pairwise` and `compound-extract` Compound-QA Tables 17 and 19 (without the lines between
/* and */), `kiwi-verdict` KIWI appendix A.5.1, zero-shot and few-shot.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, FiniteFloat, model_validator

from turnmark.assistant.budget import count_tokens
from turnmark.assistant.generators.base import Generator, PromptMessage
from turnmark.assistant.prompts import Prompt, fence_tag
from turnmark.assistant.steps.llm import numbered, turns
from turnmark.assistant.types import Usage
from turnmark.corpora.types import Message, Record
from turnmark.evaluation.benchmarks.base import Case
from turnmark.evaluation.journal import Journal
from turnmark.evaluation.prompts import TAG, OwnPrompt, framed, load_prompt, own_names
from turnmark.evaluation.records import ScoreStatus

RAW = 20_000
"""Characters that are kept of what a judge wrote, of its end where it wrote more."""
REASON = 600
"""Characters of a judge's reasons that a score repeats; the rest is in `judgements.jsonl`."""


class Outcome(Record):
    """What one judge made of a case.

    `failed`: the instrument failed, never the system; the reason says how, and `raw` holds what the judge wrote.
    """

    status: ScoreStatus
    value: FiniteFloat | None = Field(default=None, description="scored: in the units of the metric")
    label: str | None = Field(default=None, description="scored by a label: which of those on offer")
    reason: str = Field(default="", description="the judge's reasons; not scored: why there is no value")
    kind: str | None = Field(default=None, description="failed: the type of the failure, such as `invalid`, `length`")
    raw: str = Field(default="", description="failed: the last text that the judge wrote")
    parts: tuple[str, ...] = Field(default=(), description="what it was made of: claims with their verdicts, questions")
    notes: tuple[str, ...] = Field(default=(), description="what of the material the judge was not shown")
    weight: float = Field(
        default=1.0, gt=0, description="how much the value counts in a mean, such as parts it is over"
    )
    also: dict[str, FiniteFloat | None] = Field(
        default_factory=dict, description="further metrics of the same call; None: not applicable"
    )
    usage: Usage = Usage()

    @model_validator(mode="after")
    def _status_fits(self) -> Outcome:
        if (self.status == "scored") != (self.value is not None):
            raise ValueError("an outcome has a value where it is scored, and nowhere else")
        if self.status == "failed" and not self.reason:
            raise ValueError("a failed outcome has a reason")
        return self


class Judgement(Outcome):
    """One line of `judgements.jsonl`: what a judge made of a case, found again by `key` when a run is scored anew."""

    key: str = Field(description="SHA-256 of all that can change it: the case, the measure, its prompts, the judge")
    id: str = Field(description="of the first sample that it was made for")
    repeat: int = 0
    measure: str
    judge: str = Field(description="spec in normal form")
    prompts: str = Field(default="", description="of a language model: hash of what it was asked with; empty: unknown")
    seconds: FiniteFloat = 0.0
    tries: int = Field(default=1, description="times it was asked for; `usage` is that of all of them")


FILE = "judgements.jsonl"


class JudgementJournal(Journal[str, Judgement]):
    """The judgements of a run, by key; a line that is none is asked for again."""

    def __init__(self, path: Path) -> None:
        self._failed: set[str] = set()
        self._used: dict[str, Usage] = {}
        super().__init__(path, Judgement, lambda judgement: judgement.key)

    def note(self, record: Judgement) -> None:
        """See `Journal.note`."""
        (self._failed.add if record.status == "failed" else self._failed.discard)(record.key)
        if record.usage.calls:
            self._used[record.key] = record.usage

    def used(self) -> Usage:
        """What all of them took, over all tries."""
        return sum(self._used.values(), Usage())

    def settled(self, key: str) -> bool:
        """Whether there is one that did not fail, and need not be asked for again."""
        return key in self and key not in self._failed


# --- its prompt ------------------------------------------------------------------------------------------------------

Messages = tuple[PromptMessage, ...]
Render = Callable[[Sequence[str], Sequence[Message]], Messages]
"""The prompt with these passages and these turns."""

LEAST = 60
"""Tokens that are left of each passage before turns are left out."""
REPAIR = 200
"""Tokens of the request to judge once more."""
CUT = " […]"


@dataclass(frozen=True)
class Fitted:
    """A prompt that fits, and in words what it does not show."""

    messages: Messages
    notes: tuple[str, ...] = ()


def room_for(generator: Generator, reply: int | None = None) -> int:
    """Tokens that a prompt may have: there is room for a reply, for another, and for what is said between them.

    Args:
        reply: tokens of a reply; None: the generator's own.
    """
    window = generator.context_tokens
    return window - min(2 * (reply or generator.reply_tokens) + REPAIR, window // 2)


def fit(render: Render, passages: Sequence[str], history: Sequence[Message], room: int) -> Fitted | None:
    """The prompt within `room` tokens; None where it does not fit even without passages and earlier turns."""

    def attempt(passages_shown: Sequence[str], turns: Sequence[Message]) -> Messages | None:
        messages = render(passages_shown, turns)
        return messages if sum(count_tokens(message.content) for message in messages) <= room else None

    prompt = attempt(passages, history)
    if prompt is not None:
        return Fitted(prompt)
    if passages and attempt(_cut(passages, LEAST), history) is not None:
        low, high = LEAST, max(map(count_tokens, passages))  # low fits, high does not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if attempt(_cut(passages, middle), history) is not None else (low, middle)
        return Fitted(render(_cut(passages, low), history), (_ends_cut(passages, low),))
    shortest = _cut(passages, LEAST)
    for first in range(1, len(history) + 1):
        messages = attempt(shortest, history[first:])
        if messages is not None:
            return Fitted(messages, (*_cut_notes(passages), _turns_out(first, len(history))))
    for count in range(len(passages) - 1, -1, -1):
        messages = attempt(shortest[:count], ())
        if messages is not None:
            left_out_note = f"{len(passages) - count} of {len(passages)} passages left out, the last ones"
            turns = [_turns_out(len(history), len(history))] if history else []
            return Fitted(messages, (*_cut_notes(passages[:count]), *turns, left_out_note))
    return None


def _cut_notes(passages: Sequence[str]) -> list[str]:
    return [_ends_cut(passages, LEAST)] if _cut(passages, LEAST) != list(passages) else []


def _ends_cut(passages: Sequence[str], limit: int) -> str:
    cut = sum(text != shortened_text for text, shortened_text in zip(passages, _cut(passages, limit), strict=True))
    return f"the ends of {cut} of {len(passages)} passages cut, at about {limit} tokens"


def _turns_out(dropped: int, total: int) -> str:
    return f"{dropped} of {total} earlier messages left out, the oldest"


def _cut(passages: Sequence[str], limit: int) -> list[str]:
    return [shortened(text, limit) for text in passages]


def shortened(text: str, limit: int) -> str:
    """The longest beginning of `text` that has at most so many tokens and ends with a word; marked where it was cut."""
    if count_tokens(text) <= limit:
        return text
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    low, high = 0, len(ends)  # how many words fit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count_tokens(text[: ends[middle - 1]]) <= limit else (low, middle - 1)
    return (text[: ends[low - 1]] if low else text[: limit * 3]) + CUT


_CASE_TEXTS = ("question", "answer", "reference")
_KINDS = {"answer": "reply"}
_SPEAKERS = {"assistant": "agent"}


def placeholder_values(
    prompt: Prompt, case: Case, texts: Mapping[str, str], passages: Sequence[str], history: Sequence[Message]
) -> dict[str, str]:
    """The values of a prompt's placeholders.

    Bare material has the form of MTRAG's official scripts (judge_utils.py): passages one after the other, turns as
    lines that begin with `user: ` and `agent: `.

    Args:
        texts: placeholder -> text, beside those of the case.
        passages: as many of the case's as fit.
        history: as many of the case's earlier turns as fit.
    """
    shown_texts: dict[str, str] = {
        name: getattr(case, name) for name in _CASE_TEXTS if name in prompt.placeholders
    } | dict(texts)
    tag = fence_tag(*shown_texts.values(), *passages, *(turn.content for turn in history), case.question)
    values = {name: framed(prompt, text, _KINDS.get(name, name), tag) for name, text in shown_texts.items()}
    conversation = (*history, Message(role="user", content=case.question))
    if TAG in prompt.placeholders:
        values[TAG] = tag
    if "passages" in prompt.placeholders:
        values["passages"] = shown_passages(prompt, passages, tag)
    for name, messages in (("history", tuple(history)), ("conversation", conversation)):
        if name in prompt.placeholders:
            values[name] = shown_turns(prompt, messages, tag)
    return values


def shown_passages(prompt: Prompt, texts: Sequence[str], tag: str) -> str:
    """Passages for a prompt: numbered and between marks where the prompt names their tag, else bare."""
    return numbered(texts, tag) if TAG in prompt.placeholders else "\n\n".join(texts)


def shown_turns(prompt: Prompt, messages: Sequence[Message], tag: str) -> str:
    """Earlier turns for a prompt: between marks where the prompt names their tag, else a line each."""
    if TAG in prompt.placeholders:
        return turns(messages, tag)
    return _lines(messages)


def as_lines(case: Case) -> str:
    """The conversation up to the question, a line a turn, as MTRAG's official scripts write it."""
    return _lines((*case.history, Message(role="user", content=case.question)))


def _lines(messages: Sequence[Message]) -> str:
    return "\n".join(f"{_SPEAKERS.get(message.role, message.role)}: {message.content}" for message in messages)


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
"""What a published figure's instrument is held against, in place of `rubrics.OWN_WORDS`."""
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_QUOTES = {ord("‘"): "'", ord("’"): "'", ord("“"): '"', ord("”"): '"', ord("–"): "-", ord("—"): "-"}


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


def asks_for_json(prompt: Prompt) -> bool:
    """Whether a prompt wants its reply as an object, as the built-in ones do; those that papers print do not."""
    return any("JSON" in text for _, text in prompt.sections)


def whose(names: Iterable[str], directory: Path | None) -> str:
    """Whose prompts a measure asks with: `OFFICIAL`, `OWN`, or empty for the built-in ones."""
    names = tuple(names)
    if not own_names(names, directory):
        return ""
    prompts = {name: load_prompt(name, directory) for name in names}
    papers = (
        isinstance(prompt, OwnPrompt) and not {digest(prompt), letters_digest(prompt)}.isdisjoint(PAPERS.get(name, ()))
        for name, prompt in prompts.items()
    )
    return OFFICIAL if all(papers) else OWN
