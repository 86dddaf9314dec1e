"""Removes the syntax that site generators add to Markdown. The words in it, e.g. titles, are kept; code is unchanged.

Sources of the syntaxes: MkDocs (Python-Markdown's admonitions, content tabs, keys, icons, attribute lists),
Docusaurus (`:::`), GitHub (`[!NOTE]`), wiki links of GitHub and Obsidian, comments, highlights and block ids of
Obsidian, and the tags of Liquid, Jinja, GitBook (`{% alert "Mind the gap" %}`) and Hugo (`{{< tab "Linux" >}}`). Quoted
arguments that are words are kept.

The JavaScript of MDX (https://mdxjs.com) is replaced with what a reader of the page sees of it. Imports, exports,
comments and expressions are removed; strings in expressions stay. Component tags (`<Tabs items={['npm', 'yarn']}>`)
leave their labels: Markdown does not know tags with expressions in their attributes, and would show them raw.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from html import escape
from itertools import groupby
from typing import NamedTuple

from turnmark.corpora.text.word_lists import read_word_lists

_WORDS = read_word_lists(__file__)
BOX_KINDS = _WORDS["box_kinds"]
_NAMES = {"faq": "FAQ", "tldr": "TL;DR", "todo": "To do", "seealso": "See also"}


def box_title(kind: str, title: str) -> str:
    """Return the title of a box with its kind as a bold line: `**Warning: Mind the gap**`; empty if it has none."""
    kind, title = kind.lower(), " ".join(title.replace("**", "").split())
    is_named = title.lower().startswith(kind) or title.lower().rstrip(" :!") in _WORDS["translated_box_kinds"]
    word = _NAMES.get(kind, kind.capitalize()) if kind in BOX_KINDS and not is_named else ""
    words = ": ".join(filter(None, (word, title)))
    return f"**{words}**" if words else ""


_CODE_SPAN = r"(?P<code>`[^`\n]{1,300}`)"
_IMPORT = r"^import[ \t]+(?:[\w*{$][^;'\"]{0,1000}?[ \t\n}]from[ \t]*)?['\"][^'\"\n]{1,300}['\"][ \t]*;?[ \t]*$"
_EXPORT = r"^export[ \t]+(?:const|let|var|default|function|async|class|\{|\*)[^\n]*(?:\n(?![ \t]*$)[^\n]*)*"
_IMPORTS = re.compile(rf"{_CODE_SPAN}|{_IMPORT}", re.MULTILINE)
_MODULE = re.compile(rf"{_CODE_SPAN}|{_IMPORT}|{_EXPORT}", re.MULTILINE)
_CONSTANT = re.compile(
    r"^export[ \t]+const[ \t]+(?P<name>[A-Za-z_$][\w$]{0,60})[ \t]*=[ \t]*"
    r"(?:\"(?P<double>[^\"\n]{0,300})\"|'(?P<single>[^'\n]{0,300})'|(?P<number>\d[\d.]{0,30}))[ \t]*;?[ \t]*$",
    re.MULTILINE,
)
_EXPRESSION = re.compile(
    rf"{_CODE_SPAN}|(?P<math>\$\$.{{0,2000}}?\$\$|\$[^$\s][^$\n]{{0,300}}\$)|(?P<comment>\{{/\*.{{0,5000}}?\*/\}})"
    r"|(?<![\\{])\{[ \t]*(?:(?P<name>[A-Za-z_$][\w$.]{0,100})"
    r"|\"(?P<double>[^\"\n]{0,500})\"|'(?P<single>[^'\n]{0,500})'|`(?P<template>[^`$]{0,500})`)[ \t]*\}(?!\})",
    re.DOTALL,
)
_CALLBACK = re.compile(rf"{_CODE_SPAN}|(?<!\\)\{{[^{{}}`]{{0,500}}=>[^{{}}`]{{0,500}}\}}")


def constants_of(text: str) -> dict[str, str]:
    """Return the constants that an MDX page exports and shows as `{name}`."""
    found = _CONSTANT.finditer(text) if "export" in text else ()
    return {each["name"]: each["double"] or each["single"] or each["number"] or "" for each in found}


def without_javascript(text: str, constants: Mapping[str, str] | None, tags: ComponentTags) -> str:
    """Return a stretch of an MDX page without fenced code as Markdown.

    Args:
        constants: the page's constants, or None if the file is not declared as MDX. In that case only import lines and
            comments are removed, which Docusaurus allows in any Markdown.
        tags: the page's component tags.
    """
    if "import" in text or "export" in text:
        pattern = _IMPORTS if constants is None else _MODULE
        text = pattern.sub(lambda found: found["code"] or "", text)
    text = tags.replace(text) if "<" in text else text

    def replacement(found: re.Match[str]) -> str:
        if found["comment"]:
            return ""
        if found["code"] or found["math"] or constants is None:
            return found.group()
        if found["name"]:
            return constants.get(found["name"], "")
        return found["double"] or found["single"] or found["template"] or ""

    text = _EXPRESSION.sub(replacement, text) if "{" in text else text
    return text if constants is None else _CALLBACK.sub(lambda found: found["code"] or "", text)


# --- component tags ---------------------------------------------------------------------------------------------------

_MAX_TAG_LENGTH = 4_000  # characters
_TAG = re.compile(
    r"(?P<code>``[^\n]{1,300}?``|`[^`\n]{1,300}`)|<(?P<closing>/?)(?P<name>[A-Za-z][\w.-]{0,60})(?=[\s/>])"
)
_MARK = re.compile(r"[\"'`{}<>]")
_KIND = re.compile(r"(?<![\w-])(?:type|variant|kind|intent)=\{?[\"'](\w+)")
_STRING = r"(?:\"([^\"]*)\"|'([^']*)'|`([^`$]*)`)"
_LABEL = re.compile(rf"(?<![\w-])(?:label|title|header|heading|summary|caption)=\{{?\s*{_STRING}")
_ALT = re.compile(rf"(?<![\w-])alt=\{{?\s*{_STRING}")
_SOURCE = re.compile(rf"(?<![\w-])src=\{{?[^{{}}<>\"'`]{{0,60}}{_STRING}")
_VALUE = re.compile(rf"(?<![\w-])value=\{{?\s*{_STRING}")
_ITEMS = re.compile(r"(?<![\w-])(?:items|labels|tabs|titles|values)=\{\s*\[(?P<items>[^\]]{0,2000})\]")
_ITEM_LABEL = re.compile(rf"\blabel\s*:\s*{_STRING}")
_ITEM_VALUE = re.compile(rf"\bvalue\s*:\s*{_STRING}")
_TAB = re.compile(r"(?:.*\.)?(?:tab|tab-?item|tab-?panel)", re.IGNORECASE)


class _Tab(NamedTuple):
    label: str
    value: str


class ComponentTags:
    """Replaces the component tags of one page, except in code.

    Args:
        is_mdx: whether the file is MDX, by its suffix. Otherwise only tags with expressions are replaced.
    """

    def __init__(self, is_mdx: bool) -> None:
        self._is_mdx = is_mdx
        self._tabs: deque[_Tab] = deque()  # labels that the open <Tabs> names for the tabs in it

    def replace(self, text: str) -> str:
        """Return the text with component tags replaced by labels, and pictures by plain <img>."""
        pieces, at = [], 0
        while found := _TAG.search(text, at):
            end = 0 if found["code"] else _end_of_tag(text, found.end())
            if end <= 0:
                end = -end or found.end()
                pieces.append(text[at:end])
            else:
                before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
                lead = None if before.strip() else before
                shown = self._shown(found["name"], bool(found["closing"]), text[found.start() : end], lead)
                pieces += [text[at : found.start()], shown]
            at = end
        return "".join((*pieces, text[at:]))

    def _shown(self, name: str, is_closing: bool, tag: str, lead: str | None) -> str:
        """Return what stands for a tag; `lead` is the indent before it, None if it is not at the start of a line."""
        is_component = name[0].isupper()
        is_unknown = "{" in tag or (self._is_mdx and is_component)
        if is_closing:
            if is_component and not _TAB.fullmatch(name):
                self._tabs.clear()
            return ("" if lead is None else "\n") if is_unknown else tag
        if tabs := _tabs_in(tag):
            self._tabs = deque(tabs)
        alt = _first(_ALT, tag)
        if is_unknown and alt:
            source = _first(_SOURCE, tag)
            return f'<img src="{escape(source)}" alt="{escape(alt)}">' if source else f'<img alt="{escape(alt)}">'
        label = self._label(name, tag) if is_component and lead is not None else ""
        if label:
            return f"\n{lead}{label}\n\n{'' if is_unknown else tag}"
        if not is_unknown:
            return tag
        return f"<{name}>" if not is_component else "\n" if lead is not None and not tag.endswith("/>") else ""

    def _label(self, name: str, tag: str) -> str:
        words = [first or second or third for first, second, third in _LABEL.findall(tag)]
        if not words and _TAB.fullmatch(name) and self._tabs:
            value = _first(_VALUE, tag)
            chosen = next((tab for tab in self._tabs if value and value in (tab.value, tab.label)), self._tabs[0])
            self._tabs.remove(chosen)
            words = [chosen.label]
        kind = _KIND.search(tag)
        return box_title(kind[1] if kind else name, " ".join(words))


def _first(pattern: re.Pattern[str], tag: str) -> str:
    found = pattern.search(tag)
    return " ".join((found[1] or found[2] or found[3] or "").split()) if found else ""


def _tabs_in(tag: str) -> list[_Tab]:
    """Return the tabs that an attribute of a tag lists, as strings or as objects with a label and a value."""
    found = _ITEMS.search(tag)
    if found is None:
        return []
    entries = re.findall(r"\{[^{}]*\}", found["items"])
    if entries:
        tabs = [_Tab(_first(_ITEM_LABEL, entry), _first(_ITEM_VALUE, entry)) for entry in entries]
    else:
        tabs = [_Tab(" ".join("".join(words).split()), "") for words in re.findall(_STRING, found["items"])]
    return [tab for tab in tabs if tab.label]


def _end_of_tag(text: str, start: int) -> int:
    """Return the end of the tag whose name ends at `start`; if it is no tag, the negative end of what was read."""
    depth, quote, at = 0, "", start
    limit = min(len(text), start + _MAX_TAG_LENGTH)
    while at < limit:
        found = _MARK.search(text, at, limit)
        if found is None:
            break
        at, mark = found.end(), found.group()
        if quote:
            quote = "" if mark == quote and text[found.start() - 1] != "\\" else quote
        elif mark in "\"'`":
            quote = mark
        elif mark in "{}":
            depth += 1 if mark == "{" else -1
        elif not depth:
            return at if mark == ">" else -start
        if depth < 0:
            return -start
    return -limit


_FENCE = re.compile(r"[ \t]*(?:>[ \t]?)*(?P<mark>`{3,}|~{3,})(?P<info>[^`\n]*)$")
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
        line = _dedent(line, 4 * len(bodies))
        stripped = line.strip()
        if fence:
            closes = stripped.lstrip("> ").startswith(fence) and not stripped.lstrip("> ").strip(fence[0])
            yield line, True
            fence = "" if closes else fence
            continue
        lead = line[: len(line) - len(line.lstrip())]
        if mark := _FENCE.match(line):
            fence = mark["mark"]
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


def _dedent(line: str, width: int) -> str:
    if not width:
        return line
    expanded = line.expandtabs(4)
    return expanded[min(width, len(expanded) - len(expanded.lstrip())) :]


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
