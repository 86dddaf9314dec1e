"""Spans of every turn, for any OpenTelemetry backend, in the OpenInference convention. Off unless it is asked for.

    TURNMARK_TRACING=1 turnmark chat …          steps, times, tokens, ids and scores; nothing that was said or found
    TURNMARK_TRACING=content turnmark chat …    what was said and found, too, less what OPENINFERENCE_HIDE_… hide

or in `config.toml` ([tracing] on, content, endpoint), or `traced(assistant, provider)` with a provider of one's own.
"""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache, wraps
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, ParamSpec

from turnmark.assistant.assistant import Assistant
from turnmark.assistant.settings import section
from turnmark.assistant.tracing_parts import (
    TracedGenerator,
    TracedRetriever,
    Tracing,
    dumped,
    fail,
    kinded,
    traced_embed,
    valued,
)
from turnmark.assistant.types import Event, Reply
from turnmark.corpora.errors import ErrorCollector, MissingExtra
from turnmark.corpora.types import Message, Record

P = ParamSpec("P")

ENV = "TURNMARK_TRACING"
KINDS = {"retrieve": "RETRIEVER", "verify": "EVALUATOR"}
"""Of the spans of steps; of all others CHAIN."""

_EXPORT_SECONDS = 5
_TURN: ContextVar[_Steps | None] = ContextVar("TURN", default=None)


class Settings(Record):
    """Whether turns are traced, and how."""

    on: bool = False
    content: bool = False
    endpoint: str = ""


def settings() -> Settings:
    """What the environment says, else the configuration file.

    Raises:
        RequestError: either says something that is none of what can be said.
    """
    errors = ErrorCollector()
    switch = os.environ.get(ENV, "").strip().lower()
    if switch not in ("", "0", "1", "content"):
        errors.add(f"{ENV}: 1, content (what was said and found, too) or 0 was expected")
    configured = errors.collect(section, "tracing", Settings) or Settings()
    errors.raise_all()
    if not switch:
        return configured
    return configured.model_copy(update={"on": switch != "0", "content": switch == "content" or configured.content})


def traced_where_asked(assistant: Assistant, embedder: str = "") -> Assistant:
    """The assistant, traced where the environment or the configuration says so.

    Args:
        embedder: what its embedder is called.

    Raises:
        RequestError: tracing is on and its packages are not installed, or its settings are wrong.
    """
    tracing_settings = settings()
    if not tracing_settings.on:
        return assistant
    return traced(assistant, _own_provider(tracing_settings.endpoint), tracing_settings.content, embedder)


def traced(assistant: Assistant, provider: Any, content: bool = False, embedder: str = "") -> Assistant:
    """An assistant that leaves spans of its turns, their steps, and the calls of its parts.

    Args:
        provider: an OpenTelemetry `TracerProvider`.
        content: spans also hold questions, answers, prompts and passages, less what `OPENINFERENCE_HIDE_…` hide.
        embedder: what its embedder is called.
    """
    tracer = provider.get_tracer("turnmark", version("turnmark"))
    return _TracedAssistant(assistant, Tracing(tracer, content), embedder)


def _in_span(turn: Callable[P, Reply]) -> Callable[P, Reply]:
    """A method of the assistant that is a turn, with a span around it."""
    signature = inspect.signature(turn)

    @wraps(turn)
    def traced_turn(*args: P.args, **options: P.kwargs) -> Reply:
        call = signature.bind(*args, **options)
        call.apply_defaults()
        assistant, history, message = call.args[:3]
        with assistant.turn_span(history, message, call.arguments["on_event"]) as steps:
            call.arguments["on_event"] = steps.take
            reply = turn(*call.args, **call.kwargs)
            steps.outcome(reply)
            return reply

    return traced_turn


class _TracedAssistant(Assistant):
    """An assistant whose turns are spans."""

    reply = _in_span(Assistant.reply)
    revise = _in_span(Assistant.revise)

    def __init__(self, assistant: Assistant, tracing: Tracing, embedder: str) -> None:
        vars(self).update(vars(assistant))  # its settings as they are, whatever they are
        self._tracing = tracing
        if self.generator is not None:
            inner = self.generator.generator if isinstance(self.generator, TracedGenerator) else self.generator
            self.generator = TracedGenerator(inner, tracing)
        if self.retriever is not None:
            inner_retriever = self.retriever.inner if isinstance(self.retriever, TracedRetriever) else self.retriever
            self.retriever = TracedRetriever(inner_retriever, tracing)
        if self.embed is not None:
            plain = getattr(self.embed, "inner", self.embed)
            self.embed = traced_embed(plain, embedder, tracing)

    def span(self, step: str) -> AbstractContextManager[object]:
        """A span around a step."""
        turn = _TURN.get()
        return turn.step(step) if turn is not None else nullcontext()

    @contextmanager
    def turn_span(
        self, history: Sequence[Message], message: str, on_event: Callable[[Event], None]
    ) -> Iterator[_Steps]:
        """A span around a turn; what comes of its steps is handed to what is given."""
        with self._tracing.span("turn", "CHAIN", valued("input", message)) as span:
            turn = _Steps(self._tracing, span, on_event, len(history))
            token = _TURN.set(turn)
            try:
                yield turn
            finally:
                _TURN.reset(token)
                turn.end()


class _Steps:
    """The spans of one turn's steps. What a step came to is told after it: its span ends late, with the time it had."""

    def __init__(self, tracing: Tracing, span: Any, on_event: Callable[[Event], None], turns: int) -> None:
        self._tracing, self._span, self._on_event, self._turns = tracing, span, on_event, turns
        self._over: list[tuple[str, Any, int]] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A span around a step, in which the spans of its calls are."""
        from opentelemetry.trace import use_span

        span = self._tracing.tracer.start_span(name, attributes=kinded(KINDS.get(name, "CHAIN"), {}))
        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                yield
        except BaseException as error:
            fail(span, error)
            raise
        finally:
            self._over.append((name, span, time.time_ns()))

    def take(self, event: Event) -> None:
        """An event of the turn: what its step came to, then as it was."""
        if not event.delta:
            if event.step == "note":
                self._span.add_event("note", {"note": event.text} if self._tracing.content else {})
            last = next((span for name, span, _ in reversed(self._over) if name == event.step), None)
            if last is not None:
                self._tracing.add(last, {**valued("output", event.text), "metadata": self._detail(event)})
                self.end()
        self._on_event(event)

    def outcome(self, reply: Reply) -> None:
        """What the turn came to."""
        about = {
            "decision": reply.decision, "generator": reply.generator, "turns": self._turns,
            "checks": reply.checks.model_dump(), "forms": dict(reply.trace.forms), "parts": len(reply.sub_questions),
            "citations": len(reply.citations), "steps": len(reply.procedure),
        }  # fmt: skip
        self._tracing.add(self._span, {**valued("output", reply.answer), "metadata": dumped(about)})

    def end(self) -> None:
        """End the spans of all steps that are over, each at its own time."""
        for _, span, ended in self._over:
            span.end(ended)
        self._over.clear()

    def _detail(self, event: Event) -> str:
        """An event's details; only figures where content is not told (those of a search hold its query, too)."""
        if self._tracing.whole:
            return dumped(event.model_dump(mode="json")["detail"])
        return dumped({key: value for key, value in event.detail.items() if isinstance(value, int | float | None)})


@lru_cache(maxsize=4)
def _own_provider(endpoint: str) -> Any:
    """The provider that the process has, else one that sends to an OTLP endpoint.

    Raises:
        MissingExtra: the packages are not there.
    """
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        raise MissingExtra(f"tracing ({ENV})", "otel")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    existing = trace.get_tracer_provider()
    if isinstance(existing, TracerProvider):
        return existing
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise MissingExtra(f"tracing ({ENV})", "otel") from None
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    about = {"service.name": "turnmark", "service.version": version("turnmark")}
    about["openinference.project.name"] = "turnmark"
    # Not the provider of the process: other libraries would begin to send through it what nobody asked for.
    provider = TracerProvider(resource=Resource.create(about))
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint or None, timeout=_EXPORT_SECONDS))
    )
    return provider
