"""A served assistant under load: eight clients at once, 500 turns in one conversation, clients that leave, and an
agent whose endpoint fails in 5% of its requests.

The server is `turnmark serve` in its own process, over Clef's handbook; the questions are those of its suite
(`shared/data/conversations`). The measurements are printed below the table.
"""

from __future__ import annotations

import json
import random
import re
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count, cycle, islice
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

import httpx

from tests.assistant.serving import Server, serving
from tests.conftest import DATA
from tests.drills.forking import fine, turnmark
from tests.drills.tally import Effort, Tally
from tests.servers import Raw, Reset, Say, Scripted, ScriptedServer, Status

INDEX = "clef"
CLIENTS = 8
FAIR, FLAT = 2.0, 1.05
"""Maximum ratios: slowest to fastest client's mean wait, and memory at the end to that in the middle."""
SLOWER = 2.0
"""Maximum ratio of the median time of the last turns of a long conversation to that of the first ones."""
FAULTS = 0.05
Messages = list[dict[str, str]]


# --- the server and its clients --------------------------------------------------------------------------------------


def conversations() -> list[list[str]]:
    """Return the questions of each conversation of the suite."""
    suite = json.loads((DATA / "conversations" / "clef_suite.json").read_text("utf-8"))
    return [[turn["q"] for turn in talk["turns"]] for talk in suite]


def built(effort: Effort, retriever: str = "conversational") -> Path:
    """A home with the index, built once for a retriever.

    Args:
        retriever: `bm25` for drills that take hundreds of turns and try an endpoint or the length of a conversation,
            not the search.
    """
    home = effort.scratch / f"load-{retriever}"
    if not home.exists():
        home.mkdir()
        source = DATA / "docs" / "clef-handbook"
        words = ("index", "build", source, "--name", INDEX, "--retriever", retriever)
        fine(turnmark(*words, home=home, folder=effort.scratch))
    return home


def megabytes(pid: int) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    assert found, f"process {pid} has ended"
    return int(found.group(1)) / 1024


@dataclass
class Asked:
    """A turn as its client saw it.

    Attributes:
        reply: what `ask --json` prints; None: the turn failed.
        error: the message of the failure; "": there was none.
    """

    client: int
    question: str
    seconds: float
    reply: dict[str, Any] | None
    error: str


def ask(url: str, client: int, messages: Messages) -> Asked:
    """Take one turn: streamed like the page, or unstreamed for every second client."""
    began = time.monotonic()
    with httpx.Client(timeout=None) as http:
        take = _as_the_page if client % 2 == 0 else _in_one_piece
        try:
            reply, error = take(http, url, messages)
        except httpx.HTTPError as failure:
            reply, error = None, f"{type(failure).__name__}: {failure}"
    return Asked(client, messages[-1]["content"], time.monotonic() - began, reply, error)


def _in_one_piece(http: httpx.Client, url: str, messages: Messages) -> tuple[dict[str, Any] | None, str]:
    answer = http.post(f"{url}/v1/chat/completions", json={"model": INDEX, "messages": messages}).json()
    return answer.get("turnmark"), answer.get("error", {}).get("message", "")


def _as_the_page(http: httpx.Client, url: str, messages: Messages) -> tuple[dict[str, Any] | None, str]:
    body = {"model": INDEX, "messages": messages, "stream": True, "turnmark": {"events": True, "footnotes": False}}
    with http.stream("POST", f"{url}/v1/chat/completions", json=body) as stream:
        if stream.status_code != 200:
            return None, json.loads(stream.read())["error"]["message"]
        reply = None
        for line in stream.iter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line.removeprefix("data: "))
            if "error" in chunk:
                return None, chunk["error"]["message"]
            ours = chunk.get("turnmark") or {}
            if ours and "event" not in ours:
                reply = ours
    return reply, "" if reply else "the stream ended without a reply"


def together(server: Server, turns: int, tag: Callable[[int, int], str]) -> tuple[list[Asked], dict[int, float]]:
    """Let eight clients hold their conversations at once, until they have had `turns` turns in all.

    Args:
        tag: of a client and its turn, appended to the message.

    Returns:
        The turns, and the server's memory after an eighth, a half and all of them.
    """
    tickets, lock = iter(range(1, turns + 1)), threading.Lock()
    done: list[Asked] = []
    memory: dict[int, float] = {}
    talks = conversations()

    def hold(client: int) -> None:
        messages: Messages = []
        numbers = count(1)
        for talk in cycle(talks[client % len(talks) :: CLIENTS]):
            messages = []
            for question in talk:
                with lock:
                    if next(tickets, None) is None:
                        return
                messages.append({"role": "user", "content": question + tag(client, next(numbers))})
                asked = ask(server.url, client, messages)
                if asked.reply:
                    messages.append({"role": "assistant", "content": asked.reply["answer"]})
                else:
                    messages.pop()
                with lock:
                    done.append(asked)
                    if len(done) in (turns // 8, turns // 2, turns):
                        memory[len(done)] = megabytes(server.process.pid)
                        sys.stderr.write(f"{len(done)} of {turns} turns, {memory[len(done)]:.0f} MB\n")

    threads = [threading.Thread(target=hold, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done, memory


def figures(done: Sequence[Asked], memory: dict[int, float], seconds: float) -> list[str]:
    """Return lines about turns that ran concurrently."""
    waits = by_client(done)
    sorted_seconds = sorted(asked.seconds for asked in done)
    centiles = quantiles(sorted_seconds, n=100, method="inclusive")
    clients = ", ".join(f"{len(waits[client])} of {fmean(waits[client]):.1f} s" for client in sorted(waits))
    return [
        f"{len(done)} turns in {seconds:.0f} s; turns and mean wait of each client: {clients}",
        f"slowest client over fastest: {fairness(done):.2f}; p50 {centiles[49]:.1f} s, p95 {centiles[94]:.1f} s, "
        f"longest {sorted_seconds[-1]:.1f} s",
        "memory of the server: " + ", ".join(f"{size:.0f} MB after {turns}" for turns, size in sorted(memory.items())),
    ]


def by_client(done: Sequence[Asked]) -> dict[int, list[float]]:
    """Return the seconds of each client's turns."""
    waits: dict[int, list[float]] = defaultdict(list)
    for asked in done:
        waits[asked.client].append(asked.seconds)
    return waits


def fairness(done: Sequence[Asked]) -> float:
    """Return the ratio of the slowest client's mean wait to the fastest's."""
    means = [fmean(seconds) for seconds in by_client(done).values()]
    return max(means) / min(means)


def _check_together(tally: Tally, done: Sequence[Asked], memory: dict[int, float]) -> None:
    with tally.attempt("fair"):
        assert len(by_client(done)) == CLIENTS, "a client had no turn"
        assert fairness(done) <= FAIR, f"the slowest client waits {fairness(done):.2f} times as long as the fastest"
    with tally.attempt("memory"):
        middle, end = (memory[turns] for turns in sorted(memory)[1:])
        assert end <= middle * FLAT, f"{middle:.0f} MB in the middle, {end:.0f} MB at the end"


# --- the agent and an endpoint that fails ----------------------------------------------------------------------------

_TAG = re.compile(r"\(c(\d+)-(\d+)\)")
RETRIED = ("500", "429", "reset", "broken off before a word")
TOLD_THE_MODEL = ("broken arguments", "unknown tool", "endless calls")
FATAL = ("broken off", "not a completion")
"""Faults that cannot be retried: the beginning of the answer was shown, or a retry would fail again."""


@dataclass
class FailingEndpoint:
    """Calls tools like a model, and fails in some of its requests.

    Attributes:
        faults: by the tag of a turn: each fault, and whether the answer was being asked for.
        endless: tags of turns whose model calls tools for as long as it is offered any.
    """

    dice: random.Random
    requests: int = 0
    faults: dict[str, list[tuple[str, bool]]] = field(default_factory=lambda: defaultdict(list))
    endless: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, body: dict[str, Any]) -> Scripted:
        """Reply to a request."""
        text = " ".join(message["content"] or "" for message in body["messages"] if message["role"] == "user")
        tag = max(_TAG.findall(text), key=lambda found: int(found[1]))
        key = f"c{tag[0]}-{tag[1]}"
        answering = "response_format" not in body
        calling = "tools" in body
        with self.lock:
            self.requests += 1
            fault = ""
            if self.dice.random() < FAULTS:
                kinds = (*RETRIED, *FATAL, *(TOLD_THE_MODEL if calling else ()))
                fault = self.dice.choice(kinds)
                self.faults[key].append((fault, answering))
            if fault == "endless calls":
                self.endless.add(key)
            never_seen = f"words {self.requests}"
        rounds = sum(message["role"] == "tool" for message in body["messages"])
        if fault and fault != "endless calls":
            return _FAULTS[fault]
        if not answering:
            return Say('{"kind": "question"}', pause=0.02)
        if calling and (key in self.endless or rounds < 1):
            return Say("", calls=[("search", json.dumps({"query": never_seen}))])
        return Say("Ask the office, they know who decides and what it takes. [1]", pause=0.02)


_FAULTS: dict[str, Scripted] = {
    "500": Status(500),
    "429": Status(429, headers={"Retry-After": "1"}),
    "reset": Reset(),
    "broken off before a word": Say("never", cut=0),
    "broken off": Say("The office knows who decides", cut=3),
    "not a completion": Raw(b'{"choices": [{"mess'),
    "broken arguments": Say("", calls=[("search", '{"query": "par')]),
    "unknown tool": Say("", calls=[("order_pizza", "{}")]),
}


def agent(effort: Effort) -> Iterator[Tally]:
    """Run eight clients of an agent whose endpoint fails."""
    tally = Tally("load: eight clients, an agent, 5% faults")
    endpoint = FailingEndpoint(random.Random(effort.seed))
    with (
        ScriptedServer(endpoint.reply) as scripted,
        serving(built(effort, "bm25"), "--generator", f"openai:tiny@{scripted.url}", indexes=[INDEX]) as server,
    ):
        began = time.monotonic()
        done, memory = together(server, effort.agent_turns, lambda client, turn: f" (c{client}-{turn})")
        tally.figures += figures(done, memory, time.monotonic() - began)
    kinds = defaultdict(int)
    for faults in endpoint.faults.values():
        for kind, _ in faults:
            kinds[kind] += 1
    named = ", ".join(f"{kind} {number}" for kind, number in sorted(kinds.items()))
    failed = sum(bool(asked.error) for asked in done)
    tally.figures.append(
        f"{endpoint.requests} requests, {sum(kinds.values())} faults ({named}); {failed} turns failed, as they should"
    )
    for asked in done:
        tag = _TAG.findall(asked.question)[-1]
        key = f"c{tag[0]}-{tag[1]}"
        with tally.attempt(f"{key}, {endpoint.faults[key]}"):
            _check_faults(asked, endpoint.faults[key])
    _check_together(tally, done, memory)
    yield tally


def _check_faults(asked: Asked, faults: Sequence[tuple[str, bool]]) -> None:
    """Check that a turn fails with a reason if there can be no answer, and answers otherwise."""
    fatal = [kind for kind, answering in faults if answering and kind in FATAL]
    if fatal:
        words = {"broken off": "broke off", "not a completion": "not a chat completion"}[fatal[0]]
        assert words in asked.error, f"the client was told {asked.error!r}"
        assert asked.reply is None
        return
    assert asked.reply, asked.error
    assert asked.reply["trace"]["forms"]["retrieve"] == "agent"
    assert "Ask the office" in asked.reply["answer"]
    notes = " ".join(asked.reply["notes"])
    if any(kind == "endless calls" for kind, _ in faults):
        assert "the model had searched 8 rounds" in notes, notes
    if any(kind == "not a completion" for kind, _ in faults):
        assert "understood by rules" in notes, notes


# --- one long conversation -------------------------------------------------------------------------------------------


def long(effort: Effort) -> Iterator[Tally]:
    """Run a long conversation: served without a model and with one."""
    questions = list(islice(cycle(question for talk in conversations() for question in talk), effort.long_turns))
    yield _served_long(effort, questions, "extractive", [])
    sentence = "The handbook says who decides, how long it takes and what to hand in before it is granted. [1] "
    sizes: list[int] = []

    def reply(body: dict[str, Any]) -> Scripted:
        sizes.append(sum(len(message["content"] or "") for message in body["messages"]))
        return Say("{}") if "response_format" in body else Say(sentence * 8)

    with ScriptedServer(reply) as scripted:
        yield _served_long(effort, questions, f"openai:tiny@{scripted.url}?context=128000", sizes)


def _served_long(effort: Effort, questions: Sequence[str], generator: str, sizes: list[int]) -> Tally:
    name = "no model" if generator == "extractive" else "a scripted model"
    tally = Tally(f"load: {len(questions)} turns in one conversation, {name}")
    messages: Messages = []
    seconds: list[float] = []
    prompts: list[int] = []
    memory: dict[int, float] = {}
    with serving(built(effort, "bm25"), "--generator", generator, indexes=[INDEX]) as server:
        for turn, question in enumerate(questions, 1):
            messages.append({"role": "user", "content": question})
            asked = ask(server.url, turn, messages)
            with tally.attempt(f"turn {turn}"):
                assert asked.reply, asked.error
                assert asked.reply["answer"].strip()
                messages.append({"role": "assistant", "content": asked.reply["answer"]})
            seconds.append(asked.seconds)
            if sizes:
                prompts.append(max(sizes))
                sizes.clear()
            if turn in (10, len(questions) // 2, len(questions)):
                memory[turn] = megabytes(server.process.pid)
    tally.figures += _long_figures(seconds, prompts, memory)
    tally.figures.append(f"the last request: {len(messages)} messages, {len(json.dumps(messages)) / 1e6:.2f} MB")
    _check_long(tally, seconds, prompts, memory)
    return tally


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Return the median times of the first and last turns of a long conversation."""
    several = min(len(values) // 4, sum(map(len, conversations())))
    return median(values[:several]), median(values[-several:])


def _long_figures(seconds: Sequence[float], prompts: Sequence[int], memory: dict[int, float]) -> list[str]:
    first, last = _ends(seconds)
    rows = [
        f"median of the first turns {first:.2f} s, of the last {last:.2f} s; turn 10 {seconds[9]:.2f} s, "
        f"turn {len(seconds)} {seconds[-1]:.2f} s",
        "memory: " + ", ".join(f"{size:.0f} MB after {turns}" for turns, size in sorted(memory.items())),
    ]
    if prompts:
        quarter = len(prompts) // 4
        rows.append(
            f"largest prompt: {prompts[9]:,} characters at turn 10, at most {max(prompts[quarter : 2 * quarter]):,} in "
            f"the second quarter and {max(prompts[-quarter:]):,} in the last"
        )
    return rows


def _check_long(tally: Tally, seconds: Sequence[float], prompts: Sequence[int], memory: dict[int, float]) -> None:
    with tally.attempt("time of a turn"):
        first, last = _ends(seconds)
        assert last <= SLOWER * first, f"{first:.2f} s at first, {last:.2f} s at last"
    with tally.attempt("memory"):
        middle, end = (memory[turns] for turns in sorted(memory)[-2:])
        assert end <= middle * FLAT, f"{middle:.0f} MB in the middle, {end:.0f} MB at the end"
    if prompts:
        with tally.attempt("size of prompts"):
            quarter = len(prompts) // 4
            before, after = max(prompts[quarter : 2 * quarter]), max(prompts[-quarter:])
            assert after <= before * FLAT, f"{before:,} characters in the second quarter, {after:,} in the last"


# --- clients that leave ----------------------------------------------------------------------------------------------


@contextmanager
def streaming(server: Server, question: str) -> Iterator[socket.socket]:
    """A client that has sent a request and can disconnect."""
    host, port = server.url.removeprefix("http://").split(":")
    body = {"model": INDEX, "messages": [{"role": "user", "content": question}], "stream": True}
    content = json.dumps(body).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((host, int(port)), timeout=600) as connection:
        connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        yield connection


def read_until(connection: socket.socket, mark: bytes) -> bytes:
    """Read what is sent to a client until it contains `mark`."""
    received = b""
    while mark not in received:
        piece = connection.recv(65_536)
        assert piece, f"closed before {mark!r}: {received[-300:]!r}"
        received += piece
    return received


TEXT = b'"delta": {"content": "'


def leaving(effort: Effort) -> Iterator[Tally]:
    """Check that a server with one slot serves the third client after two others left, one while waiting."""
    tally = Tally("load: clients that leave")
    waits: list[float] = []
    talk = iter(range(10**6))

    def reply(body: dict[str, Any]) -> Scripted:
        if "response_format" in body:
            return Say("{}")
        asked = str(body["messages"])
        return Say("Ask the office. [1]") if "(third)" in asked else Say("going on and on " * 200, pause=0.1)

    with (
        ScriptedServer(reply) as scripted,
        serving(
            built(effort), "--generator", f"openai:tiny@{scripted.url}?concurrency=1", "--step", "retrieve=read",
            indexes=[INDEX],
        ) as server,
    ):  # fmt: skip
        for _ in range(max(2, effort.turns // 10)):
            number = next(talk)
            scripted.disconnected.clear()
            scripted.seen.clear()
            with tally.attempt(f"round {number}"), ExitStack() as stays:
                with streaming(server, f"Who decides on holidays? first{number}") as first:
                    read_until(first, TEXT)
                    with streaming(server, f"Who decides on pay? second{number}"):
                        time.sleep(0.2)
                        third = stays.enter_context(streaming(server, f"Who works late? {number} (third)"))
                        time.sleep(0.2)
                left = time.monotonic()
                answer = read_until(third, b"[DONE]")
                waits.append(time.monotonic() - left)
                assert scripted.disconnected.wait(5), "the endpoint still writes for the client that left"
                assert b"office" in answer
                asked = json.dumps(scripted.bodies)
                assert f"second{number}" not in asked, "the model was asked for a client that had left"
    if waits:
        tally.figures.append(
            f"the next client has its whole answer {median(waits):.2f} s (at most {max(waits):.2f} s) after the one "
            "before it has left"
        )
    yield tally
