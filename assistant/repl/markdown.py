"""Markdown as it streams in: every word is drawn once, where it stays.

Nothing that is drawn is drawn again, so a terminal may be resized, cut off or scrolled at any moment. What cannot be
known yet waits: the last word, an emphasis until it is closed, a table until it ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.style import Style
from rich.text import Text

from turnmark.corpora.text import CJK, printable

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# An emphasis that is not closed within so many characters is none.
MOST_HELD = 400
# Gaps to look at, from the last one back: a line of nothing but open marks shall not cost more than others.
MOST_TRIED = 24
NARROWEST = 10

_CODE, _HEADING, _QUOTE = Style(color="cyan"), Style(bold=True), Style(dim=True)
_STYLES = {"strong": Style(bold=True), "em": Style(italic=True), "s": Style(strike=True), "link": Style(underline=True)}

_ITEM = re.compile(r"^( {0,8})([-*+]|\d{1,9}[.)])[ \t]+")
_TITLE = re.compile(r"^ {0,3}#{1,6}[ \t]+")
_FENCE = re.compile(r"^ {0,8}(`{3,}|~{3,})")
_RULE = re.compile(r"^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$")
_QUOTED = re.compile(r"^ {0,3}>[ \t]?")
_CELL = re.compile(r"(?<!\\)\|")
_LINE = re.compile(r":?-+:?")
_ROW = re.compile(r"^ {0,3}\|")
# The beginning of a line that may still become any of these.
_UNDECIDED = re.compile(r"^ {0,8}(?:[-*+_ \t]*|\d{0,9}[.)]?|#{0,6}|`{0,2}|~{0,2})$")
_BREAK = re.compile(rf"[ \t]+|(?<=[{CJK}])|(?=[{CJK}])")
_CLOSED = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)|!?\[[^\[\]]*\](?:\([^()]*\)|(?!\())|\\.", re.DOTALL)
_MARKS = re.compile(
    r"(?<![*_\w])(\*{1,3}|_{1,3}|~~)(?=\S)(?:[^*_~]|(?<=\w)[*_~](?=\w))+?(?<=\S)\1(?![*_\w])", re.DOTALL
)
_OPEN = re.compile(r"[`\[]|(?<!\w)(?:\*+|_+|~~)(?=[^\s*_~])|\*+(?=[^\s*])|\]$|\\$")


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("strikethrough")


class MarkdownStream:
    """Draws Markdown on a terminal while it comes.

    Args:
        console: asked for its width at every word.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._held = ""  # what has come and is not drawn
        self._fresh = True  # at the beginning of a line of Markdown
        self._fence = ""  # the mark that closes the code block we are in
        self._table: list[str] = []
        self._indent, self._base = "", Style()
        self._column = 0
        self._open = False  # a block is being drawn
        self._blank = False  # a blank line came since the last block
        self._space = False  # a space is due before the next word
        self.drawn = False

    def feed(self, text: str) -> None:
        """More of the text."""
        self._held += printable(text).expandtabs(4)
        while self._step(final=False):
            pass

    def end(self) -> None:
        """The text is whole: draw what waits, and end the line."""
        while self._step(final=True):
            pass
        self._end_table()
        self._end_block()

    # -- lines

    def _step(self, final: bool) -> bool:
        """Draw one piece of what is held; False when it has to wait, or nothing is left."""
        if not self._held:
            return False
        if self._fresh:
            return self._line_start(final)
        return self._words(final)

    def _line_start(self, final: bool) -> bool:
        """Decide what kind of line begins here."""
        line, newline, remainder = self._held.partition("\n")
        complete = bool(newline) or final
        if self._fence or _FENCE.match(line) or _ROW.match(line) or (complete and _RULE.match(line)):
            if not complete:
                return False
            self._held = remainder
            self._whole_line(line)
            return True
        if not complete and _UNDECIDED.match(line):
            return False
        self._end_table()
        if not line.strip():
            self._held = remainder
            self._end_block()
            self._blank = True
            return True
        self._begin(line)
        return True

    def _whole_line(self, line: str) -> None:
        """A line that is drawn as a whole: of code, of a table, a rule."""
        fence = _FENCE.match(line)
        if self._fence:
            if fence and line.strip().startswith(self._fence) and not line.strip().strip(self._fence[0]):
                self._fence = ""
                self._blank = True
            else:
                self._write(Text(f"{self._indent}  {line}", style=_CODE))
                self._newline()
        elif fence:
            self._end_table()
            self._new_block("", Style())
            self._open = False
            self._fence = fence.group(1)
        elif _ROW.match(line):
            self._end_block()
            self._table.append(line)
        else:
            self._end_table()
            self._new_block("", _QUOTE)
            self._write(Text("─" * min(self._console.width, 40), style=_QUOTE))
            self._end_block()

    def _begin(self, line: str) -> None:
        """The beginning of a line of running text: perhaps with a mark, perhaps the next line of a paragraph."""
        title, item, quoted = _TITLE.match(line), _ITEM.match(line), _QUOTED.match(line)
        if title:
            self._new_block("", _HEADING)
            self._held = self._held[title.end() :]
        elif item:
            mark = "•" if item.group(2) in "-*+" else item.group(2)
            depth = " " * (2 + len(item.group(1)) // 2 * 2)
            self._new_block(depth + " " * (cell_len(mark) + 1), Style(), tight=True)
            self._write(Text(f"{depth}{mark} "))
            self._held = self._held[item.end() :]
        elif quoted:
            if not (self._open and self._indent == "│ "):
                self._new_block("│ ", _QUOTE)
                self._write(Text("│ ", style=_QUOTE))
            else:
                self._space = True
            self._held = self._held[quoted.end() :]
        elif self._open and self._base != _HEADING:
            self._space = True
            self._held = self._held[len(line) - len(line.lstrip()) :]
        else:
            inside = self._indent if self._indent.strip() == "" and line.startswith("  ") else ""
            self._new_block(inside, Style())
            self._write(Text(inside))
            self._held = self._held[len(line) - len(line.lstrip()) :]
        self._fresh = False

    def _new_block(self, indent: str, base: Style, tight: bool = False) -> None:
        self._end_block()
        if self.drawn and self._blank and not tight:
            self._newline()
        self._blank = False
        self._indent, self._base, self._open, self._space = indent, base, True, False

    def _end_block(self) -> None:
        if self._column:
            self._newline()
        self._open = self._space = False

    def _end_table(self) -> None:
        """Draw the table that has come, now that it is whole."""
        if not self._table:
            return
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        rows = [[_cell(cell) for cell in _CELL.split(line.strip().strip("|"))] for line in self._table]
        headed = len(rows) > 1 and all(_LINE.fullmatch(cell.plain) for cell in rows[1])
        columns = max(map(len, rows))
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=headed)
        for column in range(columns):
            table.add_column(rows[0][column] if headed and column < len(rows[0]) else "", overflow="fold")
        for row in rows[2:] if headed else rows:
            table.add_row(*row)
        if self.drawn and self._blank:
            self._newline()
        self._console.print(table)
        self._table, self.drawn, self._blank = [], True, True

    # -- words

    def _words(self, final: bool) -> bool:
        """Draw as much of the line as is certain."""
        line, newline, remainder = self._held.partition("\n")
        if newline or final:
            self._held, self._fresh = remainder, True
            self._inline(line)
            if line.endswith("  ") and self._column:
                self._newline()
                self._write(Text(self._indent))
            if self._base == _HEADING:
                self._end_block()
                self._blank = True
            return bool(newline)
        end = _certain(line)
        if not end:
            return False
        self._held = line[end:]
        self._inline(line[:end])
        return False

    def _inline(self, text: str) -> None:
        for piece, style in _spans(text):
            for word in filter(None, _pieces(piece)):
                if word.isspace():
                    self._space = self._column > cell_len(self._indent)
                else:
                    self._word(word, self._base + style)

    def _word(self, word: str, style: Style) -> None:
        """Draw a word, on the next line where it does not fit on this one; one that fits on none is cut."""
        width = max(self._console.width, NARROWEST)
        if self._column + self._space + cell_len(word) > width and self._column > cell_len(self._indent):
            self._newline()
            self._write(Text(self._indent, style=self._base))
        elif self._space:
            self._write(Text(" ", style=style))
        self._space = False
        while cell_len(word) > (room := max(1, width - self._column)):
            head = set_cell_size(word, room).rstrip() or word[0]
            self._write(Text(head, style=style))
            self._newline()
            self._write(Text(self._indent, style=self._base))
            word = word[len(head) :]
        self._write(Text(word, style=style))

    def _write(self, text: Text) -> None:
        if text.plain:
            self._console.print(text, end="", soft_wrap=True, highlight=False)
            self._column += cell_len(text.plain)
            self.drawn = True

    def _newline(self) -> None:
        self._console.print()
        self._column = 0


def _pieces(text: str) -> Iterator[str]:
    """Words and the spaces between them; a Han or kana character is a piece of its own."""
    start = 0
    for match in _BREAK.finditer(text):
        yield text[start : match.start()]
        yield match.group()
        start = match.end()
    yield text[start:]


def _certain(line: str) -> int:
    """How much of a line can be drawn, whatever comes after: up to its last gap at which no mark is open."""
    if len(line) > MOST_HELD:
        return line.rfind(" ") + 1 or len(line)
    ends = [match.end() for match in _BREAK.finditer(line) if match.end()]
    for end in reversed(ends[-MOST_TRIED:]):
        open_text = _MARKS.sub("", _CLOSED.sub("", line[:end].rstrip()))
        if not _OPEN.search(open_text):
            return end
    return 0


def _spans(text: str) -> list[tuple[str, Style]]:
    """The text of a line with its emphasis as styles."""
    spans: list[tuple[str, Style]] = []
    styles: list[Style] = []
    tokens: list[Token] = _parser().parseInline(text)[0].children or []
    # The parser takes white space at both ends away; here another piece of the line may stand before or after.
    lead = " " if text[:1].isspace() else ""
    for token in tokens:
        style = Style.combine(styles) if styles else Style()
        if token.type in ("text", "softbreak", "hardbreak"):
            spans.append((token.content or " ", style))
        elif token.type == "code_inline":
            spans.append((token.content, style + _CODE))
        elif token.type == "image":
            spans.append((token.content or "image", style))
        elif token.type == "link_close":
            target = str(tokens[_opening(tokens, token)].attrs.get("href", ""))
            styles.pop()
            if target and target != spans[-1][0]:
                spans.append((f" ({printable(target)})", Style(dim=True)))
        elif token.nesting == 1:
            styles.append(_STYLES.get(token.tag if token.tag in _STYLES else "link", Style()))
        elif token.nesting == -1:
            styles.pop()
        else:
            spans.append((token.content, style))
    trail = " " if text[-1:].isspace() else ""
    return [(lead, Style()), *spans, (trail, Style())]


def _cell(text: str) -> Text:
    return Text.assemble(*(span for span in _spans(text.strip()) if span[0]))


def _opening(tokens: list[Token], closing: Token) -> int:
    earlier = range(tokens.index(closing) - 1, -1, -1)
    return next(i for i in earlier if tokens[i].type == "link_open" and tokens[i].level == closing.level)
