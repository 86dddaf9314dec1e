"""A synthesised set read by people: a page on which each item is kept or rejected with a reason, and what they saved.

    turnmark report OUT --rate FILE                     the page
    turnmark synth KIND … --out OUT --review SAVED      what somebody rejected leaves the set, its reasons stay

Compound-QA (appendix C.3) keeps what three readers find good, all of them: here, too, one rejection is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.corpora.rows import json_lines
from turnmark.corpora.types import Problem
from turnmark.evaluation.report.rating import RatingTask, Texts, write_page
from turnmark.evaluation.runs.journal import read_records
from turnmark.evaluation.synth.folder import ITEMS, REJECTS, Reject, SynthItem, SynthManifest, reviewed_id

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
"""What the page proposes; the first two and the last are those of Compound-QA's C.3."""
Reviews = Mapping[str, Mapping[str, str | None]]
"""Item -> reader -> why it was rejected; None: it was kept."""


def is_synthesis(folder: Path) -> bool:
    """Whether a folder is one that `synth` writes."""
    return (folder / ITEMS).is_file() and (folder / REJECTS).is_file()


def write_review(folder: Path, page: Path) -> Path:
    """Write the page on which the items of a synthesis are read."""
    try:
        kind = SynthManifest.model_validate_json((folder / "manifest.json").read_bytes()).kind
    except (OSError, ValidationError) as error:
        raise RequestError(f"{str(folder)!r}: its manifest.json cannot be read") from error
    texts = Texts()
    try:
        tasks = [_SHOWN[kind](item, texts) for item in read_records(folder / ITEMS, SynthItem)]
    except (KeyError, TypeError) as error:
        raise RequestError(f"{ITEMS} in {str(folder)!r}: an item is not as synth {kind} makes it ({error})") from error
    if not tasks:
        raise RequestError(f"{ITEMS} in {str(folder)!r} has no item to review")
    scales = {VERDICT.partition(" ")[2]: (KEEP, REJECT)}
    content = {"tasks": tasks, "texts": texts.listed, "scales": scales, "pairs": False, "asks": "Question"}
    write_page(page, {**content, "reasons": REASONS})
    return page


def _task(
    item: SynthItem,
    texts: Texts,
    said: Iterable[tuple[str, str]],
    question: str,
    answer: str,
    passages: Iterable[Mapping[str, str]],
) -> RatingTask:
    shown = dict.fromkeys(f"{passage['title']}\n{passage['text']}".strip() for passage in passages)
    return {
        "id": item.id,
        "said": [(role, texts.add(text)) for role, text in said],
        "question": texts.add(question),
        "answers": {"A": {"text": texts.add(answer), "passages": list(map(texts.add, shown)), "previous": None}},
    }


def _conversation(item: SynthItem, texts: Texts) -> RatingTask:
    """A whole conversation of MTRAG-S: its last turn is the question, passages are those of all turns."""
    turns: list[dict[str, Any]] = item.content["turns"]
    said = [pair for turn in turns[:-1] for pair in (("user", turn["question"]), ("assistant", turn["answer"]))]
    passages = [passage for turn in turns for passage in turn["contexts"]]
    return _task(item, texts, said, turns[-1]["question"], turns[-1]["answer"], passages)


def _instructions(item: SynthItem, texts: Texts) -> RatingTask:
    content = item.content
    said = [pair for asked, replied in content["history"] for pair in (("user", asked), ("assistant", replied))]
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(content["procedure"], 1))
    return _task(item, texts, said, content["question"], f"{content['answer']}\n\n{steps}", content["documents"])


def _compound(item: SynthItem, texts: Texts) -> RatingTask:
    content = item.content
    question = f"{content['type']}: {content['com_question']}"
    return _task(item, texts, (), question, content["com_reference"], [{"title": "", "text": content["context"]}])


_SHOWN: Mapping[str, Callable[[SynthItem, Texts], RatingTask]] = {
    "mtrag": _conversation,
    "inscoqa": _instructions,
    "compound-qa": _compound,
}


# --- what people said ------------------------------------------------------------------------------------------------


def read_reviews(files: Sequence[Path]) -> Reviews:
    """What readers saved, item by item; of one reader's several verdicts on an item the last counts."""
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
    """Raise what was said of items that are not in the set, nor were rejected from it before."""
    known: set[str | None] = {item.id for item in read_records(folder / ITEMS, SynthItem)}
    known |= {reviewed_id(reject) for reject in read_records(folder / REJECTS, Reject)}
    if unknown := [name for name in reviews if name not in known]:
        raise RequestError([f"--review: no item {name!r} in {str(folder)!r}" for name in unknown])


def rejections(reviews: Reviews) -> dict[str, dict[str, str]]:
    """Item -> reader -> reason, of those that somebody rejected."""
    found = {
        name: {person: reason for person, reason in of_item.items() if reason is not None}
        for name, of_item in reviews.items()
    }
    return {name: reasons for name, reasons in found.items() if reasons}
