"""What share of Compound-QA's questions is split into the right number of parts, on questions labelled by reading them.

    TURNMARK_DATA=… python -m tests.benchmarks.decompose

The labels (tests/data/compound_parts.jsonl) hold ids, counts and places, and no text of the data. They are those of
one reader, who knew the rules, and were made before the rules were run on any of these questions. A part is what asks
for an answer of its own. `drawn`: 200 questions, 20 of each type and half by `random.Random(20261121)`, none of the 60
that the rules were written on. `hard`: of the others, 40 with fewer than two question marks and 40 with more in which a
question word follows an "and", drawn by the same seed; one of them led to a change of the rules afterwards. Beside the
rules stands what counting question marks gets right.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assistant.steps.split import split_questions
from corpora.compound_qa import Task, locate, stream_tasks

LABELS = Path(__file__).parents[1] / "data" / "compound_parts.jsonl"


def labels() -> list[dict[str, Any]]:
    """The rows: `id`, `set`, `half`, `parts`, and for `drawn` the `spans` of the parts in the question."""
    return [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]


def questions(folder: Path, wanted: Sequence[str]) -> dict[str, str]:
    """Id -> question."""
    names = set(wanted)
    tasks = (task for task in stream_tasks(folder) if isinstance(task, Task))
    return {task.id: task.question for task in tasks if task.id in names}


def right(rows: Sequence[dict[str, Any]], asked: dict[str, str]) -> tuple[int, int, int]:
    """How many are split into as many parts as were counted, by the rules and by question marks; and in their places.

    A part is in its place where it begins as the span does, "and" and a number of a list apart.
    """
    counted = marked = placed = 0
    for row in rows:
        question = asked[row["id"]]
        parts = split_questions(question)
        counted += len(parts) == row["parts"]
        marked += max(1, question.count("?")) == row["parts"]
        begins = [question[start:end].removeprefix("and ").lower() for start, end in row.get("spans", ())]
        placed += len(parts) == len(begins) and all(
            part[:12].lower() == begin[: len(part[:12])] for part, begin in zip(parts, begins, strict=True)
        )
    return counted, marked, placed


def main() -> None:
    """Print the shares."""
    from tests.benchmarks.pools import root

    rows = labels()
    folder = locate(root().parent / "compound-qa").root
    asked = questions(folder, [row["id"] for row in rows])
    groups = [(name, [row for row in rows if row["set"] == name]) for name in ("drawn", "hard")]
    halves = [(half, [row for row in groups[0][1] if row["half"] == half]) for half in ("with", "closed-book")]
    kinds = dict.fromkeys(row["id"].split("/")[1] for row in rows)
    types = [(kind, [row for row in groups[0][1] if f"/{kind}/" in row["id"]]) for kind in kinds]
    for name, some in (*groups, *((f"  drawn, {one}", of) for one, of in (*halves, *types))):
        counted, marked, placed = right(some, asked)
        places = f"  places {placed / len(some):.3f}" if "spans" in some[0] else ""
        print(f"{name:34} n {len(some):3}  rules {counted / len(some):.3f}  marks {marked / len(some):.3f}{places}")


if __name__ == "__main__":
    main()
