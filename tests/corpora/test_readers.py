"""Reading sources: every kind of file, and every way in which a file can be unusable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpora.reading import beir_corpora, ids, problems, told, write
from turnmark.core.errors import RequestError
from turnmark.corpora.readers import MAX_BYTES, read_source
from turnmark.corpora.readers.common import prose
from turnmark.corpora.readers.markup import html, markdown
from turnmark.corpora.types import Document, Problem


def test_walks_folder_in_order_without_hidden_and_ignored_files(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = dict.fromkeys(
        ["b.md", "a/z.txt", "a/build/x.md", "a/keep.log.md", ".git/x.md", ".hidden.md", "skip.md", "n/deep/y.html"],
        "text",
    )
    files |= {".gitignore": "skip.md\n*.log.md\n", "a/.gitignore": "build/\n!keep.log.md\n", "pic.png": b"\x89PNG\0"}
    write(tmp_path, files)
    assert ids(tmp_path) == ["a/keep.log.md", "a/z.txt", "b.md", "n/deep/y.html"]
    assert problems(tmp_path) == []


def test_selects_files_by_globs(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "x", "notes/b.md": "x", "notes/old/c.md": "x", "notes/d.log": "x", "notes/e.bin": b"\0\1"})
    assert ids(tmp_path, include=["notes/**"]) == ["notes/b.md", "notes/d.log", "notes/old/c.md"]
    assert ids(tmp_path, include=["*.log"]) == ["notes/d.log"]
    assert ids(tmp_path, exclude=["old", "a.md"]) == ["notes/b.md"]
    assert ids(tmp_path, exclude=["notes/", "!notes/b.md"]) == ["a.md", "notes/b.md"]


def test_follows_only_links_inside_the_source(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"secret.md": "x"})
    root = write(tmp_path / "root", {"a.md": "x", "sub/b.md": "x"})
    (root / "out.md").symlink_to(outside / "secret.md")
    (root / "outdir").symlink_to(outside)
    (root / "loop").symlink_to(root)
    (root / "sub/up").symlink_to(root)
    (root / "gone.md").symlink_to(root / "nothing.md")
    (root / "in.md").symlink_to(root / "a.md")
    assert ids(root) == ["a.md", "in.md", "sub/b.md"]
    assert [line.split(":")[0] for line in problems(root)] == ["gone.md", "out.md", "outdir"]
    assert "leads out of the source" in problems(root)[1]


def test_reports_large_or_locked_files_and_invalid_names(tmp_path: Path) -> None:
    with open(write(tmp_path, {"big.txt": ""}) / "big.txt", "wb") as file:
        file.truncate(MAX_BYTES + 1)
    assert "64 MB at most" in problems(tmp_path)[0]
    write(tmp_path, {"locked.txt": "x"})
    (tmp_path / "locked.txt").chmod(0)
    if os.geteuid() != 0:  # root may read anything
        assert "check its permissions" in problems(tmp_path)[1]
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.md")).write_text("x")
    assert "bad\\xff.md: the file's name is not valid UTF-8; rename it" in problems(tmp_path)


def test_refuses_invalid_sources(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no such file or folder"):
        read_source(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(RequestError, match="neither a file nor a folder"):
        read_source(tmp_path / "pipe.md")
    assert list(read_source(tmp_path)) == []
    with pytest.raises(RequestError, match="--include '!'"):
        read_source(tmp_path, include=["!"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("Größen\nTüren\n".encode() + b"b\xe4d\n", "x.md:3: not valid UTF-8 (byte 18: 0xe4); save the file as UTF-8"),
        (b"one\r\nt\0wo", "x.md:2: contains NUL bytes, so it is not text"),
        (b"", "x.md: empty: there is no text in it"),
        (b" \n\t\n", "x.md: empty: there is no text in it"),
        (b"\xff\xfea\0\x00\xd8", "x.md: not valid UTF-16"),
    ],
)
def test_refuses_bytes_that_are_not_text(tmp_path: Path, content: bytes, message: str) -> None:
    write(tmp_path, {"x.md": content, "y.md": "fine"})
    assert problems(tmp_path)[0].startswith(message)
    assert ids(tmp_path) == ["y.md"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-8"])
def test_byte_order_mark_determines_encoding(tmp_path: Path, encoding: str) -> None:
    write(tmp_path, {"x.md": "# Tïtle\r\n\r\nText\r".encode(encoding)})
    (document,) = read_source(tmp_path)
    assert (document.title, document.text) == ("Tïtle", "# Tïtle\n\nText\n")


def test_reads_beir_rows_and_reports_bad_ones(tmp_path: Path) -> None:
    rows = [
        b'\xef\xbb\xbf{"_id": "1", "title": " T ", "text": "\\nx", "more": 1}',
        b'{"_id": "2", "text": "no title"}', b'{"_id": "1", "text": "again"}', b'{"_id": 3, "text": "x"}',
        b'{"_id": "4", "text": " "}', b'{"_id": "", "text": "x"}', b'{"text": "x"}', b"[1]", b"{broken", b"",
        b'{"_id": "5", "text": "\xff"}', b'{"_id": "6", "text": "\\ud800"}', b"[" * 100_000,
        b'{"_id": "7", "title": 5, "text": "x"}',
        b'{"_id": "8", "title": null, "text": "x"}',
    ]  # fmt: skip
    write(tmp_path, {"corpus.jsonl": b"\n".join(rows), "queries.jsonl": "{}", "readme.md": "no document"})
    items = list(read_source(tmp_path))
    documents = [item for item in items if isinstance(item, Document)]
    assert [(d.id, d.title, d.text, d.path, d.is_passage) for d in documents] == [
        ("1", "T", "\nx", "corpus.jsonl", True),
        ("2", "", "no title", "corpus.jsonl", True),
        ("8", "", "x", "corpus.jsonl", True),
    ]
    wrong = {item.line: item.what for item in items if isinstance(item, Problem)}
    starts = {
        3: "the id '1' is already in line 1", 4: "'_id' is int, not text", 5: "'text' is empty", 6: "'_id' is empty",
        7: "'_id' is missing", 8: "not a JSON object", 9: "not JSON", 11: "not valid UTF-8 text",
        12: "not valid UTF-8 text", 13: "not JSON", 14: "'title' is int, not text",
    }  # fmt: skip
    assert wrong.keys() == starts.keys()
    assert all(wrong[line].startswith(start) for line, start in starts.items())
    assert [d.id for d in read_source(tmp_path / "corpus.jsonl") if isinstance(d, Document)] == ["1", "2", "8"]


@pytest.mark.parametrize("corpus", beir_corpora(), ids=lambda path: path.stem)
def test_reads_real_corpora(corpus: Path) -> None:
    items = list(read_source(corpus))
    assert len(items) == {"clapnq": 12647, "fiqa": 15364}[corpus.stem]
    assert not [item for item in items if isinstance(item, Problem)]


def test_finds_markdown_blocks() -> None:
    text = (
        "---\ntitle: Other\n---\n\nSetext *title*\n======\n\nPara one\ngoes on.\n\n## Two\n\n3. first\n   more\n"
        "   - nested\n\n     its text\n4. second\n\n   ```\n   code\n   ```\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\nx\n```\n"
    )
    document = markdown.parse_markdown(text, "d/my-file_name.md")
    assert (document.id, document.title, document.text) == ("d/my-file_name.md", "Other", text.split("---\n\n", 1)[1])
    assert told(document) == [
        ("heading", 1, None, "Setext *title*\n======"),
        ("paragraph", 0, None, "Para one\ngoes on."),
        ("heading", 2, None, "## Two"),
        ("item", 0, 3, "3. first\n   more"),
        ("item", 1, None, "- nested\n\n     its text"),
        ("item", 0, 4, "4. second\n\n   ```\n   code\n   ```"),
        ("table", 0, None, "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("code", 0, None, "```py\nx\n```"),
    ]


@settings(deadline=None)  # the first example imports the parsers
@given(st.one_of(st.text(), st.text("#-*1. \n|>`ab\t=", max_size=80)))
def test_blocks_are_ordered_disjoint_and_trimmed(text: str) -> None:
    text = text.replace("\r", "\n").replace("\0", "")
    for parse in (markdown.parse_markdown, prose.parse_text, html.parse_html):
        document = parse(text, "x")
        end = 0
        for block in document.blocks:
            assert end <= block.start < block.end <= len(document.text)
            inside = document.text[block.start : block.end]
            assert inside.strip()
            assert inside == inside.strip() or block.kind == "code"
            end = block.end


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("A short line\n\nText.", "A short line"),
        ("A line\nthat goes on.\n", "my file"),
        ("x" * 90 + "\n\nText.", "my file"),
        ("=====\nTitle\n=====\n\nText.", "Title"),
        ("Title\n-----\nText.", "Title"),
    ],
)
def test_finds_titles_of_plain_text(text: str, title: str) -> None:
    assert prose.parse_text(text, "my-file.txt").title == title


@pytest.mark.parametrize(
    ("table", "lines"),
    [
        (  # a cell over two rows is in both; one over two columns names both; empty cells keep their position
            "<caption>Size</caption><thead><tr><th rowspan=2>Name<th colspan=2>Size</tr><tr><th>low<th>high</thead>"
            "<tr><td rowspan=2>int<td>1<td>2</tr><tr><td><td>4</tr><tr><td colspan=3>Group</tr>",
            "**Size**\n\n| Name | Size low | Size high |\n|---|---|---|\n| int | 1 | 2 |\n| int |  | 4 |\n"
            "| Group |  |  |",
        ),
        ("<tr><td><b>Key</b><td><strong>Value</strong><tr><td>a|b<td>2", "| Key | Value |\n|---|---|\n| a\\|b | 2 |"),
        ("<tr><th>port<td>80<tr><th>host<td>here", "|  |  |\n|---|---|\n| port | 80 |\n| host | here |"),
        (
            "<tr><td>Shop<td>Sold<tr><td>North<td>£7<tr><td>South<td>12",
            "| Shop | Sold |\n|---|---|\n| North | £7 |\n| South | 12 |",
        ),
        (
            "<tr><th>Name<td>Ada<tr><th>Age<td>36<tr><th>Room<td>7",
            "|  |  |\n|---|---|\n| Name | Ada |\n| Age | 36 |\n| Room | 7 |",
        ),
        ("<tr><td><p>one<p>two<tr><td>three", "one two\n\nthree"),  # a single column is not a table
        ("<tr><td>1<td>The option.", "1 The option."),  # nor is a single row
        ("<tr><td colspan=9999999 rowspan=9999999>x<td>y<tr><td>z", "| x | y |"),
        ("", ""),
    ],
)
def test_html_table_becomes_markdown_table(table: str, lines: str) -> None:
    text = html.parse_html(f"<table>{table}</table>", "p.html").text
    assert text == lines or (len(lines) < 10 and lines in text)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (
            "<dt><b>Hull</b><dd><p>What floats</p><dt>Bow:</dt><dt>Stem</dt><dd>In front",
            "- Hull: What floats\n- Bow, Stem: In front",
        ),
        ("<dt>Hull<dd><dt>Bow<dd>In front<dt>Keel", "- Hull\n- Bow: In front\n- Keel"),
        ("<dt>Hull<dd><p>It floats.<p>It is red.", "Hull\n\nIt floats.\n\nIt is red."),
        (f"<dt>Hull<dd>{'long ' * 70}<dt>Bow<dd>In front", f"Hull\n\n{('long ' * 70).strip()}\n\nBow\n\nIn front"),
        ("<dt>Hull<dd><ul><li>red</ul>", "Hull\n\n- red"),
    ],
)
def test_short_definitions_are_list_items(page: str, text: str) -> None:
    assert html.render(f"<dl>{page}</dl>") == text


def test_refuses_table_with_too_many_cells() -> None:
    rows = "<tr>" + "<td colspan=200 rowspan=200>x" * 8
    with pytest.raises(prose.Unreadable, match="200,000 cells"):
        html.parse_html(f"<table>{rows * 250}</table>", "p.html")


def test_renders_html_as_displayed() -> None:
    page = """<!doctype html><html><head><title> The
    page </title><style>x{}</style></head><body><header>logo</header><nav>menu</nav><!-- no -->
    <h1>Head <em>line</em></h1><p>One <b>bold</b><br>two &amp; three</p><div hidden>no</div>
    <div style="display: none">no</div><ol start=2><li>first<ul><li>inner</li></ul><li><p>second</p><p>more</p></ol>
    <pre>a
  b</pre><table><tr><th>k</th><th>v</th></tr><tr><td><p>1</p></td><td>2</td></tr></table>
    <script>no()</script><footer>no</footer>tail</body></html>"""
    document = html.parse_html(page, "p.html")
    assert document.title == "The page"
    assert document.text == (
        "# Head line\n\nOne bold\ntwo & three\n\n2. first\n  - inner\n3. second\n\nmore\n\n    a\n      b\n\n"
        "| k | v |\n|---|---|\n| 1 | 2 |\n\ntail"
    )
    assert html.parse_html("<h1>Daten&shy;schutz</h1>", "p.html").title == "Datenschutz"
    assert [(b.kind, b.level, b.number) for b in document.blocks] == [
        ("heading", 1, None), ("paragraph", 0, None), ("item", 0, 2), ("item", 1, None), ("item", 0, 3),
        ("paragraph", 0, None), ("code", 0, None), ("table", 0, None), ("paragraph", 0, None),
    ]  # fmt: skip
    assert document.text[document.blocks[2].start : document.blocks[2].end] == "2. first"
    for tag in ("div", "ul><li", "table><tr><td"):
        assert "bottom" in html.parse_html(f"<{tag}>" * 5000 + "bottom <p>after", "deep.html").text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        # a superscript number stays a separate number; a footnote mark is removed
        ("<p>3 × 10<sup>8</sup> m/s, 10<sup> −3</sup>, 4 m<sup>2</sup>", "3 × 10^8 m/s, 10^ −3, 4 m2"),
        ("<p>1<sup>1</sup>⁄<sub>2</sub> cups since 1990<sup><a href=#n>3</a></sup>", "1 1⁄2 cups since 1990"),
        ("<p>In 2019<sup class=r><a href=#c>[1]</a></sup>, 25<a href=n.html#f><sup>12</sup></a> m", "In 2019, 25 m"),
        ("<p>In 1998<a href=#f role=doc-noteref><span><sup>*</sup></span></a>.", "In 1998."),
        ("<p>See <a href=#f>3</a>, m<sup><a href=/units>2</a></sup>", "See 3, m2"),
        ("<table><tr><th>a<th>b<tr><td>10<sup>6</sup><td>c", "| a | b |\n|---|---|\n| 10^6 | c |"),
        ("<math><msup><mn>10</mn><mn>6</mn></msup><mfrac><mn>1</mn><mn>2</mn></mfrac></math>", "10^61/2"),
        # a formula is not repeated
        (
            "It is <span class=katex><math><mi>E</mi><annotation encoding=application/x-tex>E</annotation></math>"
            "<span aria-hidden=true>E</span></span>.",
            "It is E.",
        ),
        ("<p>So <span style='display:none'><math><mi>E</mi></math></span><img alt='E=mc^2'>.", "So E=mc^2."),
        # pictures: their alternative text, except for icons, links, and text that the caption repeats
        (
            "<p><img alt=Note><a href=x><img alt='Our logo'></a><img alt='A red door'> <img alt=a-b.png>x",
            "A red door x",
        ),
        ("<figure><img alt='A red door'><figcaption>A red door, shut.</figcaption></figure>", "A red door, shut."),
        ("<div class=figure><img alt='A red door'><p>A red door, shut.</p></div>", "A red door, shut."),
        ("<p><img alt='[A remark]'>x", "x"),
        # a form around the page is read as the page; a button in a heading is the heading
        (
            "<form><p>Gates open at nine, and shut at five.</p><button>Go</button></form>",
            "Gates open at nine, and shut at five.",
        ),
        ("<p>Gates open at nine.</p><form>Search</form>", "Gates open at nine."),
        ("<h2><button>How?</button></h2><p>By key. <button>Copy</button>", "## How?\n\nBy key."),
        # line numbers are not code
        (
            "<table class=highlighttable><tr><td class=linenos><pre>1\n2</pre><td class=code><pre>a\nb</pre></table>",
            "    a\n    b",
        ),
        ("<pre><span class=linenos>1</span>a\n<span class=linenos>2</span>b</pre>", "    a\n    b"),
        # lists in the cells of a table with named columns
        (
            "<table><tr><th>Gate<th>Keys<tr><td>north<td><ul><li>iron<li>brass</ul></table>",
            "| Gate | Keys |\n|---|---|\n| north | iron; brass |",
        ),
        ("<table><tr><td>menu<td><ul><li>iron<li>brass</ul></table>", "menu\n\n- iron\n- brass"),
        ("<ol><li value=5>five<li>six</ol>", "5. five\n6. six"),
        ("<blockquote><p>Shut it.</p><footer>Ann</footer></blockquote><footer>no</footer>", "Shut it.\n\nAnn"),
        # tabs can be opened; what a script hides permanently is not visible
        ("<div role=tabpanel>apt</div><div role=tabpanel hidden>brew</div><div hidden>no</div>", "apt\n\nbrew"),
        ("<p><ruby>会<rt>kai</rt>議<rp>(</rp><rt>gi</rt><rp>)</rp></ruby>", "会議"),
        ("<p>docu&shy;men\u00adtation<pre>a&shy;b</pre>", "documentation\n\n    ab"),
    ],
)
def test_reads_what_a_browser_shows(page: str, text: str) -> None:
    assert html.render(page) == text


@pytest.mark.parametrize(
    ("said", "encoding"),
    [
        ("<meta charset=iso-8859-1>", "cp1252"),  # as browsers read it
        ("<meta http-equiv=Content-Type content='text/html; charset=windows-1251'>", "cp1251"),
        ("<meta charset='x-sjis'>", "cp932"),
        ("<meta charset=iso-2022-jp>", "iso2022_jp"),
        ("<?xml version='1.0' encoding='koi8-r'?>", "koi8_r"),
        ("<meta charset=iso-8859-1>", "utf-8"),  # declared wrongly
    ],
)
def test_reads_page_in_declared_encoding(tmp_path: Path, said: str, encoding: str) -> None:
    words = {"cp1252": "“Größe”", "cp1251": "Ворота", "koi8_r": "Ворота", "utf-8": "Größe"}.get(encoding, "会議")
    write(tmp_path, {"x.html": f"{said}<title>{words}</title><p>{words}".encode(encoding)})
    (document,) = read_source(tmp_path)
    assert isinstance(document, Document)
    assert (document.title, document.text) == (words, words)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.tex", "\\documentclass{article}\\usepackage[latin1]{inputenc}\\begin{document}Größe\\end{document}"),
        ("x.py", "#!/usr/bin/python\n# -*- coding: latin-1 -*-\nx = 'Größe'\n"),
        ("x.dbk", "<?xml version='1.0' encoding='iso-8859-1'?><article><para>Größe</para></article>"),
    ],
)
def test_reads_source_code_in_declared_encoding(tmp_path: Path, name: str, text: str) -> None:
    (document,) = read_source(write(tmp_path, {name: text.encode("latin-1")}))
    assert isinstance(document, Document)
    assert "Größe" in document.text
