"""Review of synthesized items by people: a page on which each item is kept or rejected, and the files that it saves.

    turnmark report OUT --rate FILE                     write the page
    turnmark synth KIND … --out OUT --review SAVED      remove the rejected items; the reasons go to the rejects

One rejection is enough, as in Compound-QA (appendix C.3), which keeps an item only if all three reviewers accept it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.corpora.jsonl_rows import json_lines
from turnmark.corpora.types import Problem
from turnmark.evaluation.report.rating_page import RatingTask, write_page
from turnmark.evaluation.report.sample_browser import TextIndex
from turnmark.evaluation.storage.journal import read_records
from turnmark.evaluation.synth.synthesis_attempt import ReviewedItem, open_synthesis
from turnmark.evaluation.synth.synthesis_folder import ITEMS, REJECTS, Reject, SynthItem, SynthManifest, reviewed_id

VERDICT, REASON = "A verdict", "A reason"
KEEP, REJECT = "keep", "reject"
NO_REASON = "no reason given"
REASONS = (
    "not of its type",
    "of its type on the surface only",
    "the question is unclear",
    "the passages do not support the answer",
    "a part is not answered",
)
"""Reasons that the page suggests; the first two and the last are from Compound-QA's C.3."""
Reviews = Mapping[str, Mapping[str, str | None]]
"""Item id -> reviewer -> reason of the rejection, or None if the reviewer kept the item."""


def is_synthesis(folder: Path) -> bool:
    """Return whether a folder was written by `synth`."""
    return (folder / ITEMS).is_file() and (folder / REJECTS).is_file()


def write_review(folder: Path, page: Path) -> Path:
    """Write the page on which people review the items of a synthesis.

    Raises:
        RequestError: the manifest or an item cannot be read, or there is no item.
    """
    try:
        kind = SynthManifest.model_validate_json((folder / "manifest.json").read_bytes()).kind
    except (OSError, ValidationError) as error:
        raise RequestError(f"{str(folder)!r}: its manifest.json cannot be read") from error
    texts = TextIndex()
    try:
        review = open_synthesis(kind, {}).review
        tasks = [_task(item.id, review(item), texts) for item in read_records(folder / ITEMS, SynthItem)]
    except (KeyError, TypeError) as error:
        raise RequestError(f"{ITEMS} in {str(folder)!r}: an item is not as synth {kind} makes it ({error})") from error
    if not tasks:
        raise RequestError(f"{ITEMS} in {str(folder)!r} has no item to review")
    scales = {VERDICT.partition(" ")[2]: (KEEP, REJECT)}
    content = {"tasks": tasks, "texts": list(texts), "scales": scales, "pairs": False, "asks": "Question"}
    write_page(page, {**content, "reasons": REASONS})
    return page


def _task(name: str, item: ReviewedItem, texts: TextIndex) -> RatingTask:
    shown = dict.fromkeys(f"{passage['title']}\n{passage['text']}".strip() for passage in item.passages)
    return {
        "id": name,
        "said": [(role, texts.add(text)) for role, text in item.said],
        "question": texts.add(item.question),
        "answers": {"A": {"text": texts.add(item.answer), "passages": list(map(texts.add, shown)), "previous": None}},
    }


# --- the saved reviews -----------------------------------------------------------------------------------------------


def read_reviews(files: Sequence[Path]) -> Reviews:
    """Read the files that review pages saved; the last of several verdicts of one reviewer on an item counts.

    Raises:
        RequestError: all mistakes.
    """
    errors = ErrorCollector()
    reviews: dict[str, dict[str, str | None]] = {}
    for path in files:
        if not path.is_file():
            errors.add(f"--review {str(path)!r} is no file")
            continue
        for number, row in json_lines(path, path.name):
            given = None if isinstance(row, Problem) else row.get("given")
            verdict = given.get(VERDICT) if isinstance(given, dict) else None
            if isinstance(row, Problem) or not isinstance(given, dict) or verdict not in (KEEP, REJECT):
                errors.add(
                    f"--review {path.name}, line {number}: neither {KEEP} nor {REJECT}; rate it, or delete the line"
                )
                continue
            reason = " ".join(str(given.get(REASON, "")).split()) or NO_REASON
            of_item = reviews.setdefault(str(row.get("id")), {})
            of_item[str(row.get("rater"))] = reason if verdict == REJECT else None
    errors.raise_all()
    return reviews


def check_reviews(reviews: Reviews, folder: Path) -> None:
    """Check that the reviewed items are, or were before a review, in the folder.

    Raises:
        RequestError: the unknown items.
    """
    known: set[str | None] = {item.id for item in read_records(folder / ITEMS, SynthItem)}
    known |= {reviewed_id(reject) for reject in read_records(folder / REJECTS, Reject)}
    unknown = [name for name in reviews if name not in known]
    if unknown:
        raise RequestError([f"--review: no item {name!r} in {str(folder)!r}" for name in unknown])


def rejections(reviews: Reviews) -> dict[str, dict[str, str]]:
    """Return item id -> reviewer -> reason, for the items that at least one of them rejected."""
    reasons_of = {
        name: {reviewer: reason for reviewer, reason in verdicts.items() if reason is not None}
        for name, verdicts in reviews.items()
    }
    return {name: reasons for name, reasons in reasons_of.items() if reasons}
