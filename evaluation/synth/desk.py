"""Where an item is made: the models that write and judge, within one attempt's time, and what their calls cost.

A reply that is no reply (malformed twice, cut twice, refused) rejects what is being made, with what the model wrote. A
call that fails for outer reasons (no connection, a limit, the time is over) fails the attempt, which is tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from turnmark.assistant.generators.base import Generator, GeneratorError
from turnmark.assistant.prompts import fence, fence_tag
from turnmark.assistant.steps.llm import numbered, turns
from turnmark.assistant.structured import Failure, ask
from turnmark.assistant.types import Usage
from turnmark.corpora.types import Message
from turnmark.evaluation.bounded import Bounded
from turnmark.evaluation.judging.judgements import Case, Outcome
from turnmark.evaluation.judging.prompting import Messages, fit, room_for
from turnmark.evaluation.judging.rubrics import Measure
from turnmark.evaluation.synth.prompts import load_prompt
from turnmark.evaluation.synth.records import RAW, Reject

if TYPE_CHECKING:
    from turnmark.evaluation.embedding import SharedEmbed
    from turnmark.evaluation.synth.source import Source

T = TypeVar("T", bound=BaseModel)

REPLIES = frozenset(("length", "invalid", "content_filter", "refused", "bad_reply", "too_long"))
"""Kinds of failure that are about what was asked, so that asking again would not mend them."""
WRITER, JUDGE = "generator", "judge"


class Declined(Exception):
    """What is being made did not pass a filter.

    Args:
        stage: the filter, as the data sheet counts it.
        reason: in words that are the same for all that fail alike.
        raw: what the model wrote.
    """

    def __init__(self, stage: str, reason: str, raw: str = "") -> None:
        super().__init__(f"{stage}: {reason}")
        self.stage, self.reason, self.raw = stage, reason, raw[-RAW:]

    def rejected(self, seed: str, **about: Any) -> Reject:
        """The line of `rejects.jsonl`."""
        return Reject(seed=seed, stage=self.stage, reason=self.reason, raw=self.raw, about=about)


@dataclass(frozen=True)
class Tools:
    """What every attempt of a synthesis works with.

    Attributes:
        judge: the model that filters; None: the embedded judge.
        same: the judge is the model that writes, because nobody else was named.
        measures: `faithfulness` and `idk` -> what judges them, of a model or embedded.
        price: the usage of a judge's call -> with its cost.
    """

    seed: int
    embed: SharedEmbed
    source: Source | None = None
    judge: Generator | None = None
    same: bool = False
    measures: Mapping[str, Measure] = field(default_factory=dict)
    prompts: Path | None = None
    price: Callable[[Usage], Usage] = lambda used: used
    deadline: float = 300.0
    rehearsing: bool = False


class Desk:
    """One attempt.

    Args:
        generator: writes; its calls end with the attempt's time.
    """

    def __init__(self, tools: Tools, generator: Generator) -> None:
        self.tools = tools
        self._writer = generator
        judge = tools.judge if tools.judge is not None and not tools.same else None
        self._judge: Generator = (
            Bounded(judge, time.monotonic() + tools.deadline, tools.deadline) if judge is not None else generator
        )
        self._judge_role = JUDGE if judge is not None else WRITER
        self.usage: dict[str, Usage] = {}
        self._notes: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        """What prompts of the attempt do not show of their material, each said once."""
        return tuple(dict.fromkeys(self._notes))

    @property
    def writer(self) -> str:
        """The spec of the model that writes."""
        return self._writer.name

    @property
    def source(self) -> Source:
        """The index."""
        assert self.tools.source is not None, "a kind that searches is given an index"
        return self.tools.source

    def ask(
        self,
        stage: str,
        name: str,
        schema: type[T],
        texts: Mapping[str, str],
        *,
        passages: Sequence[str] = (),
        history: Sequence[Message] = (),
        plain: Mapping[str, str] | None = None,
        judge: bool = False,
        temperature: float | None = None,
    ) -> T:
        """The reply to a prompt.

        Args:
            stage: what is said of a reply that is none.
            name: of the prompt.
            texts: placeholder -> text from outside or from a model; each stands between marks.
            passages, history: shown where the prompt has a place for them; cut where they do not fit.
            plain: placeholder -> words of ours.
            judge: it is for the judge, not for the writer.

        Raises:
            Declined: no usable reply came.
            GeneratorError: the call failed for other reasons than what was asked.
        """
        prompt = load_prompt(name, self.tools.prompts)
        asked = self._judge if judge else self._writer
        limit = asked.reply_tokens

        def render(shown: Sequence[str], said: Sequence[Message]) -> Messages:
            tag = fence_tag(*texts.values(), *shown, *(turn.content for turn in said))
            values = {key: fence(text, key, tag) if text else "" for key, text in texts.items()}
            if "passages" in prompt.placeholders:
                values["passages"] = numbered(shown, tag)
            if "history" in prompt.placeholders:
                values["history"] = turns(said, tag)
            return prompt.render(tag=tag, **values, **(plain or {}))

        fitted = fit(render, passages, history, room_for(asked, limit))
        if fitted is None:
            raise Declined(stage, "too long for the model's context")
        self._notes += [f"{name}: {note}" for note in fitted.notes]
        found, used = ask(asked, fitted.messages, schema, max_tokens=limit, temperature=temperature)
        self._spend(self._judge_role if judge else WRITER, used)
        if not isinstance(found, Failure):
            return found
        self._failed(stage, found.kind, found.reason, found.raw)
        raise AssertionError("a failure declines, or raises")

    def judged(self, stage: str, measure: str, case: Case) -> Outcome:
        """What the judge says of a reply by `tools.measures`.

        Raises:
            Declined: it gave no verdict.
            GeneratorError: its call failed for other reasons.
        """
        from turnmark.evaluation.judging.extractive import NoModel

        chosen = self.tools.measures[measure]
        outcome = chosen.ask(self._judge if self.tools.judge is not None else NoModel(), case, None)
        self._spend(self._judge_role, outcome.usage)
        if outcome.status == "failed" and not self.tools.rehearsing:
            self._failed(stage, outcome.kind or "invalid", outcome.reason, outcome.raw)
        return outcome

    def check(self, good: bool, stage: str, reason: str, raw: str = "") -> None:
        """Go on only if something holds; in a rehearsal everything does.

        Raises:
            Declined: it does not.
        """
        if not good and not self.tools.rehearsing:
            raise Declined(stage, reason, raw)

    def _failed(self, stage: str, kind: str, reason: str, raw: str) -> None:
        if kind not in REPLIES:
            raise GeneratorError(kind, reason)  # type: ignore[arg-type]
        raise Declined(stage, f"no usable reply: {kind.replace('_', ' ')}", raw or reason)

    def _spend(self, role: str, used: Usage) -> None:
        if used == Usage():
            return
        priced = self.tools.price(used) if role == JUDGE else used
        self.usage[role] = self.usage.get(role, Usage()) + priced
