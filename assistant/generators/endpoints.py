"""Endpoints by spec: `openai:MODEL[@URL[|URL…]]`, and its preset `ollama:MODEL`.

Of several endpoints a request goes to the one with the fewest under way. One that fails (no connection, 408, 409, 429,
5xx, no answer in time) rests: a second, doubled with each further failure up to twenty, or as long as its `Retry-After`
says. Then it is tried with one request, and is a full member again once it has answered.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from turnmark.assistant.generators.base import (
    CACHE,
    CONTEXT_TOKENS,
    DEADLINE,
    OWN_DEADLINE,
    SETTINGS,
    Call,
    Completion,
    Settings,
)
from turnmark.assistant.generators.openai import JITTER, LONGEST_WAIT, OpenAIGenerator, shown_url
from turnmark.assistant.generators.replies import Fault
from turnmark.assistant.generators.stopping import current
from turnmark.corpora.console import notify
from turnmark.corpora.errors import ErrorCollector
from turnmark.corpora.specs import Spec, check_options

OFFICIAL_URL = "https://api.openai.com/v1"

# Ollama cuts a longer prompt at its front without a word (its num_ctx); what it has by default, docs.ollama.com/faq.
OLLAMA_CONTEXT = 4096

BETWEEN = "|"
"""Between the URLs of several endpoints."""


FIRST_REST = 1.0  # seconds, doubled with every further failure
LONGEST_REST = LONGEST_WAIT
LOOK_AGAIN = 0.25  # seconds: an endpoint may answer another call while this one waits


def _url_problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    return "" if valid else "is no http:// or https:// URL"


@dataclass(frozen=True)
class Endpoint:
    """What a spec of an endpoint settles, checked.

    Attributes:
        name: the spec in normal form, without any secret; with the URL where that came from the environment.
        url: base URL of the endpoint; of several, with `|` between.
        key_env: name of the environment variable that holds the key.
        key: the key; empty where the endpoint needs none.
        more: values of the options that only this kind of endpoint has.
    """

    name: str
    model: str
    url: str
    key_env: str
    key: str
    settings: Settings
    more: Mapping[str, Any]

    def generator(self, url: str = "") -> OpenAIGenerator:
        """The generator; `url` in place of its own."""
        urls = (url or self.url).split(BETWEEN)
        if len(urls) > 1:
            patience = self.more.get("patience")
            return FleetGenerator(self.name, self.model, urls, self.key_env, self.key, self.settings, patience)
        return OpenAIGenerator(self.name, self.model, urls[0], self.key_env, self.key, self.settings)


def read_endpoint(
    spec: Spec,
    *,
    preset_url: str,
    key_env: str,
    url_env: str = "",
    context: int | None = None,
    extra_options: Mapping[str, Callable[[str], Any]] | None = None,
) -> Endpoint:
    """Check a spec whole, so that all its mistakes are told at once.

    Args:
        preset_url: where there is none in the spec.
        key_env: name of the environment variable with the key, unless the spec names another.
        url_env: name of the environment variable with the URL, if there is one.
        context: tokens of the context, unless the spec says; None: asked of the endpoint.
        extra_options: options beside those of every endpoint.

    Raises:
        RequestError: every mistake in it.
    """
    label, errors = f"generator {spec.name!r}", ErrorCollector()
    if not spec.argument:
        errors.add(f"{label} needs a model: {spec.name}:MODEL")
    from_env = os.environ.get(url_env, "").strip() if url_env and not spec.url else ""
    url = spec.url or from_env or preset_url
    urls = url.split(BETWEEN)
    converters: dict[str, Callable[[str], Any]] = {
        **SETTINGS,
        **CACHE,
        "api_key_env": str,
        **(extra_options or {}),
        **(SEVERAL if len(urls) > 1 else {}),
    }
    options = errors.collect(check_options, spec, converters, "generator") or {}
    options.pop("api_key_env", None)
    key_env = spec.options.get("api_key_env") or key_env
    key = os.environ.get(key_env, "").strip()
    if problem := next(filter(None, map(_url_problem, urls)), ""):
        errors.add(f"{url_env if from_env else label + ': what follows @'} {problem}")
    elif spec.url and any("@" in urlsplit(part).netloc for part in urls):
        errors.add(f"{label}: no user or password in the URL; put the key into {key_env}")
    elif len(set(urls)) < len(urls):
        errors.add(f"{label}: an endpoint is named twice")
    elif len(hosts := {urlsplit(part).hostname for part in urls}) > 1 and urlsplit(OFFICIAL_URL).hostname in hosts:
        errors.add(f"{label}: OpenAI's key goes to OpenAI alone; no other URL can stand beside it")
    if not key and (spec.options.get("api_key_env") or OFFICIAL_URL in urls):
        errors.add(f"{label}: the environment variable {key_env} is not set; it holds the key")
    errors.raise_all()
    public_url = BETWEEN.join(map(shown_url, (spec.url or from_env).split(BETWEEN)))
    extra = {name: options.pop(name) for name in list(options) if name not in SETTINGS}
    unset = {
        "context": CONTEXT_TOKENS if url == OFFICIAL_URL else context,
        "deadline": DEADLINE if preset_url == OFFICIAL_URL else OWN_DEADLINE,
    }
    settings = Settings(**{**unset, **options})
    name = str(Spec(spec.name, spec.argument, public_url, spec.options))
    return Endpoint(name, spec.argument, url, key_env, key, settings, extra)


SEVERAL: Mapping[str, Callable[[str], Any]] = {"patience": SETTINGS["deadline"]}
"""Options that only several endpoints have."""


def open_openai(spec: Spec) -> OpenAIGenerator:
    """`openai:MODEL[@URL]`; URL and key default to `OPENAI_BASE_URL` and `OPENAI_API_KEY`."""
    return read_endpoint(spec, preset_url=OFFICIAL_URL, key_env="OPENAI_API_KEY", url_env="OPENAI_BASE_URL").generator()


def open_ollama(spec: Spec) -> OpenAIGenerator:
    """`ollama:MODEL[@URL]`. OpenAI's key is never sent there; `OLLAMA_API_KEY` is, where it is set."""
    return read_endpoint(
        spec, preset_url="http://localhost:11434/v1", key_env="OLLAMA_API_KEY", context=OLLAMA_CONTEXT
    ).generator()


# --- several endpoints -----------------------------------------------------------------------------------------------


class _Member:
    """An endpoint, and how it fares. Its numbers are changed under the fleet's lock."""

    def __init__(self, generator: OpenAIGenerator, url: str) -> None:
        self.generator, self.shown = generator, shown_url(url)
        self.busy = self.answered = self.failed = self.in_a_row = 0
        self.until = 0.0  # when its rest ends
        self.since = 0.0  # when it began to rest: what was under way then tells nothing new by failing

    def ready(self, time_now: float) -> bool:
        """Whether it may be asked; one that comes from a rest has one request at a time until it answers."""
        return not self.in_a_row or (self.until <= time_now and not self.busy)

    def rest(self, fault: Fault, sent_at: float, time_now: float) -> float | None:
        """Note a failure; seconds that it rests, None where it rests already for the same reason."""
        self.failed += 1
        if self.in_a_row and sent_at < self.since:
            return None
        self.in_a_row += 1
        grown = min(LONGEST_REST, FIRST_REST * 2.0 ** min(self.in_a_row - 1, 16))
        spent = fault.kind == "rate_limited" and not fault.retry
        pause = LONGEST_REST if spent else grown if fault.retry_after is None else fault.retry_after
        self.since, self.until = time_now, time_now + pause
        return pause


class FleetGenerator(OpenAIGenerator):
    """A model behind several endpoints, taken to be alike: what one objects to is asked of none.

    Args:
        name: the spec it was opened as, in normal form.
        model: the model's name at every endpoint.
        urls: of the endpoints, two or more.
        settings: limits and defaults. `concurrency` holds for all together; `retries` is the number of further requests
            of a call after each endpoint has had one.
        patience: seconds that a request may take before another endpoint is asked; None: as long as the call.
    """

    def __init__(
        self,
        name: str,
        model: str,
        urls: Sequence[str],
        key_env: str,
        key: str,
        settings: Settings,
        patience: float | None = None,
    ) -> None:
        super().__init__(name, model, urls[0], key_env, key, settings)
        self._where = f"{model} at {len(urls)} endpoints ({', '.join(map(shown_url, urls))})"
        self._patience = patience
        alone = settings.model_copy(update={"concurrency": None})
        self._members = [_Member(OpenAIGenerator(name, model, url, key_env, key, alone), url) for url in urls]
        for member in self._members:
            member.generator._dialect = self._dialect
        self._clients = self._members[0].generator._clients
        self._guard = threading.Lock()

    @property
    def identity(self) -> dict[str, Any]:
        """See `OpenAIGenerator.identity`; in which order the endpoints are named changes no reply."""
        urls = sorted(str(member.generator.identity["url"]) for member in self._members)
        return {**super().identity, "url": "|".join(urls)}

    @property
    def context_tokens(self) -> int:
        """The option `context`, else the least that an endpoint tells; one that cannot be reached is left out."""
        if self._context is None:
            sizes = [(member.generator.context_tokens, member.generator._context) for member in self._members]
            limits = [limit for _, limit in sizes if limit is not None]
            if not limits:
                return CONTEXT_TOKENS
            self._context = min(limits)
        return self._context

    def make_ready(self) -> None:
        """See `OpenAIGenerator.make_ready`."""
        for member in self._members:
            member.generator.make_ready()

    def _retrying(self, call: Call) -> Completion:
        """Ask until one answers: at once while one is ready, else when the first is.

        Raises:
            Fault: no endpoint answered, or one answered that the request itself is wrong.
        """
        spent: set[str] = set()  # endpoints that say waiting is no use
        last: Fault | None = None
        for _ in range(self._settings.retries + len(self._members)):
            # The turn comes first: who is the least busy shows when the request can go.
            with self._turn(call):
                member = self._chosen(call, spent, last)
                try:
                    return self._try(member, call)
                except Fault as fault:
                    last = fault
                    if call.began or not _may_pass(fault) or time.monotonic() >= call.ends:
                        raise
                    if not fault.retry and fault.kind == "rate_limited":
                        spent.add(member.shown)
        assert last is not None, "there are two endpoints or more"
        raise last

    def _try(self, member: _Member, call: Call) -> Completion:
        """One request of the member that was chosen, whose outcome is noted."""
        sent_at = time.monotonic()
        ends = call.ends if self._patience is None else min(call.ends, sent_at + self._patience)
        mine = replace(call, ends=ends)
        try:
            reply = member.generator._attempt(mine)
        except Fault as fault:
            self._note(member, fault, sent_at)
            raise
        else:
            self._note(member, None, sent_at)
            return reply
        finally:
            call.sent, call.began, call.first_tokens = mine.sent, mine.began, mine.first_tokens
            with self._guard:
                member.busy -= 1

    @contextmanager
    def _turn(self, call: Call) -> Iterator[None]:
        """The option `concurrency`; a turn that did not come in time is no failure of any endpoint."""
        try:
            with self._slot(call):
                yield
        except TimeoutError:
            raise Fault("timeout", f"{self._where}: no turn came before the deadline") from None

    def _chosen(self, call: Call, spent: set[str], last: Fault | None) -> _Member:
        """The least busy of those that may be asked, waited for where all rest; its request counts as under way.

        Raises:
            Fault: all rest until after the deadline, or have said that waiting is no use.
        """
        while True:
            time_now = time.monotonic()
            with self._guard:
                usable = [candidate for candidate in self._members if candidate.shown not in spent]
                if not usable and last is not None:
                    raise last
                ready = [candidate for candidate in usable if candidate.ready(time_now)]
                if not any(not candidate.in_a_row for candidate in usable):
                    # None is known to be well: nothing is gained by holding calls back from those that have rested.
                    ready = [candidate for candidate in usable if candidate.until <= time_now]
                if ready:
                    # Equals in an order of chance, so that processes beside each other do not all begin with the first.
                    member = min(ready, key=lambda candidate: (candidate.busy, random.random()))
                    member.busy += 1
                    return member
                wait = min((candidate.until for candidate in usable), default=time_now) - time_now
            if time_now + wait >= call.ends:
                raise last or Fault("unavailable", f"{self._where}: all rest after failures, for {wait:.0f} s")
            current().wait(min(LOOK_AGAIN, max(wait, 0.0) + random.uniform(0, JITTER) * 0.1))

    def _note(self, member: _Member, fault: Fault | None, sent_at: float) -> None:
        """Keep what a request's end says of its endpoint; the person is told when that changes."""
        time_now = time.monotonic()
        with self._guard:
            failures_before = member.in_a_row
            pause = None
            if fault is None or not _may_pass(fault):
                # Whatever it said, it is there.
                member.answered += 1
                if sent_at >= member.since:
                    member.in_a_row, member.until = 0, 0.0
            else:
                pause = member.rest(fault, sent_at, time_now)
            counts = f"{member.shown}: {member.answered} answered, {member.failed} failed so far"
            failures_after = member.in_a_row
        if pause is not None and not failures_before:
            notify(f"an endpoint of {self._model} rests for {pause:g} s; {fault} ({counts})")
        elif failures_before and not failures_after:
            notify(f"an endpoint of {self._model} answers again ({counts})")


def _may_pass(fault: Fault) -> bool:
    """Whether another endpoint may do better: it is about the endpoint, not about the request or the key."""
    return fault.retry or fault.kind in ("timeout", "rate_limited")
