"""Answer messages that ask for a sum, a count, an average, the highest or lowest, or a list of rows, without a model.

The statement is cited with the rows that it rests on, as if a model had written it. Totals among the rows are left out.
"""

from __future__ import annotations

import re
from dataclasses import replace

from turnmark.assistant.citations.provenance import format_cell_value
from turnmark.assistant.steps.answer.answer_collection import group_digits
from turnmark.assistant.steps.answer.computed_sources import computed_source, format_rows
from turnmark.assistant.steps.answer.total_questions import TotalQuestion, asks_to_compute, read_total, total_words
from turnmark.assistant.steps.step_results import Assessment, Computation, Draft, Evidence, PartEvidence, SourceList
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.types import Decision, Judgment
from turnmark.assistant.wording.phrases import fold
from turnmark.core.untrusted import escape_marks, one_line
from turnmark.corpora.tables.markdown_tables import row_markdown, rule_below
from turnmark.corpora.text.function_words import content_words
from turnmark.corpora.text.languages import ENGLISH
from turnmark.retrieval.tables.table_records import QueryResult, StoredTable, TableColumn
from turnmark.retrieval.types import Hit

MAX_LISTED_ROWS = 50
"""Maximum rows of a list that are shown."""
MAX_SOURCE_TOKENS = 2_000
"""Maximum tokens of the text of a computed source."""
MAX_NAMED_COLUMNS = 12
"""Maximum columns that a reply names."""
MAX_DECIMALS = 4
_COMMA_DECIMALS = re.compile(r"\d,(\d{1,2})(?![\d.,])")


def table_to_compute(turn: Turn, part: PartEvidence) -> StoredTable | None:
    """Return the long table over which a part asks to compute, or None.

    It is the table of the best hit, or of any hit if the part asks to add up.
    """
    store = turn.retriever.tables() if turn.retriever and asks_to_compute(part.text) else None
    hits = part.hits if asks_to_compute(part.text, ("average", "sum", "overall")) else part.hits[:1]
    return next((table for hit in hits if (table := store.long_table_of(hit.passage))), None) if store else None


def answer_total(turn: Turn, evidence: Evidence, assessment: Assessment) -> Draft | None:
    """Return the answer to a message that asks to compute over a table, or None for any other.

    If it is not clear which column is meant, the reply asks (`clarify`). If a message asks to add up over a long table
    and its words are not all recognized, the reply says so (`partial`).
    """
    store = turn.retriever.tables() if turn.retriever and turn.evidence is None and turn.generator is None else None
    if store is None or len(evidence.parts) != 1:
        return None
    asked = [message.content for message in turn.history if message.role == "user"]
    question = read_total([*asked, turn.message], turn.language, store)
    if question is None:
        return _needs_model(turn, evidence, assessment)
    if question.choices:
        words = total_words()[question.language]
        labels = [escape_marks(one_line(column.label)) for column in question.choices[:MAX_NAMED_COLUMNS]]
        columns = words["or"].join(filter(None, (", ".join(labels[:-1]), labels[-1])))
        return _draft(turn, assessment, "clarify", words["which"].replace("{columns}", columns))
    result = store.run(question.statement)
    if not result.rows or result.rows[0][0] is None or not all(basis.count for basis in result.basis):
        return None
    passage = computed_source(question.statement, format_rows(result, MAX_SOURCE_TOKENS), result.tables)
    sources = SourceList(Evidence(()))
    sources.computed[passage.id] = Computation(question.statement, result)
    sources.number([Hit(passage=passage, score=0.0)])
    text = _stated(question, sources.computed[passage.id])
    return _draft(turn, assessment, "answer", text).with_sources(sources)


def _needs_model(turn: Turn, evidence: Evidence, assessment: Assessment) -> Draft | None:
    """Return the reply to a message that asks to add up over a long table, and is not understood without a model."""
    table = table_to_compute(turn, replace(evidence.parts[0], hits=evidence.parts[0].hits[:1]))
    if table is None or not asks_to_compute(turn.message, ("highest", "lowest", "average", "sum", "overall")):
        return None
    words = total_words().get(turn.language, total_words()[ENGLISH])
    known = fold(" ".join((table.path, table.title, *(column.label for column in table.columns)))).split()
    if not set(known) & set(content_words(turn.message, turn.language)):
        return _draft(turn, assessment, "partial", f"{words['needs']}.")
    place, *labels = map(one_line, (table.path or table.title, *(column.label for column in table.columns)))
    named = escape_marks(f"{place} ({', '.join(labels[:MAX_NAMED_COLUMNS])})")
    return _draft(turn, assessment, "partial", f"{words['needs']}: {named}. [1]").with_sources(SourceList(evidence))


def _draft(turn: Turn, assessment: Assessment, decision: Decision, text: str) -> Draft:
    reason = {"answer": "computed over the table", "clarify": "several columns may be meant"}
    judgment = Judgment(decision=decision, confidence=1.0, reason=reason.get(decision, "it takes a model to compute"))
    assessment = replace(assessment, judgment=judgment, parts=(judgment,))
    assessment.report(turn)
    return Draft(text, assessment, answers=(text,), claims="")


def _stated(question: TotalQuestion, computed: Computation) -> str:
    """Return the result, the conditions and the number of rows that it rests on, with a citation mark."""
    result, table = computed.result, question.table
    names = total_words()[question.language]["names"]
    rows = sum(basis.count for basis in result.basis[:1]) or len(result.rows) + result.cut
    facts = (
        *(stated for _, stated in question.tests.values()),
        f"{names['rows']}: {group_digits(rows, question.language)}",
    )
    stated = escape_marks(one_line("; ".join(facts)))
    if question.kind == "list":
        shown = [column.label for column in table.columns]
        lines = [row_markdown(shown), rule_below(shown)]
        lines += [row_markdown([escape_marks(format_cell_value(cell or "")) for cell in row]) for row in result.rows]
        more = [f"… {rows - MAX_LISTED_ROWS}"] if rows > MAX_LISTED_ROWS else []
        return "\n\n".join(
            [f"{escape_marks(one_line(table.title))} ({stated}) [1]", "\n".join(lines[: MAX_LISTED_ROWS + 2]), *more]
        )
    value, *_ = result.rows[0]
    column = question.number.label if question.number else question.noun
    column = names["sum"].replace("{column}", column) if question.grouped else column
    name = escape_marks(one_line(names[question.kind].replace("{column}", column or names["rows"])))
    tied = [", ".join(map(format_cell_value, row[1:])) for row in result.rows if row[0] == value]
    key = f" – {escape_marks('; '.join(dict.fromkeys(tied)))}" if question.keys and question.number else ""
    return f"{name}: **{_shown(value, question.number, result)}**{key} ({stated}) [1]"


def _shown(value: object, column: TableColumn | None, result: QueryResult) -> str:
    """Return a computed number with the unit of its column, as the table writes numbers if these have a comma."""
    number = format_cell_value(round(value, MAX_DECIMALS) if isinstance(value, float) else value)
    cells = [
        str(row[basis.columns.index(column.label)])
        for basis in result.basis
        for row in basis.rows
        if column and column.label in basis.columns
    ]
    decimals = [match[1] for cell in cells if (match := _COMMA_DECIMALS.search(cell))]
    if decimals and isinstance(value, int | float):
        groups = any(re.search(r"\d\.\d{3}", cell) for cell in cells)
        number = f"{value:,.{max(map(len, decimals))}f}".translate({ord(","): "." if groups else "", ord("."): ","})
    unit = column.unit if column else ""
    return escape_marks(f"{number}{unit}" if unit == "%" else f"{number} {unit}".strip())
