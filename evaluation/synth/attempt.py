"""One attempt of a synthesis: the calls of the models that write and judge, their time and cost, and what came of it.

A reply that cannot be used (malformed twice, cut twice, refused) rejects what is being made, with what the model wrote.
A call that fails for outer reasons (no connection, a limit, the time is over) fails the attempt, which is tried again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from pydantic import BaseModel

from turnmark.assistant.asking import Failure, ask
from turnmark.assistant.budget import fit_prompt, room_for
from turnmark.assistant.generators.base import Generator, GeneratorError
from turnmark.assistant.prompts import PromptFolder
from turnmark.assistant.types import Usage
from turnmark.corpora.types import Message
from turnmark.evaluation.synth.folder import IndexSource, Reject, SynthItem

if TYPE_CHECKING:
    from turnmark.retrieval.embed import SharedEmbed

T = TypeVar("T", bound=BaseModel)

PROMPTS = PromptFolder(Path(__file__).with_name("prompts"), "a synthesis")
ABOUT_THE_REPLY = frozenset(("length", "invalid", "content_filter", "refused", "bad_reply", "too_long"))
"""Kinds of failure that are about what was asked, so that asking again would not help."""
EMBEDDER = "minilm"
WRITER, JUDGE = "generator", "judge"
RAW = 20_000
"""Characters that are kept of what a model wrote where it was rejected, of its end where it wrote more."""


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


def check(good: bool, stage: str, reason: str, raw: str = "") -> None:
    """Reject what is being made unless something holds."""
    if not good:
        raise Rejected(stage, reason, raw)


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
class Tools:
    """What every attempt of a synthesis works with."""

    source: IndexSource
    seed: int
    embed: SharedEmbed
    prompts: Path | None = None


class Attempt:
    """One attempt.

    Args:
        generator: writes; its calls end with the attempt's time.
        judge: another model that filters; None: the one that writes.

    Attributes:
        items, rejects: what was made so far, and what did not pass.
        random: chance that depends on the command's seed and on this attempt alone, whatever else runs.
        usage: role -> what its calls took.
    """

    def __init__(self, seed: Seed, tools: Tools, generator: Generator, judge: Generator | None = None) -> None:
        self.seed, self.tools, self.generator, self.judge = seed, tools, generator, judge
        self.items: list[SynthItem] = []
        self.rejects: list[Reject] = []
        self.usage: dict[str, Usage] = {}
        self.random = random.Random(f"{tools.seed} {seed.id}")
        self._notes: dict[str, None] = {}

    def keep(self, name: str, key: str, content: dict[str, Any], domain: str = "") -> None:
        """Add an item; its notes say what the attempt's prompts did not show of their material."""
        notes = tuple(self._notes)
        self.items.append(SynthItem(id=name, seed=self.seed.id, domain=domain, key=key, content=content, notes=notes))

    def reject(self, rejected: Rejected, **about: Any) -> None:
        """Add what did not pass, and what else is known of it."""
        reject = Reject(seed=self.seed.id, stage=rejected.stage, reason=rejected.reason, raw=rejected.raw, about=about)
        self.rejects.append(reject)

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
        temperature: float | None = None,
        judge: bool = False,
    ) -> T:
        """The reply to a prompt.

        Args:
            stage: the filter that an unusable reply counts under.
            name: of the prompt.
            texts: placeholder -> text from outside or from a model, shown between marks.
            passages, history: shown if the prompt has placeholders for them, and cut if they do not fit.
            plain: placeholder -> words of ours.
            judge: the judge is asked, if there is one.

        Raises:
            Rejected: no usable reply came.
            GeneratorError: the call failed for other reasons than what was asked.
        """
        role, generator = (JUDGE, self.judge) if judge and self.judge is not None else (WRITER, self.generator)
        limit = generator.reply_tokens
        prompt = PROMPTS.load(name, self.tools.prompts)
        shown = {key: text or None for key, text in texts.items()}
        fitted = fit_prompt(prompt, room_for(generator, limit), shown, passages, history, plain)
        if fitted is None:
            raise Rejected(stage, "too long for the model's context")
        self._notes |= dict.fromkeys(f"{name}: {note}" for note in fitted.notes)
        reply, usage = ask(generator, fitted.messages, schema, max_tokens=limit, temperature=temperature)
        self.usage[role] = self.usage.get(role, Usage()) + usage
        if not isinstance(reply, Failure):
            return reply
        if reply.kind not in ABOUT_THE_REPLY:
            raise GeneratorError(reply.kind, reply.reason)  # type: ignore[arg-type]
        raise Rejected(stage, f"no usable reply: {reply.kind.replace('_', ' ')}", reply.raw or reply.reason)


class Synthesis(Protocol):
    """A way of making data.

    Attributes:
        name: as on the command line.
        prompts: names of the prompts that it asks with.
        each: the most items that an attempt makes.
        tokens: in and out, what an attempt takes, about; `--budget` expects it of the first ones.
        options: its settings, by which it is opened again.
    """

    name: ClassVar[str]
    prompts: ClassVar[tuple[str, ...]]
    each: ClassVar[int]
    tokens: tuple[int, int]
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

    def export(self, folder: Path, items: Sequence[SynthItem], source: IndexSource) -> Sequence[str]:
        """Write the benchmark's files; their names under the folder."""
        ...


SYNTHESES = {
    "mtrag": "turnmark.evaluation.synth.mtrag:Conversations",
    "inscoqa": "turnmark.evaluation.synth.inscoqa:Instructions",
    "compound-qa": "turnmark.evaluation.synth.compound:CompoundQuestions",
}


def open_synthesis(name: str, options: Mapping[str, Any]) -> Synthesis:
    """The synthesis of this name, with these settings."""
    module, _, attribute = SYNTHESES[name].partition(":")
    synthesis: Synthesis = getattr(import_module(module), attribute)(**options)
    return synthesis
