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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from turnmark.assistant.generators.base import CONTEXT_TOKENS, Completion, Settings
from turnmark.assistant.generators.openai import JITTER, LONGEST_WAIT, OpenAIGenerator
from turnmark.assistant.generators.replies import Fault
from turnmark.assistant.generators.stopping import current
from turnmark.corpora.console import notify
from turnmark.corpora.types import Record

if TYPE_CHECKING:
    from turnmark.assistant.generators.openai import _Call

FIRST_REST = 1.0  # seconds, doubled with every further failure
LONGEST_REST = LONGEST_WAIT
LOOK_AGAIN = 0.25  # seconds: an endpoint may answer another call while this one waits


@dataclass(frozen=True)
class Place:
    """One endpoint: its base URL, that URL as it may be shown, and its own key. No other endpoint is sent that key."""

    url: str
    shown: str
    key_env: str
    key: str


class Asked(Record):
    """What one endpoint was asked so far, in this process."""

    endpoint: str
    answered: int
    failed: int
    resting: bool


class _Member:
    """An endpoint, and how it fares. Its numbers are changed under the fleet's lock."""

    def __init__(self, shown: str, generator: OpenAIGenerator) -> None:
        self.shown, self.generator = shown, generator
        self.busy = self.answered = self.failed = self.in_a_row = 0
        self.until = 0.0  # when its rest ends
        self.since = 0.0  # when it began to rest: what was under way then tells nothing new by failing

    def ready(self, now: float) -> bool:
        """Whether it may be asked; one that comes from a rest has one request at a time until it answers."""
        return not self.in_a_row or (self.until <= now and not self.busy)

    def rest(self, fault: Fault, sent: float, now: float) -> float | None:
        """Note a failure; seconds that it rests, None where it rests already for the same reason."""
        self.failed += 1
        if self.in_a_row and sent < self.since:
            return None
        self.in_a_row += 1
        grown = min(LONGEST_REST, FIRST_REST * 2.0 ** min(self.in_a_row - 1, 16))
        spent = fault.kind == "rate_limited" and not fault.retry
        pause = LONGEST_REST if spent else grown if fault.retry_after is None else fault.retry_after
        self.since, self.until = now, now + pause
        return pause


class FleetGenerator(OpenAIGenerator):
    """A model behind several endpoints, taken to be alike: what one objects to is asked of none.

    Args:
        name: the spec it was opened as, in normal form.
        model: the model's name at every endpoint.
        places: the endpoints, two or more.
        settings: limits and defaults. `concurrency` holds for all together; `retries` is the number of further requests
            of a call after each endpoint has had one.
        patience: seconds that a request may take before another endpoint is asked; None: as long as the call.
    """

    def __init__(
        self, name: str, model: str, places: Sequence[Place], settings: Settings, patience: float | None = None
    ) -> None:
        shown = ", ".join(place.shown for place in places)
        where = f"{model} at {len(places)} endpoints ({shown})"
        first = places[0]
        super().__init__(name, model, first.url, where, first.key_env, first.key, settings)
        own = settings.model_copy(update={"concurrency": None})
        self._patience = patience
        self._members = [
            _Member(place.shown, self._member(place, model, own, f"{model} at {place.shown}")) for place in places
        ]
        self._lanes = self._members[0].generator._lanes
        self._guard = threading.Lock()

    def _member(self, place: Place, model: str, settings: Settings, where: str) -> OpenAIGenerator:
        made = OpenAIGenerator(self.name, model, place.url, where, place.key_env, place.key, settings)
        made._dialect = self._dialect
        return made

    @property
    def identity(self) -> dict[str, Any]:
        """See `OpenAIGenerator.identity`; in which order the endpoints are named changes no reply."""
        urls = sorted(str(member.generator.identity["url"]) for member in self._members)
        return {**super().identity, "url": "|".join(urls)}

    @property
    def context_tokens(self) -> int:
        """The option `context`, else the least that an endpoint tells; one that cannot be reached is left out."""
        if self._context is None:
            told = [(member.generator.context_tokens, member.generator._context) for member in self._members]
            known = [told for _, told in told if told is not None]
            if not known:
                return CONTEXT_TOKENS
            self._context = min(known)
        return self._context

    @property
    def asked(self) -> tuple[Asked, ...]:
        """What each endpoint was asked so far, in the order of the spec."""
        now = time.monotonic()
        with self._guard:
            return tuple(
                Asked(endpoint=one.shown, answered=one.answered, failed=one.failed, resting=one.until > now)
                for one in self._members
            )

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
                    if call.told or not _may_pass(fault) or time.monotonic() >= call.ends:
                        raise
                    if not fault.retry and fault.kind == "rate_limited":
                        spent.add(member.shown)
        assert last is not None, "there are two endpoints or more"
        raise last

    def _try(self, member: _Member, call: _Call) -> Completion:
        """One request of the member that was chosen, whose outcome is noted."""
        sent = time.monotonic()
        ends = call.ends if self._patience is None else min(call.ends, sent + self._patience)
        mine = replace(call, ends=ends)
        try:
            reply = member.generator._attempt(mine)
        except Fault as fault:
            self._note(member, fault, sent)
            raise
        else:
            self._note(member, None, sent)
            return reply
        finally:
            call.sent, call.told = mine.sent, mine.told
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
            now = time.monotonic()
            with self._guard:
                usable = [one for one in self._members if one.shown not in spent]
                if not usable and last is not None:
                    raise last
                ready = [one for one in usable if one.ready(now)]
                if not any(not one.in_a_row for one in usable):
                    # None is known to be well: nothing is gained by holding calls back from those that have rested.
                    ready = [one for one in usable if one.until <= now]
                if ready:
                    # Equals in an order of chance, so that processes beside each other do not all begin with the first.
                    member = min(ready, key=lambda one: (one.busy, random.random()))
                    member.busy += 1
                    return member
                wait = min((one.until for one in usable), default=now) - now
            if now + wait >= call.ends:
                raise last or Fault("unavailable", f"{self._where}: all rest after failures, for {wait:.0f} s")
            current().wait(min(LOOK_AGAIN, max(wait, 0.0) + random.uniform(0, JITTER) * 0.1))

    def _note(self, member: _Member, fault: Fault | None, sent: float) -> None:
        """Keep what a request's end says of its endpoint; the person is told when that changes."""
        now = time.monotonic()
        with self._guard:
            before = member.in_a_row
            pause = None
            if fault is None or not _may_pass(fault):
                # Whatever it said, it is there.
                member.answered += 1
                if sent >= member.since:
                    member.in_a_row, member.until = 0, 0.0
            else:
                pause = member.rest(fault, sent, now)
            told = f"{member.shown}: {member.answered} answered, {member.failed} failed so far"
            after = member.in_a_row
        if pause is not None and not before:
            notify(f"an endpoint of {self._model} rests for {pause:g} s; {fault} ({told})")
        elif before and not after:
            notify(f"an endpoint of {self._model} answers again ({told})")


def _may_pass(fault: Fault) -> bool:
    """Whether another endpoint may do better: it is about the endpoint, not about the request or the key."""
    return fault.retry or fault.kind in ("timeout", "rate_limited")
