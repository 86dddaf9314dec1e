"""Markdown and HTML pages without metadata, site syntax, link targets and navigation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnmark.corpora.chunking import chunk, regex_tokens
from turnmark.corpora.readers.common.prose import split_front_matter
from turnmark.corpora.readers.markup import html, markdown

PAGE = """---
title: "Get reimbursed"
tags: [money, travel]
redirect_from:
  - /old/page
---
<!-- overview -->
[Home](/) > [Travel](/t) > Get reimbursed

## After your trip {#after .big}

Read {{ page.title }} the guide, e.g. the [U.S. rates](https://gsa.gov/a.b) and [forms][f], within 30 days. Ask
[Dr. Bee](mailto:b@x.org) if **unsure**.

[f]: http://example.org "T"

!!! warning "Save your receipts."

1. Open [Concur](https://c).
2. Press <kbd>Send</kbd>.

[Back to top](#top)
"""


def test_reads_page_of_a_site_generator() -> None:
    document = markdown.parse_markdown(PAGE, "travel/index.md")
    assert document.title == "Get reimbursed"
    assert document.text == (
        "- tags: money, travel\n\n## After your trip\n\n"
        "Read the guide, e.g. the U.S. rates and forms, within 30 days. Ask\nDr. Bee if **unsure**.\n\n"
        "**Warning: Save your receipts.**\n\n1. Open Concur.\n2. Press Send.\n"
    )
    (passage,) = chunk(document, regex_tokens)
    assert passage.indexed_text.startswith("Get reimbursed\n- tags: money, travel\n\n## After your trip\n")


@pytest.mark.parametrize(
    ("text", "title", "body"),
    [
        ("---\ntitle: Travel: before you go  # draft\n---\nx", "Travel: before you go", "x"),
        ("---\ntitle: 'It''s \"here\"'\nlayout: y\n---\n\nx", 'It\'s "here"', "x"),
        ('---\n"title": "A \\"b\\""\n---\nx', 'A "b"', "x"),
        ("---\ntitle: >-\n  Two\n  lines\ntags:\n- a\n---\nx", "Two lines", "x"),
        ("---\n# no title\n\nnav_order: 1\n...\nx", "", "x"),
        ('+++\ntitle = "Toml"\ndate = 2020-01-01\n[menu]\n+++\nx', "Toml", "x"),
        ("---\n---\nx", "", "x"),
        ("---\nA line of prose\n---\nx", "", "---\nA line of prose\n---\nx"),
        ("---\ntitle: never closed\n", "", "---\ntitle: never closed\n"),
        ("text\n---\ntitle: x\n---\n", "", "text\n---\ntitle: x\n---\n"),
    ],
)
def test_reads_front_matter(text: str, title: str, body: str) -> None:
    front, behind = split_front_matter(text)
    assert (front.title, behind) == (title, body)


@pytest.mark.parametrize(
    ("lines", "date"),
    [
        ("date: 2024-03-01 10:00:00 +0100\nlast_modified: '2025-02-03T08:00:00Z'", "2025-02-03"),
        ("updated: March 2024  # roughly", "March 2024"),
        ("title: x\ndate:", ""),
        ("update: 2024-03-01", ""),
    ],
)
def test_reads_date_of_a_page(lines: str, date: str) -> None:
    document = markdown.parse_markdown(f"---\n{lines}\n---\n# T\n\nText.", "x.md")
    assert document.date == date
    assert [passage.date for passage in chunk(document, regex_tokens)] == [date]
    page = '<meta property="article:modified_time" content="2025-02-03T08:00:00Z"><p>x'
    assert html.parse_html(page, "x.html").date == "2025-02-03"


def test_front_matter_title_precedes_the_heading() -> None:
    text = "---\ntitle: Leave\n---\n# Time off\n\n## Sick\n\nCall in. " + "Then rest well. " * 9
    document = markdown.parse_markdown(text, "x.md")
    assert document.title == "Leave"
    assert chunk(document, regex_tokens, 16)[-1].section == "Time off › Sick (continued)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{% if lang == "British English" %}\nShown.\n{% endif %}', "Shown."),
        ('[form]({% link _a/b.md %}) [guide]({{ site.url }}/x "T")', "form guide"),
        ("Use `{{ a }}` and `[b](c)`.", "Use `{{ a }}` and `[b](c)`."),
        ("```\n{% a %}\n[b](c)\n```", "```\n{% a %}\n[b](c)\n```"),
        ('{% icon "check" %}{% include nav.html id="main" %}{% include "a" %}{% css "a/b.c" %}x', "x"),
        # words in tags
        ('drop into {% slack_channel "admins-github" %} and explain', "drop into admins-github and explain"),
        ('- {% channel\n    "help"\n    "The help desk" %}', "- help The help desk"),
        ('{%- alert "Don\'t forget", "error" "slim" -%}\n  The form.\n{% endalert %}', "Don't forget\n\n  The form."),
        ('{{% callout "Note" "blue" %}}\nBody.', "Note\n\nBody."),
        ('{% tabs %}\n{% tab title="Node.js" %}\nRun it.', "Node.js\n\nRun it."),
        ('{{< tab "Linux" >}} {{< tab name="Java/Android" >}} {{< tab "参数" >}}', "Linux Java/Android 参数"),
        ('A {{< glossary_tooltip text="pod" term_id="the pod" >}} runs.', "A pod runs."),
        (
            '{% include alert.html type="warning" text="Ask <a href=\'/x\'>Bee</a>, \\"first\\"." %}',
            'Ask Bee, "first".',
        ),
        ('{{< figure src="a b.png" class="wide one" caption="Two boards" width="300 px" >}}', "Two boards"),
        ('{% image "a.png", "A person writes", "(max-width: 480px) 160px" %}', "A person writes"),
        (
            '[form]({% page "forms" %}) <a href="{% url \'home page\' %}">Go</a> https://x/{{< version "one" >}}/y',
            "form Go https://x//y",
        ),
        ('{% callout "info", "md" %}{{< param "NAME" >}}{{< tabs "an_id" >}}{% embed url="https://a.b" %}x', "x"),
        ('{{< x "a/b.yaml" >}}{{< x "300x" >}}{{< new-in "0.97.0" >}}{% assign a = "Some words" %}x', "x"),
        # Python-Markdown, GitHub
        ("Text.\n{: .note #a}", "Text."),
        ("## Head {#id .c}", "## Head"),
        ('Press ++ctrl+"Open file"++ in C++. i++;j++', "Press ctrl+Open file in C++. i++;j++"),
        ('Look: ![x](a.png){ loading=lazy role="img" } [b](c){ .md-button } f{x=1}', "Look: x b f{x=1}"),
        ("Since [PEP 665][] and [alpha][beta] a[i][j]", "Since [PEP 665][] and [alpha][beta] a[i][j]"),
        ("-   :material-web:{ .lg } __Web__\n\n    [:octicons-arrow-24: See](a.md)", "-   __Web__\n\n    See"),
        (
            '!!! note "Mind the gap"\n\n    Body.\n\n    - item\n\nAfter',
            "**Note: Mind the gap**\n\nBody.\n\n- item\n\nAfter",
        ),
        (":::tip Did you know\n\nBody.\n\n:::", "**Tip: Did you know**\n\nBody."),
        ("See [[My-Page|it]], [[My-Other]] and ![[a.png]].", "See it, My Other and ."),
        ("> [!NOTE]\n> Alert.", "> **Note**\n>\n> Alert."),
        ("<Tabs><TabItem value='a'>\n\nInside.\n\n</TabItem></Tabs>", "Inside."),
        # links, images, HTML
        ("[Read it](../A file.md), [b] (https://x/c_d) and [c](d)", "Read it, b and c"),
        ("| a |\n|---|\n| <ul><li>x</li><li>y</li></ul> |", "| a |\n|---|\n| x y |"),
        ("[a][b], [b][], [b], <http://x>\n\n[b]: http://y\n[B]: z", "a, b, b, http://x"),
        ("![Alt words](a.png) ![](b.png)", "Alt words"),
        ("[![Build](a)](b) [![npm](c)](d)\n\nText.", "Text."),
        ("Line[^1].\n\n[^1]: A [note](x) here.", "Line.\n\nA note here."),
        ("a<br>b <b>c</b> <!-- d --> <your name> &lt;e&gt; \\*f\\*", "a b c <your name> \\<e> \\*f\\*"),
        ("3 × 10<sup>8</sup> m/s on 4 m<sup>2</sup>", "3 × 10^8 m/s on 4 m2"),
        ("<details>\n<summary>More</summary>\n\nHidden.\n\n</details>", "More\n\nHidden."),
        ("| a | b |\n|---|---|\n| [x](y) | 1<br>2 \\| 3 |", "| a | b |\n|---|---|\n| x | 1 2 \\| 3 |"),
        (
            "- x\n\n  |  a | b |\n  |----|:----:|\n  | 1     | `2 \\| 3`  |",
            "- x\n\n  | a | b |\n  |---|:---:|\n  | 1 | `2 \\| 3` |",
        ),
        ("1. One [a](b)\n\n   two\n   - [c](d) e", "1. One a\n\n   two\n   - c e"),
        # navigation; but a list of links may be the content of a page
        ("# T\n\n- [A](#a)\n  - [B](#b)\n\n## A", "# T\n\n## A"),
        ("- [A](a.md)\n- [B](b.md)", "- A\n- B"),
        ("[← Previous](a) | [Next →](b)\n\nText.", "Text."),
        ("[Edit this page](a)\n\nText.\n\n[Back to top](#)", "Text."),
    ],
)
def test_removes_site_syntax_and_link_targets(text: str, expected: str) -> None:
    assert markdown.parse_markdown(f"---\ntitle: T\n---\n{text}", "x.md").text.strip() == expected


@pytest.mark.parametrize(
    "text",
    [
        "If a<b and c>d then stop; List<String>, Map<K, List<Integer>>, std::vector<std::string> and <T>.",
        "Press <ENTER> then <Ctrl-C> or <Tab>. Type <yes|no>, <5 mg; git clone <url>.",
        "Write <timeout>30</timeout>, <!DOCTYPE html> and <?php echo 1 ?>.",
        "Use === instead of ==, and !== instead of !=. We say x==1, y==2; low == good, high == bad.",
        "=== Network ===\nText right below.",
        "Use ++i or i++. Svelte has {#if user}. To quit press ^C",
        "if [[ -f file ]]; then [alpha][beta]; {{ name }} is a variable.",
        "| Type |\n|---|\n| Optional<User> |\n| <Esc> |",
    ],
)
def test_keeps_signs_that_only_look_like_markup(text: str) -> None:
    assert markdown.parse_markdown(f"# Page\n\n{text}\n", "x.md").text == f"# Page\n\n{text}\n"


def test_keeps_the_names_of_tags_and_removes_the_tags_that_are_markup() -> None:
    text = "the <script> tag, <b>bold</b>, <kbd>C</kbd>, <Badge text='x'/>\n\n<Card>\n\nIn it.\n\n</Card>\n\n<ENTER>\n"
    shown = "the \\<script> tag, bold, C,\n\nIn it.\n\n<ENTER>\n"
    assert markdown.parse_markdown(text, "x.md").text.replace(", \n", ",\n") == shown


def test_keeps_the_words_of_a_line_that_looks_like_the_marker_of_a_box() -> None:
    text = markdown.parse_markdown("!!! Do not open !!!\n\n::: Important: hot\n\n:::note Colon\n", "x.md").text
    assert text == "**Do not open !!!**\n\n**Important: hot**\n\n**Note: Colon**\n"


def test_removes_navigation_of_html_pages() -> None:
    page = """<title>5. Leave — Handbook</title><div id="banner">Download</div>
    <div class="related" role="navigation"><a>next</a></div><ul class="docnav"><li>Prev</ul>
    <main><header><h1>5. Leave<a class="headerlink" href="#x">¶</a></h1></header>
    <aside class="note">Ask first.</aside><aside>Related</aside><p>Take it.<a href="#f" class="footnote-reference">1</a>
    </main><div class="navfooter">Up</div>"""
    document = html.parse_html(page, "p.html")
    assert (document.title, document.text) == ("5. Leave", "# 5. Leave\n\nAsk first.\n\nTake it.")


def test_footnote_of_sphinx_has_no_empty_brackets() -> None:
    page = """<h1>T</h1><p>Write it<a class="footnote-reference brackets" href="#id2" role="doc-noteref">
    <span class="fn-bracket">[</span>1<span class="fn-bracket">]</span></a> today.</p>
    <aside class="footnote brackets" id="id2">
    <span class="label"><span class="fn-bracket">[</span><a role="doc-backlink" href="#id1">1</a>
    <span class="fn-bracket">]</span></span><p>By hand.</p></aside>"""
    assert html.parse_html(page, "p.html").text == "# T\n\nWrite it today.\n\nBy hand."


def test_title_of_a_box_is_a_bold_line() -> None:
    page = '<h1>T</h1><div><p class="title"><b>CULTURE</b> Its *name*</p><p>It is old.</p></div><p>More.</p>'
    assert html.parse_html(page, "p.html").text == "# T\n\n**CULTURE Its name**\n\nIt is old.\n\nMore."


_MARKS = """--- +++ title: # ## - 1. > | ``` ~~~ ` * ** [ ] ( ) ![ ]( [a](b) [a][b] [b]: <a> </a> <!-- --> <b <http://x>
    {{ }} {% %} {{< >}} {: } {#a} {.b} "Some_words" !!! ??? ::: [^1] [^1]: [[ ]] a. e.g. \\ & &amp; {%highlight%} {note}
    {%a"b"%} {{<a"b">}} : :a: <nav> <details> {%comment%} {%endcomment%} [!NOTE] import export {/* */} 步骤 。"""
_PIECES = st.sampled_from([*_MARKS.split(), "\n", "\n\n", " ", "    ", "\t", "words and words", "\n- [a](#b)"])


@settings(deadline=None, max_examples=300)
@given(st.lists(_PIECES, max_size=40).map("".join))
def test_reads_any_page(text: str) -> None:
    document = markdown.parse_markdown(text, "x.md")
    end = 0
    for block in document.blocks:
        assert end <= block.start < block.end <= len(document.text)
        assert document.text[block.start : block.end].strip()
        end = block.end


_SOUND = st.sampled_from([
    "# Head\n\n", "Words with [a link](b).\n\n", "- item [x][y]\n", "[y]: http://z\n\n", "![Alt words](i.png)\n\n",
    "> quote\n\n", "{% if a %}\n", "{{< b >}} \n", '{% note "Two words" %}\n', 'Take {{< tab "one" >}} now.\n\n',
    "<div>\n<p>text</p>\n</div>\n\n",
    "```\n{{ code }}\n\n\n[a](b)\n```\n\n", "!!! note\n    Body\n\n", "| a | [b](c) |\n|---|---|\n| 1 | 2 |\n\n",
    "\\*escaped\\* \\[x\\](y)\n\n", "1. one\n\n   two `c`\n\n", "**bold** <your name>\n\n",
])  # fmt: skip


@settings(deadline=None, max_examples=200)
@given(st.lists(_SOUND, max_size=12).map("".join))
def test_reading_the_result_again_changes_nothing(text: str) -> None:
    text_before = markdown.parse_markdown(text, "x.md").text
    assert "](i" not in text_before
    assert "{%" not in text_before
    assert markdown.parse_markdown(text_before, "x.md").text == text_before


@pytest.mark.parametrize("length", [40, 30_000])
def test_removes_pictures_in_data_uris(length: int) -> None:
    data = "iVBORw0KGgo/" * (length // 12)
    text = (
        f"Sales ![the chart of sales](data:image/png;base64,{data}) rose.\n\n"
        f"<img alt='A red door' src=\"data:image/jpeg;base64,{data}=\"> It opened.\n\n"
        f"[![logo](<data:image/svg+xml;base64,{data}>)](https://x.org) Ask [us](data:text/html,{data}).\n\n"
        f"![plan](data:image/svg+xml,%3Csvg%20transform='x(1)'{data}) Done (data:a/b is a prefix).\n"
    )
    for width in (64, 76):  # data over several lines
        lines = "\n".join(("iVBORw0KGgo/AB+Z" * 5)[:width] for _ in range(400))
        text += f"\nThe door ![red](data:image/png;base64,{lines}\nAAcd==) opens.\n\n"
        text += f"It shut. <img alt='A lamp' src=\"data:image/png;base64,\n{lines}\"> Then night came.\n"
    document = markdown.parse_markdown(text, "a.md")
    assert "iVBOR" not in document.text
    assert "data-uri" not in document.text
    words = "Sales the chart of sales rose.", "Done (data:a/b is a prefix).", "The door red opens.", "Then night came."
    assert [document.text.count(each) for each in words] == [1, 1, 2, 2]


@pytest.mark.parametrize(("text", "title"), [("## A\n\nx\n\n# B\n\ny\n\n## C\n", "my page"), ("x\n\n# B\n\ny\n", "B")])
def test_heading_of_level_1_in_the_middle_is_not_the_title(text: str, title: str) -> None:
    assert markdown.parse_markdown(text, "my-page.md").title == title


def test_thematic_breaks_are_no_text() -> None:
    text = "# Tea\n\nOne.\n\n-----\n\n- a\n\n    ***\n\n    b\n\nc | d\n--|--\ne | f\n"
    assert (
        markdown.parse_markdown(text, "a.md").text
        == "# Tea\n\nOne.\n\n- a\n\n    b\n\n| c | d |\n|---|---|\n| e | f |\n"
    )


def test_table_of_badges_and_a_logo_are_no_text() -> None:
    badge = "[![CI - Test](https://x.org/badge.svg){ loading=lazy }](https://x.org/ci)"
    table = f"| | |\n| --- | --- |\n| CI/CD | {badge} {badge} |\n| Docs | {badge} |\n"
    text = f"# Hatch\n\n![Hatch logo](logo.svg)\n\n{table}\nHatch is a project manager.\n"
    assert markdown.parse_markdown(text, "a.md").text == "# Hatch\n\nHatch is a project manager.\n"
    kept = f"| | |\n| --- | --- |\n| CI/CD | {badge} |\n| License | MIT |\n"
    assert "| License | MIT |" in markdown.parse_markdown(f"# Hatch\n\n{kept}", "a.md").text
    assert "the chart of sales" in markdown.parse_markdown("![the chart of sales](a.png)\n", "a.md").text
