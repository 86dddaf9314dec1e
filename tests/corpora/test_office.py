"""Text documents, books, markup, man pages and notebooks, read with pandoc and our Markdown reader."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.corpora.made import BOMB, ODF, OLE, by_pandoc, open_document, read_one, refused, replaced, with_part
from tests.corpora.reading import told, write
from turnmark.corpora.chunking import chunk, regex_tokens
from turnmark.corpora.readers import isolation, pandoc, read_source
from turnmark.corpora.readers.office import archive as archive_module
from turnmark.corpora.readers.report import ReadingReport
from turnmark.corpora.types import Document, Problem


@pytest.mark.parametrize("suffix", [".docx", ".odt", ".epub", ".rst", ".org", ".tex", ".rtf"])
def test_reads_headings_lists_and_tables(tmp_path: Path, suffix: str) -> None:
    document = read_one(by_pandoc(tmp_path / f"the-report{suffix}"))
    blocks = told(document)
    headings = [(level, text.lstrip("# ")) for kind, level, _, text in blocks if kind == "heading"]
    names = [name for _, name in headings]
    assert names[-2:] == ["Gates", "Wheels"]
    assert headings[-1][0] > headings[-2][0]
    assert document.title == "The Mill" or (suffix == ".rtf" and "The Mill" in document.text)
    items = [" ".join(text.split()) for kind, _, _, text in blocks if kind == "item"]
    # Pandoc writes lists as lines in RTF.
    assert suffix == ".rtf" or items == ["1. Look at the river.", "2. Turn the wheel.", "- slowly", "- to the left"]
    (table,) = [text for kind, *_, text in blocks if kind == "table"]
    assert "| north | 4.5 m |" in table
    assert "At nine in winter." in document.text
    assert "oil_x" in document.text.replace("\\", "")
    assert "10^6" in document.text
    passages = chunk(document, regex_tokens, 60)
    assert suffix != ".docx" or passages[-1].heading == "The Mill › Gates › Wheels"


MAKE = "```\n# cd mill\n./configure \\\n    --water\n\nmake\n```\n"


@pytest.mark.parametrize(
    ("suffix", "text", "options", "read"),
    [
        # a line break at the end is not a backslash
        (".docx", "<h1>The<br>mill<br></h1><p>Of wood.<br><br></p><p>Of<br>stone.</p>", ["--from", "html"],
         "# The mill\n\nOf wood.\n\nOf\nstone.\n"),
        # paragraphs of code are one block; all of a text in fixed width is no code
        (".odt", f"Build it:\n\n{MAKE}\nIt turns.\n\nSo it does.\n", [],
         "Build it:\n\n    # cd mill\n    ./configure \\\n        --water\n\n    make\n\nIt turns.\n\nSo it does.\n"),
        (".odt", MAKE, [], "\\# cd mill\n\n./configure \\\n\n--water\n\nmake\n"),
        # the style of code in a book is not a language
        (".epub", "# Mill\n\nSo:\n\n``` lua\nturn()\n```\n", [], "# Mill\n\nSo:\n\n    turn()\n"),
        (".rst", "# Mill\n\nSo:\n\n``` lua\nturn()\n```\n", [], "So:\n\n``` lua\nturn()\n```\n"),
        # a table of contents in a book is left out, other lists of links stay
        (".epub", "# T\n\n- [Gates](#gates)\n  - [Wheels](#wheels)\n\nBut:\n\n- [Gates](#gates) are shut\n"
         "- [Wheels](#wheels)\n\n## Gates\n\nx\n\n## Wheels\n\ny\n", [],
         "# T\n\nBut:\n\n- Gates are shut\n- Wheels\n\n## Gates\n\nx\n\n## Wheels\n\ny\n"),
    ],
)  # fmt: skip
def test_reads_breaks_code_and_contents_as_displayed(
    tmp_path: Path, suffix: str, text: str, options: list[str], read: str
) -> None:
    assert read_one(by_pandoc(tmp_path / f"a{suffix}", text, *options)).text == read


def test_numbered_headings_are_headings(tmp_path: Path) -> None:
    """OpenOffice writes headings of the second level as a list within a list."""
    markdown = "1. # Gates\n\n   Of wood.\n\n1. 1. ## Wheels\n\n      1. Look.\n      2. Turn.\n"
    document = read_one(by_pandoc(tmp_path / "a.odt", markdown))
    found = [(kind, " ".join(text.split())) for kind, _, _, text in told(document)]
    assert found == [
        ("heading", "# Gates"),
        ("paragraph", "Of wood."),
        ("heading", "## Wheels"),
        ("item", "1. Look."),
        ("item", "2. Turn."),
    ]


@pytest.mark.parametrize("suffix", [".docx", ".odt", ".rtf"])
def test_shell_prompt_begins_code(tmp_path: Path, suffix: str) -> None:
    markdown = "Type:\n\n\\$ make water\n\n\\$ make mill\n\n\\$ 5 are due.\n"
    document = read_one(by_pandoc(tmp_path / f"a{suffix}", markdown))
    assert [kind for kind, *_ in told(document)] == ["paragraph", "code", "paragraph"]
    assert "    $ make water\n    $ make mill\n" in document.text


def test_ruby_does_not_split_words_of_a_book(tmp_path: Path) -> None:
    page = "<h1>T</h1><p>The <ruby>会<rt>kai</rt>議<rt>gi</rt></ruby> is over.</p>"
    book = by_pandoc(tmp_path / "a.epub", page, "--from=html", "--to=epub3")
    ruby = "<ruby>会<rt>kai</rt>議<rt>gi</rt></ruby>"
    assert read_one(replaced(book, "EPUB/text/ch001.xhtml", "会kai議gi", ruby)).text == "# T\n\nThe 会議 is over.\n"


def test_indented_comment_of_a_setting_is_not_a_heading(tmp_path: Path) -> None:
    path = by_pandoc(tmp_path / "a.odt", "# Settings\n\ninterval 3\n\nCOMMENT delay 5\n")
    replaced(path, "content.xml", "COMMENT", "<text:s/>#")
    assert [kind for kind, *_ in told(read_one(path))] == ["heading", "paragraph", "paragraph"]


def test_words_have_no_backslashes(tmp_path: Path) -> None:
    text = "Call some_long_name with 5 * 3 and \\<name> or \\$HOME, see [x] & 'y'.\n\n\\# no heading\n"
    document = read_one(by_pandoc(tmp_path / "a.docx", text, "--from=markdown-smart"))
    assert "Call some_long_name with 5 * 3 and" in document.text
    assert "$HOME, see [x] & 'y'." in document.text
    assert [kind for kind, *_ in told(document)] == ["paragraph", "paragraph"]


def test_repeats_vertically_merged_cells_only(tmp_path: Path) -> None:
    page = (
        '<table><thead><tr><th rowspan="2"><b>Gate</b></th><th colspan="2">2024</th></tr>'
        "<tr><th>May</th><th>June</th></tr>"
        '</thead><tbody><tr><td rowspan="2">north</td><td>1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr></tbody>'
        "</table>"
    )
    document = read_one(by_pandoc(tmp_path / "a.docx", page, "--from=html"))
    (table,) = [text for kind, *_, text in told(document) if kind == "table"]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.split("\n")]
    assert rows[0] == ["Gate", "2024 May", "2024 June"]
    assert rows[-2:] == [["north", "1", "2"], ["north", "3", "4"]]


def test_bold_lines_are_headings_if_there_are_no_others(tmp_path: Path) -> None:
    text = "**Gates**\n\nThe keeper shuts them at night.\n\n**Wheels**\n\nHe greases them in May.\n"
    document = read_one(by_pandoc(tmp_path / "a.docx", text))
    assert [text for kind, *_, text in told(document) if kind == "heading"] == ["## Gates", "## Wheels"]


def test_reads_title_and_date_of_the_metadata(tmp_path: Path) -> None:
    path = by_pandoc(tmp_path / "minutes.docx", "The gates of the mill were painted.\n")
    core = (
        '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/">'
        "<dc:title>{}</dc:title><dcterms:modified>2024-03-01T10:00:00Z</dcterms:modified></cp:coreProperties>"
    )
    document = read_one(with_part(path, "docProps/core.xml", core.format("The gates of the mill").encode()))
    assert (document.title, document.date) == ("The gates of the mill", "2024-03-01")
    document = read_one(with_part(path, "docProps/core.xml", core.format("Microsoft Word - x.doc").encode()))
    assert document.title == "minutes"


def test_reads_man_pages_and_skips_other_files_with_their_suffix(tmp_path: Path) -> None:
    page = '.TH MILL 1 "2024-03-01"\n.SH NAME\nmill \\- grind grain\n.SH OPTIONS\n.TP\n.B \\-s\ngrind slowly\n'
    mdoc = ".Dd March 1, 2024\n.Dt GATE 8\n.Sh NAME\n.Nm gate\n.Nd shut it\n"
    write(tmp_path, {"mill.1": page, "gate.8": mdoc, "log.1": "12:00 started\n", "data.2": b"\0\1"})
    report = ReadingReport()
    documents = {item.id: item for item in read_source(tmp_path, report=report) if isinstance(item, Document)}
    assert documents.keys() == {"mill.1", "gate.8"}
    assert (documents["mill.1"].title, documents["mill.1"].date) == ("mill(1)", "2024-03-01")
    assert [text for kind, *_, text in told(documents["mill.1"]) if kind == "heading"] == ["# NAME", "# OPTIONS"]
    assert "**-s**\n\ngrind slowly" in documents["mill.1"].text
    assert "shut it" in documents["gate.8"].text
    assert report.unread == {".1": 1, ".2": 1}


def test_reads_roles_and_directives_of_sphinx(tmp_path: Path) -> None:
    text = (
        "The Mill\n========\n\nSee :ref:`the gates <gates>` and :func:`~mill.open`.\n\n"
        ".. toctree::\n\n   gates\n\n.. note:: Shut them.\n"
    )
    document = read_one(write(tmp_path, {"mill.rst": text}) / "mill.rst")
    assert document.title == "The Mill"
    assert document.text.strip() == "See the gates and `open`.\n\n**Note**\n\nShut them."


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        (
            "a.rst",
            ".. py:function:: turn(*args)\n\n   Turn it.\n\n   .. versionadded:: 3.2\n      As in :pep:`8`.\n\n"
            ".. class:: Mill(a)\n\n   A mill.\n\n   .. deprecated:: 3.4\n\n.. class:: wide\n\nC:\\\\mill *here*.\n",
            "turn(*args)\n\nTurn it.\n\nNew in version 3.2 As in PEP 8.\n\nMill(a)\n\nA mill.\n\n"
            "Deprecated since version 3.4\n\nC:\\mill here.\n",
        ),
        (
            "a.adoc",
            "Gate:: It shuts.\n\ninclude::b.adoc[]\n\nifdef::x[]\nSlowly.\nendif::[]\n",
            "**Gate**\n\nIt shuts.\n\nSlowly.\n",
        ),
        (
            "c.rst",
            ".. parsed-literal::\n\n  file(`READ`_ <name> [:cmake:`OUT <x>`])\n    *n* \\*\n\n"
            "See :command:`a(\\<b\\>)`.\n\n.. only:: html\n\n   Or here.\n",
            "    file(READ <name> [OUT])\n      n *\n\nSee `a(<b>)`.\n\nOr here.\n",
        ),
        (
            "b.rst",
            ".. list-table::\n   :header-rows: 1\n\n   * - Gate\n     - Keys\n   * - north\n     - * iron\n"
            "       * brass\n   * - south\n     - +---+---+\n       | a | b |\n       +---+---+\n",
            "| Gate | Keys |\n|---|---|\n| north | iron brass |\n| south | a b |\n",
        ),
    ],
)
def test_reads_markup_as_displayed(tmp_path: Path, name: str, text: str, read: str) -> None:
    assert read_one(write(tmp_path, {name: text}) / name).text == read


WORDML = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:m="m" xmlns:v="v"'


def test_reads_fields_ruby_and_text_boxes_of_word(tmp_path: Path) -> None:
    def run(words: str) -> str:
        return f"<w:r><w:t>{words}</w:t></w:r>"

    box = f"<w:txbxContent><w:p>{run('In a box.')}</w:p><w:p>{run('Below.')}</w:p></w:txbxContent>"
    both = f"<m:AlternateContent><m:Choice>{box}</m:Choice><m:Fallback>{box}</m:Fallback></m:AlternateContent>"
    ruby = f"<w:r><w:ruby><w:rt>{run('kai')}</w:rt><w:rubyBase>{run('会')}</w:rubyBase></w:ruby></w:r>"
    body = (
        f"<w:p>{run('Before.')}<w:r>{both}</w:r></w:p><w:p>{run('Table ')}<w:fldSimple>{run('7')}</w:fldSimple></w:p>"
        f"<w:p>{ruby}<w:r><w:t>a</w:t><w:cr/><w:t>b</w:t></w:r></w:p>"
    ).replace("<w:t>Table ", "<w:t xml:space='preserve'>Table ")
    made = with_part(
        by_pandoc(tmp_path / "a.docx"),
        "word/document.xml",
        f"<w:document {WORDML}><w:body>{body}</w:body></w:document>".encode(),
    )
    assert read_one(made).text == "Before.\n\nIn a box.\n\nBelow.\n\nTable 7\n\n会a\nb\n"


def test_reads_fields_frames_and_shapes_of_open_document(tmp_path: Path) -> None:
    body = (
        "<office:text><draw:frame><draw:text-box><text:p>On the page.</text:p></draw:text-box></draw:frame><text:p>On "
        "<text:date>1 March</text:date> <draw:frame><draw:text-box><text:p>In a frame.</text:p></draw:text-box>"
        "</draw:frame>it opens.<office:annotation><text:p>No.</text:p></office:annotation></text:p>"
        "<text:p><draw:g><draw:rect><text:p>In a shape.</text:p></draw:rect></draw:g></text:p>"
        "<text:p>Size: <loext:content-control "
        'xmlns:loext="urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0">'
        "<text:span>Medium</text:span></loext:content-control>, "
        "<text:ruby><text:ruby-base>東京</text:ruby-base><text:ruby-text>とうきょう</text:ruby-text></text:ruby>.</text:p>"
        "</office:text>"
    )
    made = with_part(open_document(tmp_path / "a.odt", body), "styles.xml", f"<office:document-styles {ODF}/>".encode())
    assert (
        read_one(made).text
        == "On the page.\n\nOn 1 March it opens.\n\nIn a frame.\n\nIn a shape.\n\nSize: Medium, 東京.\n"
    )


@pytest.mark.parametrize(
    ("rtf", "text"),
    [
        # a letter with its replacement for older programs, as LibreOffice, Word and TextEdit write it
        (
            rb"don\u8217?t \u8220\'93see\u8221\'94 {\uc0 \u233 t\u233 } \uc2\u26085\'93\'fa\u-10179??\u-8704?? x",
            "don’t “see” été 日😀 x",
        ),
        # bytes in the character set of the font, or else the code page of the file
        (
            rb"\f1\'cf\'f0\'e8\'e2\'e5\'f2, {\f2\'83A\'89\'ef} \'93q\'94 \plain\'93q\'94 \f0 caf\'e9\b\'e9",
            "Привет, ア会 “q” “q” caféé",
        ),
        (rb"\f0 " + "Größe".encode("cp1252"), "Größe"),
        ("Größe 😀".encode(), "Größe 😀"),
    ],
)
def test_decodes_letters_of_rich_text(tmp_path: Path, rtf: bytes, text: str) -> None:
    fonts = rb"{\fonttbl{\f0\fnil\fcharset0 A;}{\f1\fnil\fcharset204 B;}{\f2\fmodern\fprq1\fcharset128 C;}}"
    write(tmp_path, {"a.rtf": rb"{\rtf1\ansi\ansicpg1251\deff0" + fonts + b" " + rtf + rb"\par}"})
    assert read_one(tmp_path / "a.rtf").text == f"{text}\n"


def test_reads_cells_and_visible_output_of_a_notebook(tmp_path: Path) -> None:
    widget = {"application/vnd.jupyter.widget-view+json": {"model_id": "9a"}, "text/plain": ["Slider(7)"]}
    outputs = [
        {"output_type": "display_data", "metadata": {}, "data": widget},
        {"output_type": "error", "ename": "E", "evalue": "x", "traceback": ["\x1b[0;31mE\x1b[0m: {{ x }}"]},
    ]
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# The Mill\n", "\n", "How it grinds."]},
        {"cell_type": "code", "metadata": {}, "source": ["a"], "outputs": outputs, "execution_count": 1},
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    document = read_one(write(tmp_path, {"a.ipynb": json.dumps(notebook)}) / "a.ipynb")
    assert document.title == "The Mill"
    texts = ["# The Mill", "How it grinds.", "``` python\na\n```", "Slider(7)\n\n    E: {{ x }}"]
    assert [text for *_, text in told(document)] == texts


def test_reads_unparsable_markup_as_text(tmp_path: Path) -> None:
    document = read_one(write(tmp_path, {"a.tex": "\\begin{mill} The gates are shut.\n"}) / "a.tex")
    assert "The gates are shut." in document.text


# --- hostile files ---------------------------------------------------------------------------------------------------


def test_refuses_broken_or_hostile_word_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is refused with a reason, and the files next to them are read."""
    good = by_pandoc(tmp_path / "z-good.docx").read_bytes()
    for name in ("a-bomb", "b-entity", "h-packed"):
        (tmp_path / f"{name}.docx").write_bytes(good)
    with zipfile.ZipFile(tmp_path / "a-bomb.docx", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/media/x.bin", b"0" * (archive_module.MAX_UNPACKED_BYTES + 1))
    with_part(tmp_path / "b-entity.docx", "word/document.xml", BOMB)
    with zipfile.ZipFile(tmp_path / "c-other.docx", "w") as archive:
        archive.writestr("a.txt", "no word file")
    write(
        tmp_path,
        {
            "d-zip.docx": b"PK\3\4broken",
            "e-old.docx": OLE + b"\0" * 600,
            "f-locked.docx": OLE + b"\0" * 600 + "EncryptedPackage".encode("utf-16-le"),
            "g-cut.docx": good[: len(good) // 2],
            "i-page.docx": "<!DOCTYPE html><p>x",
            "j-pdf.docx": "%PDF-1.4",
            "k-empty.docx": "",
            "m-words.docx": "words",
        },
    )
    content = bytearray((tmp_path / "h-packed.docx").read_bytes())
    with zipfile.ZipFile(tmp_path / "h-packed.docx") as archive:
        part = archive.getinfo("word/document.xml")
    begins = part.header_offset + 30 + len(part.filename)
    content[begins : begins + 20] = b"\xff" * 20  # an invalid block type in the compressed data
    (tmp_path / "h-packed.docx").write_bytes(content)
    (tmp_path / "l-book.docx").write_bytes(by_pandoc(tmp_path / "book.epub").read_bytes())
    (tmp_path / "book.epub").unlink()
    items = list(read_source(tmp_path))
    problems = [str(item) for item in items if isinstance(item, Problem)]
    reasons = (
        "unpacks to", "declares XML entities", "is missing", "broken or cut off", "old format", "asks for a password",
        "broken or cut off", "broken or cut off", "rename it to .html", "rename it to .pdf", "empty",
        "rename it to .epub", "not a Word file",
    )  # fmt: skip
    assert len(problems) == len(reasons)
    for problem, reason in zip(problems, reasons, strict=True):
        assert reason in problem, problem
    assert [item.id for item in items if isinstance(item, Document)] == ["z-good.docx"]


def test_refuses_locked_books_and_documents(tmp_path: Path) -> None:
    book = with_part(by_pandoc(tmp_path / "a.epub"), "META-INF/rights.xml", b"<x/>")
    assert "DRM" in refused(book)
    manifest = b"<m><file-entry><encryption-data/></file-entry></m>"
    text = with_part(by_pandoc(tmp_path / "a.odt"), "META-INF/manifest.xml", manifest)
    assert "password" in refused(text)


def test_pandoc_has_memory_and_time_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.org"
    path.write_text("*" * 3_000_000)
    monkeypatch.setattr(pandoc, "MAX_MEMORY_MEGABYTES", 50)
    with pytest.raises(pandoc.Unreadable, match="GB of memory"):
        pandoc.read_markup(path, path.name, lambda *_: None)
    monkeypatch.setattr(pandoc, "MAX_MEMORY_MEGABYTES", 1200)
    monkeypatch.setattr(pandoc, "MAX_SECONDS", -1.0)
    monkeypatch.setattr(pandoc, "_PROGRESS_INTERVAL_SECONDS", 0.05)
    with pytest.raises(pandoc.Unreadable, match="given up"):
        pandoc.read_markup(path, path.name, lambda *_: None)


def test_pandoc_includes_no_other_file(tmp_path: Path) -> None:
    """A text may include another file. In its sandbox, pandoc cannot read it."""
    write(tmp_path, {"secret.txt": "SECRET-4242"})
    secret = tmp_path / "secret.txt"
    texts = {
        "a.rst": f"Gates\n=====\n\n.. include:: {secret}\n\n.. csv-table::\n   :file: {secret}\n\nThe end.\n",
        "a.tex": f"\\input{{{secret}}} The end.\n",
        "a.org": f"#+INCLUDE: {secret}\n\nThe end.\n",
        "a.adoc": f"include::{secret}[]\n\nThe end.\n",
    }
    write(tmp_path, dict(texts))
    for name in texts:
        (item,) = read_source(tmp_path, include=[name])
        assert "SECRET-4242" not in str(item), name


def test_reports_and_abandons_slow_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.org"
    path.write_text("*" * 40_000_000)
    monkeypatch.setattr(isolation, "MAX_FILE_SECONDS", 2.0)
    monkeypatch.setattr(isolation, "_TELL_INTERVAL_SECONDS", 0.3)
    told_of: list[str] = []
    (problem,) = read_source(path, report=ReadingReport(told_of.append))
    assert "given up after 2 seconds" in str(problem)
    assert len(told_of) >= 3
    assert {*told_of} == {"reading a.org"}
    assert isolation._free.queue[-1].ended


def test_progress_names_the_page() -> None:
    assert isolation._FileProgress("manual.pdf", 120, 1834).describe() == "reading manual.pdf, page 120 of 1,834"


def test_blank_lines_do_not_end_a_list_of_asciidoc(tmp_path: Path) -> None:
    text = (
        "= T\n\n== Steps\n\n. First\n\n. Second\n+\nWith details.\n+\n----\n. code\n\n. code\n----\n\n"
        "// unseen\n. Third\n\nText.\n\n. Another\n\n* inner\n\n* last\n"
    )
    (tmp_path / "a.adoc").write_text(text)
    document = read_one(tmp_path / "a.adoc")
    assert [block.number for block in document.blocks if block.kind == "item"] == [1, 2, 3, 1, None, None]
    assert ". code\n\n" in document.text


def rtf_row(edges: Sequence[int], *cells: str) -> str:
    """Return a row of Rich Text as R's package r2rtf writes it: cells have no mark, and edges tell their width."""
    places = "".join(rf"\clvertalt\cellx{edge}" + "\n" for edge in edges)
    return (
        rf"\trowd\trleft0{places}"
        + "".join(rf"\pard\hyphpar0\qc{{\f0 {cell}}}\cell" for cell in cells)
        + "\\intbl\\row\\pard\n"
    )


def test_rows_of_rich_text_have_a_cell_for_each_column(tmp_path: Path) -> None:
    narrow = (3000, 4000, 5003, 6000, 7000)
    rows = [
        rtf_row((3000, 5000, 7000), "", "Placebo", "Drug"),
        rtf_row(narrow, "Event", "n", "(%)", "n", "(%)"),
        rtf_row((7000,), "Skin"),
        rtf_row(narrow, "Rash", "5", "7.25", "11", "13.92"),
        rtf_row((7000,), r"{\super a}Counted once \\row."),
    ]
    title = r"{\header{\pard Page \chpgn\par}}{\pard\qc{\f0 Adverse Events}\par}"
    text = (
        "Adverse Events\n\n|  | Placebo |  | Drug |  |\n|---|---|---|---|---|\n| Event | n | (%) | n | (%) |\n"
        "| Skin |  |  |  |  |\n| Rash | 5 | 7.25 | 11 | 13.92 |\n\na Counted once \\row.\n"
    )
    for start in (r"\pard\hyphpar0", r"\pard\intbl"):
        content = "".join(rows).replace(r"\pard\hyphpar0", start)
        (tmp_path / "a.rtf").write_text(rf"{{\rtf1\ansi {title}{content}\pard}}")
        assert read_one(tmp_path / "a.rtf").text == text


def test_a_typed_number_of_a_note_of_rich_text_joins_no_word(tmp_path: Path) -> None:
    note = r"{\footnote\pard\plain {\super 1} But not on feasts.}"
    (tmp_path / "a.rtf").write_text(rf"{{\rtf1 Shut at night{{\super 1{note}}} and in 2019{{\super 2}}{note}.\par}}")
    assert read_one(tmp_path / "a.rtf").text == (
        "Shut at night and in 2019.\n\nBut not on feasts.\n\nBut not on feasts.\n"
    )


def test_reads_tables_and_footnotes_of_rich_text_by_pandoc(tmp_path: Path) -> None:
    text = "Shut.[^1]\n\n| Gate | Keys[^2] |\n|---|---|\n| north | iron |\n\nAfter."
    notes = "[^1]: At nine.\n\n[^2]: Of *iron*.\n"
    document = read_one(by_pandoc(tmp_path / "a.rtf", f"{text}\n\n{notes}"))
    assert document.text == ("Shut.\n\nAt nine.\n\n| Gate | Keys (Of iron.) |\n|---|---|\n| north | iron |\n\nAfter.\n")
    (tmp_path / "b.rtf").write_bytes(rb"{\rtf1 Shut.{\*\annotation Why?}}")
    assert "Shut." in read_one(tmp_path / "b.rtf").text
