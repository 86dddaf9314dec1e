"""Conversations for others: tasks in MTRAG's format, sessions in KIWI's, and a transcript in Markdown.

What a person rated and edited becomes a small benchmark: `turnmark eval mtrag --data` and `turnmark eval kiwi --data`
read what is written here.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnmark.assistant.session import Exchange, cite, messages, sources_used
from turnmark.assistant.steps.marks import CODE
from turnmark.core.console import printable
from turnmark.core.errors import RequestError
from turnmark.corpora.kiwi import INTERACTIONS
from turnmark.corpora.text import strip_citations

if TYPE_CHECKING:
    from turnmark.retrieval.index import Index

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
# Code that can stay as it is: in a line; a block none of whose lines leaves the list item that it is in.
_INLINE = re.compile(r"(```|`)[^`\n]+\1")
_BLOCK = re.compile(r"([ \t]*)```[^`\n]*\n(?:(?:\1[^\n]+)?\n)*\1```")
_KEPT = "\x00"  # stands for code; printable text has none

Row = dict[str, Any]


def mtrag_files(
    exchanges: Sequence[Exchange], name: str, folder: Path, index: Index | None
) -> tuple[dict[Path, str], str]:
    """A folder in the layout of IBM/mt-rag-benchmark: tasks, queries, relevance labels, passages; and a note.

    Every turn that was rated or edited becomes a task. Its target is the last version of its answer that the person
    approved (an edit, or a reply rated good), its relevant passages those that this version cites; else it has neither.
    A revision is a version of the answer before it.

    Args:
        index: its passages are the corpus; of a conversation over another index, those that were shown.
    """
    rows: dict[Path, list[Row]] = defaultdict(list)
    labels: dict[Path, list[str]] = defaultdict(lambda: ["query-id\tcorpus-id\tscore"])
    asked = [at for at, exchange in enumerate(exchanges) if exchange.kind == "ask"]
    domains: dict[str, str] = {}
    for turn, (start, end) in enumerate(zip(asked, [*asked[1:], len(exchanges)], strict=True), 1):
        first, versions = exchanges[start], exchanges[start:end]
        if not any(version.rating or version.edit is not None for version in versions):
            continue
        approved = next((version for version in reversed(versions) if version.approved), None)
        relevant = sources_used(approved.reply) if approved else []
        domain = domains.setdefault(first.config.index, _domain(first.config.index, domains.values()))
        identity = f"{name}<::>{turn}"
        history = [*messages(exchanges[:start]), *messages([first])[:1]]
        rows[folder / "mtrag-human/generation_tasks/reference.jsonl"].append({
            "conversation_id": name, "task_id": identity, "task_type": "rag", "turn": str(turn),
            "dataset": "Turnmark chat",
            "contexts": [{"document_id": _safe(source.id), "text": source.text, "title": source.title,
                          "score": source.score} for source in relevant],
            "input": [{"speaker": {"user": "user", "assistant": "agent"}[message.role], "text": message.content}
                      for message in history],
            "targets": [{"speaker": "agent", "text": approved.approved}] if approved else [],
            "Multi-Turn": ["Follow-up" if turn > 1 else "N/A"],
            "Question Type": ["How-To"] if first.reply.procedure else [],
            "Answerability": [_ANSWERABILITY[first.reply.decision]], "Collection": f"mt-rag-{domain}",
        })  # fmt: skip
        if not relevant:
            continue
        base = folder / "mtrag-human/retrieval_tasks" / domain
        labels[base / "qrels/dev.tsv"] += [f"{identity}\t{_safe(source.id)}\t1" for source in relevant]
        questions = [exchanges[at].question for at in asked[:turn]]
        rewrite = first.reply.rewrite or first.question
        for kind, texts in (("lastturn", questions[-1:]), ("rewrite", [rewrite]), ("questions", questions)):
            text = "\n".join(f"|user|: {' '.join(text.split())}" for text in texts)
            rows[base / f"{domain}_{kind}.jsonl"].append({"_id": identity, "text": text})
    if not rows:
        raise RequestError("no turn was rated or edited yet (/rate, /edit)")
    for used, domain in domains.items():
        rows[folder / f"corpora/passage_level/{domain}.jsonl"] = _corpus(index, exchanges, used)
    left_out = len(asked) - len(rows[folder / "mtrag-human/generation_tasks/reference.jsonl"])
    files = {path: _json_lines(lines) for path, lines in rows.items()}
    files |= {path: "\n".join(lines) + "\n" for path, lines in labels.items()}
    return files, f"{left_out} turn{'s'[: left_out != 1]} without a rating or an edit left out" if left_out else ""


def kiwi_files(exchanges: Sequence[Exchange], folder: Path) -> tuple[dict[Path, str], str]:
    """A folder with KIWI's interaction data (section 2.2): a session for each answer that was revised; and a note.

    KIWI has a rating at each turn: a revision that nobody rated is written as neutral.
    """
    rows: list[Row] = []
    unrated = 0
    for exchange in exchanges:
        reply = exchange.reply
        shown = [{"title": source.title, "text": source.text} for source in reply.citations if source.text.strip()]
        if exchange.kind == "ask":
            rows.append({
                "original_question": reply.rewrite or exchange.question, "model_name": reply.generator,
                "initial_answer": exchange.answer, "retrieved_passages": shown, "interaction": [],
            })  # fmt: skip
        elif rows:
            unrated += exchange.rating is None
            rows[-1]["interaction"].append({
                "instruction": exchange.question, "answer_1": strip_citations(reply.answer),
                "answer_2": strip_citations(exchange.edit or ""), "rating": exchange.rating or "neutral",
                "comment": exchange.comment, "retrieved_passages": shown,
            })  # fmt: skip
    revised = [row for row in rows if row["interaction"] and row["initial_answer"].strip()]
    if not revised:
        raise RequestError("no answer was revised yet (/revise)")
    note = f"{unrated} revision{'s'[: unrated != 1]} without a rating written as neutral" if unrated else ""
    return {folder / INTERACTIONS[0]: _json_lines(revised)}, note


def _json_lines(rows: Iterable[Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _domain(index: str, taken: Iterable[str]) -> str:
    """The name of an index in letters and digits, as the benchmark's file names need it."""
    base = re.sub(r"[^a-z0-9]", "", index.lower()) or "index"
    return base if base not in taken else _domain(f"{base}x", taken)


def _corpus(index: Index | None, exchanges: Iterable[Exchange], name: str) -> list[Row]:
    if index is not None and index.manifest.name == name:
        passages = {passage.id: passage for page in index.store.pages() for _, _, passage in page}
        return [{"_id": _safe(key), "title": passage.title, "text": passage.text} for key, passage in passages.items()]
    shown = {
        source.id: source
        for exchange in exchanges
        if exchange.config.index == name
        for source in exchange.reply.citations
    }
    return [{"_id": _safe(key), "title": source.title, "text": source.text} for key, source in shown.items()]


def _safe(identity: str) -> str:
    """A passage's id without what would end a cell or a line of a table."""
    return _SPACES.sub("_", identity)


def transcript(exchanges: Sequence[Exchange], name: str) -> str:
    """A transcript to read: questions, answers, sources as footnotes, what the person said of them.

    Answers keep their paragraphs and lists. Whatever else Markdown or HTML would act on is escaped: what documents and
    models say is shown, never run or loaded.
    """
    parts = [f"# Conversation {escape_markdown(name)}\n"]
    for number, exchange in enumerate(exchanges, 1):
        reply = exchange.reply
        parts.append(f"## {number}. {escape_markdown(exchange.question)}\n")
        if reply.rewrite not in ("", exchange.question):
            parts.append(f"*Understood as: {escape_markdown(reply.rewrite)}*\n")
        body = exchange.edit if exchange.edit is not None else reply.answer
        parts.append(_footnoted(body, number, len(reply.citations)) + "\n")
        remarks = [f"rated {exchange.rating}" if exchange.rating else "", escape_markdown(exchange.comment)]
        remarks += ["edited by hand"] if exchange.edit is not None else []
        parts.append(
            f"<sub>{' · '.join(filter(None, [reply.decision, escape_markdown(reply.generator), *remarks]))}</sub>\n"
        )
        parts += [f"[^{number}-{source.n}]: {escape_markdown(cite(source))}" for source in sources_used(reply)]
        parts.append("")
    return "\n".join(parts)


def _footnoted(text: str, turn: int, sources: int) -> str:
    """The text with its marks as footnotes of this turn; lines, bold and code stay, all else is escaped."""
    pieces = CODE.split(printable(text))
    code = [at for at in range(1, len(pieces), 2) if _is_code(*pieces[at - 1 : at + 2])]
    kept = iter([pieces[at] for at in code])
    for at in code:
        pieces[at] = _KEPT
    safe = re.sub(r"\\\*\\\*(.+?)\\\*\\\*", r"**\1**", _inactive("".join(pieces)))
    safe = re.sub(r"(?<=[^\n])\n(?=[^\n])", "  \n", safe)
    marks = re.compile(r"\\\[(\d{1,3})\\\]")
    safe = marks.sub(lambda match: f"[^{turn}-{match[1]}]" if 1 <= int(match[1]) <= sources else match.group(), safe)
    return re.sub(_KEPT, lambda _: next(kept), safe)


def _is_code(before: str, piece: str, after: str) -> bool:
    """Whether every reader of Markdown takes it for code, and for nothing beyond it."""
    indent, beside = before.rpartition("\n")[2], after.partition("\n")[0]
    is_block = not indent.strip() and not beside.strip() and _BLOCK.fullmatch(indent + piece)
    return bool(is_block or _INLINE.fullmatch(piece))


def escape_markdown(text: str) -> str:
    """A text of unknown origin as one line of Markdown that shows it as it is."""
    return _inactive(" ".join(printable(text).split()))


def _inactive(text: str) -> str:
    return _UNDERLINE.sub(r"\\\g<0>", _ACTIVE.sub(r"\\\1", text))
