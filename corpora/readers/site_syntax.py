"""What site generators add to Markdown: template tags, attribute lists, admonitions, MDX, links of their own.

The words that a person wrote stay (titles, link texts, a tag's quoted arguments), the rest goes. Code stays as it is.

Sources of the syntaxes: Jekyll and Eleventy (Liquid and Jinja tags, kramdown's attribute lists and `{:toc}`), MkDocs
(Python-Markdown's admonitions, content tabs, keys, icons), Docusaurus (`:::`, MDX), GitHub (`[!NOTE]`, wiki links), and
the links of reStructuredText.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

_FENCE = re.compile(r"[ \t]*(?:>[ \t]?)*(?P<mark>`{3,}|~{3,})(?P<info>[^`\n]*)$")
_CODE_TAG = re.compile(r"[ \t]*\{%-?[ \t]*(?P<end>end)?highlight\b")
_ADMONITION = re.compile(r"(?:!!!|\?\?\?\+?|===[!+]?)[ \t]+(?P<words>[^\n]*)$")
_COLONS = re.compile(r":{3,}[ \t]*(?P<words>[^\n]*)$")
_DEFINITION = re.compile(r":[ \t]+(?=\S)|\[\^[^\]\s]{1,60}\]:[ \t]*(?=\S)")
_CONTENTS = re.compile(  # kramdown wants an item above the mark, which the contents replace
    r"^(?:[ \t]*(?:[*+-]|1\.)[ \t]+\S[^\n]{0,60}\n)?[ \t]*\{:[ \t]*toc[^{}\n]*\}[ \t]*$|^[ \t]*\[TOC\][ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_ESM = re.compile(
    r"import[ \t]+(?:[\w*{][^\n]*[ \t]from[ \t]+)?[\"'][^\"'\n]+[\"'];?[ \t]*$"
    r"|export[ \t]+(?:(?:const|let|var|async|default|function|class)\b[^\n]*[={(;])"
)
_ALERT = re.compile(r"(?P<quote>(?:>[ \t]?)+)\[!\w+\][+-]?[ \t]*(?P<words>[^\n]*)$")

_TAGS = re.compile(
    r"(?:(?<!`)`(?P<link>[^`<\n]{1,300}?)(?:[ ]?<[^<>`\n]{1,300}>)?`__?(?![\w`])"
    r"|(?P<code>``[^\n]{1,300}?``|`[^`\n]{1,300}`)"
    r"|\{%[-+]?(?P<tag>[^{}]{0,1000}?)[-+]?%\}"
    r"|\{#[^{}]{0,1000}?#\}|\{/\*[^{}]{0,1000}?\*/\}"
    r"|\$?\{\{\{?[-~]?(?P<expression>[^{}]{0,1000}?)[-~]?\}?\}\}"
    r"|\[\^[^\]\s]{1,60}\](?!:)"
    r"|\{:[^{}\n]{0,300}\}|[ \t]?\{[ \t]*[#.][A-Za-z][^{}\n]{0,200}\}"
    r"|(?<=[)\]`*])\{[ \t]*[A-Za-z][\w-]{0,30}=[^{}\n]{1,200}\}"
    r"|(?<!\w)\+\+(?P<keys>[\w\"](?:[^\n+]|\+(?!\+)){0,60})\+\+(?!\w)"
    r"|:(?:octicons|fontawesome|material|simple)-[a-z0-9-]{1,60}:(?:\{[^{}\n]{0,200}\})?)(?P<space>[ ]?)"
)
_WIKI_LINK = re.compile(r"!?\[\[(?P<words>[^\[\]|\n]{1,200})(?:\|(?P<page>[^\[\]|\n]{1,200}))?\]\]")

_CONTROL = frozenset(
    """if elsif elif else endif unless endunless for endfor case when endcase assign capture endcapture set endset cycle
    increment decrement extends block endblock macro endmacro import from with endwith layout render break continue
    link post_url filter endfilter load static url trans endtrans schema""".split()
)
_ASSETS = frozenset("image img icon svg picture figure asset include include_relative".split())
_WORD_KEYS = frozenset("title text alt caption label content summary heading name description message".split())
_ARGUMENT = re.compile(r"(?:(?P<key>[\w-]{1,60})[ \t]*[=:][ \t]*)?(?:\"(?P<double>[^\"\n]*)\"|'(?P<single>[^'\n]*)')")
_PAGE_TITLE = re.compile(r"\s*(?:page\.)?title\b", re.IGNORECASE)
_ADDRESS = re.compile(r"[/\\{}=<>$%]|\w\.\w{2,5}$")
_LETTER = re.compile(r"[^\W\d_]")
_PAGE_NAME = re.compile(r"^[^ ]*[-/#.][^ ]*$")
_LITERAL = re.compile(r"\s*(?:[\w.]{1,60}\()?\s*[\"']")
_IN_ADDRESS = re.compile(r"(?:\]\(<?|=[\"']?)[^\s\"'()<>]*$")


def strip_site_syntax(text: str, title: str = "") -> str:
    """`text` as plain Markdown; `{{ page.title }}` becomes `title`. Takes time linear in the length of the text."""
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
    module = False  # inside an MDX import or export, which a blank line ends
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
        elif mark := _FENCE.match(line):
            fence = mark["mark"]
            yield line, True
        elif mark := _ADMONITION.match(stripped):
            containers.append((indent + 4, 4))
            yield from (("", False), (lead + _marker_words(mark["words"]), False), ("", False))
        elif mark := _COLONS.match(stripped):
            yield from (("", False), (lead + _marker_words(mark["words"]), False), ("", False))
        elif mark := _DEFINITION.match(stripped):
            width = 4 if stripped.startswith("[") else len(mark.group().expandtabs(4))
            containers.append((indent + min(width, 4), min(width, 4)))
            yield from (("", False), (lead + stripped[mark.end() :], False))
        elif mark := _ALERT.match(stripped):
            yield f"{lead}{mark['quote']}{mark['words']}".rstrip(), False
        else:
            yield line, False


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
    def replacement(match: re.Match[str]) -> str:
        if match["code"]:
            return match.group()
        in_address = _IN_ADDRESS.search(text, max(0, match.start() - 300), match.start())
        replaced = "" if in_address else _words_of(match, title)
        doubled = not replaced and text[match.start() - 1 : match.start()] in ("", " ", "\n")
        return replaced if doubled else replaced + match["space"]

    text = _CONTENTS.sub("", text) if re.search("toc", text, re.IGNORECASE) else text
    text = _TAGS.sub(replacement, text) if re.search(r"[{:^]|\+\+|`_", text) else text
    return _WIKI_LINK.sub(_page_words, text) if "[[" in text else text


def _words_of(match: re.Match[str], title: str) -> str:
    if words := match["link"] or match["keys"]:
        return words.replace('"', "")
    if tag := match["tag"]:
        name = (tag.split(None, 1) or [""])[0]
        return "" if name in _CONTROL else _arguments(tag, name not in _ASSETS)
    if expression := match["expression"]:
        if _PAGE_TITLE.match(expression):
            return title
        return _arguments(expression.split("|")[0]) if _LITERAL.match(expression) else ""
    return ""


def _arguments(source: str, any_word: bool = False) -> str:
    """The quoted arguments that are words a person wrote: "Get reimbursed", no path, class, format or file.

    Args:
        any_word: of those without a key also a single word in small letters: "admins-github".
    """
    pieces = []
    for argument in _ARGUMENT.finditer(source):
        key, value = argument["key"], (argument["double"] or argument["single"] or "").strip()
        prose = (" " in value or value[:1].isupper()) and "_" not in value and (not key or key in _WORD_KEYS)
        if (prose or (any_word and not key)) and _LETTER.search(value) and not _ADDRESS.search(value):
            pieces.append(value)
    return " ".join(pieces)


def _page_words(link: re.Match[str]) -> str:
    """A wiki link's words, or the name of its page. GitHub's wikis write the words first, others the page."""
    words, page = link["words"], link["page"]
    if not page:
        page = words.split("#")[0].rsplit("/", 1)[-1]
        return "" if _ADDRESS.search(page) else page.replace("-", " ")
    return page if _PAGE_NAME.search(words) and not _PAGE_NAME.search(page) else words
