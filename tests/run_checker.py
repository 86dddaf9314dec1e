"""Checks a run folder, or what `ask --json` prints, against the project's contract for files.

    python -m tests.run_checker RUN
    turnmark ask QUESTION --index NAME --json | python -m tests.run_checker --ask

Prints every deviation and exits 1 where there is one. It knows the files alone and imports nothing of the project, so
that a mistake in a model of the project cannot hide itself.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DECISIONS = ("answer", "partial", "unknown", "clarify", "converse")
STATUSES = ("done", "failed", "skipped")
SCORE_STATUSES = ("scored", "not_applicable", "failed")
SUMMARY = {
    "benchmark": str, "task": str, "n": int, "failed": int, "metrics": dict, "breakdowns": dict, "published": list,
    "usage": dict, "seconds": dict, "notes": list,
}  # fmt: skip
REPLY = {
    "question": str, "answer": str, "procedure": list, "citations": list, "decision": str, "sub_questions": list,
    "checks": dict, "generator": str, "usage": dict, "timings": dict,
}  # fmt: skip
NUMBER = (int, float)
Kinds = dict[str, Any]


class Checker:
    """Collects what deviates from the contract, in the order of the files."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def report(self, location: str, fault: str) -> None:
        """Note one deviation."""
        self.problems.append(f"{location}: {fault}")

    def parse(self, text: str, location: str) -> Any:
        """The JSON value of a text; None, and a note, where it is none (NaN and Infinity included)."""

        def refuse(token: str) -> None:
            raise ValueError(f"{token} is not a JSON number")

        try:
            return json.loads(text, parse_constant=refuse)
        except ValueError as error:
            self.report(location, f"not JSON: {error}")
            return None

    def has(self, record: Any, location: str, kinds: Kinds) -> bool:
        """Whether `record` is an object; each field that is missing or of another type is noted."""
        if not isinstance(record, dict):
            self.report(location, f"expected an object, got {type(record).__name__}")
            return False
        for key, kind in kinds.items():
            if key not in record:
                self.report(location, f"{key} is missing")
            elif not isinstance(record[key], kind) or isinstance(record[key], bool):
                self.report(location, f"{key} is {type(record[key]).__name__}")
        return True

    def lines(self, path: Path) -> Iterator[tuple[str, Any]]:
        """The place and the value of each line of a JSON Lines file."""
        if not path.is_file():
            self.report(path.name, "missing")
            return
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1], 1):
            location = f"{path.name}:{number}"
            record = self.parse(line, location)
            if record is not None:
                yield location, record

    def whole(self, path: Path) -> Any:
        """The value of a JSON file; None, and a note, where it is missing."""
        if not path.is_file():
            self.report(path.name, "missing")
            return None
        return self.parse(path.read_text(encoding="utf-8"), path.name)

    # --- a run ----------------------------------------------------------------------------------------------------

    def run(self, folder: Path) -> None:
        """Check the four files of a run."""
        manifest = self.whole(folder / "manifest.json")
        if manifest is not None:
            self.has(manifest, "manifest.json", {"seed": int})
        statuses = self.samples(folder / "predictions.jsonl")
        self.scores(folder / "scores.jsonl")
        self.summary(self.whole(folder / "summary.json"), statuses)

    def samples(self, path: Path) -> dict[tuple[str, int], str]:
        """Check `predictions.jsonl`; (id, repeat) -> status of the sample's last line."""
        statuses: dict[tuple[str, int], str] = {}
        for location, row in self.lines(path):
            before = len(self.problems)
            if not self.has(row, location, {"id": str, "repeat": int, "status": str}) or len(self.problems) > before:
                continue
            if row["status"] not in STATUSES:
                self.report(location, f"status {row['status']!r}")
            if row["status"] == "failed" and not row.get("reason"):
                self.report(location, "failed without a reason")
            decision = row.get("decision")
            if row["status"] == "done" and decision is not None and decision not in DECISIONS:
                self.report(location, f"decision {decision!r}")
            statuses[row["id"], row["repeat"]] = row["status"]
        return statuses

    def scores(self, path: Path) -> None:
        """Check `scores.jsonl`."""
        for location, row in self.lines(path):
            if not self.has(row, location, {"id": str, "repeat": int, "metric": str, "status": str}):
                continue
            status, value = row.get("status"), row.get("value")
            if status not in SCORE_STATUSES:
                self.report(location, f"status {status!r}")
            if status == "scored" and not _finite(value):
                self.report(location, "scored without a number")
            if status == "failed" and (value is not None or not row.get("reason")):
                self.report(location, "a failed score has a reason and no value")

    def summary(self, record: Any, statuses: dict[tuple[str, int], str]) -> None:
        """Check `summary.json`, and its counts against the samples."""
        if record is None or not self.has(record, "summary.json", SUMMARY):
            return
        for name, metric in _items(record.get("metrics")):
            self.metric(metric, f"summary.json metrics {name}")
        for dimension, values in _items(record.get("breakdowns")):
            for value, metrics in _items(values):
                for name, metric in _items(metrics):
                    self.metric(metric, f"summary.json {dimension}={value} {name}")
        for place, row in enumerate(record.get("published") or ()):
            location = f"summary.json published {place}"
            complete = self.has(row, location, {"system": str, "metrics": dict, "source": str})
            if complete and not isinstance(row.get("comparable"), bool):
                self.report(location, "comparable is neither true nor false")
            if complete and row.get("comparable") is False and not row.get("why"):
                self.report(location, "not comparable, without a why")
        failed = sum(status == "failed" for status in statuses.values())
        for key, count in (("n", len(statuses)), ("failed", failed)):
            if statuses and record.get(key) != count:
                self.report("summary.json", f"{key} is {record.get(key)}, predictions.jsonl has {count}")

    def metric(self, record: Any, location: str) -> None:
        """Check one metric of a summary."""
        if not self.has(record, location, {"n": int, "failed": int, "not_applicable": int}):
            return
        mean, interval = record.get("mean"), record.get("ci95")
        if record.get("n") == 0:
            if mean is not None:
                self.report(location, "the mean of no scored sample must be null")
            return
        if not _finite(mean):
            self.report(location, f"mean is {mean!r}")
        ordered = isinstance(interval, list) and len(interval) == 2 and all(map(_finite, interval))
        if not ordered or interval[0] > interval[1]:
            self.report(location, f"ci95 is {interval!r}")

    # --- a reply --------------------------------------------------------------------------------------------------

    def reply(self, text: str) -> None:
        """Check what `ask --json` prints."""
        record = self.parse(text, "ask")
        if record is None or not self.has(record, "ask", REPLY) or self.problems:
            return
        if record["decision"] not in DECISIONS:
            self.report("ask", f"decision {record['decision']!r}")
        citation = {"n": int, "id": str, "document": str, "text": str, "score": NUMBER}
        for place, row in enumerate(record["citations"]):
            self.has(row, f"ask citation {place}", citation)
        numbers = {row.get("n") for row in record["citations"] if isinstance(row, dict)}
        for place, row in enumerate(record["procedure"]):
            location = f"ask step {place}"
            if self.has(row, location, {"step": str, "citations": list}) and not set(row["citations"]) <= numbers:
                self.report(location, f"cites {row['citations']}, of {sorted(number for number in numbers if number)}")


def _finite(value: Any) -> bool:
    return isinstance(value, NUMBER) and not isinstance(value, bool) and math.isfinite(value)


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def problems_of_run(folder: Path) -> list[str]:
    """Every deviation of a run folder from the contract."""
    checker = Checker()
    checker.run(folder)
    return checker.problems


def problems_of_reply(text: str) -> list[str]:
    """Every deviation of the output of `ask --json` from the contract."""
    checker = Checker()
    checker.reply(text)
    return checker.problems


def main(words: list[str]) -> int:
    """The command; 0 where nothing deviates."""
    if len(words) != 1:
        print(__doc__)
        return 2
    problems = problems_of_reply(sys.stdin.read()) if words[0] == "--ask" else problems_of_run(Path(words[0]))
    print("\n".join(problems) or "holds")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
