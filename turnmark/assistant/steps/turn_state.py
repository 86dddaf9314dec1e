"""What is given for one turn, and the recorder of what its steps report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.llm.calls.cancellation import ON_WAIT
from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.llm.calls.repetition import ON_REPETITION
from turnmark.assistant.types import Event, Search, SearchHit, ToolUse, Usage
from turnmark.corpora.text.function_words import language_of
from turnmark.corpora.text.languages import ENGLISH, language_name
from turnmark.corpora.types import Message
from turnmark.retrieval.embedding.vector_cache import Embed
from turnmark.retrieval.types import DEFAULT_TOP_K, Hit, Query, Retriever

MIN_ANSWER_CONFIDENCE = 0.40
"""Minimum confidence for the decision `answer`, unless the configuration or the index has another (`sure_from`)."""
MIN_KNOWN_SHARE = 0.4
"""Minimum share of a word's terms in one passage of the index for the word to count as known."""


MAX_NAMED_LANGUAGES, MIN_NAMED_SHARE = 3, 0.02
"""Maximum languages of the documents that a prompt names, and minimum share of the passages that one of them has."""


def rare_languages(passages: Mapping[str, int]) -> frozenset[str]:
    """Return the languages with so few of the passages that a prompt does not name them.

    Args:
        passages: language -> number of its passages.
    """
    least = MIN_NAMED_SHARE * sum(passages.values())
    return frozenset(language for language, count in passages.items() if count < least)


class StepResult(Protocol):
    """What a step found."""

    def report(self, turn: Turn) -> None:
        """Report the result as an event of the turn."""


P = ParamSpec("P")
R_co = TypeVar("R_co", bound=StepResult, covariant=True)


class Step(Protocol[P, R_co]):
    """A step of the turn in one of its forms: called with the turn and the results of earlier steps.

    `turnmark.assistant.steps.step_results` has the signature of each step.

    Attributes:
        name: the name under which it is timed and traced: understand, retrieve, decide, answer or verify.
    """

    name: str

    def __call__(self, turn: Turn, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


@dataclass
class Turn:
    """One turn: what is given for it, and what is recorded while its steps run.

    What the steps find is not kept here: each receives the results of the steps before it, and returns its own.

    Attributes:
        message: the message, as it was sent.
        history: the messages before, oldest first.
        config: configuration of the assistant; `top_k` is not None.
        retriever: None: nothing can be searched.
        generator: language model, or None for the extractive forms.
        embed: function from texts to unit vectors, or None if texts are compared by words only.
        evidence: passages to answer from, best first, or None if the retrieve step searches.
        trusted: whether the evidence is known to be about the question.
        languages: languages of the documents, the most frequent first.
        rare_languages: those that prompts do not name.
        notify: called with each event.
        span: returns the context in which a step runs (tracing).
        forms: step -> name of the form that runs; a step that falls back to another form changes it.
        searches, calls: all searches and tool calls, for the trace.
        usage, timings: usage and seconds of each step.
        notes: notes for the person.
    """

    message: str
    history: tuple[Message, ...] = ()
    _: KW_ONLY
    config: AssistantConfig = field(default_factory=lambda: AssistantConfig(top_k=DEFAULT_TOP_K))
    retriever: Retriever | None = None
    generator: Generator | None = None
    embed: Embed | None = None
    evidence: Sequence[Hit] | None = None
    trusted: bool = False
    languages: tuple[str, ...] = ()
    rare_languages: frozenset[str] = frozenset()
    notify: Callable[[Event], None] = lambda _: None
    span: Callable[[str], AbstractContextManager[object]] = lambda _: nullcontext()

    forms: dict[str, str] = field(default_factory=dict)
    searches: list[Search] = field(default_factory=list)
    calls: list[ToolUse] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def model(self) -> Generator:
        """The language model, for a form that needs one."""
        assert self.generator is not None, "checked when the forms were chosen"
        return self.generator

    @cached_property
    def language(self) -> str:
        """The language of the message; if it does not tell, that of the conversation, or else of the documents."""
        questions = [message.content for message in self.history if message.role == "user"]
        for text in (self.message, *reversed(questions)):
            if language := language_of(text, self.languages):
                return language
        return next(iter(self.languages), ENGLISH)

    @property
    def _named_languages(self) -> list[str]:
        return [code for code in self.languages if code not in self.rare_languages]

    @property
    def languages_to_search(self) -> str:
        """The documents' languages for a prompt, or "" if documents and message are in English, which goes without
        saying."""
        languages = self._named_languages
        if not languages or (*languages, self.language) == (ENGLISH, ENGLISH):
            return ""
        return " and ".join(map(language_name, languages[:MAX_NAMED_LANGUAGES]))

    @property
    def language_to_answer(self) -> str:
        """The message's language for a prompt, or "" if all documents are in that language."""
        return "" if {*self._named_languages} <= {self.language} else language_name(self.language)

    @property
    def prompts(self) -> Path | None:
        """The folder with prompts that replace the built-in ones."""
        return self.config.prompts

    @property
    def top_k(self) -> int:
        """Number of passages to retrieve for each part."""
        assert self.config.top_k is not None, "set by the assistant"
        return self.config.top_k

    @cached_property
    def sure_from(self) -> float:
        """The minimum confidence of a sure answer without a model: as configured, or as measured on the index."""
        measured = self.retriever.sure_from() if self.retriever else None
        return next(level for level in (self.config.sure_from, measured, MIN_ANSWER_CONFIDENCE) if level is not None)

    def word_shares(self, texts: Sequence[str]) -> Sequence[float]:
        """Return how much of each text's words the best passage of the index has; empty if it is not known."""
        return self.retriever.word_shares(texts) if self.retriever and self.evidence is None else ()

    # -- recording

    def run(self, step: Step[P, R_co], *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run a step with the results of earlier steps; report its result and add its seconds to `timings`."""
        began = time.perf_counter()
        token = ON_WAIT.set(lambda line: self.report("wait", line))
        repetition = ON_REPETITION.set(self.note)
        try:
            with self.span(step.name):
                result = step(self, *args, **kwargs)
                result.report(self)
                return result
        finally:
            ON_WAIT.reset(token)
            ON_REPETITION.reset(repetition)
            seconds = time.perf_counter() - began
            self.timings[step.name] = round(self.timings.get(step.name, 0.0) + seconds, 4)

    def searched(self, query: Query, hits: Sequence[Hit], reason: str, part: int | None = None) -> None:
        """Record a search for the trace.

        Args:
            part: 0-based part that it was for, or None for the message.
        """
        rows = []
        for hit in hits:
            similarity = None if hit.similarity is None else round(hit.similarity, 4)
            score = round(hit.score, 4)
            rows.append(SearchHit(id=hit.passage.id, title=hit.passage.title, score=score, similarity=similarity))
        self.searches.append(Search(why=reason, query=query.text, variants=query.variants, part=part, hits=tuple(rows)))

    def report_hits(self, hits: Sequence[Hit]) -> None:
        """Report the searches so far, and the evidence."""
        self.report(
            "retrieve",
            f"{len(hits)} passages",
            hits=[(hit.passage.id, round(hit.score, 4)) for hit in hits],
            searches=[search.model_dump(mode="json") for search in self.searches],
        )

    def stream(self, delta: str) -> None:
        """Report the next piece of the answer."""
        self.notify(Event(step="answer", delta=delta))

    def report(self, step: str, text: str, **detail: Any) -> None:
        """Report the outcome of a step."""
        self.notify(Event(step=step, text=text, detail=detail))

    def use(self, role: str, usage: Usage, *notes: str | None) -> None:
        """Add usage under a role, and add notes for the person.

        Args:
            role: the step that made the calls.
            notes: None and empty ones are skipped.
        """
        self.usage[role] = self.usage.get(role, Usage()) + usage
        for note in filter(None, notes):
            self.note(note)

    def note(self, text: str) -> None:
        """Add a note for the person."""
        self.notes.append(text)
        self.report("note", text)
