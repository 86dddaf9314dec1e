"""KIWI: instructions to revise a long answer, with the model's revisions and the user's ratings.

Source: Hugging Face `fangyuan/kiwi`, `interaction_data_new.jsonl` (234 sessions, 1,260 turns), and its companion
`fangyuan/longform_sciqa` with each question's cited papers. Paper: "KIWI: A Dataset of Knowledge-Intensive Writing
Instructions for Answering Research Questions" (Findings of ACL 2024). No copy was available when this was written: the
fields follow the published description. One row is a session; one of the demo split, shortened:

    {"original_question": "How do the two sourdough methods of Ternsay differ, and why?", "model_name": "demo-large",
     "initial_answer": "Two methods are in use on Ternsay. …", "retrieved_passages": [{"title": "…", "text": "…"}],
     "interaction": [{"instruction": "Take out everything about folding. …", "answer_1": "…", "answer_2": "…",
                      "rating": "bad", "comment": "The folding is still there, …",
                      "instruction_type": "stylistic", "fine_type": "Remove"}]}

`answer_1` is the model's revision, `answer_2` the user's edit of it, if any. A turn's id is `<session index>/<turn>`,
both from 0. The index counts unreadable rows too, so that repairing a row does not change the ids of others.
`stream_sessions` says how ratings are read and what happens to unreadable rows and turns.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field

from turnmark.core.errors import RequestError
from turnmark.core.record import Record
from turnmark.corpora import jsonl_rows
from turnmark.corpora.jsonl_rows import JsonRow, LoadedRows, Source, get_non_blank, get_objects, get_string
from turnmark.corpora.types import Problem

RevisionRating = Literal["good", "neutral", "bad"]
CoarseType = Literal["information-seeking", "stylistic"]

DEMO_ROOT = Path(__file__).parents[1] / "demo" / "kiwi"
INTERACTIONS = ("interaction_data_new.jsonl", "train.jsonl")
COMPANIONS = ("longform_sciqa.jsonl", "longform_sciqa/train.jsonl")

_LACKING_MESSAGE = f"contains no {' or '.join(INTERACTIONS)}"
_ADVICE = "put interaction_data_new.jsonl of the Hugging Face dataset fangyuan/kiwi into a folder; name it with --data"
FINE_TYPES = (
    "More information", "Expand coverage", "Clarification", "Remove", "Specific edit", "Condense", "Reorganize",
    "Others",
)  # fmt: skip
"""The fine-grained instruction types of the paper's Table 3."""
ERROR_TYPES = ("Unrequested change", "Ignored", "Constraint failure", "Poor integration", "Others")
"""The error types of revisions that are not good (the paper's Table 4)."""
SCALES: Mapping[str, Mapping[int, RevisionRating]] = {
    "1/0/-1": {1: "good", 0: "neutral", -1: "bad"},
    "2/1/0": {2: "good", 1: "neutral", 0: "bad"},
}
_TITLES = ("title", "paper_title", "paper")
_BODIES = ("text", "passage", "paragraph", "content", "paragraphs", "passages")
MODELS = ("GPT-4", "GPT-3.5-turbo", "LLaMA-2-70b-chat")
"""The models of the sessions (section 3.2), in the order of Table 2."""
_SPELLINGS = (r"gpt4(32k)?(0\d{3})?", r"gpt35(turbo(16k)?(0\d{3})?)?", r"llama(2(70b)?(chat)?(70b)?(hf)?)?")
_PASSAGES = ("retrieved_passages", "retrieved_documents", "retrieved_docs", "passages")
_COARSE_KEYS = ("instruction_type", "coarse_type", "type")
_FINE_KEYS = ("fine_type", "fine_grained_type", "fine_instruction_type", "category")
_ERROR_KEYS = ("error_type", "error_category")


def model_name(name: str) -> str:
    """Return the paper's name of one of its models, however a file spells it; any other name unchanged.

    Only the three models of section 3.2 match: GPT-4o and Llama 3 are other models.
    """
    letters = "".join(filter(str.isalnum, name.rpartition("/")[2].casefold()))
    spellings = zip(MODELS, _SPELLINGS, strict=True)
    return next((model for model, spelling in spellings if re.fullmatch(spelling, letters)), name)


class PaperPassage(Record):
    """A piece of a paper: retrieved for a turn, or a paragraph of the companion file."""

    title: str = Field(description="the paper's title; empty if the file has none")
    text: str


class Papers(Record):
    """A question's row of the companion file: the papers that its answer should be drawn from (section 3.1)."""

    question: str
    related_work: str = Field(description="the related-work paragraph that the question was written from")
    cited_papers: tuple[str, ...] = Field(description="the papers' titles, or other names")
    paragraphs: tuple[PaperPassage, ...]


class KiwiTurn(Record):
    """An instruction, the model's revision, and the user's rating of it (section 2.2)."""

    id: str = Field(description="<session index>/<turn>")
    turn: int = Field(description="0-based")
    instruction: str
    previous: str = Field(description="the answer before this turn, by the rule of `answer_after`")
    answer: str = Field(description="answer_1: the model's revised answer")
    edit: str | None = Field(description="answer_2: the user's edit of the revision, or None if there was no edit")
    rating: RevisionRating
    coarse: CoarseType | None = Field(default=None, description="chosen by the user (section 2.2)")
    fine: str | None = Field(default=None, description="one of FINE_TYPES (Table 3)")
    comment: str | None = Field(default=None, description="the user's reason for the rating")
    error: str | None = Field(default=None, description="one of ERROR_TYPES (Table 4)")
    passages: tuple[PaperPassage, ...] = Field(default=(), description="retrieved for the instruction")


class Session(Record):
    """A question, a first answer, and the turns that revised it."""

    index: int = Field(description="0-based place of the row in the file")
    question: str
    model: str
    initial_answer: str
    turns: tuple[KiwiTurn, ...]
    passages: tuple[PaperPassage, ...] = Field(default=(), description="retrieved for the first answer")
    papers: Papers | None = Field(default=None, description="the question's row of the companion file")


def locate(data: Path | None) -> Source:
    """Find the folder to read: `data`, its child `kiwi`, `$TURNMARK_DATA/kiwi`, or the demo split."""
    return jsonl_rows.locate(
        data, "kiwi", DEMO_ROOT, lambda root: _first(root, INTERACTIONS) is not None, _LACKING_MESSAGE, _ADVICE
    )


def _first(root: Path, names: Sequence[str]) -> str | None:
    return next((name for name in names if (root / name).is_file()), None)


def files(root: Path) -> dict[str, Path]:
    """Return the files that are read from a folder, by name: the interaction data and, if it exists, the companion
    file.
    """
    names = (_first(root, INTERACTIONS), _first(root, COMPANIONS))
    return {name: root / name for name in names if name is not None}


def answer_after(previous: str, answer: str, edit: str | None, rating: RevisionRating) -> str:
    """Return the current answer after a turn (section 2.2): the user's edit, or else the revision. A bad revision
    without an edit is dropped, and the previous answer stays current. A blank edit counts as no edit.
    """
    if edit is not None and edit.strip():
        return edit
    return previous if rating == "bad" else answer


def _scale(path: Path, label: str) -> tuple[Mapping[int, RevisionRating], Problem | None]:
    """Find out which scale the file's numeric ratings use, and report if that is doubtful. Reads all rows and keeps
    none.
    """
    lines: dict[int, int] = {}  # numeric rating -> line where it first occurs
    for line, row in jsonl_rows.json_lines(path, label):
        interaction = row.get("interaction") if isinstance(row, dict) else None
        if not isinstance(interaction, list):
            continue
        for item in interaction:
            number = _number_of(item.get("rating")) if isinstance(item, dict) else None
            if number is not None:
                lines.setdefault(number, line)
    if -1 in lines and 2 in lines:
        message = f"ratings -1 (line {lines[-1]}) and 2 (line {lines[2]}) are on different scales: no number is read"
        return {}, Problem(file=label, what=message)
    if lines and -1 not in lines and 2 not in lines:
        message = "the ratings in numbers are 0 and 1 only, which both scales have; 1 is read as good and 0 as neutral"
        return SCALES["1/0/-1"], Problem(file=label, what=message)
    return SCALES["2/1/0" if 2 in lines else "1/0/-1"], None


def _number_of(value: Any) -> int | None:
    """Return a rating that is written as an integer (1, 1.0, "1", "-1"); None for other values and for Booleans."""
    if isinstance(value, str):
        value = {name: int(name) for name in ("-1", "0", "1", "2")}.get(value.strip().removeprefix("+"))
    if isinstance(value, bool) or not isinstance(value, int | float) or value not in (-1, 0, 1, 2):
        return None
    return int(value)


def _rating_of(value: Any, scale: Mapping[int, RevisionRating]) -> RevisionRating:
    """Return a rating given in words or as a number on the scale; ValueError if it is neither."""
    word = value.strip().lower() if isinstance(value, str) else ""
    number = _number_of(value)
    rating: RevisionRating | None = None if number is None else scale.get(number)
    if word in get_args(RevisionRating):
        rating = word  # type: ignore[assignment]
    if rating is None:
        written = json.dumps(value, ensure_ascii=False)[:40]
        fault = "missing" if value is None else f"{written} (expected good, neutral or bad)"
        raise ValueError(f"'rating' is {fault}")
    return rating


def _get_first_value(row: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """Return the value of the first key that is present and neither null nor empty."""
    return next((row[key] for key in keys if row.get(key) not in (None, "", [])), None)


def _coarse_of(value: Any) -> CoarseType | None:
    """Return the coarse type that a value names, or None if it names neither."""
    beginnings: dict[str, CoarseType] = {"info": "information-seeking", "styl": "stylistic"}
    return beginnings.get(_letters(value)[:4])


def _match_name(value: Any, names: Sequence[str]) -> str | None:
    """Return the name that a value spells, ignoring letter case and punctuation, or None if there is none."""
    letters = _letters(value).replace("reorganise", "reorganize")
    return next((name for name in names if _letters(name) == letters), None)


def _letters(value: Any) -> str:
    return "".join(filter(str.isalpha, value.lower())) if isinstance(value, str) else ""


def _passages_of(value: Any, title: str = "") -> Iterator[PaperPassage]:
    """Yield the passages in a value, however nested: texts, or objects with a title and a text."""
    pending: list[tuple[Any, str]] = [(value, title)]
    while pending:
        item, name = pending.pop()
        if isinstance(item, str) and item.strip():
            yield PaperPassage(title=name, text=item)
        elif isinstance(item, list):
            pending += [(part, name) for part in reversed(item)]
        elif isinstance(item, dict):
            item_title = _get_first_value(item, _TITLES)
            body = _get_first_value(item, _BODIES)
            pending.append((body, item_title if isinstance(item_title, str) else name))
        elif item is not None and not isinstance(item, str):
            raise ValueError(f"a passage is {type(item).__name__}, neither text nor an object with one")


def _read_required_fields(item: Any, scale: Mapping[int, RevisionRating]) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise ValueError(f"a turn is {type(item).__name__}, not an object")
    edit = None if item.get("answer_2") is None else get_string(item, "answer_2")
    return {
        "instruction": get_non_blank(item, "instruction"),
        "answer": get_string(item, "answer_1"),
        "edit": edit if edit and edit.strip() else None,
        "rating": _rating_of(item.get("rating"), scale),
    }


def _read_retrieved_passages(row: Mapping[str, Any], location: str, notes: list[str]) -> tuple[PaperPassage, ...]:
    """Return the retrieved passages of a row; none, with a note, if they cannot be read."""
    try:
        return tuple(_passages_of(_get_first_value(row, _PASSAGES)))
    except ValueError as error:
        notes.append(f"{location}the retrieved passages are left out: {error}")
        return ()


def _read_optional_fields(item: Mapping[str, Any], location: str, notes: list[str]) -> dict[str, Any]:
    """Return the optional fields of a turn; one that cannot be read is left out with a note."""
    keys = (_COARSE_KEYS, _FINE_KEYS, _ERROR_KEYS, ("comment",))
    coarse, fine, error, comment = (_get_first_value(item, each) for each in keys)
    if fine is None and _coarse_of(coarse) is None and _match_name(coarse, FINE_TYPES) is not None:
        coarse, fine = None, coarse  # the file has one field for the type, which contains the fine type
    readings = {
        "coarse type": (coarse, _coarse_of(coarse)),
        "fine type": (fine, _match_name(fine, FINE_TYPES)),
        "error type": (error, _match_name(error, ERROR_TYPES)),
    }
    for label, (value, reading) in readings.items():
        if value is not None and reading is None:
            notes.append(f"{location}the {label} {json.dumps(value)[:40]} is not one of the paper's and is left out")
    if comment is not None and not isinstance(comment, str):
        notes.append(f"{location}'comment' is {type(comment).__name__}, not text, and is left out")
        comment = None
    kinds = {label.split()[0]: reading for label, (_, reading) in readings.items()}
    return {**kinds, "comment": comment, "passages": _read_retrieved_passages(item, location, notes)}


def _turns(
    index: int, initial: str, row: JsonRow, scale: Mapping[int, RevisionRating], notes: list[str]
) -> Iterator[KiwiTurn]:
    """Yield the turns up to the first one that cannot be read; ValueError if that is the very first turn."""
    items = row.get("interaction")
    if not isinstance(items, list):
        items = get_objects(row, "interaction")
    if not items:
        raise ValueError("'interaction' is empty")
    previous = initial
    for number, item in enumerate(items):
        location = f"interaction[{number}]: "
        try:
            core = _read_required_fields(item, scale)
        except ValueError as error:
            if not number:
                raise ValueError(f"{location}{error}") from None
            dropped = len(items) - number
            turns = "1 turn" if dropped == 1 else f"{dropped} turns"
            notes.append(f"{location}{error}; {turns} left out, since the answer before them is not known")
            return
        turn = {"id": f"{index}/{number}", "turn": number, "previous": previous} | core
        yield KiwiTurn.model_validate(turn | _read_optional_fields(item, location, notes))
        previous = answer_after(previous, core["answer"], core["edit"], core["rating"])


def _session(
    index: int, row: JsonRow, papers: Mapping[str, Papers], scale: Mapping[int, RevisionRating], notes: list[str]
) -> Session:
    question, initial = get_non_blank(row, "original_question"), get_non_blank(row, "initial_answer")
    return Session(
        index=index,
        question=question,
        model=get_non_blank(row, "model_name"),
        initial_answer=initial,
        turns=tuple(_turns(index, initial, row, scale, notes)),
        passages=_read_retrieved_passages(row, "", notes),
        papers=papers.get(same_question(question)),
    )


def same_question(question: str) -> str:
    """Return a question with white space and letter case normalized, as a key for comparison."""
    return " ".join(question.split()).casefold()


def _parse_papers(row: JsonRow) -> tuple[str, Papers]:
    question = get_non_blank(row, "question")
    lists = []
    for key in ("cited_papers", "cited_paragraphs"):
        if not isinstance(row.get(key), list):
            raise ValueError(f"{key!r} is missing" if row.get(key) is None else f"{key!r} is not a list")
        lists.append(row[key])
    cited, cited_paragraphs = lists
    names = (_get_first_value(item, _TITLES) if isinstance(item, dict) else item for item in cited)
    titles = [name if isinstance(name, str) else json.dumps(name, ensure_ascii=False) for name in names]
    # In a list per paper, the paper of each paragraph is known; in a flat list of texts it is not.
    nested = len(titles) == len(cited_paragraphs) and all(isinstance(item, list) for item in cited_paragraphs)
    paragraphs = (
        paragraph
        for number, item in enumerate(cited_paragraphs)
        for paragraph in _passages_of(item, titles[number] if nested else "")
    )
    related = get_string(row, "related_work_paragraph", "") if row.get("related_work_paragraph") else ""
    papers = Papers(question=question, related_work=related, cited_papers=tuple(titles), paragraphs=tuple(paragraphs))
    return same_question(question), papers


def load_papers(root: Path) -> LoadedRows[dict[str, Papers]] | None:
    """Read the companion file, by `same_question`, or return None if the folder has none."""
    name = _first(root, COMPANIONS)
    if name is None:
        return None
    return jsonl_rows.collect_rows(jsonl_rows.parse_rows(root / name, name, _parse_papers), root / name)


def _interactions(root: Path) -> str:
    name = _first(root, INTERACTIONS)
    if name is None:
        raise RequestError(f"the interaction data of KIWI: {str(root)!r} {_LACKING_MESSAGE}; {_ADVICE}")
    return name


def stream_sessions(root: Path) -> Iterator[Session | Problem]:
    """Iterate over the sessions in the file's order, with a Problem for everything that is left out.

    Ratings are the words good, neutral and bad in any case, or numbers. All numbers of a file are on one scale: a -1
    anywhere makes it 1/0/-1, a 2 anywhere 2/1/0. If both occur, no number is read. If only 0 and 1 occur, 1 is read as
    good and 0 as neutral, and a Problem says so. The file is read twice for this.

    A row without a readable first turn is left out. A session ends at a later turn that cannot be read, because the
    answer before the next turn is not known. A copy of an earlier row is left out. An optional field that cannot be
    read is left out alone. Each of these is a Problem with file and line.
    """
    return _sessions(root, _interactions(root))


def _sessions(root: Path, label: str) -> Iterator[Session | Problem]:
    companion = load_papers(root)
    yield from companion.problems if companion else ()
    scale, doubt = _scale(root / label, label)
    if doubt:
        yield doubt
    digests: dict[bytes, int] = {}
    for index, (line, row) in enumerate(jsonl_rows.json_lines(root / label, label)):
        if isinstance(row, Problem):
            yield row
            continue
        notes: list[str] = []
        try:
            digest = hashlib.sha256(json.dumps(row, sort_keys=True).encode()).digest()
            first_line = digests.setdefault(digest, line)
            if first_line != line:
                raise ValueError(f"the same session is already in line {first_line}; the first is kept")
            session = _session(index, row, companion.data if companion else {}, scale, notes)
        except (ValueError, RecursionError) as error:
            yield Problem(file=label, line=line, what=str(error))
            continue
        yield from (Problem(file=label, line=line, what=note) for note in notes)
        yield session


def load_sessions(root: Path) -> LoadedRows[tuple[Session, ...]]:
    """Read all sessions into memory; see `stream_sessions`."""
    items = list(stream_sessions(root))
    return LoadedRows(
        data=tuple(item for item in items if isinstance(item, Session)),
        problems=tuple(item for item in items if isinstance(item, Problem)),
        path=root / _interactions(root),
    )
