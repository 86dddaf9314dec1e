"""One attempt of a synthesis: its calls of the writing model and the judge, and its items and rejects.

An unusable reply (malformed twice, cut twice, refused) rejects the item, and the reject keeps the model's text. A call
that fails for other reasons (connection, rate limit, deadline) fails the attempt, which is tried again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from pydantic import BaseModel

from turnmark.assistant.llm.calls.protocols import Generator, GeneratorError
from turnmark.assistant.llm.prompts.context_budget import fit_prompt, prompt_room
from turnmark.assistant.llm.prompts.prompt_files import PromptFolder
from turnmark.assistant.llm.prompts.structured_output import Failure, ask
from turnmark.assistant.types import Usage
from turnmark.corpora.types import Message
from turnmark.evaluation.benchmark_files import benchmark_files
from turnmark.evaluation.synth.request import syntheses
from turnmark.evaluation.synth.synthesis_folder import IndexSource, Reject, SynthItem
from turnmark.evaluation.tasks.declarations import load
from turnmark.retrieval.embedding.embedders import SharedEmbed

T = TypeVar("T", bound=BaseModel)

PROMPTS = PromptFolder(benchmark_files("prompts/synthesis"), "a synthesis")
PROMPT_FAILURES = frozenset(("length", "invalid", "content_filter", "refused", "bad_reply", "too_long"))
"""Kinds of failure that depend on the prompt, so that the same call would fail again."""
EMBEDDER = "minilm"
WRITER, JUDGE = "generator", "judge"
MAX_RAW_CHARACTERS = 20_000
"""Maximum characters kept of a rejected text; a longer text is cut at its beginning."""


class RejectedItem(Exception):
    """An item did not pass a filter.

    Args:
        stage: the filter's name in the report.
        reason: the same words for all items that fail for the same reason, because the report counts them.
        raw: the model's text.
    """

    def __init__(self, stage: str, reason: str, raw: str = "") -> None:
        super().__init__(f"{stage}: {reason}")
        self.stage, self.reason, self.raw = stage, reason, raw[-MAX_RAW_CHARACTERS:]


def check(good: bool, stage: str, reason: str, raw: str = "") -> None:
    """Reject the item unless `good` is true."""
    if not good:
        raise RejectedItem(stage, reason, raw)


@dataclass(frozen=True)
class Seed:
    """The starting point of one attempt.

    Attributes:
        id: id of the attempt in `attempts.jsonl`; attempts are made in the order of their seeds.
        start: a document's id, or another starting point of the synthesis.
        domain: the domain in `attempts.jsonl`.
    """

    id: str
    start: Any
    domain: str = ""


@dataclass(frozen=True)
class Tools:
    """The corpus, random seed, embedder and prompt folder that all attempts of a synthesis share."""

    source: IndexSource
    seed: int
    embed: SharedEmbed
    prompts: Path | None = None


class Attempt:
    """One attempt.

    Args:
        generator: the writing model, with the attempt's deadline.
        judge: another model for the filters, or None if the writing model filters too.

    Attributes:
        items: the items that passed so far.
        rejects: the items that did not pass.
        random: random numbers that depend only on the command's random seed and this attempt.
        usage: role -> usage of its calls.
    """

    def __init__(self, seed: Seed, tools: Tools, generator: Generator, judge: Generator | None = None) -> None:
        self.seed, self.tools, self.generator, self.judge = seed, tools, generator, judge
        self.items: list[SynthItem] = []
        self.rejects: list[Reject] = []
        self.usage: dict[str, Usage] = {}
        self.random = random.Random(f"{tools.seed} {seed.id}")
        self._notes: dict[str, None] = {}

    def keep(self, name: str, key: str, content: dict[str, Any], domain: str = "") -> None:
        """Add an item, with notes on material that was cut from the attempt's prompts."""
        notes = tuple(self._notes)
        self.items.append(SynthItem(id=name, seed=self.seed.id, domain=domain, key=key, content=content, notes=notes))

    @contextmanager
    def rejecting(self, about: Mapping[str, Any]) -> Iterator[None]:
        """Record an item that is rejected inside the block, instead of raising; `about` may grow until then."""
        try:
            yield
        except RejectedItem as error:
            self.reject(error, **about)

    def reject(self, rejected: RejectedItem, **about: Any) -> None:
        """Add a reject.

        Args:
            about: further facts about it, such as the question.
        """
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
        """Ask a model by a prompt and return its reply.

        Args:
            stage: the filter under which an unusable reply counts.
            name: name of the prompt.
            texts: placeholder -> untrusted text (of a document or a model), shown between marks.
            passages: shown if the prompt has a placeholder for them; cut if they do not fit.
            history: shown if the prompt has a placeholder for it; cut if it does not fit.
            plain: placeholder -> our own text.
            judge: ask the judge, if there is one.

        Raises:
            Rejected: there was no usable reply.
            GeneratorError: the call failed for reasons that do not depend on the prompt.
        """
        role, generator = WRITER, self.generator
        if judge and self.judge is not None:
            role, generator = JUDGE, self.judge
        limit = generator.reply_tokens
        prompt = PROMPTS.load(name, self.tools.prompts)
        nonempty_texts = {key: text or None for key, text in texts.items()}
        fitted = fit_prompt(prompt, prompt_room(generator, limit), nonempty_texts, passages, history, plain)
        if fitted is None:
            raise RejectedItem(stage, "too long for the model's context")
        self._notes |= dict.fromkeys(f"{name}: {note}" for note in fitted.notes)
        reply, usage = ask(generator, fitted.messages, schema, max_tokens=limit, temperature=temperature)
        self.usage[role] = self.usage.get(role, Usage()) + usage
        if not isinstance(reply, Failure):
            return reply
        if reply.kind not in PROMPT_FAILURES:
            raise GeneratorError(reply.kind, reply.reason)  # type: ignore[arg-type]
        raise RejectedItem(stage, f"no usable reply: {reply.kind.replace('_', ' ')}", reply.raw or reply.reason)


@dataclass(frozen=True)
class ReviewedItem:
    """The view of an item that people review.

    Attributes:
        said: the turns before the question, as pairs of role and text.
        passages: rows with `title` and `text`.
    """

    question: str
    answer: str
    said: tuple[tuple[str, str], ...] = ()
    passages: tuple[Mapping[str, str], ...] = ()


class Synthesis(Protocol):
    """A method of making data for one benchmark.

    Attributes:
        name: name on the command line.
        prompts: names of its prompts.
        each: maximum number of items per attempt.
        tokens: estimated prompt and completion tokens of an attempt, for `--budget` until attempts have ended.
        options: the arguments of the class.
        benchmark: the benchmark that reads the files.
        filters: whether `--judge` may name another model for the filters.
    """

    name: ClassVar[str]
    benchmark: ClassVar[str]
    filters: ClassVar[bool]
    prompts: ClassVar[tuple[str, ...]]
    each: ClassVar[int]
    tokens: tuple[int, int]
    options: Mapping[str, Any]

    def seeds(self, source: IndexSource, seed: int) -> Sequence[Seed]:
        """Return the seeds of the attempts, in order; the same for the same corpus and random seed."""
        ...

    def make(self, attempt: Attempt) -> None:
        """Fill an attempt. Called from many threads at once.

        Raises:
            Rejected: the attempt made no item; the reason is recorded.
            GeneratorError: a call failed; the attempt is tried again later.
        """
        ...

    def review(self, item: SynthItem) -> ReviewedItem:
        """Return the view of an item on which people decide to keep or reject it."""
        ...

    def export(self, folder: Path, items: Sequence[SynthItem], source: IndexSource) -> Sequence[str]:
        """Write the benchmark's files; return their paths relative to the folder."""
        ...


def open_synthesis(name: str, options: Mapping[str, Any]) -> Synthesis:
    """Open a synthesis by its name.

    Args:
        options: the arguments of its class.

    Raises:
        RequestError: an option is wrong.
    """
    synthesis: Synthesis = load(syntheses()[name].synthesis)(**options)
    return synthesis
