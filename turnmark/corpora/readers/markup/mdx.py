"""Replaces the JavaScript of MDX (https://mdxjs.com) with what a reader of the page sees of it.

Imports, exports, comments and expressions are removed; strings in expressions stay. Component tags
(`<Tabs items={['npm', 'yarn']}>`) leave their labels: Markdown does not know tags with expressions in their attributes,
and would show them raw.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from html import escape
from typing import NamedTuple

from turnmark.corpora.readers.markup.admonitions import box_title

_CODE = r"(?P<code>`[^`\n]{1,300}`)"
_IMPORT = r"^import[ \t]+(?:[\w*{$][^;'\"]{0,1000}?[ \t\n}]from[ \t]*)?['\"][^'\"\n]{1,300}['\"][ \t]*;?[ \t]*$"
_EXPORT = r"^export[ \t]+(?:const|let|var|default|function|async|class|\{|\*)[^\n]*(?:\n(?![ \t]*$)[^\n]*)*"
_IMPORTS = re.compile(rf"{_CODE}|{_IMPORT}", re.MULTILINE)
_MODULE = re.compile(rf"{_CODE}|{_IMPORT}|{_EXPORT}", re.MULTILINE)
_CONSTANT = re.compile(
    r"^export[ \t]+const[ \t]+(?P<name>[A-Za-z_$][\w$]{0,60})[ \t]*=[ \t]*"
    r"(?:\"(?P<double>[^\"\n]{0,300})\"|'(?P<single>[^'\n]{0,300})'|(?P<number>\d[\d.]{0,30}))[ \t]*;?[ \t]*$",
    re.MULTILINE,
)
_EXPRESSION = re.compile(
    rf"{_CODE}|(?P<math>\$\$.{{0,2000}}?\$\$|\$[^$\s][^$\n]{{0,300}}\$)|(?P<comment>\{{/\*.{{0,5000}}?\*/\}})"
    r"|(?<![\\{])\{[ \t]*(?:(?P<name>[A-Za-z_$][\w$.]{0,100})"
    r"|\"(?P<double>[^\"\n]{0,500})\"|'(?P<single>[^'\n]{0,500})'|`(?P<template>[^`$]{0,500})`)[ \t]*\}(?!\})",
    re.DOTALL,
)
_CALLBACK = re.compile(rf"{_CODE}|(?<!\\)\{{[^{{}}`]{{0,500}}=>[^{{}}`]{{0,500}}\}}")


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
