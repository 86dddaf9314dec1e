"""The engine: every sample accounted for, whatever the one that answers does."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from contextlib import contextmanager

import pytest

from tests.evaluation.run_records import manifest
from tests.patience import PATIENCE
from turnmark.assistant.llm.calls import cancellation
from turnmark.assistant.llm.calls.ledger import Ledger
from turnmark.assistant.llm.calls.prices import Budget
from turnmark.assistant.llm.calls.protocols import Completion, GeneratorBase, GeneratorError
from turnmark.assistant.types import Usage
from turnmark.core.console import NoProgress
from turnmark.evaluation.records import Sample
from turnmark.evaluation.runs import sample_scheduler
from turnmark.evaluation.runs.sample_scheduler import Limits, RunOutcome, SampleJob, generate
from turnmark.evaluation.storage.run_folder import open_run
from turnmark.evaluation.tasks.items import Item


class Model:
    """A language model that takes ten tokens a call; `complete` may be given other manners."""

    name, context_tokens, reply_tokens, deadline = "model", 8192, 1024, 60.0

    def complete(self, messages, **_):
        usage = Usage(calls=1, prompt_tokens=8, completion_tokens=2)
        return Completion(text="yes", finish_reason="stop", usage=usage, model="m", max_tokens=9)


def done(item, generator=None):
    usage = {"answer": generator.complete([]).usage.model_dump()} if generator else {}
    return Sample(id=item.id, status="done", prediction=item.id.upper(), usage=usage)


def jobs(*names):
    return [SampleJob(Item(name, None, "d")) for name in names]


def made(path, answer, todo, *, generator=None, ledger=None, **limits):
    with open_run(path, manifest()) as run:
        waiting = (job for job in todo if not run.samples.finished(job.key))
        return generate(waiting, answer, generator, run, Limits(**limits), ledger or Ledger(), NoProgress())


def rows(path):
    """The last line of each sample."""
    return {row["id"]: row for row in map(json.loads, (path / "predictions.jsonl").read_text().splitlines())}


def statuses(path):
    return {name: row["status"] for name, row in rows(path).items()}


def threads():
    return sum(thread.name == "worker" for thread in threading.enumerate())


@contextmanager
def no_thread_left():
    before = threads()
    yield
    ends = time.monotonic() + PATIENCE
    while threads() > before and time.monotonic() < ends:
        time.sleep(0.01)
    assert threads() <= before


def test_writes_every_sample_within_the_concurrency_limit(tmp_path):
    running, most, lock = 0, 0, threading.Lock()

    def answer(item, _):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1
        return done(item)

    names = [str(number) for number in range(60)]
    with no_thread_left():
        outcome = made(tmp_path / "r", answer, jobs(*names), concurrency=7)
    assert outcome == RunOutcome()
    assert most == 7
    assert statuses(tmp_path / "r") == dict.fromkeys(names, "done")
    row = rows(tmp_path / "r")["3"]
    assert (row["attempts"], row["domain"]) == (1, "d")
    assert row["timings"]["total"] >= 0.005


def test_model_limited_to_one_call_gets_one_sample_at_once(tmp_path):
    class SerializedRetriever(GeneratorBase, Model):
        at_once = 1

    places = threading.Semaphore(1)

    def answer(item, generator):
        assert places.acquire(blocking=False), "another sample is under way"
        time.sleep(0.01)
        places.release()
        return done(item, generator)

    made(tmp_path, answer, jobs(*"abcd"), generator=SerializedRetriever(), concurrency=4)
    assert statuses(tmp_path) == dict.fromkeys("abcd", "done")


class _Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


RAISED: dict[str, tuple[BaseException, str]] = {
    "typed": (GeneratorError("bad_reply", "no completion"), "bad_reply: no completion"),
    "plain": (KeyError("x"), "KeyError: KeyError: 'x'"), "leaving": (SystemExit(0), "SystemExit: SystemExit: 0"),
    "interrupted": (KeyboardInterrupt(), "KeyboardInterrupt: KeyboardInterrupt: "),
    "memory": (MemoryError(), "MemoryError: MemoryError: "), "mute": (_Mute(), "_Mute: _Mute: "),
    "surrogate": (ValueError("\ud800"), "ValueError: ValueError: \ufffd"),
}  # fmt: skip


def test_exception_fails_only_its_sample(tmp_path):
    def answer(item, _):
        if item.id in RAISED:
            raise RAISED[item.id][0]
        return done(item)

    outcome = made(tmp_path / "r", answer, jobs("first", *RAISED, "last"), concurrency=2)
    assert outcome.failed == len(RAISED)
    samples_of_run = rows(tmp_path / "r")
    assert {name: samples_of_run[name]["reason"] for name in RAISED} == {
        name: reason for name, (_, reason) in RAISED.items()
    }
    assert samples_of_run["typed"]["kind"] == "bad_reply"
    assert samples_of_run["first"]["status"] == samples_of_run["last"]["status"] == "done"


def test_sample_with_nan_fails(tmp_path):
    def answer(item, generator):
        broken = {"answer": Usage(calls=1, prompt_tokens=5, completion_tokens=1, cost=float("nan"))}
        return done(item).model_copy(update={"confidence": float("nan"), "usage": broken})

    outcome = made(tmp_path / "r", answer, jobs("a"))
    assert outcome.failed == 1
    row = rows(tmp_path / "r")["a"]
    assert (row["status"], row["kind"]) == ("failed", "ValueError")
    assert "JSON" in row["reason"]
    usage = {"calls": 1, "prompt_tokens": 5, "completion_tokens": 1, "cached_tokens": 0, "cost": None}
    assert row["usage"] == {"answer": usage}


def test_attempts_and_usage_add_up_over_calls(tmp_path):
    class Failing(Model):
        def complete(self, messages, **_):
            raise GeneratorError("unavailable", "down", Usage(calls=3))

    for _ in range(2):
        assert made(tmp_path / "r", done, jobs("a"), generator=Failing()).failed == 1
    row = rows(tmp_path / "r")["a"]
    assert (row["kind"], row["attempts"], row["usage"]["failed"]["calls"]) == ("unavailable", 2, 6)
    made(tmp_path / "r", done, jobs("a", "b"), generator=Model())
    row = rows(tmp_path / "r")["a"]
    assert (row["status"], row["attempts"], row["reason"]) == ("done", 3, None)
    assert {role: used["calls"] for role, used in row["usage"].items()} == {"failed": 6, "answer": 1}
    before = (tmp_path / "r/predictions.jsonl").read_bytes()
    assert made(tmp_path / "r", done, jobs("a", "b"), generator=Model()) == RunOutcome()
    assert (tmp_path / "r/predictions.jsonl").read_bytes() == before


def test_hanging_sample_is_abandoned_and_its_late_result_ignored(tmp_path):
    free = threading.Event()

    def answer(item, _):
        if item.id.startswith("hangs"):
            free.wait(PATIENCE)
        return done(item)

    with no_thread_left():
        names = ["hangs 1", "hangs 2", "a", "b", "c"]
        outcome = made(tmp_path / "r", answer, jobs(*names), concurrency=2, deadline=1.0)
        assert outcome.failed == 2
        free.set()
    row = rows(tmp_path / "r")["hangs 1"]
    assert row["reason"] == "timeout: no answer within the sample's 1 s; abandoned"
    assert len((tmp_path / "r/predictions.jsonl").read_text().splitlines()) == 5


def test_run_in_which_every_sample_hangs_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_scheduler, "MAX_HANGING_WORKERS", 5)
    free = threading.Event()

    def answer(item, _):
        free.wait(PATIENCE)
        return done(item)

    names = [str(number) for number in range(40)]
    outcome = made(tmp_path / "r", answer, jobs(*names), concurrency=4, deadline=0.05)
    free.set()
    assert outcome.gave_up
    assert outcome.stopped.endswith(" samples exceeded their deadline and are still running")
    assert 5 < outcome.failed <= 9
    assert Counter(statuses(tmp_path / "r").values()) == {"failed": outcome.failed, "skipped": 40 - outcome.failed}


def test_a_call_after_the_deadline_is_not_made(tmp_path):
    class Slow(Model):
        calls = 0

        def complete(self, messages, **_):
            Slow.calls += 1
            assert cancellation.current_stop().left(60.0) <= 0.2
            time.sleep(0.25)
            return super().complete(messages)

    def answer(item, generator):
        generator.complete([])
        return done(item, generator)

    made(tmp_path / "r", answer, jobs("a"), generator=Slow(), deadline=0.2)
    row = rows(tmp_path / "r")["a"]
    assert row["reason"] == "timeout: the sample's deadline of 0.2 s has passed"
    assert (Slow.calls, row["usage"]["failed"]["prompt_tokens"]) == (1, 8), "what it cost is kept"


@pytest.mark.parametrize("most", [0, 3])
def test_too_many_failures_stop_the_run_and_the_same_command_completes_it(tmp_path, most):
    down = True

    def answer(item, _):
        if down:
            raise GeneratorError("unavailable", "down")
        return done(item)

    todo = jobs(*"abcdefghij")
    outcome = made(tmp_path / "r", answer, todo, concurrency=1, max_failures=most)
    assert (outcome.failed, outcome.gave_up) == (most + 1, True)
    assert Counter(statuses(tmp_path / "r").values()) == {"failed": most + 1, "skipped": 9 - most}
    stopped = f"stopped after {most + 1} failures, more than --max-failures {most}"
    assert outcome.stopped == stopped
    row = rows(tmp_path / "r")["j"]
    assert (row["status"], row["reason"], row["attempts"], row["domain"]) == ("skipped", stopped, 0, "d")
    down = False
    outcome = made(tmp_path / "r", answer, todo, concurrency=3, max_failures=most)
    assert outcome == RunOutcome()
    assert rows(tmp_path / "r")["j"]["attempts"] == 1
    assert rows(tmp_path / "r")["a"]["attempts"] == 2


@pytest.mark.parametrize("guess", [10, 3, 30])
def test_concurrent_samples_do_not_overspend_the_budget(tmp_path, guess):
    ledger = Ledger(budget=Budget(tokens=200), guess=Usage(prompt_tokens=guess))
    names = [str(number) for number in range(300)]
    outcome = made(tmp_path / "r", done, jobs(*names), generator=Model(), ledger=ledger, concurrency=64)
    assert Counter(statuses(tmp_path / "r").values()) == {"done": 20, "skipped": 280}, "200 tokens are 20 samples"
    assert not outcome.gave_up
    assert outcome.stopped == "stopped by --budget: 200 tokens spent, and one more would exceed it"


def test_running_samples_are_kept_if_the_data_raises(tmp_path):
    def todo():
        yield from jobs("a", "b")
        raise OSError("the disk is gone")

    def slow(item, _):
        time.sleep(0.1)
        return done(item)

    with no_thread_left(), pytest.raises(OSError, match="the disk is gone"):
        made(tmp_path / "r", slow, todo(), concurrency=4)
    assert statuses(tmp_path / "r") == {"a": "done", "b": "done"}


def test_interrupt_keeps_finished_samples(tmp_path):
    class Interrupted(NoProgress):
        def advance(self, n=1):
            time.sleep(0.2)  # the others end meanwhile
            if not self.interrupted:
                self.interrupted = True
                raise KeyboardInterrupt

        interrupted = False

    with no_thread_left(), pytest.raises(KeyboardInterrupt), open_run(tmp_path / "r", manifest()) as run:
        generate(iter(jobs("a", "b", "c")), done, None, run, Limits(), Ledger(), Interrupted())
    assert statuses(tmp_path / "r") == dict.fromkeys("abc", "done")


def test_full_disk_ends_the_run_and_keeps_what_was_written(tmp_path):
    from tests.evaluation.disks import room

    def answer(item, _):
        return done(item).model_copy(update={"prediction": "x" * 3000})

    names = [str(number) for number in range(20)]
    with no_thread_left(), room(20_000), pytest.raises(OSError, match=r"predictions\.jsonl"):
        made(tmp_path / "r", answer, jobs(*names), concurrency=3)
    statuses_left = statuses(tmp_path / "r")
    assert 3 <= len(statuses_left) < 20
    assert set(statuses_left.values()) == {"done"}
    assert made(tmp_path / "r", answer, jobs(*names)) == RunOutcome()
