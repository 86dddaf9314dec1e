"""`facts.jsonl`: which samples of a run belong together, and how their tasks are labelled.

    {"id": "…", "cluster": "…", "labels": {"domain": ["clapnq"], "turn": ["later"]}, "headline": true}

Scores alone do not say which turns are of one conversation, and a finished run has to be comparable without its data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from turnmark.corpora.types import Record
from turnmark.evaluation.journal import json_line, open_atomic
from turnmark.evaluation.summary import Facts

NAME = "facts.jsonl"


class _Line(Record):
    id: str
    cluster: str
    labels: Mapping[str, tuple[str, ...]]
    headline: bool


@contextmanager
def writing(run: Path) -> Iterator[Callable[[str, Facts], object]]:
    """Write the facts of one item after the other; the file is there when all of them are written.

    Args:
        run: the folder of the run. A file that was there is replaced, unless the writing breaks off.
    """
    with open_atomic(run / NAME) as file:
        yield lambda name, facts: file.write(json_line(_Line(id=name, **dict(facts))))


def read(run: Path) -> dict[str, Facts] | None:
    """Task id -> facts; None where there is no such file, or a line of it is none."""
    path = run / NAME
    if not path.is_file():
        return None
    facts_of_id: dict[str, Facts] = {}
    for line in path.read_bytes().splitlines():
        try:
            row = _Line.model_validate_json(line)
        except ValidationError:
            return None
        facts_of_id[row.id] = Facts(cluster=row.cluster, labels=row.labels, headline=row.headline)
    return facts_of_id
