"""Removes the JavaScript of MDX (https://mdxjs.com): imports, exports, comments and expressions.

Strings in expressions are visible on the page and stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from turnmark.corpora.readers.markup.jsx import ComponentTags

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
        constants: of the page. None: the file does not say that it is MDX, so that only what Docusaurus allows in any
            Markdown is removed: import lines and comments.
        tags: of the page.
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
