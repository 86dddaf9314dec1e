"""Compound questions in the layout of the official repository."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from turnmark.corpora.home import write_atomic
from turnmark.corpora.statistics import Sheet
from turnmark.evaluation.synth.kinds import Exported
from turnmark.evaluation.synth.mtrag_files import lines
from turnmark.evaluation.synth.records import Made


def export(folder: Path, items: Sequence[Made], capability: str, types: Sequence[str]) -> Exported:
    """Write a file for each type."""
    files = []
    for kind in types:
        name = f"data/{capability}/{capability}_{kind.replace('-', '_')}.jsonl"
        own = [item.content for item in items if item.content["type"] == kind]
        if own:
            write_atomic(folder / name, lines({key: row[key] for key in row if key != "type"} for row in own))
            files.append(name)
        else:
            (folder / name).unlink(missing_ok=True)
    told = (f"try it: turnmark eval compound-qa --data {folder}", f"to train on it: turnmark synth sft {folder}")
    return Exported(tuple(files), told if files else ())


def statistics(folder: Path) -> Sequence[Sheet]:
    """Questions by capability and type beside the paper's 100 each, and lengths."""
    from turnmark.corpora import compound_qa
    from turnmark.corpora.rows import Source as Data
    from turnmark.corpora.statistics_others import check_compound_qa

    if not compound_qa.files(folder):
        return []
    return check_compound_qa(Data(root=folder, demo=False)).sheets
