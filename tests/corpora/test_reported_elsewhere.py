"""Faults that users of comparable tools reported or that real files showed, each with a small input of its kind."""

from __future__ import annotations

from datetime import datetime
from email.message import EmailMessage
from pathlib import Path

import pytest

from tests.corpora.made import book, paragraph, read_one, run, word, workbook
from turnmark.corpora.readers.markup import html, markdown


@pytest.mark.parametrize(
    ("page", "text"),
    [
        # docling-project/docling#3508: numbers of a list, and lists in the cells of its tables
        (
            "<ol><li>Log in.<li>Set it, see <a href='#t'>Table 1</a>.<table><caption>Table 1</caption><thead><tr>"
            "<th>Name<th>Meaning</thead><tr><td>Kind<td>One of:<ul><li><p>Outage</p><p>For hosts.</p><li>Delay</ul>"
            "</table><li>Save.</ol>",
            "1. Log in.\n2. Set it, see Table 1.\n\n**Table 1**\n\n| Name | Meaning |\n|---|---|\n"
            "| Kind | One of: Outage For hosts. Delay |\n\n3. Save.",
        ),
        # xberg-io/html-to-markdown#486: a row inside a cell
        ("<!-- a --><table><tr><td><tr><td>Visible</td></tr></td></tr></table>", "Visible"),
        # Unstructured-IO/unstructured#2362: inline parts of a sentence
        (
            '<div>shares at $<div style="display:inline;"><span>5.22</span></div> each. More</div><p>After.',
            "shares at $5.22 each. More\n\nAfter.",
        ),
        ('<div style="display:inline-block">a</div>b', "a\n\nb"),
        # The documentation of Node.js shows code for two module systems.
        (
            "<pre><code>import a\nrun(a);</code><code>require(a)\nrun(a);</code></pre>",
            "    import a\n    run(a);\n    \n    require(a)\n    run(a);",
        ),
        ("<pre><code>one</code>\n<code>two</code></pre>", "    one\n    two"),
    ],
)
def test_renders_pages_that_other_tools_read_wrongly(page: str, text: str) -> None:
    assert html.render(page) == text


@pytest.mark.parametrize(
    "text",
    [
        # docling-project/docling#3991, openclaw/gogcli#749: breaks, code and lists in cells
        "| c1 | c2 |\n|---|---|\n| 1 | A_B<br>C_D |\n| `a \\| b` | **x** `y` |\n| n | - a<br>- b |\n",
        # open-webui/open-webui#3415 and Unstructured-IO/unstructured#3309: indented quotations
        "First:\n\n> “Not all”\n\nSecond:\n\n>     “Moonlight”\n\nNumber\n>1\n",
    ],
)
def test_keeps_markdown_that_other_tools_lose(text: str) -> None:
    assert markdown.parse_markdown(text, "x.md").text == text.replace("<br>", " ")


def test_sheet_has_no_invented_names_or_values(tmp_path: Path) -> None:
    """microsoft/markitdown#183, #2124, #2498 and #2516, Unstructured-IO/unstructured#2485."""
    rows = [["PROGRESS"], [], ["Task", None, "Owner", "Status", "Due", "Done"]]
    rows += [["NA", None, "NULL", None, datetime(2026, 1, 5), True], ["nan", None, None, 2, None, False]]
    document = read_one(workbook(tmp_path / "a.xlsx", S=rows, T=[[1, 2, 3], [4, 5, 6], [None, "Total", 7.5]]))
    assert document.text == (
        "## S\n\n### PROGRESS\n\n| Task | Owner | Status | Due | Done |\n|---|---|---|---|---|\n"
        "| NA | NULL |  | 2026-01-05 00:00 | TRUE |\n| nan |  | 2 |  | FALSE |\n\n"
        "## T\n\n|  |  |  |\n|---|---|---|\n| 1 | 2 | 3 |\n| 4 | 5 | 6 |\n|  | Total | 7.5 |\n"
    )


def test_generated_lists_and_inserted_links_of_word_stay(tmp_path: Path) -> None:
    """microsoft/markitdown#1247 and docling-project/docling#1586: words that a field collects."""

    def field(kind: str) -> str:
        return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'

    code = '<w:r><w:instrText> TOC \\n \\h \\z \\t "Proposal" \\c </w:instrText></w:r>'
    first = f'<w:hyperlink w:anchor="a">{run("Proposal 1: Support it.")}</w:hyperlink>'
    second = f'<w:ins w:id="1"><w:hyperlink w:anchor="b">{run("Proposal 2: Drop it.")}</w:hyperlink></w:ins>'
    body = paragraph(field("begin") + code + field("separate") + first) + paragraph(second + field("end"))
    text = read_one(word(tmp_path / "a.docx", paragraph(run("Before.")) + body)).text
    assert text == "Before.\n\nProposal 1: Support it.\n\nProposal 2: Drop it.\n"


def test_code_and_chapters_in_named_sections_of_a_book_stay(tmp_path: Path) -> None:
    page = (
        '<div class="highlight-sh"><div class="highlight"><pre>make all</pre></div></div>'
        '<section class="index"><h2>Ports</h2><p>Port 80 is open.</p><p>Port 22 is shut.</p></section>'
        '<div class="toc"><p>Contents</p><p><a href="#a">A</a></p><p><a href="#b">B</a></p></div>'
    )
    text = read_one(book(tmp_path / "a.epub", page)).text
    assert text == "    make all\n\n## Ports\n\nPort 80 is open.\n\nPort 22 is shut.\n"


def test_empty_items_and_numbers_in_parentheses(tmp_path: Path) -> None:
    page = "<p>(000) 000 is the number.</p><ul><li></li><li>mail</li><li> </li></ul><ul><li></li></ul><p>(a) End.</p>"
    text = read_one(book(tmp_path / "a.epub", page)).text
    assert text == "(000) 000 is the number.\n\n- mail\n\n(a) End.\n"


def test_counts_comments_of_sheets(tmp_path: Path) -> None:
    import openpyxl
    from openpyxl.comments import Comment

    book = openpyxl.Workbook()
    book.active["A1"] = "Gate"
    book.active["A1"].comment = Comment("Check this.", "Ann")
    book.save(tmp_path / "a.xlsx")
    document = read_one(tmp_path / "a.xlsx")
    assert document.text == "## Sheet\n\nGate\n"
    assert document.left_out == {"comments": 1}


def test_struck_text_is_told_from_current_text(tmp_path: Path) -> None:
    """microsoft/markitdown#2340 and Unstructured-IO/unstructured#3850."""
    style = '<span style="text-decoration:line-through">100</span>'
    for struck in ("<s>100</s>", "<del>100 </del>", "<strike>100</strike>", style):
        assert html.render(f"<p>The fee is {struck} 150 euros.") == "The fee is ~~100~~ 150 euros."
    assert html.render("<del><p>Old.</p></del><ins><p>New.</p></ins>") == "Old.\n\nNew."
    body = paragraph(run("The fee is ") + run("100", "<w:rPr><w:strike/></w:rPr>") + run(" 150 euros, ~5."))
    assert read_one(word(tmp_path / "a.docx", body)).text == "The fee is ~~100~~ 150 euros, ~5.\n"


def test_reads_mail_that_is_only_an_invitation(tmp_path: Path) -> None:
    message = EmailMessage()
    message["From"], message["Subject"] = "a@example.org", "Invitation"
    event = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:The gates\n  open\n"
    event += "DTSTART:20240305T090000\nLOCATION:Mill\nEND:VEVENT\n"
    message.set_content(event, subtype="calendar")
    (tmp_path / "a.eml").write_bytes(bytes(message))
    text = "# Invitation\n\nFrom: a@example.org\n\n## The gates open\n\n- Start: 2024-03-05 09:00\n- Location: Mill"
    assert read_one(tmp_path / "a.eml").text.strip() == text


def test_struck_words_are_marked_in_word_and_in_html_inside_markdown(tmp_path: Path) -> None:
    struck, double = "<w:rPr><w:strike/></w:rPr>", "<w:rPr><w:dstrike/></w:rPr>"
    fees = run("Fee ") + run("80", struck) + run(" 95, deposit ") + run("20", double) + run(" 30.")
    assert read_one(word(tmp_path / "a.docx", paragraph(fees))).text == "Fee ~~80~~ 95, deposit ~~20~~ 30.\n"
    (tmp_path / "a.md").write_text("Fee <del>80</del> 95, deposit <s>20</s> 30. The <s> tag strikes.\n")
    assert read_one(tmp_path / "a.md").text == "Fee ~~80~~ 95, deposit ~~20~~ 30. The \\<s> tag strikes.\n"


def test_foot_of_a_table_is_its_last_row(tmp_path: Path) -> None:
    rows = "<tbody><tr><td>Iron</td><td>3</td></tr><tr><td>Zinc</td><td>4</td></tr></tbody>"
    head = "<thead><tr><th>Ware</th><th>Price</th></tr></thead><tfoot><tr><td>Sum</td><td>7</td></tr></tfoot>"
    (tmp_path / "a.html").write_text(f"<table>{head}{rows}</table>")
    assert read_one(tmp_path / "a.html").text.split("\n")[2:5] == ["| Iron | 3 |", "| Zinc | 4 |", "| Sum | 7 |"]
