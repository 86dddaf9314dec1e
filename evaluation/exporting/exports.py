"""`turnmark report RUN --export FORM=FILE`: which forms there are, what each of them needs, and writing them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.home import write_atomic
from turnmark.corpora.types import Record
from turnmark.evaluation.exporting.forms import Counts, evaluation, export_samples, official
from turnmark.evaluation.predictions_official import MTRAG_FAMILY
from turnmark.evaluation.report.stored import StoredRun
from turnmark.evaluation.trec import BLANK, format_trec

Named = Sequence[tuple[str, StoredRun]]
"""Runs, and what to call each."""


_END = 2_000  # bytes at either end of a file


class Exported(Record):
    """A file that was written."""

    form: str
    file: Path
    samples: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Export:
    """A file that is to be written."""

    form: str
    path: Path


def exports(texts: Iterable[str], errors: ErrorCollector) -> list[Export]:
    """What `--export` asks for; what is wrong with it joins `errors`. Nobody's file is overwritten."""
    listed: list[Export] = []
    for text in texts:
        form, _, file = text.partition("=")
        if form not in FORMS or not file:
            errors.add(f"--export {text!r}: expected FORM=FILE, FORM being one of {', '.join(FORMS)}")
            continue
        path = Path(file)
        check_target(f"--export {form}:", path, errors)
        if os.path.realpath(path) in (os.path.realpath(earlier.path) for earlier in listed):
            errors.add(f"--export {form}: {file!r} is named twice; name two files")
        if form == "official" and path.suffix != ".jsonl":
            errors.add(f"--export {form}: {file!r}: the format checker and `score` want a name that ends in .jsonl")
        listed.append(Export(form, path))
    return listed


def check_target(flag: str, path: Path, errors: ErrorCollector, marker: str = "") -> None:
    """Take down why a file cannot be written: nobody's file is overwritten, but one of ours that has a marker."""
    above = next((folder for folder in path.absolute().parents if folder.exists()), None)
    if path.is_dir():
        errors.add(f"{flag} {str(path)!r} is a folder; name a file")
    elif above is not None and not above.is_dir():
        errors.add(f"{flag} {str(path)!r}: {str(above)!r} is a file; name another place")
    elif not path.exists() and not path.is_symlink():
        return
    elif not marker:
        errors.add(f"{flag} {str(path)!r} is there already; name another file, or remove it")
    elif not path.is_file():
        errors.add(f"{flag} {str(path)!r} is no regular file; name one")
    else:
        try:
            ours = not path.stat().st_size or marker.encode() in _ends(path)
        except OSError as error:
            errors.add(f"{flag} {str(path)!r} cannot be read: {error.strerror or error}; name another file")
            return
        if not ours:
            errors.add(f"{flag} {str(path)!r} is there already and is no report of this kind; name another file")


def _ends(path: Path) -> bytes:
    """The first bytes of a file and its last, where a report of ours says what it is."""
    with open(path, "rb") as file:
        head = file.read(_END)
        file.seek(max(len(head), path.stat().st_size - _END))
        return head + file.read(_END)


def check(requested: Sequence[Export], runs: Named, errors: ErrorCollector) -> None:
    """Take down what these runs cannot be written as."""
    for export in requested:
        flag = f"--export {export.form}"
        if not runs:
            continue
        if len(runs) > 1 and export.form != "inspector":
            errors.add(f"{flag}: a file is of one run, and there are {len(runs)}; name one (inspector takes several)")
        for name, run in runs:
            if reason := _why_not(export.form, run):
                errors.add(f"{flag}: {name}: {reason}")
        if len({run.summary.benchmark for _, run in runs}) > 1:
            errors.add(f"{flag}: the runs are of several benchmarks; name runs of one")


def _why_not(form: str, run: StoredRun) -> str | None:
    summary = run.summary
    if not (run.path / "predictions.jsonl").is_file():
        return "it has no predictions.jsonl; score or evaluate again"
    lists = summary.task == "retrieval"
    if form == "trec":
        return (
            None if lists or summary.setting == "rag" else "it ranked no passages of its own (retrieval, setting rag)"
        )
    if form != "inspector" and summary.benchmark not in MTRAG_FAMILY:
        return (
            f"the form is that of the MTRAG family ({', '.join(MTRAG_FAMILY)}), and this run is of {summary.benchmark}"
        )
    return "it has lists of passages and no answers; trec is for these" if lists else None


def write(requested: Iterable[Export], runs: Named) -> list[Exported]:
    """Write the files, which `check` found to be possible.

    Raises:
        OSError: one cannot be written.
        RequestError: an id cannot stand in a TREC run.
    """
    return [FORMS[export.form](runs, export.path) for export in requested]


def _official(runs: Named, path: Path) -> Exported:
    run, counts = runs[0][1], Counts()
    lines = [
        official(sample, run.summary.benchmark)
        for sample in export_samples(run, counts)
        if sample.sample.status == "done"
    ]
    # Escaped: a lone surrogate of a broken answer is no UTF-8.
    write_atomic(path, "".join(f"{json.dumps(line, allow_nan=False)}\n" for line in lines))
    notes = counts.notes("left out, so that they fail again when the file is scored")
    return Exported(form="official", file=path, samples=len(lines), notes=tuple(notes))


def _trec(runs: Named, path: Path) -> Exported:
    (name, run), counts = runs[0], Counts()
    lists = {
        sample.sample.id: sample.contexts for sample in export_samples(run, counts) if sample.sample.status == "done"
    }
    odd = [key for query, refs in lists.items() for key in (query, *(ref.document_id for ref in refs)) if _odd(key)]
    if odd:
        raise RequestError(
            f"--export trec: {len(odd)} ids are empty or hold white space, {odd[0]!r} first; the format has no such ids"
        )
    write_atomic(path, format_trec(lists, re.sub(r"[^A-Za-z0-9._-]", "-", name) or "turnmark"))
    empty = sum(not refs for refs in lists.values())
    notes = [f"{empty} samples for which nothing was found have no line"] * bool(empty)
    notes += counts.notes("left out")
    return Exported(form="trec", file=path, samples=len(lists) - empty, notes=tuple(notes))


def _odd(name: str) -> bool:
    return not name or BLANK.search(name) is not None


def _inspector(runs: Named, path: Path) -> Exported:
    counts = Counts()
    content = evaluation(runs, counts)
    write_atomic(path, json.dumps(content, allow_nan=False) + "\n")
    notes = counts.notes("left out")
    return Exported(form="inspector", file=path, samples=len(content["evaluations"]), notes=tuple(notes))


FORMS: Mapping[str, Callable[[Named, Path], Exported]] = {
    "official": _official, "trec": _trec, "inspector": _inspector,
}  # fmt: skip
"""Form -> what writes it."""
