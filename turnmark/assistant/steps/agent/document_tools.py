"""The tools with which a model searches and reads the documents: their definitions and their results, as text.

Arguments come from a model and are checked. A mistake is answered with a text that helps the model to correct it. A
result stays within its limit of tokens and says what it leaves out. A section that was shown before is named by its
number instead of being shown again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import regex

from turnmark.assistant.llm.calls.protocols import ToolCall
from turnmark.assistant.llm.prompts.context_budget import PASSAGE_MARK_TOKENS, count_tokens, shorten
from turnmark.assistant.llm.prompts.tool_definitions import (
    COUNT_ID,
    MAX_ARGUMENT_CHARACTERS,
    MAX_NAME_CHARACTERS,
    NO_DOCUMENT,
    WHERE_DESCRIPTION,
    Result,
    define_tool,
    fitting_lines,
    is_computed,
    short_line,
)
from turnmark.assistant.steps.agent.picture_tool import LOOK_TOOL, PictureTool, can_look
from turnmark.assistant.steps.agent.table_tools import TABLE_TOOLS, TableTools
from turnmark.assistant.steps.agent.unread_sections import UnreadSections
from turnmark.assistant.steps.answer.answer_llm import format_section
from turnmark.assistant.steps.retrieve.long_tables import limit_rows, rows_left_out
from turnmark.assistant.steps.retrieve.retrieve_sections import (
    group_sources,
    grow_sections,
    hits_of_parts,
    join_passages,
    join_source,
)
from turnmark.assistant.steps.step_results import Evidence, SourceList
from turnmark.assistant.steps.turn_state import Turn
from turnmark.core.errors import RequestError
from turnmark.core.plural import count_phrase
from turnmark.core.untrusted import one_line
from turnmark.corpora.text.segmentation import fold_name
from turnmark.corpora.types import Passage, without_continued
from turnmark.retrieval.collection import MAX_PATTERN_CHARACTERS, Collection, MatchingLine
from turnmark.retrieval.storage.filters import Condition, Where, parse_where
from turnmark.retrieval.storage.passage_store import DocumentEntry
from turnmark.retrieval.types import Hit, Query, Retriever

MAX_DOCUMENTS, MAX_LINES, MAX_HEADINGS = 60, 20, 100
"""Maximum documents, lines and headings that a result lists."""
DEFAULT_LINES = 6
"""Lines that `grep` shows unless more are asked for."""
MAX_SEARCH_TOKENS = 1000
"""Maximum tokens of the sections that `search` shows; further hits are named."""
MAX_LINE_CHARACTERS = 200
"""Maximum characters of a quoted line."""
_MAX_CHARACTERS_BEFORE_MATCH = 80
"""Maximum characters before the match in a line that is too long."""
_ARROW = " › "
_HEADING = re.compile(r"#{1,6} +(\S.*?)\s*$")


_AS_IN_SEARCH = "as in search"
TOOLS = (
    define_tool("search", "Finds sections by meaning.", "query", query="what they would say", where=WHERE_DESCRIPTION),
    define_tool(
        "read", "Reads a document, a section with all below it, or on behind a section.", "",
        document="the file, as in parentheses", section="its heading; default: from the start",
        number="#3: the section that is named so", after="3: what follows section [3]",
    ),
    define_tool("outline", "The headings of a document, with sizes.", "document", document="as in read"),
    define_tool(
        "grep", "Counts words in ALL documents, exactly: in how many, in which, how often; shows some lines.", "words",
        words=r"whole words; or /regular expression/, also inside words unless it has \b; both in any case, at most "
        f"{MAX_PATTERN_CHARACTERS} characters",
        where=_AS_IN_SEARCH, lines=f"how many to show; default: {DEFAULT_LINES}",
    ),
    define_tool(
        "documents", "Lists documents, with dates if known: all, or those that hold all of some words.", "",
        words="anywhere in it", where=_AS_IN_SEARCH,
    ),
)  # fmt: skip
_TOOLS_OVER_ALL = ("outline", "grep", "documents")
"""Tools that need a `Collection`."""
_VERBATIM = ("statement",)
"""Arguments whose lines and spaces are kept: they mean something in texts and comments of SQL."""


class DocumentTools:
    """The tools of one turn.

    Attributes:
        evidence: what the first search found.
        sources: the evidence, to which the sections that the tools show are added.
    """

    def __init__(self, turn: Turn, retriever: Retriever, evidence: Evidence) -> None:
        self.turn, self.retriever, self.evidence = turn, retriever, evidence
        self.sources = SourceList(evidence)
        self.collection = retriever.collection()
        self.tools = TOOLS if self.collection else tuple(tool for tool in TOOLS if tool.name not in _TOOLS_OVER_ALL)
        self.unread = UnreadSections(lambda passage: self._passages(passage.document))
        self._runs: dict[str, Callable[[Mapping[str, str], int], Result]] = {
            "search": self._search, "read": self._read, "outline": self._outline, "grep": self._grep,
            "documents": self._documents,
        }  # fmt: skip
        self.long = retriever.tables()
        """The tables of which few rows are shown if they are long, or None without tables."""
        self.computing: TableTools | None = None
        self.looks = False
        """Whether the model may look at described pictures."""
        if self.long is not None and self.long.tables():
            self.computing = computing = TableTools(turn.message, self.long, self.sources)
            self.tools += TABLE_TOOLS
            self._runs["sql"] = lambda given, tokens: computing.sql(given["statement"], tokens)
            self._runs["tables"] = lambda given, tokens: computing.tables(
                given.get("words", ""), self._where(given), tokens
            )
        if (pictures := retriever.pictures()) is not None and can_look(turn):
            looking, self.looks = PictureTool(turn, pictures, self.sources), True
            self.tools += (LOOK_TOOL,)
            self._runs["look"] = lambda given, tokens: looking.look(given["picture"], given["question"], tokens)

    @property
    def tokens(self) -> int:
        """Tokens of the definitions of the tools."""
        return count_tokens(json.dumps([tool.model_dump() for tool in self.tools]))

    def asked(self, call: ToolCall) -> str:
        """Return the arguments of a call in one line, for the person."""
        arguments = self._arguments(call)
        if arguments is None:
            return short_line(call.arguments, MAX_ARGUMENT_CHARACTERS)
        if arguments.get("after"):
            arguments["after"] = f"behind [{arguments['after'].strip('[]')}]"
        return short_line(_ARROW.join(filter(None, arguments.values())), MAX_ARGUMENT_CHARACTERS)

    def key(self, call: ToolCall) -> str:
        """Return a text that is equal for calls that ask for the same."""
        arguments = self._arguments(call)
        return json.dumps([call.name, call.arguments if arguments is None else arguments])

    def result(self, call: ToolCall, tokens: int) -> Result:
        """Run a call and return its result of at most about `tokens` tokens; a wrong call returns what is wrong."""
        arguments = self._arguments(call)
        if arguments is None:
            return Result("The arguments are not a JSON object.", "not JSON")
        tool = next((tool for tool in self.tools if tool.name == call.name), None)
        if tool is None:
            names = ", ".join(tool.name for tool in self.tools)
            return Result(
                f"There is no tool {short_line(call.name, MAX_NAME_CHARACTERS)!r}; there are: {names}.", "no such tool"
            )
        missing = [name for name in tool.parameters["required"] if not arguments.get(name)]
        if missing:
            return Result(f"{tool.name} needs: {', '.join(missing)}.", "an argument is missing")
        try:
            return self._runs[tool.name](arguments, tokens)
        except RequestError as error:
            problem = shorten(one_line(str(error)), tokens)
            return Result(f"{problem}.", short_line(problem, MAX_ARGUMENT_CHARACTERS))

    def _arguments(self, call: ToolCall) -> dict[str, str] | None:
        """Return the known arguments of a call, each on one line, or None if they are not a JSON object."""
        try:
            values: Any = json.loads(call.arguments or "{}")
        except (ValueError, RecursionError):
            return None
        if not isinstance(values, dict):
            return None
        known = dict.fromkeys(key for tool in self.tools for key in tool.parameters["properties"])
        given = {key: values[key] for key in known if values.get(key) is not None}
        parts = {key: value if isinstance(value, list) else [value] for key, value in given.items()}
        texts = {key: " ".join(map(str, part)).strip() for key, part in parts.items()}
        return {key: text if key in _VERBATIM else " ".join(text.split()) for key, text in texts.items()}

    # -- the tools

    def _search(self, arguments: Mapping[str, str], tokens: int) -> Result:
        query = Query(text=arguments["query"], standalone=True, where=self._where(arguments))
        hits = self.retriever.search([query], self.turn.top_k)[0]
        self.turn.searched(query, hits, "the model searches on")
        if not hits:
            return Result("Nothing was found.", "nothing")
        new = [hit for hit in hits if self._number_of(hit.passage) is None]
        known = {self._number_of(hit.passage): None for hit in hits if hit not in new}
        limit = min(tokens, MAX_SEARCH_TOKENS)
        few = limit_rows(self.long, new) if self.long else new
        grown = grow_sections(self.retriever, few, limit, self.long, adjacent=False) if few else []
        shown, numbers = self._show(grown)
        left_out = [hit.passage for hit in new if self._number_of(hit.passage) is None]
        texts = [shown] if shown else []
        if known:
            texts.append(f"Also found, and shown above: {_marks(number for number in known if number)}.")
        if self.long:
            texts += rows_left_out(self.long, [self.sources.hits[number - 1].passage for number in numbers])
        if left_out:
            texts.append(f"Also found, and only named (read shows them by number):\n{self.unread.named(left_out)}")
        found = [f"{count_phrase(len(numbers), 'section')} {_marks(numbers)}".strip()] if numbers else []
        found += [f"{len(known)} shown before"] if known else []
        return Result("\n\n".join(texts), ", ".join(found))

    def named_sections(self) -> str:
        """Return a quoted line for each section that the first search found and that is not shown; "" without any."""
        found = (hit.passage for hit in hits_of_parts(self.evidence.parts))
        return self.unread.named([passage for passage in found if self._number_of(passage) is None])

    def _read(self, arguments: Mapping[str, str], tokens: int) -> Result:
        if arguments.get("number"):
            run = self.unread.section(arguments["number"])
        elif arguments.get("after"):
            run = self._behind(arguments["after"].strip("[]"))
        elif arguments.get("document"):
            run = self._section(arguments["document"], arguments.get("section", ""))
        else:
            raise RequestError("read needs a document, or number or after")
        fitting: list[Passage] = []
        used = 0
        for passage in run:
            used += count_tokens(passage.text) + PASSAGE_MARK_TOKENS
            if fitting and used > tokens:
                break
            fitting.append(passage)
        rest = sum(count_tokens(passage.text) for passage in run[len(fitting) :])
        shown, numbers = self._show([Hit(passage=passage, score=0.0) for passage in fitting], join=True)
        known = dict.fromkeys(self._number_of(passage) for passage in fitting)
        before = [number for number in known if number and number not in numbers]
        texts = [shown] if shown else []
        if before:
            texts.append(f"Shown above: {_marks(before)}.")
        if rest:
            last = self._number_of(fitting[-1])
            texts.append(f"About {rest:,} tokens of it are left: read on with after={last}.")
        found = f"{count_phrase(len(numbers), 'section')} {_marks(numbers)}".strip() if numbers else "shown before"
        return Result("\n\n".join(texts), found + (f", {rest:,} tokens left" if rest else ""))

    def _behind(self, number: str) -> list[Passage]:
        """Return the passages of a document that follow a numbered source."""
        hits = self.sources.hits
        hit = hits[int(number) - 1] if number.isdecimal() and 0 < int(number) <= len(hits) else None
        if hit is None or is_computed(hit.passage.id):
            raise RequestError(f"no section has the number {short_line(number, MAX_NAME_CHARACTERS)!r}")
        run = [passage for passage in self._passages(hit.passage.document) if passage.start >= hit.passage.end]
        if not run:
            raise RequestError(f"{hit.passage.document} ends with [{number}]")
        return run

    def _section(self, name: str, heading: str) -> list[Passage]:
        """Return the passages of a document, or those under one of its headings."""
        passages = self._passages(self._document(name))
        run = _passages_below(heading, passages) if heading else passages
        if not run:
            sections = dict.fromkeys(without_continued(passage.section) for passage in passages if passage.section)
            raise RequestError(f"no such section in it; its sections: {_name_some(sections, 30, '; ') or 'none'}")
        return run

    def _outline(self, arguments: Mapping[str, str], tokens: int) -> Result:
        document = self._document(arguments["document"])
        passages = self._passages(document)
        sizes: dict[str, int] = {}
        for passage in passages:
            for heading, text in _split_by_heading(passage):
                if text.strip():
                    sizes[heading] = sizes.get(heading, 0) + count_tokens(text)
        rows = [f"{heading or '(beginning)'}: {size:,} tokens" for heading, size in sizes.items()]
        title = f"Outline of {passages[0].title or document}"
        return self._counted(
            title, document, rows, MAX_HEADINGS, "headings", tokens, count_phrase(len(rows), "heading")
        )

    def _grep(self, arguments: Mapping[str, str], tokens: int) -> Result:
        wanted = arguments["words"]
        where = self._where(arguments)
        asked = arguments.get("lines", "")
        most_lines = min(int(asked), MAX_LINES) if asked.isdecimal() and len(asked) < 5 else DEFAULT_LINES
        occurrences = self._all.grep(wanted, where)
        if not occurrences.times and (alternatives := _alternatives(wanted)):
            wanted = alternatives
            occurrences = self._all.grep(wanted, where)
        over = self._over(occurrences.documents, arguments, where)
        held, times = len(occurrences.times), sum(occurrences.times.values())
        line = f"{count_phrase(times, 'time')} in {count_phrase(occurrences.sections, 'section')} of {held:,} of {over}"
        if not times:
            line = f"{NO_DOCUMENT} {over}"
        rows = [
            f"{_name_document(name, occurrences.titles[name])}: {count:,}" for name, count in occurrences.times.items()
        ]

        def quoted(most: int) -> list[str]:
            shown = occurrences.lines[:most]
            left = occurrences.line_count - len(shown)
            others = held - len({text.document for text in shown})
            lines = [f"Lines, {len(shown)} of {occurrences.line_count:,}:" if left else "Lines:"] if rows else []
            lines += [f"- {_quote_matching_line(text)}" for text in shown]
            if left:
                elsewhere = f", in {count_phrase(others, 'further document')}" if others else ""
                lines.append(f"… and {count_phrase(left, 'line')} more{elsewhere}")
            return lines

        # The brackets of an expression would be taken for a citation, but for those of code.
        title = f"Count of {f'`{wanted}`' if wanted.startswith('/') and '`' not in wanted else f'“{wanted}”'}: {line}"
        return self._counted(
            title, over, rows, MAX_DOCUMENTS, "documents", tokens, line, lambda most: quoted(min(most, most_lines))
        )

    def _documents(self, arguments: Mapping[str, str], tokens: int) -> Result:
        wanted, where = arguments.get("words", ""), self._where(arguments)
        every = self._all.documents(where)
        over = self._over(len(every), arguments, where)
        if wanted:
            held = self._all.containing(wanted, where)
            rows = [f"{_describe_document(row)}: {count_phrase(count, 'passage')}" for row, count in held]
            line = f"{len(held):,} of {over} hold all of “{short_line(wanted, MAX_ARGUMENT_CHARACTERS)}”"
        else:
            rows, line = [_describe_document(row) for row in every], over
        return self._counted(f"Documents: {line}", over, rows, MAX_DOCUMENTS, "documents", tokens, line)

    # -- what they share

    @property
    def _all(self) -> Collection:
        assert self.collection is not None, "else these tools are not offered"
        return self.collection

    def _over(self, documents: int, arguments: Mapping[str, str], where: Where) -> str:
        """Return over how many documents a tool looked, and where."""
        counted = count_phrase(documents, "document")
        if not where:
            return counted
        return (
            f"{counted} in {short_line(arguments['where'], MAX_ARGUMENT_CHARACTERS)} (of {self._all.count():,} in all)"
        )

    def _where(self, arguments: Mapping[str, str]) -> Where:
        """Return the filter of the argument `where`: a condition, a document, a folder, or the beginning of an id."""
        text = arguments.get("where", "").strip()
        if not text:
            return ()
        name = text.strip("/")
        globs = (name, f"{name}/*", f"{name}#*", f"{name}*")  # a document, a folder, a file of several documents
        filters = [(Condition("document", "=", glob),) for glob in globs]
        where: Where = next(filter(self._in, filters), ())
        if not where and re.search("[<>=]", text):
            where = parse_where(text)
        if not self._in(where):
            raise RequestError(f"no document is in {short_line(text, MAX_ARGUMENT_CHARACTERS)!r}; leave `where` out")
        return where

    def _in(self, where: Where) -> bool:
        return bool(where and self.collection is not None and self.collection.documents(where))

    def _document(self, name: str) -> str:
        """Return the id of the document with this id, this end of the id, or this title; RequestError without one."""
        if self._passages(name):
            return name
        every = self.collection.documents() if self.collection else []
        wanted = fold_name(name)
        near = [
            row.document
            for row in every
            if f"/{fold_name(row.document)}".endswith(f"/{wanted}") or wanted == fold_name(row.title)
        ]
        if len(near) == 1:
            return near[0]
        hint = f"; is it one of: {_name_some(near, 5, ', ')}?" if near else "; `documents` lists them"
        raise RequestError(f"no document is called {short_line(name, MAX_ARGUMENT_CHARACTERS)!r}{hint}")

    def _passages(self, document: str) -> list[Passage]:
        anywhere = Passage(id="", document=document, title="", text="", start=0, end=0)
        return self.retriever.neighbors(anywhere)

    def _number_of(self, passage: Passage) -> int | None:
        """Return the number of the source that contains a passage, or None if it was not shown."""
        for number, hit in enumerate(self.sources.hits, 1):
            shown = hit.passage
            is_of_document = shown.document == passage.document and not is_computed(shown.id)
            if is_of_document and shown.start <= passage.start and passage.end <= shown.end:
                return number
        return None

    def _show(self, hits: Sequence[Hit], join: bool = False) -> tuple[str, list[int]]:
        """Show the parts of some sections that were not shown before, and return their text and their numbers.

        Args:
            join: whether hits that follow each other in one section are shown as one source.
        """
        unseen: list[Hit] = []
        documents: dict[str, list[Passage]] = {}
        for hit in hits:
            name = hit.passage.document
            passages = documents[name] = documents.get(name) or self._passages(name) or [hit.passage]
            inside = [each for each in passages if hit.passage.start <= each.start and each.end <= hit.passage.end]
            for run in self._unshown(inside or [hit.passage]):
                unseen.append(hit.model_copy(update={"passage": join_passages(run)}))
        if join:
            unseen = [join_source(source) for source in group_sources(unseen, documents)]
        numbers = self.sources.number(unseen)
        shown = zip(numbers, unseen, strict=True)
        return "\n\n".join(format_section(number, hit.passage) for number, hit in shown), numbers

    def _unshown(self, passages: Sequence[Passage]) -> Iterator[list[Passage]]:
        """Yield the runs of adjacent passages that were not shown before."""
        runs = groupby(passages, lambda passage: self._number_of(passage) is None)
        return (list(run) for is_new, run in runs if is_new)

    def _counted(
        self, title: str, over: str, rows: Sequence[str], most: int, what: str, tokens: int, found: str,
        below: Callable[[int], list[str]] = lambda _: [],
    ) -> Result:  # fmt: skip
        """Return a list as a numbered source, so that the answer can cite it.

        Args:
            below: returns the lines below the list, with at most this many quotations.
        """

        def listed(most: int) -> list[str]:
            lines = [f"- {row}" for row in rows[:most]]
            return lines + ([f"… and {len(rows) - most:,} more {what}"] if len(rows) > most else [])

        lines = fitting_lines(listed, most, tokens - count_tokens("\n".join(below(0))))
        lines += fitting_lines(below, MAX_LINES, tokens - count_tokens("\n".join(lines)))
        text = shorten("\n".join(lines) or "(none)", tokens)
        passage = Passage(
            id=f"{COUNT_ID}{title}, {over}", document=over, title=title, text=text, start=0, end=len(text)
        )
        [number] = self.sources.number([Hit(passage=passage, score=0.0)])
        return Result(format_section(number, passage), f"{found} [{number}]")


def _passages_below(heading: str, passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages under the heading with this text, or else under the first heading that contains it.

    If no heading contains it, return the first passage that does.
    """
    wanted = heading.lower().strip("# ")
    if wanted in ("", passages[0].title.lower()):
        return list(passages)
    paths = [without_continued(passage.section).split(_ARROW) for passage in passages]
    starts = [path[:depth] for path in paths for depth in range(1, len(path) + 1)]
    exact = (start for start in starts if wanted in (start[-1].lower(), _ARROW.join(start).lower()))
    containing = (start for start in starts if wanted in start[-1].lower())
    if start := next(exact, None) or next(containing, None):
        return [passage for passage, path in zip(passages, paths, strict=True) if path[: len(start)] == start]
    return [passage for passage in passages if wanted in passage.indexed_text.lower()][:1]


def _split_by_heading(passage: Passage) -> Iterator[tuple[str, str]]:
    """Yield (heading path, text) for each section in a passage; a passage may contain several short sections."""
    section = without_continued(passage.section)
    above = section.split(_ARROW)
    heading, lines, code = section, list[str](), False
    for line in passage.text.split("\n"):
        code ^= line.lstrip().startswith("```")
        heading_match = None if code else _HEADING.match(line)
        if heading_match and heading_match[1] not in above and heading_match[1] != passage.title:
            yield heading, "\n".join(lines)
            heading, lines = (f"{section}{_ARROW}{heading_match[1]}" if section else heading_match[1]), []
        lines.append(line)
    yield heading, "\n".join(lines)


def _describe_document(row: DocumentEntry) -> str:
    return _name_document(row.document, ", ".join(filter(None, (row.title, row.date))))


def _name_document(document: str, about: str) -> str:
    return f"{document} ({about})" if about and about != document else document


def _quote_matching_line(line: MatchingLine) -> str:
    """Return a line below its source; if it is long, the part around its first match."""
    source = f"{line.document}{_ARROW}{line.section}" if line.section else line.document
    if len(line.text) <= MAX_LINE_CHARACTERS or line.at <= _MAX_CHARACTERS_BEFORE_MATCH:
        return f"{source}: {short_line(line.text, MAX_LINE_CHARACTERS)}"
    word = line.text.find(" ", line.at - _MAX_CHARACTERS_BEFORE_MATCH, line.at) + 1
    return f"{source}: …{short_line(line.text[word or line.at :], MAX_LINE_CHARACTERS)}"


def _marks(numbers: Iterable[int]) -> str:
    return " ".join(f"[{number}]" for number in numbers)


def _name_some(names: Iterable[str], most: int, between: str) -> str:
    listed = list(names)
    more = f"{between}… and {len(listed) - most} more" if len(listed) > most else ""
    return between.join(short_line(name, MAX_ARGUMENT_CHARACTERS) for name in listed[:most]) + more


def _alternatives(words: str) -> str:
    """Return words with vertical bars as an expression, or an empty text.

    Models write alternatives without the slashes of an expression. Taken literally they are in no document, which would
    be cited as a proof.
    """
    parts = [regex.escape(part.strip(), literal_spaces=True) for part in words.split("|") if part.strip()]
    return f"/{'|'.join(parts)}/" if len(parts) > 1 and not words.startswith("/") else ""
