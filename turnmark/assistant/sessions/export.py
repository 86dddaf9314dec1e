"""Export conversations as tasks in MTRAG's format, as sessions in KIWI's format, or as a Markdown transcript.

Rated and edited turns become a small benchmark, which `turnmark eval mtrag --data` and `turnmark eval kiwi --data`
read.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnmark.assistant.citations.provenance import provenance_lines
from turnmark.assistant.llm.prompts.tool_definitions import is_computed
from turnmark.assistant.sessions.conversation import Exchange, cite, messages, sources_used
from turnmark.assistant.types import Citation
from turnmark.assistant.wording.phrases import is_same_wording
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.plural import count_phrase
from turnmark.core.untrusted import CODE_SPAN, escape_markdown, escape_markdown_line, make_printable
from turnmark.corpora.benchmarks.kiwi import INTERACTIONS
from turnmark.corpora.text.segmentation import strip_citations
from turnmark.corpora.types import Passage

if TYPE_CHECKING:
    from turnmark.retrieval.index.index_api import Index
    from turnmark.retrieval.tables.table_store import TableStore

_ANSWERABILITY = {
    "answer": "ANSWERABLE",
    "partial": "PARTIAL",
    "unknown": "UNANSWERABLE",
    "clarify": "UNDERSPECIFIED",
    "converse": "CONVERSATIONAL",
}
_SPACES = re.compile(r"[\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
# Code that needs no escaping: within a line, or a block whose lines all stay inside the surrounding list item.
_INLINE = re.compile(r"(```|`)[^`\n]+\1")
_BLOCK = re.compile(r"([ \t]*)```[^`\n]*\n(?:(?:\1[^\n]+)?\n)*\1```")
MAX_FILE_ROWS = 100_000
"""Maximum rows of a list that is exported as CSV."""
LINES_OF_ONE_ROW = 2
"""Lines of CSV for the names of the columns and one row; a result with more is a list."""
_CODE_PLACE = "\x00"  # placeholder for code; printable text never contains it

Row = dict[str, Any]


def mtrag_files(
    exchanges: Sequence[Exchange], name: str, folder: Path, index: Index | None
) -> tuple[dict[Path, str], str]:
    """Return the files of a folder in the layout of IBM/mt-rag-benchmark, and a note on what was left out.

    The files contain tasks, queries, relevance labels and passages. Every turn that was rated or edited becomes a task.
    Its target is the last version of its answer that the user approved (an edit, or a reply rated good), and its
    relevant passages are those that this version cites. Without an approved version, a task has neither target nor
    relevant passages. A revision is a version of the answer before it.

    Args:
        name: name of the session, used in task ids.
        index: index whose passages become the corpus; from other indexes, only the cited passages are added.
    """
    rows: dict[Path, list[Row]] = defaultdict(list)
    labels: dict[Path, list[str]] = defaultdict(lambda: ["query-id\tcorpus-id\tscore"])
    task_file = folder / "mtrag-human/generation_tasks/reference.jsonl"
    question_starts = [position for position, exchange in enumerate(exchanges) if exchange.kind == "ask"]
    question_ends = [*question_starts[1:], len(exchanges)]
    domains: dict[str, str] = {}  # name of an index -> domain
    for turn, (start, end) in enumerate(zip(question_starts, question_ends, strict=True), 1):
        first = exchanges[start]
        versions = exchanges[start:end]
        if not any(version.rating or version.edit is not None for version in versions):
            continue
        approved = next((version for version in reversed(versions) if version.approved), None)
        relevant = sources_used(approved.reply) if approved else []
        domain = domains.setdefault(first.config.index, _domain(first.config.index, domains.values()))
        identity = f"{name}<::>{turn}"
        history = [*messages(exchanges[:start]), *messages([first])[:1]]
        contexts = [
            {
                "document_id": _remove_breaks(source.key),
                "text": source.text,
                "title": source.title,
                "score": source.score,
            }
            for source in relevant
        ]
        speakers = {"user": "user", "assistant": "agent"}
        rows[task_file].append({
            "conversation_id": name, "task_id": identity, "task_type": "rag", "turn": str(turn),
            "dataset": "Turnmark chat",
            "contexts": contexts,
            "input": [{"speaker": speakers[message.role], "text": message.content} for message in history],
            "targets": [{"speaker": "agent", "text": approved.approved}] if approved else [],
            "Multi-Turn": ["Follow-up" if turn > 1 else "N/A"],
            "Question Type": ["How-To"] if first.reply.procedure else [],
            "Answerability": [_ANSWERABILITY[first.reply.decision]], "Collection": f"mt-rag-{domain}",
        })  # fmt: skip
        passages = dict.fromkeys(key for source in relevant for key in _passages_in(source, index, first.config.index))
        if not passages:
            continue
        retrieval_folder = folder / "mtrag-human/retrieval_tasks" / domain
        labels[retrieval_folder / "qrels/dev.tsv"] += [f"{identity}\t{_remove_breaks(key)}\t1" for key in passages]
        questions = [exchanges[position].question for position in question_starts[:turn]]
        rewrite = first.reply.rewrite or first.question
        for kind, texts in (("lastturn", questions[-1:]), ("rewrite", [rewrite]), ("questions", questions)):
            query = "\n".join(f"|user|: {' '.join(text.split())}" for text in texts)
            rows[retrieval_folder / f"{domain}_{kind}.jsonl"].append({"_id": identity, "text": query})
    if not rows:
        raise RequestError("no turn was rated or edited yet; use /rate or /edit first")
    for index_name, domain in domains.items():
        rows[folder / f"corpora/passage_level/{domain}.jsonl"] = _corpus(index, exchanges, index_name)
    files = {path: _json_lines(lines) for path, lines in rows.items()}
    files |= {path: "\n".join(lines) + "\n" for path, lines in labels.items()}
    left_out = len(question_starts) - len(rows[task_file])
    note = f"{count_phrase(left_out, 'turn')} without a rating or an edit left out" if left_out else ""
    return files, note


def kiwi_files(exchanges: Sequence[Exchange], folder: Path) -> tuple[dict[Path, str], str]:
    """Return a file of KIWI's interaction data (section 2.2) with a session for each revised answer, and a note.

    In KIWI every turn has a rating, so a revision without a rating is written as neutral; the note counts these.
    """
    rows: list[Row] = []
    unrated = 0
    for exchange in exchanges:
        reply = exchange.reply
        passages = [{"title": source.title, "text": source.text} for source in reply.citations if source.text.strip()]
        if exchange.kind == "ask":
            rows.append({
                "original_question": reply.rewrite or exchange.question, "model_name": reply.generator,
                "initial_answer": exchange.answer, "retrieved_passages": passages, "interaction": [],
            })  # fmt: skip
        elif rows:
            if exchange.rating is None:
                unrated += 1
            rows[-1]["interaction"].append({
                "instruction": exchange.question, "answer_1": strip_citations(reply.answer),
                "answer_2": strip_citations(exchange.edit or ""), "rating": exchange.rating or "neutral",
                "comment": exchange.comment, "retrieved_passages": passages,
            })  # fmt: skip
    revised = [row for row in rows if row["interaction"] and row["initial_answer"].strip()]
    if not revised:
        raise RequestError("no answer was revised yet; use /revise first")
    note = f"{count_phrase(unrated, 'revision')} without a rating written as neutral" if unrated else ""
    return {folder / INTERACTIONS[0]: _json_lines(revised)}, note


def _json_lines(rows: Iterable[Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _domain(index: str, used: Iterable[str]) -> str:
    """Return an unused domain for an index: its name in letters and digits, as the benchmark's file names need it."""
    domain = re.sub(r"[^a-z0-9]", "", index.lower()) or "index"
    while domain in used:
        domain += "x"
    return domain


def _passages_in(source: Citation, index: Index | None, name: str) -> list[str]:
    """Return the ids of the passages in a source, as `_corpus` writes them.

    A section that a model read joins several passages; a count over documents has none.
    """
    if is_computed(source.id):
        return []
    part = index.part(source.index) if index is not None and index.manifest.name == name else None
    passages = part.store.of_document(source.document) if part else []
    inside = [passage.id for passage in passages if source.start <= passage.start and passage.end <= source.end]
    return [f"{source.index}:{each}" if source.index else each for each in inside] or [source.key]


def _corpus(index: Index | None, exchanges: Iterable[Exchange], name: str) -> list[Row]:
    """Return the passages of the index called `name`; if it is not open, those that its turns cite."""
    passages: dict[str, Passage | Citation] = {}
    if index is not None and index.manifest.name == name:
        passages |= {passage.id: passage for page in index.store.pages() for _, _, passage in page}
    else:
        cited = chain.from_iterable(each.reply.citations for each in exchanges if each.config.index == name)
        passages |= {source.key: source for source in cited if not is_computed(source.id)}
    return [
        {"_id": _remove_breaks(key), "title": passage.title, "text": passage.text} for key, passage in passages.items()
    ]


def _remove_breaks(identity: str) -> str:
    """Replace tabs and line breaks in a passage's id, since they would end a cell or a line of the labels file."""
    return _SPACES.sub("_", identity)


def transcript(exchanges: Sequence[Exchange], name: str) -> str:
    """Return a Markdown transcript: questions, answers, sources as footnotes, and the user's ratings and comments.

    Answers keep their paragraphs and lists. All other characters with a meaning in Markdown or HTML are escaped, so
    that text from documents and models is shown, and never run or loaded.
    """
    parts = [f"# Conversation {escape_markdown_line(name)}\n"]
    for number, exchange in enumerate(exchanges, 1):
        reply = exchange.reply
        parts.append(f"## {number}. {escape_markdown_line(exchange.question)}\n")
        if reply.rewrite and not is_same_wording(reply.rewrite, exchange.question):
            parts.append(f"*→ {escape_markdown_line(reply.rewrite)}*\n")
        body = exchange.edit if exchange.edit is not None else reply.answer
        parts.append(_add_footnotes(body, number, len(reply.citations)) + "\n")
        remarks = [reply.decision, escape_markdown_line(reply.generator)]
        if exchange.rating:
            remarks.append(f"rated {exchange.rating}")
        remarks.append(escape_markdown_line(exchange.comment))
        if exchange.edit is not None:
            remarks.append("edited by hand")
        parts.append(f"<sub>{' · '.join(filter(None, remarks))}</sub>\n")
        parts += [_footnote(f"{number}-{source.n}", source) for source in sources_used(reply)]
        parts.append("")
    return "\n".join(parts)


def list_files(exchanges: Sequence[Exchange], transcript_path: Path, tables: TableStore) -> dict[Path, str]:
    """Return a CSV file next to a transcript for each computed source with several rows, named after its footnote.

    A statement that no longer runs over the index is left out.
    """
    files: dict[Path, str] = {}
    for number, exchange in enumerate(exchanges, 1):
        for source in sources_used(exchange.reply):
            try:
                rows = list_rows(source.statement, tables) if source.statement else ""
            except TurnmarkError:
                continue
            if rows.count("\n") > LINES_OF_ONE_ROW:
                files[transcript_path.with_name(f"{transcript_path.stem}-{number}-{source.n}.csv")] = rows
    return files


def list_rows(statement: str, tables: TableStore) -> str:
    """Run a statement over the tables of an index and return the names of its columns and all rows as CSV.

    Raises:
        RequestError: the statement is wrong, is not allowed, or exceeds a limit.
    """
    result = tables.run(statement, MAX_FILE_ROWS)
    lines = StringIO()
    rows = ([*map(_cell, row)] for row in result.rows)
    csv.writer(lines, lineterminator="\n").writerows([result.columns, *rows])
    return lines.getvalue()


def _cell(value: object) -> object:
    """Return a value for CSV. A spreadsheet program would compute with a text that begins with "="."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value


def _footnote(name: str, source: Citation) -> str:
    """Return a footnote that names a source; below a computed one are its statement and the rows that it rests on."""
    lines = [cite(source), *provenance_lines(source)]
    return f"[^{name}]: " + "  \n    ".join(escape_markdown_line(line.strip()) for line in lines)


def _add_footnotes(text: str, turn: int, sources: int) -> str:
    """Convert citation marks to footnotes of this turn; keep lines, bold and code; escape everything else.

    Args:
        sources: number of citations; a mark with a higher number stays text.
    """
    pieces = CODE_SPAN.split(make_printable(text))  # alternating text and code
    code: list[str] = []
    for position in range(1, len(pieces), 2):
        if _is_code(*pieces[position - 1 : position + 2]):
            code.append(pieces[position])
            pieces[position] = _CODE_PLACE
    safe = re.sub(r"\\\*\\\*(.+?)\\\*\\\*", r"**\1**", escape_markdown("".join(pieces)))
    safe = re.sub(r"(?<=[^\n])\n(?=[^\n])", "  \n", safe)
    marks = re.compile(r"\\\[(\d{1,3})\\\]")

    def footnote(mark: re.Match[str]) -> str:
        is_source = 1 <= int(mark[1]) <= sources
        return f"[^{turn}-{mark[1]}]" if is_source else mark.group()

    safe = marks.sub(footnote, safe)
    remaining_code = iter(code)
    return re.sub(_CODE_PLACE, lambda _: next(remaining_code), safe)


def _is_code(before: str, piece: str, after: str) -> bool:
    """Return whether every Markdown renderer treats this piece, and nothing around it, as code."""
    if _INLINE.fullmatch(piece):
        return True
    same_line_before = before.rpartition("\n")[2]
    same_line_after = after.partition("\n")[0]
    if same_line_before.strip() or same_line_after.strip():
        return False
    return _BLOCK.fullmatch(same_line_before + piece) is not None
