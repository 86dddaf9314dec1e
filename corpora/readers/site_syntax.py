"""What site generators add to Markdown: template tags, shortcodes, attribute lists, admonitions, MDX, roles.

Their human words stay (titles, link texts, what stands between two tags), the rest goes. Code stays as it is.

Sources of the syntaxes: Liquid and Jekyll (kramdown attribute lists, `{:toc}`), Jinja, Hugo shortcodes, MkDocs and
Python-Markdown (admonitions, content tabs, icons), Docusaurus, VuePress and Pandoc (`:::`), MyST (directives, roles),
MDX, Obsidian (`[[links]]`), GitLab (`[[_TOC_]]`), GitHub (`[!NOTE]`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

_FENCE = re.compile(r"[ \t]*(?:>[ \t]?)*(?P<mark>`{3,}|~{3,})(?P<info>[^`\n]*)$")
_CODE_TAG = re.compile(r"[ \t]*(?:\{%-?|\{\{[<%])[ \t]*(?P<end>end|/[ \t]*)?highlight\b")
_ADMONITION = re.compile(r"(?:!!!|\?\?\?\+?|===[!+]?)[ \t]+(?P<words>[^\n]*)$")
_COLONS = re.compile(r":{3,}[ \t]*(?P<words>[^\n]*)$")
_DIRECTIVE = re.compile(
    r"\{(?:note|tip|hint|important|warning|caution|danger|attention|error|seealso|admonition|dropdown|topic)\}(.*)"
)
_DEFINITION = re.compile(r":[ \t]+(?=\S)|\[\^[^\]\s]{1,60}\]:[ \t]*(?=\S)")
_TOC_LINE = re.compile(
    r"(?:\[\[?_?TOC_?\]\]?|\{:[ \t]*toc[^{}\n]*\}|\{\{[<%]?[ \t]*toc[ \t]*[>%]?\}\}|\$\{toc\})[ \t]*$", re.IGNORECASE
)
_TOC_ITEM = re.compile(r"(?:[*+-]|1\.)[ \t]+\S[^\n]{0,60}$")
_ESM = re.compile(
    r"import[ \t]+(?:[\w*{][^\n]*[ \t]from[ \t]+)?[\"'][^\"'\n]+[\"'];?[ \t]*$"
    r"|export[ \t]+(?:(?:const|let|var|async|default|function|class)\b[^\n]*[={(;])"
)
_ALERT = re.compile(r"(?P<quote>(?:>[ \t]?)+)\[!\w+\][+-]?[ \t]*(?P<words>[^\n]*)$")

_TAGS = re.compile(
    r"(?:(?P<code>``[^\n]{1,300}?``|`[^`\n]{1,300}`)"
    r"|\{\{[<%](?P<shortcode>[^{}]{0,1000}?)[%>]\}\}"
    r"|\{%[-+]?(?P<tag>[^{}]{0,1000}?)[-+]?%\}"
    r"|\{#[^{}]{0,1000}?#\}|\{/\*[^{}]{0,1000}?\*/\}"
    r"|\$?\{\{\{?[-~]?(?P<expression>[^{}]{0,1000}?)[-~]?\}?\}\}"
    r"|\[\^[^\]\s]{1,60}\](?!:)"
    r"|\{:[^{}\n]{0,300}\}|[ \t]?\{[ \t]*[#.][A-Za-z][^{}\n]{0,200}\}"
    r"|(?<=[)\]`*])\{[ \t]*[A-Za-z][\w-]{0,30}=[^{}\n]{1,200}\}"
    r"|(?<!\w)\+\+(?P<keys>[\w\"](?:[^\n+]|\+(?!\+)){0,60})\+\+(?!\w)"
    r"|:(?:octicons|fontawesome|material|simple)-[a-z0-9-]{1,60}:)(?P<space>[ ]?)"
)
_ROLE = re.compile(r"\{[A-Za-z][\w:+.-]{0,40}\}`([^`<\n]{0,300}?)[ \t]*(?:<[^>`\n]{0,300}>)?`")
_WIKI_LINK = re.compile(r"!?\[\[(?P<page>[^\[\]|\n]{1,200})(?:\|(?P<words>[^\[\]|\n]{1,200}))?\]\]")

_CONTROL = frozenset(
    """if elsif elif else endif unless endunless for endfor case when endcase assign capture endcapture set endset cycle
    increment decrement extends block endblock macro endmacro import from with endwith layout render break continue
    link post_url filter endfilter load static url trans endtrans schema""".split()
)
_WORD_KEYS = frozenset("title text alt caption label content summary heading name description message".split())
_ARGUMENT = re.compile(r"(?:(?P<key>[\w-]{1,60})[ \t]*[=:][ \t]*)?(?:\"(?P<double>[^\"\n]*)\"|'(?P<single>[^'\n]*)')")
_PAGE_TITLE = re.compile(r"\s*(?:(?:page|frontmatter|\$frontmatter|doc|metadata)?\.)?title\b", re.IGNORECASE)
_LITERAL = re.compile(r"\s*(?:[\w.]{1,60}\()?\s*[\"']")
_IN_ADDRESS = re.compile(r"(?:\]\(<?|=[\"']?)[^\s\"'()<>]*$")


def strip_site_syntax(text: str, title: str = "") -> str:
    """`text` as plain Markdown; `{{ page.title }}` becomes `title`. Takes time linear in the length of the text."""
    text = _without(text, "<!-- START doctoc", "<!-- END doctoc")
    text = _without(text, "<!--", "-->")
    text = _without(text, "{% comment %}", "{% endcomment %}")
    stretches = []
    for is_code, group in groupby(_lines(text), key=lambda line: line[1]):
        stretch = "\n".join(line for line, _ in group)
        stretches.append(stretch if is_code else _without_tags(stretch, title))
    return "\n".join(stretches)


def _without(text: str, opening: str, closing: str) -> str:
    """`text` without what stands between two marks, marks included, where it begins a line outside of code."""
    pieces, after = [], 0
    while (start := text.find(opening, after)) >= 0 and (end := text.find(closing, start + len(opening))) >= 0:
        line_start = text[text.rfind("\n", 0, start) + 1 : start]
        if "`" in line_start or line_start.startswith(("    ", "\t")):
            pieces.append(text[after : start + len(opening)])
            after = start + len(opening)
        else:
            pieces.append(text[after:start])
            after = end + len(closing)
    return "".join((*pieces, text[after:]))


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """(line, whether it is code): the body of an admonition moved to the left, marks that stand on a line gone."""
    fence = ""
    containers: list[tuple[int, int]] = []  # (indent of the body, how much of it goes)
    directives: list[str] = []
    module = False  # inside an MDX import or export, which a blank line ends
    previous = ""
    for line in text.split("\n"):
        indent = len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())
        if line.strip() and not fence:
            while containers and indent < containers[-1][0]:
                containers.pop()
        line = _dedent(line, sum(remove for _, remove in containers))
        stripped = line.strip()
        if fence:
            closes = stripped.lstrip("> ").startswith(fence) and not stripped.lstrip("> ").strip(fence[0])
            closes = closes or (fence == "highlight" and bool(_CODE_TAG.match(line)))
            yield ("```" if fence == "highlight" and closes else line), True
            fence = "" if closes else fence
            continue
        module = (module or bool(_ESM.match(line))) and bool(stripped)
        lead = line[: len(line) - len(line.lstrip())]
        if module:
            continue
        if (tag := _CODE_TAG.match(line)) and not tag["end"]:
            fence = "highlight"
            yield "```", True
        elif directives and stripped == directives[-1]:
            directives.pop()
            yield "", False
        elif mark := _FENCE.match(line):
            if directive := _DIRECTIVE.match(mark["info"].strip()):
                directives.append(mark["mark"])
                yield lead + directive[1].strip(), False
                yield "", False
            else:
                fence = mark["mark"]
                yield line, True
        elif mark := _ADMONITION.match(stripped):
            containers.append((indent + 4, 4))
            yield from (("", False), (lead + _marker_words(mark["words"]), False), ("", False))
        elif mark := _COLONS.match(stripped):
            yield from (("", False), (lead + _marker_words(mark["words"]), False), ("", False))
        elif _TOC_LINE.match(stripped):
            if _TOC_ITEM.match(previous.strip()):  # kramdown wants an item to put the contents in its place
                yield "\0", False
        elif mark := _DEFINITION.match(stripped):
            width = 4 if stripped.startswith("[") else len(mark.group().expandtabs(4))
            containers.append((indent + min(width, 4), min(width, 4)))
            yield from (("", False), (lead + stripped[mark.end() :], False))
        elif mark := _ALERT.match(stripped):
            yield f"{lead}{mark['quote']}{mark['words']}".rstrip(), False
        else:
            yield line, False
        previous = stripped


def _dedent(line: str, width: int) -> str:
    if not width:
        return line
    expanded = line.expandtabs(4)
    return expanded[min(width, len(expanded) - len(expanded.lstrip())) :]


def _marker_words(words: str) -> str:
    """The title behind an admonition's or container's mark: `note "Title"`, `tip Title`, `info[Title]`."""
    words = re.sub(r"\{[^{}]*\}", " ", words).strip()
    if quoted := re.search(r"\"([^\"]*)\"", words):
        return quoted[1].strip()
    if bracketed := re.search(r"\[([^\[\]]*)\]", words):
        return bracketed[1].strip()
    return " ".join(words.split()[1:]) if not words.startswith("===") else words


def _without_tags(text: str, title: str) -> str:
    text = re.sub(r"(?:^|(?<=\n))[^\n]*\n\0(?=\n|$)", "", text).replace("\0", "")

    def replacement(match: re.Match[str]) -> str:
        if match["code"]:
            return match.group()
        replaced = words(match)
        doubled = not replaced and text[match.start() - 1 : match.start()] in ("", " ", "\n")
        return replaced if doubled else replaced + match["space"]

    def words(match: re.Match[str]) -> str:
        if _IN_ADDRESS.search(text, max(0, match.start() - 300), match.start()):
            return ""
        if (keys := match["keys"]) is not None:
            return keys.replace('"', "")
        if (shortcode := match["shortcode"]) is not None:
            return _human_words(shortcode)
        if (tag := match["tag"]) is not None:
            name = tag.split(None, 1)[:1]
            return "" if name and name[0] in _CONTROL else _human_words(tag)
        if (expression := match["expression"]) is not None:
            if _PAGE_TITLE.match(expression):
                return title
            return _human_words(expression.split("|")[0]) if _LITERAL.match(expression) else ""
        return ""

    text = _ROLE.sub(r"\1", text) if "}`" in text else text
    text = _TAGS.sub(replacement, text) if re.search(r"[{:^]|\+\+", text) else text
    return _WIKI_LINK.sub(_page_words, text) if "[[" in text else text


def _human_words(arguments: str) -> str:
    """The quoted arguments of a tag that are prose: "Get reimbursed", but no path, class, format or identifier."""
    pieces = []
    for argument in _ARGUMENT.finditer(arguments):
        value = (argument["double"] if argument["double"] is not None else argument["single"]).strip()
        if (argument["key"] is None or argument["key"] in _WORD_KEYS) and _is_prose(value):
            pieces.append(value)
    return " ".join(pieces)


def _is_prose(value: str) -> bool:
    if re.search(r"[/\\{}=<>$%_]|\w\.\w{2,5}$", value) or not re.search(r"[^\W\d_]", value):
        return False
    return " " in value or value[0].isupper()


def _page_words(link: re.Match[str]) -> str:
    if link["words"]:
        return str(link["words"])
    page = link["page"].split("#")[0].rsplit("/", 1)[-1]
    return "" if re.search(r"\.(?:png|jpe?g|gif|svg|webp|pdf|mp4)$", page, re.IGNORECASE) else page
