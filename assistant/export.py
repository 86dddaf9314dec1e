"""Conversations for others: tasks in MTRAG's format, sessions in KIWI's, a transcript in Markdown.

What a person rated, edited and labelled becomes a small benchmark. `turnmark eval … --data` reads what is written here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnmark.assistant.session import Exchange, messages, sources_used, where
from turnmark.assistant.types import Citation
from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.home import write_atomic
from turnmark.corpora.text import printable, strip_citations
from turnmark.corpora.types import Message

if TYPE_CHECKING:
    from turnmark.assistant.session_files import Session
    from turnmark.retrieval.index import Index

FORMATS = ("mtrag", "kiwi", "markdown")
KIWI_FILE = "interaction_data_new.jsonl"

_ANSWERABILITY = {
    "answer": "ANSWERABLE",
    "partial": "PARTIAL",
    "unknown": "UNANSWERABLE",
    "clarify": "UNDERSPECIFIED",
    "converse": "CONVERSATIONAL",
}
_SPACES = re.compile(r"[\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
# Whatever Markdown or HTML could take for more than a letter.
_ACTIVE = re.compile(r"([\\`*_{}\[\]<>#|~!&])")
_UNDERLINE = re.compile(r"^[ \t]*[-=](?=[-= \t]*$)", re.MULTILINE)

Row = dict[str, Any]


@dataclass
class Export:
    """What would be written: nothing is before `write`.

    Attributes:
        files: every file, with its content.
        notes: what was left out, or decided.
        advice: what to do with it.
    """

    files: dict[Path, str]
    notes: list[str] = field(default_factory=list)
    advice: str = ""

    def write(self) -> None:
        """Write every file.

        Raises:
            TurnmarkError: one could not be written.
        """
        for path, text in self.files.items():
            try:
                write_atomic(path, text)
            except OSError as error:
                raise TurnmarkError(f"{path} could not be written ({error.strerror or error})") from error


def export_session(form: str, session: Session, target: Path, index: Index | None, all_turns: bool = False) -> Export:
    """A session in one of the `FORMATS`.

    Args:
        target: a file; for `mtrag` a folder, for `kiwi` either.
        index: the passages of `mtrag` are those of this index as a whole; None: those that were seen.
        all_turns: `mtrag`: also turns that the person said nothing of.

    Raises:
        RequestError: there is nothing to write, or the target is not what is needed.
    """
    exchanges = session.conversation.exchanges
    if not exchanges:
        raise RequestError("there is nothing to export yet")
    folder = form == "mtrag" or (form == "kiwi" and target.suffix != ".jsonl")
    if folder and target.exists() and not target.is_dir():
        raise RequestError(f"{target} is a file; {form} needs a folder")
    if not folder and target.is_dir():
        raise RequestError(f"{target} is a folder; {form} needs a file")
    if form == "mtrag":
        return mtrag(exchanges, session.name, target, index, all_turns)
    if form == "kiwi":
        return kiwi(exchanges, target / KIWI_FILE if folder else target)
    return Export({target: markdown(exchanges, session.name)})


# -- MTRAG


def mtrag(
    exchanges: Sequence[Exchange], name: str, folder: Path, index: Index | None, all_turns: bool = False
) -> Export:
    """A folder in the layout of IBM/mt-rag-benchmark: tasks, queries, relevance labels, passages.

    A task's target is the answer that the person stands behind (an edit, or a reply rated good); without one it has
    none. Its relevant passages are those labelled so; where nothing was labelled relevant, those that such an answer
    cites. Only turns that were rated, edited or labelled become tasks. A revision is a version of the answer before it.

    Raises:
        RequestError: no turn is left.
    """
    questions = [(place, exchange) for place, exchange in enumerate(exchanges) if exchange.kind == "ask"]
    selected = [
        (place, exchange)
        for place, exchange in questions
        if all_turns or any(version.touched for version in _versions(exchanges, place))
    ]
    if not selected:
        raise RequestError(
            "no turn was rated, edited or labelled yet (/rate, /edit, /relevant); to export all: "
            f"/export mtrag {folder} all"
        )
    domains = _domains(exchanges)
    tasks, notes = [], []
    files: dict[Path, str] = {}
    for place, exchange in selected:
        tasks.append(_task(exchanges, place, name, domains[exchange.index]))
        if _approved(exchanges, place) is None:
            notes.append(f"turn {place + 1} has no answer rated good or edited, so its task has no target")
    files[folder / "mtrag-human/generation_tasks/reference.jsonl"] = _lines(tasks)
    for used in dict.fromkeys(exchange.index for _, exchange in selected):
        of_index = [(place, exchange) for place, exchange in selected if exchange.index == used]
        files |= _retrieval(exchanges, of_index, name, folder, domains[used])
        open_index = index if index is not None and index.manifest.name == used else None
        files[folder / f"corpora/passage_level/{domains[used]}.jsonl"] = _lines(_corpus(open_index, exchanges, used))
        if open_index is None:
            notes.append(f"the index {used!r} is not open: its passages are only those that were seen here")
    omitted = len(exchanges) - len(selected)
    if omitted:
        notes.append(f"{omitted} turn{'s'[: omitted != 1]} left out: a revision, or nothing was said of it")
    return Export(files, notes, f"score it: turnmark eval mtrag --data {folder}")


def _domains(exchanges: Iterable[Exchange]) -> dict[str, str]:
    """Index name -> the name of its domain: letters and digits only, as the benchmark's file names need them."""
    domains: dict[str, str] = {}
    for name in dict.fromkeys(exchange.index for exchange in exchanges):
        base = re.sub(r"[^a-z0-9]", "", name.lower()) or "index"
        domain, number = base, 2
        while domain in domains.values():
            domain, number = f"{base}x{number}", number + 1
        domains[name] = domain
    return domains


def _task_id(name: str, place: int) -> str:
    return f"{name}<::>{place + 1}"


def _task(exchanges: Sequence[Exchange], place: int, name: str, domain: str) -> Row:
    exchange = exchanges[place]
    conversation = [*messages(exchanges[:place]), Message(role="user", content=exchange.question)]
    speakers = {"user": "user", "assistant": "agent"}
    target = _approved(exchanges, place)
    return {
        "conversation_id": name,
        "task_id": _task_id(name, place),
        "task_type": "rag",
        "turn": str(sum(citation.kind == "ask" for citation in exchanges[: place + 1])),
        "dataset": "Turnmark chat",
        "contexts": [
            {"document_id": _safe(citation.id), "text": citation.text, "title": citation.title, "score": citation.score}
            for citation in relevant_passages(exchange)
        ],
        "input": [{"speaker": speakers[message.role], "text": message.content} for message in conversation],
        "targets": [{"speaker": "agent", "text": target}] if target else [],
        "Multi-Turn": ["Follow-up" if place else "N/A"],
        "Question Type": ["How-To"] if exchange.reply.procedure else [],
        "Answerability": [_answerability(exchange)],
        "Collection": f"mt-rag-{domain}",
    }


def _versions(exchanges: Sequence[Exchange], place: int) -> list[Exchange]:
    """A turn and the revisions of its answer."""
    return [exchanges[place], *takewhile(lambda exchange: exchange.kind == "revise", exchanges[place + 1 :])]


def _approved(exchanges: Sequence[Exchange], place: int) -> str | None:
    """The last version of an answer that the person stands behind."""
    return next(filter(None, (version.approved for version in reversed(_versions(exchanges, place)))), None)


def _answerability(exchange: Exchange) -> str:
    """By the decision, unless the person says otherwise: where something is relevant, it can be answered."""
    if exchange.reply.decision in ("unknown", "clarify") and True in exchange.labels.values():
        return "ANSWERABLE"
    return _ANSWERABILITY[exchange.reply.decision]


def relevant_passages(exchange: Exchange) -> list[Citation]:
    """What a person calls relevant, or else what an answer cites that they stand behind."""
    labelled = [citation for citation in exchange.seen if exchange.labels.get(citation.id)]
    if labelled or exchange.approved is None:
        return labelled
    return [citation for citation in sources_used(exchange.reply) if exchange.labels.get(citation.id) is not False]


def _retrieval(
    exchanges: Sequence[Exchange], selected: Sequence[tuple[int, Exchange]], name: str, folder: Path, domain: str
) -> dict[Path, str]:
    """Queries and relevance labels of the turns that have a relevant passage."""
    labels: list[str] = []
    queries: dict[str, list[Row]] = {"lastturn": [], "rewrite": [], "questions": []}
    for place, exchange in selected:
        grades = {_safe(passage.id): 1 for passage in relevant_passages(exchange)}
        if not grades:
            continue
        grades |= {_safe(passage): 0 for passage, relevant in exchange.labels.items() if not relevant}
        identity = _task_id(name, place)
        labels += [f"{identity}\t{passage}\t{grade}" for passage, grade in grades.items()]
        questions = [passage.question for passage in exchanges[: place + 1] if passage.kind == "ask"]
        rewrite = exchange.reply.rewrite or exchange.question
        for kind, texts in (("lastturn", questions[-1:]), ("rewrite", [rewrite]), ("questions", questions)):
            text = "\n".join(f"|user|: {' '.join(text.split())}" for text in texts)
            queries[kind].append({"_id": identity, "text": text})
    if not labels:
        return {}
    base = folder / "mtrag-human/retrieval_tasks" / domain
    files = {base / f"{domain}_{kind}.jsonl": _lines(rows) for kind, rows in queries.items()}
    return {**files, base / "qrels/dev.tsv": "\n".join(["query-id\tcorpus-id\tscore", *labels]) + "\n"}


def _corpus(index: Index | None, exchanges: Iterable[Exchange], name: str) -> Iterator[Row]:
    if index is not None:
        for page in index.store.pages():
            for _, _, passage in page:
                yield {"_id": _safe(passage.id), "title": passage.title, "text": passage.text}
        return
    citations = {
        citation.id: citation for exchange in exchanges if exchange.index == name for citation in exchange.seen
    }
    for citation in citations.values():
        yield {"_id": _safe(citation.id), "title": citation.title, "text": citation.text}


def _safe(identity: str) -> str:
    """A passage's id without what would end a cell or a line of a table."""
    return _SPACES.sub("_", identity)


# -- KIWI


def kiwi(exchanges: Sequence[Exchange], path: Path) -> Export:
    """A file in KIWI's format: a row for each answer that was revised, with the revisions that followed it.

    Raises:
        RequestError: nothing was revised.
    """
    rows: list[Row] = []
    unrated = 0
    for exchange in exchanges:
        if exchange.kind == "ask":
            rows.append(
                {
                    "original_question": exchange.reply.rewrite or exchange.question,
                    "model_name": exchange.reply.generator,
                    "initial_answer": exchange.said,
                    "retrieved_passages": _passages(exchange.reply.citations),
                    "interaction": [],
                }
            )
        elif rows:
            unrated += exchange.rating is None
            rows[-1]["interaction"].append(
                {
                    "instruction": exchange.question,
                    "answer_1": strip_citations(exchange.reply.whole),
                    "answer_2": strip_citations(exchange.edit or ""),
                    "rating": exchange.rating or "neutral",
                    "comment": exchange.comment,
                    "retrieved_passages": _passages(exchange.reply.citations),
                }
            )
    revised = [row for row in rows if row["interaction"] and row["initial_answer"].strip()]
    if not revised:
        raise RequestError("no answer was revised yet (/revise TEXT), and KIWI is about revisions")
    notes = [f"{unrated} revision{'s'[: unrated != 1]} without a rating: written as neutral"] if unrated else []
    if len(revised) < len(rows):
        notes.append(f"{len(rows) - len(revised)} of {len(rows)} answers were not revised and are left out")
    if path.name != KIWI_FILE:
        return Export({path: _lines(revised)}, notes, f"to score it, put it into a folder of its own as {KIWI_FILE}")
    return Export({path: _lines(revised)}, notes, f"score it: turnmark eval kiwi --data {path.parent}")


def _passages(citations: Iterable[Citation]) -> list[Row]:
    return [{"title": citation.title, "text": citation.text} for citation in citations if citation.text.strip()]


def _lines(rows: Iterable[Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)


# -- Markdown


def markdown(exchanges: Sequence[Exchange], name: str) -> str:
    """A transcript to read: questions, answers, sources as footnotes, what the person said of them.

    Answers keep their paragraphs and lists. Whatever else Markdown or HTML would act on is escaped: what documents and
    models say is shown, never run or loaded.
    """
    parts = [f"# Conversation {escaped(name)}\n"]
    for number, exchange in enumerate(exchanges, 1):
        parts.append(f"## {number}. {escaped(exchange.question)}\n")
        reply = exchange.reply
        if reply.rewrite not in ("", exchange.question):
            parts.append(f"*Understood as: {escaped(reply.rewrite)}*\n")
        body = exchange.edit if exchange.edit is not None else reply.whole
        parts.append(_footnoted(body, number, len(reply.citations)) + "\n")
        remarks = [f"rated {exchange.rating}"] if exchange.rating else []
        if exchange.comment:
            remarks.append(escaped(exchange.comment))
        if exchange.edit is not None:
            remarks.append("edited by hand")
        parts.append(f"<sub>{' · '.join([reply.decision, escaped(reply.generator), *remarks])}</sub>\n")
        parts += [f"[^{number}-{citation.n}]: {escaped(where(citation))}" for citation in sources_used(reply)]
        parts.append("")
    return "\n".join(parts)


def _footnoted(text: str, turn: int, sources: int) -> str:
    """The text with its marks as footnotes of this turn; whatever else is not plain text is escaped."""
    safe = _inactive(printable(text))
    marks = re.compile(r"\\\[(\d{1,3})\\\]")
    return marks.sub(lambda match: f"[^{turn}-{match[1]}]" if 1 <= int(match[1]) <= sources else match.group(), safe)


def escaped(text: str) -> str:
    """A text of unknown origin as one line of Markdown that shows it as it stands."""
    return _inactive(" ".join(printable(text).split()))


def _inactive(text: str) -> str:
    return _UNDERLINE.sub(r"\\\g<0>", _ACTIVE.sub(r"\\\1", text))
