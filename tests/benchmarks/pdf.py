"""PDFs read by Turnmark, pypdf and markitdown, each compared with the HTML of the same document.

    apt-get download debian-policy developers-reference debian-reference-en debian-faq maint-guide debmake-doc \\
        r-doc-pdf r-doc-html valgrind
    for package in *.deb; do dpkg -x $package unpacked; done; gunzip -kr unpacked/usr/share/doc || true
    python -m tests.benchmarks.pdf unpacked [--half tuning|test] [--only NAME]

Reading order: indel similarity of the words, 2 M / (words of both), M being the longest common subsequence. Headings:
1 - tree edit distance / nodes of the larger tree (Zhang and Shasha 1989), where a heading is the child of the last
heading of a lower level and renaming costs 1 - similarity of the two texts. Tables: the same distance between rows of
cells, over the best pairing of the tables of both in their order, 2 * sum / (tables of both): a table that is missing
and one that is none both cost. This follows opendataloader-bench (NID, MHS, TEDS), with structure alone in headings.
Seconds are of one core; markitdown is run if it is on the PATH, its start-up taken off.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import subprocess
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup, XMLParsedAsHTMLWarning
from bs4.element import Tag
from rapidfuzz.distance import Indel
from rapidfuzz.fuzz import ratio

DOCUMENTS: dict[str, dict[str, tuple[str, str]]] = {
    "tuning": {
        "debian-policy": ("doc/debian-policy/policy.pdf", "doc/debian-policy/policy.html/index.html"),
        "developers-reference": (
            "developers-reference/developers-reference.pdf",
            "developers-reference/index.html",
        ),
        "debian-reference": ("debian-reference/debian-reference.en.pdf", "debian-reference/index.en.html"),
        "debmake-doc": ("doc/debmake-doc/debmake-doc.en.pdf", "doc/debmake-doc/html/index.en.html"),
        "R-intro": ("R/doc/manual/R-intro.pdf", "R/doc/manual/R-intro.html"),
    },
    "test": {
        "debian-faq": ("doc/debian/FAQ/debian-faq.en.pdf", "doc/debian/FAQ/index.en.html"),
        "maint-guide": ("doc/maint-guide/maint-guide.en.pdf", "doc/maint-guide/html/index.en.html"),
        "R-data": ("R/doc/manual/R-data.pdf", "R/doc/manual/R-data.html"),
        "R-admin": ("R/doc/manual/R-admin.pdf", "R/doc/manual/R-admin.html"),
        "fhs": ("doc/debian-policy/fhs/fhs-3.0.pdf", "doc/debian-policy/fhs/fhs-3.0.html"),
        "valgrind": ("doc/valgrind/valgrind_manual.pdf", "doc/valgrind/html/index.html"),
    },
}
"""Below usr/share of the unpacked packages: the PDF, and the first page of the HTML."""

Heading = tuple[int, str]
Cells = list[list[str]]


@dataclass
class Content:
    """What is compared."""

    words: list[str] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)
    tables: list[Cells] = field(default_factory=list)


# --- the HTML --------------------------------------------------------------------------------------------------------

_NAVIGATION = ", ".join(
    """nav .nav script style footer .navheader .navfooter .sphinxsidebar .toc .contents .related .headerlink
    .footer .header .list-of-tables .genindex-jumpbox .indextable .toctree-wrapper #navbar-top .copiable-link
    .region-contents .shortcontents .element-shortcontents .element-contents .nav-panel
    .rst-footer-buttons .wy-nav-side .wy-nav-top
    .wy-breadcrumbs [role=navigation] [role=contentinfo] .admonition-title [class^=index-] .printindex""".split()
)
_LISTS = re.compile(r"(?:table of )?contents|footnotes|.{0,40}\bindex", re.IGNORECASE)
_BOXES = ["note", "tip", "warning", "caution", "important", "footnote"]


def html_pages(first: Path) -> list[Path]:
    """The pages of a manual in their order, as each names the next."""
    pages = [first]
    while True:
        soup = BeautifulSoup(pages[-1].read_bytes(), "lxml")
        link = soup.find("link", rel="next")
        target = pages[-1].parent / str(link["href"]).split("#")[0] if isinstance(link, Tag) else None
        if target is None or not target.is_file() or target in pages or "genindex" in target.name:
            return pages
        pages.append(target)


def of_html(pages: Sequence[Path]) -> Content:
    """What a reader of the HTML reads."""
    content = Content()
    for page in pages:
        soup = BeautifulSoup(page.read_bytes(), "lxml")
        for tag in soup.select(_NAVIGATION):
            tag.decompose()
        body = soup.find(attrs={"role": "main"}) or soup.body
        assert isinstance(body, Tag)
        content.words += tokens(body.get_text(" "))
        for tag in body.find_all(re.compile("^h[1-6]$")):
            text = _line(tag.get_text())
            # A number alone is a footnote's; contents and indexes are left out on both sides.
            if re.search("[A-Za-z]{2}", text) and not _LISTS.fullmatch(text):
                content.headings.append((int(tag.name[1]), text))
        content.tables += [cells for tag in body.find_all("table") if (cells := _html_cells(tag))]
    return content


def _html_cells(table: Tag) -> Cells | None:
    if table.find("table") or table.find("pre") or table.find_parent(class_=_BOXES):
        return None
    rows = [[_line(cell.get_text(" ")) for cell in row.find_all(["td", "th"])] for row in table.find_all("tr")]
    rows = [row for row in rows if any(row)]
    return rows if len(rows) > 1 and max(map(len, rows)) > 1 else None


def _line(text: str) -> str:
    return " ".join(text.replace("¶", " ").split())


def tokens(text: str) -> list[str]:
    """Words and numbers in lower case; punctuation and marks are left out, as readers write them differently."""
    return re.findall(r"[^\W_]+", text.lower())


# --- the readers -----------------------------------------------------------------------------------------------------

_RULE_ROW = re.compile(r"\|?(?:\s*:?-+:?\s*\|)+\s*:?-*:?\s*")


def of_markdown(text: str) -> Content:
    """What a Markdown text says; fenced code has no headings."""
    content = Content()
    rows: Cells = []
    words: list[str] = []
    fenced = False
    for line in [*text.split("\n"), ""]:
        fenced ^= line.startswith("```")
        if line.startswith("|") and not fenced:
            if not _RULE_ROW.fullmatch(line):
                rows.append([_line(cell.replace("\\|", "|")) for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]])
                words += tokens(line)
            continue
        if rows:
            content.tables.append(rows)
            rows = []
        heading = None if fenced else re.match(r"(#{1,6})\s+(.*)", line)
        if heading and not _LISTS.fullmatch(_line(heading[2])):
            content.headings.append((len(heading[1]), _line(heading[2])))
        words += tokens(line)
    content.words = words
    return content


def turnmark(path: Path) -> Content:
    from tests.corpora.reading import read_pdf

    return of_markdown(read_pdf(path, path.name).text)


def pypdf(path: Path) -> Content:
    from pypdf import PdfReader

    return of_markdown("\n".join(page.extract_text() for page in PdfReader(path).pages).replace("\n#", "\n"))


def markitdown(path: Path) -> Content:
    return of_markdown(subprocess.run(["markitdown", path], capture_output=True, text=True, check=True).stdout)


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds of a call, those of programs that it starts included."""
    before = time.process_time() + _children()
    work()
    return time.process_time() + _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- the measures ----------------------------------------------------------------------------------------------------


@dataclass
class Node:
    """A tree's node."""

    text: str
    children: list[Node] = field(default_factory=list)


def heading_tree(headings: Sequence[Heading]) -> Node:
    root = Node("")
    path: list[tuple[int, Node]] = [(0, root)]
    for level, text in headings:
        while path[-1][0] >= level:
            path.pop()
        node = Node(_bare(text))
        path[-1][1].children.append(node)
        path.append((level, node))
    return root


def _bare(text: str) -> str:
    """A heading without its number, which HTML and PDF write differently."""
    bare = re.sub(r"^(?:(?:chapter|appendix)\s+)?(?:[A-Z]|\d+)(?:\.\d+)*\.?\s+", "", text, flags=re.IGNORECASE)
    return bare.lower()


def tree_similarity(first: Node, second: Node) -> float:
    """1 - tree edit distance / nodes of the larger tree; the roots do not count."""
    a, b = _Postorder(first), _Postorder(second)
    return 1 - _distance(a, b) / max(1, len(a.texts) - 1, len(b.texts) - 1)


class _Postorder:
    def __init__(self, root: Node) -> None:
        self.texts: list[str] = []
        self.leftmost: list[int] = []
        self._walk(root)
        last = {left: index for index, left in enumerate(self.leftmost)}
        self.keyroots = sorted(last.values())

    def _walk(self, node: Node) -> int:
        lefts = [self._walk(child) for child in node.children]
        self.texts.append(node.text)
        left = lefts[0] if lefts else len(self.texts) - 1
        self.leftmost.append(left)
        return left


def _distance(a: _Postorder, b: _Postorder) -> float:
    """Zhang and Shasha, SIAM J. Comput. 18 (1989), with renaming as far as the texts differ."""
    trees = [[0.0] * len(b.texts) for _ in a.texts]
    rename = [[1 - ratio(x, y) / 100 for y in b.texts] for x in a.texts]
    for i in a.keyroots:
        for j in b.keyroots:
            i0, j0 = a.leftmost[i], b.leftmost[j]
            rows, columns = i - i0 + 2, j - j0 + 2
            forest = [[float(x + y) if not x or not y else 0.0 for y in range(columns)] for x in range(rows)]
            for x in range(1, rows):
                for y in range(1, columns):
                    p, q = i0 + x - 1, j0 + y - 1
                    cut = min(forest[x - 1][y], forest[x][y - 1]) + 1
                    if a.leftmost[p] == i0 and b.leftmost[q] == j0:
                        forest[x][y] = min(cut, forest[x - 1][y - 1] + rename[p][q])
                        trees[p][q] = forest[x][y]
                    else:
                        forest[x][y] = min(cut, forest[a.leftmost[p] - i0][b.leftmost[q] - j0] + trees[p][q])
    return trees[-1][-1]


def _aligned(
    first: Sequence[Any], second: Sequence[Any], lone: Callable[[Any], float], pair: Callable[[Any, Any], float]
) -> float:
    """The least cost of turning one sequence into another."""
    above = [0.0]
    for item in second:
        above.append(above[-1] + lone(item))
    for item in first:
        row = [above[0] + lone(item)]
        for index, other in enumerate(second):
            row.append(min(above[index + 1] + lone(item), row[-1] + lone(other), above[index] + pair(item, other)))
        above = row
    return above[-1]


def table_similarity(first: Cells, second: Cells) -> float:
    """1 - edit distance of rows of cells / nodes (rows and cells) of the larger table."""

    def rows(a: list[str], b: list[str]) -> float:
        return _aligned(a, b, lambda _: 1.0, lambda x, y: 1 - ratio(x.lower(), y.lower()) / 100)

    cost = _aligned(first, second, lambda row: 1.0 + len(row), rows)
    return 1 - cost / max(sum(1 + len(row) for row in table) for table in (first, second))


def paired_similarity(truth: Sequence[Cells], found: Sequence[Cells]) -> float:
    """The sum over the best pairing."""
    best = [0.0] * (len(found) + 1)
    for table in truth:
        row = [0.0]
        for index, other in enumerate(found):
            alike = table_similarity(table, other) if _share_words(table, other) else 0.0
            row.append(max(best[index + 1], row[-1], best[index] + alike))
        best = row
    return best[-1]


def _share_words(first: Cells, second: Cells) -> bool:
    a, b = ({*tokens(" ".join(cell for row in table for cell in row))} for table in (first, second))
    return len(a & b) >= 0.3 * min(len(a), len(b))


@dataclass
class Row:
    """What was measured of one document; `paired` is the sum of the similarities of `tables` tables, both sides'."""

    order: float
    headings: float
    paired: float
    tables: int
    pages: int
    seconds: float


def _shown(rows: Sequence[Row]) -> str:
    """Means over documents; tables and pages a second over all of them, as few documents have many tables."""
    order, headings = (sum(getattr(row, name) for row in rows) / len(rows) for name in ("order", "headings"))
    tables = sum(row.tables for row in rows)
    alike = f"{2 * sum(row.paired for row in rows) / tables:5.3f}" if tables else "    –"
    speed = sum(row.pages for row in rows) / max(1e-6, sum(row.seconds for row in rows))
    return f"{order:5.3f}  {headings:5.3f}  {alike}  {speed:7.1f}"


def main() -> None:
    warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="where the packages are unpacked")
    parser.add_argument("--half", choices=[*DOCUMENTS], help="only these documents")
    parser.add_argument("--only", help="only this document")
    parser.add_argument("--readers", default="turnmark,pypdf,markitdown")
    arguments = parser.parse_args()
    readers: dict[str, Callable[[Path], Content]] = {"turnmark": turnmark, "pypdf": pypdf, "markitdown": markitdown}
    if not shutil.which("markitdown"):
        del readers["markitdown"]
    readers = {name: reader for name, reader in readers.items() if name in arguments.readers.split(",")}
    print(f"{'document':22}{'reader':12}order  head.  tables  pages/s")
    totals: dict[tuple[str, str], list[Row]] = {}
    for half, documents in DOCUMENTS.items():
        for name, (pdf, html) in documents.items():
            if arguments.half not in (None, half) or arguments.only not in (None, name):
                continue
            path = arguments.folder / "usr" / "share" / pdf
            truth = of_html(html_pages(arguments.folder / "usr" / "share" / html))
            for reader, read in readers.items():
                row = _measured(path, truth, reader, read)
                totals.setdefault((half, reader), []).append(row)
                print(f"{name:22}{reader:12}{_shown([row])}", flush=True)
    for (half, reader), rows in totals.items():
        print(f"{half + ', all':22}{reader:12}{_shown(rows)}")
    for half in DOCUMENTS:
        ours = totals.get((half, "turnmark"))
        for (other, reader), rows in totals.items():
            if ours and other == half and reader != "turnmark":
                order = sum(row.order for row in ours) / sum(row.order for row in rows)
                speed = sum(row.seconds for row in rows) / sum(row.seconds for row in ours)
                print(f"{half}: turnmark / {reader}: order x{order:.2f}, speed x{speed:.1f}")


def _measured(path: Path, truth: Content, reader: str, read: Callable[[Path], Content]) -> Row:
    import pypdfium2

    found: list[Content] = []
    used = seconds(lambda: found.append(read(path)))
    if reader == "markitdown":
        used -= seconds(lambda: subprocess.run(["markitdown", "--help"], capture_output=True, check=True))
    return Row(
        order=Indel.normalized_similarity(truth.words, found[0].words),
        headings=max(0.0, tree_similarity(heading_tree(truth.headings), heading_tree(found[0].headings))),
        paired=paired_similarity(truth.tables, found[0].tables),
        tables=len(truth.tables) + len(found[0].tables),
        pages=len(pypdfium2.PdfDocument(path)),
        seconds=used,
    )


if __name__ == "__main__":
    main()
