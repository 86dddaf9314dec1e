"""Conversations in the layout of MTRAG-S, as `turnmark.corpora.mtrag` and everybody else's readers of the repository
read it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from turnmark.corpora.console import valid_text
from turnmark.corpora.home import write_atomic
from turnmark.corpora.statistics import Sheet
from turnmark.evaluation.synth.kinds import Exported
from turnmark.evaluation.synth.records import Made
from turnmark.evaluation.synth.source import Source

TASKS = "mtrag-synthetic/generation_tasks/synthetic.jsonl"
CORPORA = "corpora/passage_level"


def domain_of(index: str) -> str:
    """The domain that an index gives its name to: lower-case letters and digits, as the layout has them."""
    return re.sub(r"[^a-z0-9]", "", index.lower()) or "corpus"


def rows(items: Iterable[Made]) -> Iterator[dict[str, Any]]:
    """A row for each turn of each conversation, with everything that was said before it."""
    for item in items:
        content = item.content
        said: list[dict[str, Any]] = []
        turns = content["turns"]
        name = hashlib.sha256(json.dumps([content["conversation"], turns[0]["question"]]).encode()).hexdigest()[:32]
        for number, turn in enumerate(turns, 1):
            said.append(_said("user", turn["question"], content["writer"]))
            answer = _said("agent", turn["answer"], content["writer"])
            yield {
                "conversation_id": name,
                "task_id": f"{name}<::>{number}",
                "task_type": "rag",
                "turn": str(number),
                "dataset": f"turnmark synth mtrag, {item.id}",
                "contexts": turn["contexts"],
                "input": list(said),
                "targets": [answer],
                "Question Type": turn["question_types"],
                "Multi-Turn": [turn["multi_turn"]],
                "Answerability": [turn["answerability"]],
                "Collection": domain_of(content["domain"]),
            }
            said.append(answer)


def _said(speaker: str, text: str, writer: str) -> dict[str, Any]:
    return {"speaker": speaker, "text": text, "metadata": {"author_type": "model", "author_id": writer}}


def lines(found: Iterable[dict[str, Any]]) -> str:
    """Rows as JSON lines."""
    return "".join(valid_text(json.dumps(row, ensure_ascii=False, allow_nan=False)) + "\n" for row in found)


def export(folder: Path, items: Sequence[Made], source: Source | None) -> Exported:
    """Write the tasks, and the corpus in the layout's form so that the setting `rag` can search it."""
    write_atomic(folder / TASKS, lines(rows(items)))
    domains = sorted({domain_of(item.content["domain"]) for item in items})
    files = [TASKS, *(f"{CORPORA}/{domain}.jsonl" for domain in domains)]
    if source is not None:
        for name in files[1:]:
            if not (folder / name).is_file():
                passages = (
                    {"_id": one.id, "id": one.id, "title": one.title, "text": one.text} for one in source.passages()
                )
                write_atomic(folder / name, lines(passages))
    return Exported(tuple(files), (f"try it: turnmark eval mtrag-s --data {folder}",))


def statistics(folder: Path) -> Sequence[Sheet]:
    """MTRAG's Table 8, the dimensions and the lengths, over the tasks alone."""
    from turnmark.corpora.rows import Source as Data
    from turnmark.corpora.statistics_mtrag import NAMES, check

    found = check(Data(root=folder, demo=False)).sheets
    return [sheet for sheet in found if sheet.title.startswith(f"{NAMES['mtrag-s']}:")]
