"""Several endpoints that serve one model behind one spec: `openai:MODEL@URL|URL`, `vllm:MODEL@URL|URL`.

A request goes to the endpoint with the fewest under way. One that fails (no connection, 408, 409, 429, 5xx, no answer
in time) rests: a second, doubled with each further failure up to twenty, or as long as its `Retry-After` says. Then it
is tried with one request, and is a full member again once it has answered.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from turnmark.assistant.generators.base import CONTEXT_TOKENS, Completion, Settings
from turnmark.assistant.generators.openai import JITTER, LONGEST_WAIT, OpenAIGenerator, shown_url
from turnmark.assistant.generators.replies import Fault
from turnmark.assistant.generators.stopping import current
from turnmark.corpora.console import notify

if TYPE_CHECKING:
    from turnmark.assistant.generators.openai import _Call

FIRST_REST = 1.0  # seconds, doubled with every further failure
LONGEST_REST = LONGEST_WAIT
LOOK_AGAIN = 0.25  # seconds: an endpoint may answer another call while this one waits


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

    def _retrying(self, call: _Call) -> Completion:
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

    def _try(self, member: _Member, call: _Call) -> Completion:
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
            call.sent, call.began = mine.sent, mine.began
            with self._guard:
                member.busy -= 1

    @contextmanager
    def _turn(self, call: _Call) -> Iterator[None]:
        """The option `concurrency`; a turn that did not come in time is no failure of any endpoint."""
        try:
            with self._slot(call):
                yield
        except TimeoutError:
            raise Fault("timeout", f"{self._where}: no turn came before the deadline") from None

    def _chosen(self, call: _Call, spent: set[str], last: Fault | None) -> _Member:
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
