"""Words of a Word file that pandoc would lose: embedded parts, wrappers, charts, diagrams, boxes, merged cells."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpora.made import book, by_pandoc, paragraph, read_one, replaced, run, with_part, word
from turnmark.corpora.readers.office.word import embedded_blocks

A = "http://schemas.openxmlformats.org/drawingml/2006/main"
CHART = "http://schemas.openxmlformats.org/drawingml/2006/chart"
DIAGRAM = "http://schemas.openxmlformats.org/drawingml/2006/diagram"


@pytest.mark.parametrize(
    "wrapped",
    [
        paragraph(f'<w:dir w:val="rtl">{run("Gate")}</w:dir>'),
        paragraph(f'<w:bdo w:val="rtl">{run("Gate")}</w:bdo>'),
        paragraph(f'<w:customXml w:element="x"><w:customXmlPr/>{run("Gate")}</w:customXml>'),
        f'<w:customXml w:element="x">{paragraph(run("Gate"))}</w:customXml>',
        paragraph(f'<w:smartTag w:element="x"><w:smartTagPr/>{run("Gate")}</w:smartTag>'),
        paragraph(f"<w:sdt><w:sdtPr/><w:sdtContent>{run('Gate')}</w:sdtContent></w:sdt>"),
        f"<w:sdt><w:sdtContent>{paragraph(run('Gate'))}</w:sdtContent></w:sdt>",
        paragraph(f"<w:hyperlink>{run('Gate')}</w:hyperlink>"),
        paragraph(f'<w:hyperlink w:docLocation="x" w:tooltip="y">{run("Gate")}</w:hyperlink>'),
        paragraph(f'<w:hyperlink r:id="r99">{run("Gate")}</w:hyperlink>'),
        paragraph(f'<w:hyperlink w:anchor="x">{run("Gate")}</w:hyperlink>'),
        paragraph(f'<w:dir><w:customXml w:element="x"><w:bdo>{run("Gate")}</w:bdo></w:customXml></w:dir>'),
    ],
)
def test_reads_wrapped_words(tmp_path: Path, wrapped: str) -> None:
    text = read_one(word(tmp_path / "a.docx", paragraph(run("Before.")) + wrapped + paragraph(run("After.")))).text
    assert text == "Before.\n\nGate\n\nAfter.\n"


def test_reads_check_boxes_and_leaves_out_hidden_text(tmp_path: Path) -> None:
    def box(state: str) -> str:
        data = f"<w:ffData><w:checkBox>{state}</w:checkBox></w:ffData>"
        return (
            f'<w:r><w:fldChar w:fldCharType="begin">{data}</w:fldChar></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>'
        )

    hidden = run("Secret. ", "<w:rPr><w:vanish/></w:rPr>")
    body = paragraph(box("<w:checked/>") + run(" yes ") + box('<w:default w:val="0"/>') + run(" no")) + paragraph(
        hidden + run("Shown.")
    )
    document = read_one(word(tmp_path / "a.docx", body))
    assert document.text == "☒ yes ☐ no\n\nShown.\n"
    assert document.left_out == {"hidden text": 1}


@pytest.mark.parametrize(
    ("chosen", "result", "shown"),
    [
        ('<w:result w:val="1"/>', "", "high"),
        ('<w:default w:val="1"/>', "", "high"),
        ('<w:result w:val="1"/>', run("high"), "high"),
        ("", "", "low"),
        ('<w:result w:val="9"/>', "", ""),
    ],
)
def test_reads_chosen_entry_of_a_form_field(tmp_path: Path, chosen: str, result: str, shown: str) -> None:
    entries = '<w:listEntry w:val="low"/><w:listEntry w:val="high"/>'
    field = (
        f'<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:ddList>{chosen}{entries}</w:ddList></w:ffData>'
        "</w:fldChar></w:r><w:r><w:instrText> FORMDROPDOWN </w:instrText></w:r>"
        f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{result}<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )
    assert read_one(word(tmp_path / "a.docx", paragraph(run("Risk: ") + field + run("!")))).text == f"Risk: {shown}!\n"


@pytest.mark.parametrize("kind", ["dropDownList", "comboBox"])
@pytest.mark.parametrize("content", ["", "<w:r><w:t/></w:r>", run("Medium")])
def test_reads_chosen_value_of_a_content_control(tmp_path: Path, kind: str, content: str) -> None:
    items = '<w:listItem w:displayText="Medium" w:value="m"/><w:listItem w:displayText="Large" w:value="l"/>'
    control = (
        f'<w:sdt><w:sdtPr><w:{kind} w:lastValue="m">{items}</w:{kind}></w:sdtPr>'
        "<w:sdtContent>{}</w:sdtContent></w:sdt>"
    )
    body = paragraph(run("Size: ") + control.format(content) + run("!")) + control.format(paragraph(content))
    assert read_one(word(tmp_path / "a.docx", body)).text == "Size: Medium!\n\nMedium\n"


PAGE = (
    "<html><body><h1>Warranty</h1><p>Five years.</p><ul><li>pump</li></ul><table><tr><th>a<th>b<tr><td>1<td>2</table>"
)
MHT = (
    'MIME-Version: 1.0\nContent-Type: multipart/related; boundary="x"\n\n--x\n'
    'Content-Type: text/html; charset="utf-8"\n'
    f"Content-Transfer-Encoding: 8bit\n\n{PAGE}\n--x--\n"
)


@pytest.mark.parametrize(("name", "content"), [("c1.html", PAGE), ("c1.mht", MHT), ("c1.xml", PAGE)])
def test_reads_embedded_pages(tmp_path: Path, name: str, content: str) -> None:
    body = f'{paragraph(run("Before."))}<w:altChunk r:id="c1"/>{paragraph(run("After."))}'
    text = read_one(word(tmp_path / "a.docx", body, {name: content})).text
    assert text == ("Before.\n\n## Warranty\n\nFive years.\n\n• pump\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nAfter.\n")


def test_reads_embedded_word_file_and_text(tmp_path: Path) -> None:
    inner = word(tmp_path / "inner.docx", paragraph(run("Inside.")) + "<w:sectPr/>").read_bytes()
    body = '<w:altChunk r:id="c1"/><w:altChunk r:id="c2"/><w:altChunk r:id="c3"/><w:altChunk r:id="none"/>'
    parts: dict[str, str | bytes] = {"c1.docx": inner, "c2.txt": "One.\nTwo.", "c3.rtf": "{\\rtf1 x}"}
    document = read_one(word(tmp_path / "a.docx", paragraph(run("Before.")) + body, parts))
    assert document.text == "Before.\n\nInside.\n\nOne.\n\nTwo.\n"
    assert document.left_out == {"embedded parts": 2}
    assert embedded_blocks(b"PK broken", "c1.docx") is None


def test_reads_charts_and_diagrams(tmp_path: Path) -> None:
    def points(*values: object) -> str:
        return "".join(f'<c:pt idx="{at}"><c:v>{value}</c:v></c:pt>' for at, value in enumerate(values))

    chart = (
        f'<c:chartSpace xmlns:c="{CHART}" xmlns:a="{A}"><c:chart><c:title>'
        "<a:p><a:r><a:t>Rain</a:t></a:r></a:p></c:title>"
        f"<c:ser><c:tx>{points('Mill')}</c:tx><c:cat><c:multiLvlStrCache><c:lvl>{points('Q1', 'Q2')}</c:lvl>"
        f"<c:lvl>{points('2024')}</c:lvl></c:multiLvlStrCache></c:cat><c:val>{points(4, 5)}</c:val></c:ser>"
        "</c:chart></c:chartSpace>"
    )
    scatter = (
        f'<c:chartSpace xmlns:c="{CHART}"><c:chart><c:ser><c:tx><c:v>Width</c:v></c:tx><c:xVal>{points(1, 2)}</c:xVal>'
        f"<c:yVal>{points(30, 40)}</c:yVal></c:ser></c:chart></c:chartSpace>"
    )
    cx = "http://schemas.microsoft.com/office/drawing/2014/chartex"
    waterfall = (
        f'<cx:chartSpace xmlns:cx="{cx}"><cx:chartData><cx:data><cx:strDim><cx:lvl><cx:pt idx="0">May</cx:pt></cx:lvl>'
        '</cx:strDim><cx:numDim><cx:lvl><cx:pt idx="0">7</cx:pt></cx:lvl></cx:numDim></cx:data></cx:chartData>'
        '<cx:chart><cx:series layoutId="waterfall"/></cx:chart></cx:chartSpace>'
    )
    diagram = (
        f'<d:dataModel xmlns:d="{DIAGRAM}" xmlns:a="{A}"><a:p><a:r><a:t>Look first</a:t></a:r></a:p></d:dataModel>'
    )

    def drawn(name: str, space: str = CHART, tag: str = "chart", attribute: str = "id") -> str:
        return paragraph(f'<w:r><w:drawing><x:{tag} xmlns:x="{space}" r:{attribute}="{name}"/></w:drawing></w:r>')

    body = drawn("chart1") + drawn("chart2") + drawn("chart3", cx) + drawn("data1", DIAGRAM, "relIds", "dm")
    parts: dict[str, str | bytes] = {
        "chart1.xml": chart, "chart2.xml": scatter, "chart3.xml": waterfall, "data1.xml": diagram
    }  # fmt: skip
    assert read_one(word(tmp_path / "a.docx", paragraph(run("Before.")) + body, parts)).text == (
        "Before.\n\n| Rain | Mill |\n|---|---|\n| 2024 Q1 | 4 |\n| 2024 Q2 | 5 |\n\n| Width | Width |\n|---|---|\n"
        "| 1 | 30 |\n| 2 | 40 |\n\n| waterfall | waterfall |\n|---|---|\n| May | 7 |\n\nLook first\n"
    )


def test_completes_rows_below_a_merged_cell(tmp_path: Path) -> None:
    def cell(text: str, properties: str = "") -> str:
        return f"<w:tc><w:tcPr>{properties}</w:tcPr>{paragraph(run(text))}</w:tc>"

    rows = [
        [cell("A"), cell("Both", '<w:vMerge w:val="restart"/>')], [cell("B")], [cell("C"), cell("", "<w:vMerge/>")],
    ]  # fmt: skip
    look = '<w:tblPr><w:tblLook w:firstRow="{first}"/></w:tblPr><w:tblGrid><w:gridCol/><w:gridCol/></w:tblGrid>'
    for first in "01":
        table = "".join(f"<w:tr>{''.join(row)}</w:tr>" for row in rows)
        body = paragraph(run("Before.")) + f"<w:tbl>{look.format(first=first)}{table}</w:tbl>"
        text = read_one(word(tmp_path / f"{first}.docx", body)).text
        assert text == "Before.\n\n| A | Both |\n|---|---|\n| B | Both |\n| C | Both |\n"


def test_reads_first_of_several_dates_of_a_book(tmp_path: Path) -> None:
    path = by_pandoc(tmp_path / "a.epub", "---\ntitle: The Mill\ndate: 2024-03-01\n---\n\n# Gates\n\nShut.\n")
    replaced(path, "EPUB/content.opf", "</dc:date>", '</dc:date><dc:date id="d2">2020-01-01</dc:date>')
    assert read_one(path).date == "2024-03-01"


def test_broken_chart_or_comments_lose_no_text(tmp_path: Path) -> None:
    drawing = f'<w:r><w:drawing><c:chart xmlns:c="{CHART}" r:id="chart1"/></w:drawing></w:r>'
    body = paragraph(run("Before.")) + paragraph(drawing)
    document = read_one(word(tmp_path / "a.docx", body, {"chart1.xml": "<not closed", "comments.xml": "<"}))
    assert document.text == "Before.\n"
    assert document.left_out == {"broken parts": 2}


def _styled(style: str, words: str) -> str:
    return paragraph(f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>{run(words)}')


def test_reads_the_paragraphs_below_the_title_of_a_word_file(tmp_path: Path) -> None:
    body = "".join(
        (
            _styled("Title", "The Mill"), _styled("Title", "Price 4,500 euros"), _styled("Verfasser", "Mira Holm"),
            paragraph(""), _styled("Date", "3 May 2024"), _styled("Abstract", "The roof leaks."),
            paragraph(run("Text.")),
        )
    )  # fmt: skip
    styles = (
        '<w:styles xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
        '<w:style w:type="paragraph" w:styleId="Verfasser"><w:name w:val="Author"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="Title"><w:name w:val="Title"/></w:style></w:styles>'
    )
    document = read_one(word(tmp_path / "a.docx", body, {"styles.xml": styles}))
    assert document.title == "The Mill"
    assert document.text == "Price 4,500 euros\n\nMira Holm\n\n3 May 2024\n\nThe roof leaks.\n\nText.\n"


@pytest.mark.parametrize(("suffix", "authors"), [(".tex", "Ann Bee, Carl Dee"), (".org", "Ann Bee; Carl Dee")])
def test_reads_author_date_and_abstract_of_markup(tmp_path: Path, suffix: str, authors: str) -> None:
    page = (
        "---\ntitle: Mill\nauthor: [Ann Bee, Carl Dee]\ndate: May 2024\nabstract: It leaks.\n---\n\n# Roof\n\nText.\n"
    )
    text = read_one(by_pandoc(tmp_path / f"a{suffix}", page)).text
    assert text == f"{authors}\n\nMay 2024\n\n**Abstract**\n\nIt leaks.\n\n# Roof\n\nText.\n"


def test_reads_what_a_docbook_shows_below_its_title(tmp_path: Path) -> None:
    said = (
        "<author><firstname>Ann</firstname><surname>Bee</surname></author><abstract><para>It leaks.</para></abstract>"
    )
    roof = "<section><title>Roof</title><para>T.</para></section>"
    page = f"<article><info><title>Mill</title>{said}</info>{roof}</article>"
    (tmp_path / "a.dbk").write_text(page)
    assert read_one(tmp_path / "a.dbk").text == "Ann Bee\n\n**Abstract**\n\nIt leaks.\n\n# Roof\n\nT.\n"


def test_reads_the_fields_below_the_title_of_a_restructured_text(tmp_path: Path) -> None:
    (tmp_path / "a.rst").write_text(
        "====\nMill\n====\n\n:Author: Ann Bee\n:Version: 1.7\n:Custom: Field\n\nRoof\n----\n\nT.\n\nGate\n----\n"
    )
    text = read_one(tmp_path / "a.rst").text
    assert text.startswith("Author: Ann Bee\n\nVersion: 1.7\n\nCustom: Field\n\n# Roof")


def test_reads_the_other_pages_of_a_book_with_a_damaged_one(tmp_path: Path) -> None:
    path = book(tmp_path / "a.epub", "<p>The hen is green.</p>")
    listed = '<item id="b" href="b.xhtml" media-type="application/xhtml+xml"/></manifest><spine><itemref idref="b"/>'
    replaced(path, "c.opf", "</manifest><spine>", listed)
    document = read_one(path)
    assert (document.text.strip(), document.left_out) == ("The hen is green.", {"damaged pages": 1})
    with_part(path, "b.xhtml", "<p>Das Café ist schön.</p>".encode("latin-1"))
    assert "Das Café ist schön." in read_one(path).text
    with_part(path, "b.xhtml", bytes(range(256)))
    assert read_one(path).left_out == {"damaged pages": 1}
