"""`report --rate FILE`: a page on which people rate the answers of runs without knowing whose they are.

MTRAG section 7: each answer on faithfulness, appropriateness, naturalness and completeness from 1 to 4, and each two
answers to a task against each other, ties allowed; three raters. KIWI section 2.2: each revision good, neutral or bad.
Systems have letters, drawn anew for each task by its id; who is behind a letter is in the file next to the page
(`FILE.key.json`), not in the page. Ratings are kept in the browser as they are made, so that a rater can go on later,
and are saved as JSON lines, which `turnmark agreement FILE.key.json RATINGS.jsonl…` reads.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnmark.corpora.errors import RequestError
from turnmark.corpora.home import write_atomic, write_json
from turnmark.evaluation.report.stored import StoredRun, samples

FANC = ("faithfulness", "appropriateness", "naturalness", "completeness")
SCALE = ("1", "2", "3", "4")
KIWI = {"rating": ("good", "neutral", "bad")}


def key_file(page: Path) -> Path:
    """Where it is written down whose answers a page shows."""
    return page.with_name(f"{page.name}.key.json")


def write_rating(runs: Sequence[StoredRun], page: Path) -> Path:
    """Write the page, and next to it the key.

    Raises:
        RequestError: the runs are of several benchmarks, or no task is answered by all of them.
    """
    if len({run.summary.benchmark for run in runs}) > 1:
        raise RequestError("--rate: the runs are of several benchmarks; rate those of one")
    answers = {
        run.path.name: {s.id: s for s in samples(run.path) if s.status == "done" and not s.repeat} for run in runs
    }
    if len(answers) < len(runs):
        raise RequestError("--rate: two runs have one name; name folders that differ")
    shared = [name for name in next(iter(answers.values()), {}) if all(name in mine for mine in answers.values())]
    if not shared:
        raise RequestError("--rate: no task is answered in all of these runs")
    tasks: list[dict[str, Any]] = []
    key: dict[str, dict[str, str]] = {}
    for name in shared:
        systems = list(answers)
        random.Random(name).shuffle(systems)
        letters = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", systems, strict=False))
        key[name] = letters
        first = answers[systems[0]][name]
        tasks.append({
            "id": name, "question": first.query or "", "previous": first.previous or "",
            "passages": [ref.text for ref in first.contexts if ref.text],
            "answers": {letter: answers[system][name].prediction or "" for letter, system in letters.items()},
        })  # fmt: skip
    scales = KIWI if runs[0].summary.benchmark == "kiwi" else dict.fromkeys(FANC, SCALE)
    content = {"tasks": tasks, "scales": scales, "pairs": runs[0].summary.benchmark != "kiwi"}
    data = json.dumps(content, ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    write_atomic(page, Path(__file__).with_name("rating.html").read_text(encoding="utf-8").replace("@DATA@", data))
    write_json(key_file(page), {
        "form": "turnmark rating key", "systems": key, "points": dict.fromkeys(scales, 1.0),
        "texts": {run: {name: mine[name].prediction or "" for name in shared} for run, mine in answers.items()},
    })  # fmt: skip
    return page
