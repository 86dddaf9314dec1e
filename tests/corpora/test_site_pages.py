"""Pages of Obsidian, MkDocs, Docusaurus and GitHub: comments, boxes, footnotes, front matter, MDX, entities."""

from __future__ import annotations

import pytest

from turnmark.corpora.readers.markup import html, markdown


def body(text: str, name: str = "x.md") -> str:
    return markdown.parse_markdown(text, name).text.strip()


@pytest.mark.parametrize(
    ("text", "read"),
    [
        # comments
        ("Feed it %%buy rye%% daily.", "Feed it daily."),
        ("%%\nPrivate.\n\nMore.\n%%\n\nShown.", "Shown."),
        ("%%one\ntwo%%\n\nShown.", "Shown."),
        ("Take 100%% of it and 50%% more.", "Take 100%% of it and 50%% more."),
        ("`%%a%%` and %%time or %%timeit", "`%%a%%` and %%time or %%timeit"),
        ("```\n%%a%%\n```", "```\n%%a%%\n```"),
        ("A {/* unseen */}word.", "A word."),
        # highlights, block ids, wiki links
        ("The ==starter== is fed. ^block1", "The starter is fed."),
        ("If a == b and c == d, `x ==y==`", "If a == b and c == d, `x ==y==`"),
        ("See [[#Gas ovens]] and [[Ovens#Gas|the oven]].", "See Gas ovens and the oven."),
        ("| a | b |\n|---|---|\n| 1 | [[Rye\\|rye]] |", "| a | b |\n|---|---|\n| 1 | rye |"),
        # boxes
        ("!!! warning\n\n    Hot.", "**Warning**\n\nHot."),
        ('!!! note "Hinweis"\n    Hot.', "**Hinweis**\n\nHot."),
        ('!!! warning "注意"\n    Hot.', "**注意**\n\nHot."),
        ('??? note "Mind it"\n    Hot.', "**Note: Mind it**\n\nHot."),
        ('!!! warning ""\n    Hot.', "Hot."),
        ('!!! danger "Danger ahead"\n    Hot.', "**Danger ahead**\n\nHot."),
        ("> [!WARNING]\n> Hot.", "> **Warning**\n>\n> Hot."),
        ("> [!faq]- Why?\n> So.", "> **FAQ: Why?**\n>\n> So."),
        (":::tip[Try it]\nHot.\n:::", "**Tip: Try it**\n\nHot."),
        ("::::info\nHot.\n::::", "**Info**\n\nHot."),
        ("::: {.callout-note}\nHot.\n:::", "**Note**\n\nHot."),
        ("::: {.column width=50%}\nHot.\n:::", "Hot."),
        # headings
        ("## Ports {#ports-1}\n\nx", "## Ports\n\nx"),
        ("## Über {#über .big}\n\nx", "## Über\n\nx"),
        ("## Ports {#1-ports}\n\nx", "## Ports\n\nx"),
        ("## Ports { .unnumbered } ##\n\nx", "## Ports\n\nx"),
        ("## Sets {a, b}\n\nx", "## Sets {a, b}\n\nx"),
        # entities
        ("Fish &amp; chips&nbsp;&mdash; 5&deg;, &copy; 2024", "Fish & chips — 5°, © 2024"),
        ("# Fish &amp; chips\n\nx", "# Fish & chips\n\nx"),
        ("| a |  b |\n|---|---|\n| x&#124;y | &euro;5 |", "| a | b |\n|---|---|\n| x\\|y | €5 |"),
        ("`&amp;` and &amp;lt; and &lt;b&gt; and AT&T", "`&amp;` and &amp;lt; and \\<b> and AT&T"),
    ],
)
def test_reads_what_a_site_generator_shows(text: str, read: str) -> None:
    assert body(f"---\ntitle: T\n---\n{text}") == read
    assert body(f"---\ntitle: T\n---\n{read}") == read


def test_counts_comments() -> None:
    document = markdown.parse_markdown("a <!-- b --> c %%d%% e", "x.md")
    assert document.left_out == {"comments": 2}


def test_fields_of_the_front_matter_are_searched() -> None:
    text = (
        "---\ntitle: T\naliases: [starter, 'le vain', /old/path]\ntags:\n  - baking\n- bread\nowner: \"[[Mira]]\"\n"
        "status: active # now\nlayout: page\nauthors:\n  - name: x\n---\n# Sourdough\n\nFeed it."
    )
    assert body(text) == (
        "# Sourdough\n\n- aliases: starter, le vain\n- tags: baking, bread\n- owner: Mira\n- status: active\n\nFeed it."
    )


def test_leaves_out_the_javascript_of_mdx() -> None:
    text = (
        "import Tabs from '@theme/Tabs';\nimport {\n  A,\n  B\n} from \"x\"\n\nexport const version = '2.4';\n"
        "export function f() {\n  return 1;\n}\n\nVersion {version} {props.x}runs.\n\n<Tabs>\n"
        '<TabItem value="a" label="Linux">\n\n```js\nimport x from "y"\n```\n\n</TabItem>\n</Tabs>\n\n'
        '<Admonition type="info">Open port 80.</Admonition>\n\nimport the key from the "store" first.\n'
    )
    shown = (
        '**Linux**\n\n```js\nimport x from "y"\n```\n\n**Info**\n\nOpen port 80.\n\n'
        'import the key from the "store" first.'
    )
    assert body(text, "x.mdx") == f"Version 2.4 runs.\n\n{shown}"
    assert body(text).endswith(f"Version {{version}} {{props.x}}runs.\n\n{shown}")
    assert "import Tabs" not in body(text)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        # pictures
        ('<img src="x.png" alt="The flow of water" />', "The flow of water"),
        ("<img src={useBaseUrl('/x.png')} alt=\"The red pump\" width={200}/>", "The red pump"),
        ('A <img src={x} alt="red pump"/> here.', "A red pump here."),
        ('<Image src={pic} alt={"The old mill"} width={300} />', "The old mill"),
        (
            '<figure>\n<img\n  src={require("./z.png").default}\n  alt="A pump"\n/>\n'
            "<figcaption>B c</figcaption>\n</figure>",
            "A pump\n\nB c",
        ),
        ('<img src={x} alt="logo" />\n\nText.', "Text."),
        # tabs
        (
            "<Tabs items={['npm', 'yarn']}>\n<Tab>One.</Tab>\n<Tab>Two.</Tab>\n</Tabs>",
            "**npm**\n\nOne.\n\n**yarn**\n\nTwo.",
        ),
        (
            '<Tabs items={["Linux", "macOS"]}>\n<Tabs.Tab>\n\n```sh\napt\n```\n\n</Tabs.Tab>\n'
            "<Tabs.Tab>Two.</Tabs.Tab>\n</Tabs>",
            "**Linux**\n\n```sh\napt\n```\n\n**macOS**\n\nTwo.",
        ),
        (
            "<Tabs values={[\n  {label: 'Mac', value: 'm'},\n  {label: 'Win', value: 'w'},\n]}>\n"
            '<TabItem value="w">One.</TabItem>\n<TabItem value="m">Two.</TabItem>\n</Tabs>',
            "**Win**\n\nOne.\n\n**Mac**\n\nTwo.",
        ),
        ("<Tab title={`Ruby`}>gem</Tab>", "**Ruby**\n\ngem"),
        # other tags and expressions
        ('<Card title="Fast" icon={<Rocket />} href="/x">Quick.</Card>', "**Fast**\n\nQuick."),
        ("<Foo a={{b: [1, 2]}} render={() => <b>x</b>}>Inside.</Foo>", "Inside."),
        ("<div style={{textAlign: 'center'}}>\n\nCentered.\n\n</div>", "Centered."),
        ("<Steps>\n### First\nDo it.\n</Steps>", "### First\nDo it."),
        ("Say {'hello'}{' '}to {`all`}. {items.map(i => <li key={i}>{i}</li>)}", "Say hello to all."),
        (
            "Use `<Tabs items={['a']}>` and $\\frac{a}{b}$ if a < b.",
            "Use `<Tabs items={['a']}>` and $\\frac{a}{b}$ if a < b.",
        ),
    ],
)
def test_components_of_mdx_leave_their_words(text: str, read: str) -> None:
    assert body(text, "x.mdx") == read


def test_tags_that_markdown_does_not_know_leave_their_words_in_markdown() -> None:
    assert body("<Tabs items={['npm']}>\n<Tab>One.</Tab>\n</Tabs>") == "**npm**\n\nOne."
    assert body('A <img src={x} alt="red pump"/> for <System.String> and {name}.') == (
        "A red pump for <System.String> and {name}."
    )


def test_footnotes_follow_what_refers_to_them() -> None:
    text = (
        "# A\n\nTwo years.[^1] Limited.\n\n- item[^4]\n- next\n\n| a | b |\n|---|---|\n| x[^5] | y |\n\n> said[^6]\n\n"
        "# B[^7]\n\nSalted^[with salt] `[^1]`.\n\n"
        "[^1]: It covers:\n\n    - seals\n    - hoses[^8]\n\n[^3]: Nobody's.\n\n"
        "[^4]: Item note\nthat goes on.\n[^5]: Cell | note.\n[^6]: Quoted note.\n[^7]:\n    | c | d |\n    |---|---|\n"
        "    | 1 | 2 |\n\n[^8]: Of rubber.\n"
    )
    assert body(text) == (
        "# A\n\nTwo years. Limited.\n\nIt covers:\n\n- seals\n- hoses\n\nOf rubber.\n\n- item\n\n  Item note\n"
        "  that goes on.\n\n- next\n\n| a | b |\n|---|---|\n| x (Cell \\| note.) | y |\n\n> said\n>\n> Quoted note.\n"
        "\n# B\n\n| c | d |\n|---|---|\n| 1 | 2 |\n\nSalted (with salt) `[^1]`.\n\nNobody's."
    )


# --- tables of HTML pages --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("<pre>timeout = 45\nport = 1</pre>", "timeout = 45 port = 1"),
        ("See <pre>a</pre>then", "See a then"),
        ("<ul><li>mail</li><li>chat</li></ul>", "mail; chat"),
        ("<p>Only:</p><ol><li>mail.</li><li>chat</li></ol>", "Only: mail. chat"),
        ("<dl><dt>x</dt><dd>one</dd><dt>y</dt><dd>two</dd></dl>", "x: one; y: two"),
        ("<h3>Basic</h3><p>small</p>", "Basic small"),
        ("<blockquote>Never<br>again</blockquote>", "Never again"),
        ("<table><tr><td>users<td>5<tr><td>storage<td>1 GB</table>", "users: 5; storage: 1 GB"),
        ("<table><tr><th>a<th>b<th>c<tr><td>1<td>2<td>3</table>", "a, b, c; 1, 2, 3"),
    ],
)
def test_cell_with_blocks_stays_in_its_table(cell: str, words: str) -> None:
    for name in ("th", "td"):
        head = "".join(f"<{name}>{column}</{name}>" for column in ("Plan", "Price", "Notes"))
        page = f"<table><tr>{head}</tr><tr><td>A<td>10<td>{cell}</tr><tr><td>B<td>25<td>none</tr></table><p>After."
        expected = f"| Plan | Price | Notes |\n|---|---|---|\n| A | 10 | {words} |\n| B | 25 | none |\n\nAfter."
        assert html.render(page) == expected
        assert body(page) == expected


def test_tables_that_lay_out_a_page_are_not_data() -> None:
    page = (
        "<table><tr><td>Home<td>Shop</tr><tr><td><ul><li>News</ul><td><h1>Pumps</h1><table><tr><th>Size<th>Price"
        "<tr><td>small<td>10</table></tr></table>"
    )
    assert "# Pumps\n\n| Size | Price |\n|---|---|\n| small | 10 |" in html.render(page)
    long = f"<table><tr><td>Left<td>Right<tr><td><ul><li>{'word ' * 200}</ul><td>x</table>"
    assert "|" not in html.render(long)
    assert "|" not in html.render("<table role=none><tr><td>Plan<td>Notes<tr><td>A<td><ul><li>x</ul></table>")
    assert html.render("<table>" * 300 + "x" + "</table>" * 300).strip("*") == "x"


def test_counts_navigation_and_hidden_parts_of_html() -> None:
    page = (
        "<head><title>T</title></head><nav>Home</nav><script>x</script><nav></nav><h1>T<a class=headerlink>¶</a></h1>"
        "<p hidden>Secret</p><p>Shown.</p><footer>Imprint</footer>"
    )
    document = html.parse_html(page, "x.html")
    assert document.text == "# T\n\nShown."
    assert document.left_out == {"navigation of pages": 2, "hidden parts of pages": 1}
