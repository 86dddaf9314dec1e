"""Removes the syntax that site generators add to Markdown. The words in it, e.g. titles, are kept; code is unchanged.

Sources of the syntaxes: MkDocs (Python-Markdown's admonitions, content tabs, keys, icons, attribute lists),
Docusaurus (`:::`, MDX), GitHub (`[!NOTE]`), wiki links of GitHub and Obsidian, comments, highlights and block ids of
Obsidian, and the tags of Liquid, Jinja, GitBook (`{% alert "Mind the gap" %}`) and Hugo (`{{< tab "Linux" >}}`). Quoted
arguments that are words are kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby

from turnmark.corpora.readers.markup.admonitions import BOX_KINDS, box_title
from turnmark.corpora.readers.markup.footnotes import dedented, fence_after
from turnmark.corpora.readers.markup.mdx import ComponentTags, constants_of, without_javascript
from turnmark.corpora.text.word_lists import read_word_lists

_ADMONITION = re.compile(r"(?:(?:!!!|\?\?\?\+?)[ \t]+|===[!+]?[ \t]+(?=[\"']))(?P<words>[^\n]*)$")
_COLONS = re.compile(r":{3,}[ \t]*(?P<words>[^\n]*)$")
_ALERT = re.compile(r"(?P<quote>(?:>[ \t]?)+)\[!(?P<kind>[\w-]+)(?:\|[^\]\n]*)?\][+-]?[ \t]*(?P<words>[^\n]*)$")
_COMMENTS = re.compile(
    r"(?P<code>`[^`\n]{1,300}`)"
    r"|^[ \t]*%%[ \t]*$(?P<block>.{0,20000}?)^[ \t]*%%[ \t]*$"
    r"|(?<![\w%])%%(?!%)(?P<inline>(?:[^%\n]|%(?!%)|\n(?![ \t]*\n)){1,2000})%%(?![\w%])(?P<space>[ ]?)",
    re.MULTILINE | re.DOTALL,
)
"""Matches comments of Obsidian."""
_HIGHLIGHT = re.compile(
    r"(?P<code>`[^`\n]{1,300}`)|(?<![=\w])==(?=[\w\"'“(\[*_`~$])(?P<words>[^=\n]{1,300})(?<=[^\s=!<>])==(?![=\w])"
)
_BLOCK_ID = re.compile(r"(?:(?<=\S)[ \t]|^)\^[A-Za-z][A-Za-z0-9-]{2,40}[ \t]*$", re.MULTILINE)
_HEADING_ATTRIBUTES = re.compile(
    r"^([ \t>]*#{1,6}[ \t][^\n]*?)[ \t]*\{[ \t]*[#.:-][^{}\n]{0,200}\}[ \t#]*$", re.MULTILINE
)
_TAGS = re.compile(
    r"(?:(?P<code>``[^\n]{1,300}?``|`[^`\n]{1,300}`)"
    r"|\{%(?P<tag>[^{}]{0,1000}?)%\}|\{\{[<%](?P<shortcode>[^{}]{0,1000}?)[%>]\}\}"  # template tags
    r"|(?P<variable>\{\{[^{}]{0,1000}?\}\})"
    r"|\{:[^{}\n]{0,300}\}|[ \t]?\{[ \t]*[#.][A-Za-z][\w:-]{0,60}"  # attribute lists
    r"(?:[ \t]+(?:[#.][\w:-]{1,60}|[\w-]{1,30}=(?:\"[^\"\n]{0,200}\"|[^\s{}]{1,200}))){0,20}[ \t]*\}"
    r"|(?<=[)\]`*])\{[ \t]*[A-Za-z][\w-]{0,30}=[^{}\n]{1,200}\}"
    r"|(?<!\w)\+\+(?P<keys>(?:\"[^\"\n]{1,40}\"|\w[^\s+]{0,40})(?:\+(?:\"[^\"\n]{1,40}\"|\w[^\s+]{0,40})){0,8})\+\+(?!\w)"
    r"|:(?:octicons|fontawesome|material|simple)-[a-z0-9-]{1,60}:(?:\{[^{}\n]{0,200}\})?)(?P<space>[ ]?)"
)
_IN_ADDRESS = re.compile(r"(?:\]\(<?|\]:[ \t]*<?|://|=[\"']?)[^\s\"'()<>]*$")
"""Matches a text that ends inside a link target or an HTML attribute."""
_WORDS = read_word_lists(__file__)
_ARGUMENT = re.compile(
    r"(?:(?P<key>[\w-]{1,60})[ \t]*[=:][ \t]*)?(?:\"(?P<double>(?:[^\"\\]|\\.)*)\"|'(?P<single>(?:[^'\\]|\\.)*)')",
    re.DOTALL,
)
_ADDRESS = re.compile(r"^(?:\.{0,2}/|\w+://)\S*$")
_FILE = re.compile(r"\w\.\w{1,5}$")
_NON_WORD = re.compile(r"[/\\=<>$]|\w_\w")
_CODE = re.compile(r"\d(?:px|vw|vh|r?em|%|x\d)|==|\w(?:--|__)\w")
"""Sizes, conditions and CSS classes."""
_WIKI_LINK = re.compile(r"!?\[\[(?![ \t-])(?P<page>[^\[\]|\n]{1,200}?)(?:\\?\|(?P<words>[^\[\]|\n]{1,200}))?\]\](?!\()")
_PICTURE_NAME = re.compile(r"\.(?:png|jpe?g|webp|gif|bmp|tiff?|svg)$", re.IGNORECASE)
_MARKUP_SIGN = re.compile(r"[<>\\`]")
_PAGE_NAME = re.compile(r"^[^ ]*[-/#.][^ ]*$")


def strip_site_syntax(text: str, left_out: Counter[str], is_mdx: bool, keeps_variables: bool) -> str:
    """Return `text` as plain Markdown. Takes time linear in its length.

    Args:
        left_out: counts the comments.
        is_mdx: whether the file is MDX, by its suffix.
        keeps_variables: whether `{{ name }}` is text.
    """
    constants = constants_of(text) if is_mdx else None
    tags = ComponentTags(is_mdx)
    stretches = []
    for is_code, group in groupby(_lines(_without_html_comments(text, left_out)), key=lambda line: line[1]):
        stretch = "\n".join(line for line, _ in group)
        stripped = stretch if is_code else _without_syntax(stretch, constants, tags, left_out)
        stretches.append(stripped if is_code else _without_tags(stripped, keeps_variables))
    return "\n".join(stretches)


def _without_syntax(text: str, constants: Mapping[str, str] | None, tags: ComponentTags, left_out: Counter[str]) -> str:
    """Return a stretch without fenced code as plain Markdown."""

    def replacement(comment: re.Match[str]) -> str:
        left_out["comments"] += not comment["code"]
        follows_space = comment.string[comment.start() - 1 : comment.start()] in ("", " ", "\n")
        return comment["code"] or ("" if follows_space else comment["space"] or "")

    text = _COMMENTS.sub(replacement, text) if "%%" in text else text
    text = _HEADING_ATTRIBUTES.sub(r"\1", without_javascript(text, constants, tags))
    text = _HIGHLIGHT.sub(lambda found: found["code"] or found["words"], text) if "==" in text else text
    return _BLOCK_ID.sub("", text) if "^" in text else text


def _without_html_comments(text: str, left_out: Counter[str]) -> str:
    pieces, after = [], 0
    while True:
        start = text.find("<!--", after)
        end = text.find("-->", start + 4) if start >= 0 else -1
        if end < 0:
            break
        line_start = text[text.rfind("\n", 0, start) + 1 : start]
        is_code = "`" in line_start or line_start.startswith(("    ", "\t"))
        if is_code:
            pieces.append(text[after : start + 4])
            after = start + 4
        else:
            pieces.append(text[after:start])
            after = end + 3
            left_out["comments"] += 1
    return "".join((*pieces, text[after:]))


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield (line, whether it is code), with admonition bodies dedented and block markers removed."""
    fence = ""
    bodies: list[int] = []  # indents of the open bodies, each of which is dedented by four
    for line in text.split("\n"):
        indent = len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())
        if line.strip() and not fence:
            while bodies and indent < bodies[-1]:
                bodies.pop()
        line = dedented(line, 4 * len(bodies)) if bodies else line
        stripped, lead = line.strip(), line[: len(line) - len(line.lstrip())]
        before, fence = fence, fence_after(line, fence)
        if before or fence:
            yield line, True
        elif mark := _ADMONITION.match(stripped):
            bodies.append(indent + 4)
            yield from (("", False), (lead + _marker_words(mark["words"]), False), ("", False))
        elif mark := _COLONS.match(stripped):
            yield from (("", False), (lead + _marker_words(mark["words"]), False), ("", False))
        elif mark := _ALERT.match(stripped):
            quote = lead + mark["quote"]
            title = box_title(mark["kind"], mark["words"])
            yield from ((f"{quote}{title}".rstrip(), False), (quote.rstrip(), False))
        else:
            yield line, False


def _marker_words(words: str) -> str:
    """Return the title of a box as a bold line. Its marker is `note "Title"`, `tip Title`, `info[Title]`, `{.tip}`."""
    said = re.match(r"[{.]*(?:callout-)?(?P<kind>[A-Za-z]*)", words)
    kind = said["kind"].lower() if said else ""
    quoted = re.search(r"\"([^\"]*)\"|\[([^\[\]]*)\]", words)
    if quoted:
        title = (quoted[1] or quoted[2] or "").strip()
        return box_title(kind, title) if title or quoted[2] is not None else ""
    attributes = re.search(r"\{[^{}]*\}\s*$", words)
    said_words = (words[: attributes.start()] if attributes else words).split()
    is_marker = kind in BOX_KINDS or kind == "details" or (len(said_words) == 1 and said_words[0].islower())
    return box_title(kind, " ".join(said_words[is_marker:]))


def _without_tags(text: str, keeps_variables: bool) -> str:
    """Replace the tags in `text` by their visible words."""

    def replacement(match: re.Match[str]) -> str:
        if match["code"] or (keeps_variables and match["variable"] and not _in_address(text, match.start())):
            return match.group()
        words = (match["keys"] or "").replace('"', "")
        tag = match["tag"] or match["shortcode"]
        if tag:
            words = "" if _in_address(text, match.start()) else _tag_words(tag)
            if words and _opens_paragraph(text, match.start()) and text.startswith("\n", match.end()):
                return words + "\n"
        doubled = not words and text[match.start() - 1 : match.start()] in ("", " ", "\n")
        return words if doubled else words + match["space"]

    text = _TAGS.sub(replacement, text) if re.search(r"[{:]|\+\+", text) else text
    return _WIKI_LINK.sub(_page_words, text) if "[[" in text else text


def _in_address(text: str, start: int) -> bool:
    return _IN_ADDRESS.search(text, max(0, start - 300), start) is not None


def _opens_paragraph(text: str, start: int) -> bool:
    """Return whether a paragraph begins at `start`: nothing, a blank line or a tag precedes it."""
    before = text[max(0, start - 80) : start].rstrip(" \t")
    return not before or before.endswith(("\n\n", "%}\n", "}}\n"))


def _tag_words(tag: str) -> str:
    """Return the visible arguments of a tag: quoted titles, captions, sentences, names such as "admins-github"."""
    name, arguments = (*tag.strip("-+~ \t\n").split(maxsplit=1), "", "")[:2]
    if name in _WORDS["plumbing"]:
        return ""
    shows_a_thing = not _WORDS["embedding"].isdisjoint(re.split(r"[^a-z0-9]+", name.lower()))
    pieces = []
    for position, argument in enumerate(_ARGUMENT.finditer(arguments)):
        key, quoted = argument["key"], argument["double"] or argument["single"] or ""
        value = " ".join(re.sub(r"\\(.)", r"\1", quoted).split())
        if not re.search(r"[^\W\d_]{2}", value) or _ADDRESS.search(value):
            continue
        if key == "name":
            is_words = not shows_a_thing and not _FILE.search(value) and "_" not in value
        elif key:
            is_words = key in _WORDS["worded_keys"]
        elif " " in value:
            is_words = not _CODE.search(value) and not (shows_a_thing and _FILE.search(value))
        else:
            # "admins-github" is a name; "md" after a title is not.
            is_name = not value[0].islower() or (position == 0 and value not in _WORDS["styles"])
            is_words = is_name and not shows_a_thing and not _NON_WORD.search(value) and not _FILE.search(value)
        if is_words:
            pieces.append(value)
    return " ".join(pieces)


def _page_words(link: re.Match[str]) -> str:
    """Return a wiki link's words, or else the name of its page. An embedded picture becomes Markdown; other embedded
    pages are removed.

    GitHub's wikis write the words first, others the page.
    """
    first, second = link["page"], link["words"]
    if link.group().startswith("!"):
        return f"![](<{first}>)" if _PICTURE_NAME.search(first) and not _MARKUP_SIGN.search(first) else ""
    if not second:
        page, _, heading = first.partition("#")
        return (page.rsplit("/", 1)[-1] or heading).replace("-", " ")
    return first if _PAGE_NAME.search(second) and not _PAGE_NAME.search(first) else second
