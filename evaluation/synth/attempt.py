"""One attempt of a synthesis: the models that write and judge, their time and cost, and what came of it.

A reply that cannot be used (malformed twice, cut twice, refused) rejects what is being made, with what the model wrote.
A call that fails for outer reasons (no connection, a limit, the time is over) fails the attempt, which is tried again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from pydantic import BaseModel

from turnmark.assistant.asking import Failure, ask
from turnmark.assistant.budget import fit_prompt, room_for
from turnmark.assistant.generators.base import Generator, GeneratorError
from turnmark.assistant.prompts import PromptFolder
from turnmark.assistant.settings import Price
from turnmark.assistant.types import Usage
from turnmark.corpora.types import Message
from turnmark.evaluation.benchmarks.base import Case
from turnmark.evaluation.budget import OBJECT_TOKENS, with_cost
from turnmark.evaluation.judging.rubrics import Outcome, Rubric
from turnmark.evaluation.limits import Bounded
from turnmark.evaluation.synth.folder import RAW, Reject, SynthItem

if TYPE_CHECKING:
    from turnmark.evaluation.embedding import SharedEmbed
    from turnmark.evaluation.synth.source import IndexSource

T = TypeVar("T", bound=BaseModel)

PROMPTS = PromptFolder(Path(__file__).with_name("prompts"), "a synthesis")
ABOUT_THE_REPLY = frozenset(("length", "invalid", "content_filter", "refused", "bad_reply", "too_long"))
"""Kinds of failure that are about what was asked, so that asking again would not help."""
WRITER, JUDGE = "generator", "judge"


class SynthReply(BaseModel):
    """Base of what prompts ask for: `example` is the reply that a dry run assumes, `tokens` its length."""

    example: ClassVar[dict[str, Any]]
    tokens: ClassVar[int] = OBJECT_TOKENS


class Rejected(Exception):
    """What is being made did not pass a filter.

    Args:
        stage: the filter, as the report counts it.
        reason: in words that are the same for all that fail alike.
        raw: what the model wrote.
    """

    def __init__(self, stage: str, reason: str, raw: str = "") -> None:
        super().__init__(f"{stage}: {reason}")
        self.stage, self.reason, self.raw = stage, reason, raw[-RAW:]


@dataclass(frozen=True)
class Seed:
    """What one attempt starts from.

    Attributes:
        id: in `attempts.jsonl`, and of what it makes; attempts are made in the order of their seeds.
        start: a document's id, or whatever else the synthesis starts from.
        domain: shown with the attempt.
    """

    id: str
    start: Any
    domain: str = ""


@dataclass(frozen=True)
class Exported:
    """The files that were written, by their names under the folder, and notes about them."""

    files: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tools:
    """What every attempt of a synthesis works with.

    Attributes:
        judge: the model that filters; None: the embedded judge.
        same: the judge is the model that writes, because nobody else was named.
        measures: `faithfulness` and `idk` -> what judges them, of a model or embedded.
        dry: nothing is made; tokens are counted and every filter is passed.
    """

    source: IndexSource
    seed: int
    embed: SharedEmbed
    judge: Generator | None = None
    same: bool = False
    measures: Mapping[str, Rubric] = field(default_factory=dict)
    prompts: Path | None = None
    judge_price: Price | None = None
    deadline: float = 300.0
    dry: bool = False


class Attempt:
    """One attempt.

    Args:
        generator: writes; its calls end with the attempt's time.

    Attributes:
        items, rejects: what was made so far, and what did not pass.
        random: chance that depends on the command's seed and on this attempt alone, whatever else runs.
        usage: role -> what its calls took.
    """

    def __init__(self, seed: Seed, tools: Tools, generator: Generator) -> None:
        self.seed, self.tools = seed, tools
        self.items: list[SynthItem] = []
        self.rejects: list[Reject] = []
        self.usage: dict[str, Usage] = {}
        self.random = random.Random(f"{tools.seed} {seed.id}")
        self._writer = generator
        separate = tools.judge if not tools.same else None
        self._judge = Bounded.until(separate, tools.deadline) if separate is not None else generator
        self._judge_role = WRITER if separate is None else JUDGE
        self._notes: dict[str, None] = {}

    @property
    def writer(self) -> str:
        """The spec of the model that writes."""
        return self._writer.name

    def keep(self, name: str, key: str, content: dict[str, Any], domain: str = "") -> None:
        """Add an item; its notes say what the attempt's prompts did not show of their material."""
        notes = tuple(self._notes)
        self.items.append(SynthItem(id=name, seed=self.seed.id, domain=domain, key=key, content=content, notes=notes))

    def reject(self, rejected: Rejected, **about: Any) -> None:
        """Add what did not pass, and what else is known of it."""
        reject = Reject(seed=self.seed.id, stage=rejected.stage, reason=rejected.reason, raw=rejected.raw, about=about)
        self.rejects.append(reject)

    def check(self, good: bool, stage: str, reason: str, raw: str = "") -> None:
        """Go on only if something holds; in a dry run everything does.

        Raises:
            Rejected: it does not.
        """
        if not good and not self.tools.dry:
            raise Rejected(stage, reason, raw)

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
            stage: the filter that an unusable reply counts under.
            name: of the prompt.
            texts: placeholder -> text from outside or from a model, shown between marks.
            passages, history: shown if the prompt has placeholders for them, and cut if they do not fit.
            plain: placeholder -> words of ours.
            judge: it is for the judge, not for the writer.

        Raises:
            Rejected: no usable reply came.
            GeneratorError: the call failed for other reasons than what was asked.
        """
        generator = self._judge if judge else self._writer
        limit = generator.reply_tokens
        prompt = PROMPTS.load(name, self.tools.prompts)
        shown = {key: text or None for key, text in texts.items()}
        fitted = fit_prompt(prompt, room_for(generator, limit), shown, passages, history, plain)
        if fitted is None:
            raise Rejected(stage, "too long for the model's context")
        self._notes |= dict.fromkeys(f"{name}: {note}" for note in fitted.notes)
        reply, usage = ask(generator, fitted.messages, schema, max_tokens=limit, temperature=temperature)
        self._spend(self._judge_role if judge else WRITER, usage)
        if isinstance(reply, Failure):
            raise _failure(stage, reply.kind, reply.reason, reply.raw)
        return reply

    def ask_judge(self, measure: str, case: Case) -> Outcome:
        """What the judge says of a reply by `tools.measures`.

        Raises:
            Rejected: it gave no verdict.
            GeneratorError: its call failed for other reasons.
        """
        from turnmark.evaluation.judging.extractive import NoModel

        judge = self._judge if self.tools.judge is not None else NoModel()
        outcome = self.tools.measures[measure].ask(judge, case, None)
        self._spend(self._judge_role, outcome.usage)
        if outcome.status == "failed" and not self.tools.dry:
            raise _failure(measure, outcome.kind or "invalid", outcome.reason, outcome.raw)
        return outcome

    def _spend(self, role: str, usage: Usage) -> None:
        if usage != Usage():
            priced = with_cost(usage, self.tools.judge_price) if role == JUDGE else usage
            self.usage[role] = self.usage.get(role, Usage()) + priced


def _failure(stage: str, kind: str, reason: str, raw: str) -> Exception:
    if kind not in ABOUT_THE_REPLY:
        return GeneratorError(kind, reason)  # type: ignore[arg-type]
    return Rejected(stage, f"no usable reply: {kind.replace('_', ' ')}", raw or reason)


class Synthesis(Protocol):
    """A way of making data.

    Attributes:
        name: as on the command line.
        prompts: names of the prompts that it asks with.
        measures: of `faithfulness` and `idk`, what the judge is asked of an answer.
        each: the most items that an attempt makes.
        options: its settings, by which it is opened again.
    """

    name: ClassVar[str]
    prompts: ClassVar[tuple[str, ...]]
    measures: ClassVar[tuple[str, ...]]
    each: ClassVar[int]
    options: Mapping[str, Any]

    def seeds(self, source: IndexSource, seed: int) -> Sequence[Seed]:
        """What attempts start from, in order; the same for the same corpus and seed."""
        ...

    def make(self, attempt: Attempt) -> None:
        """Fill an attempt. Called from many threads at once.

        Raises:
            Rejected: nothing came of it; the reason is recorded.
            GeneratorError: a call failed; the attempt will be tried again.
        """
        ...

    def export(self, folder: Path, items: Sequence[SynthItem], source: IndexSource) -> Exported:
        """Write the benchmark's files."""
        ...


SYNTHESES = {
    "mtrag": "turnmark.evaluation.synth.mtrag:Conversations",
    "inscoqa": "turnmark.evaluation.synth.inscoqa:Instructions",
    "compound-qa": "turnmark.evaluation.synth.compound:CompoundQuestions",
}


def open_synthesis(name: str, options: Mapping[str, Any]) -> Synthesis:
    """The synthesis of this name, with these settings.

    Raises:
        RequestError: a setting has a wrong value.
    """
    module, _, attribute = SYNTHESES[name].partition(":")
    synthesis: Synthesis = getattr(import_module(module), attribute)(**options)
    return synthesis
