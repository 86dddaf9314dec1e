"""Removes the JavaScript of MDX (https://mdxjs.com): imports, exports, comments and expressions.

The labels of components such as `<TabItem label="Linux">` are visible on the page and stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from turnmark.corpora.readers.boxes import box_title

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
    rf"{_CODE}|(?P<comment>\{{/\*.{{0,5000}}?\*/\}})"
    r"|(?<!\{)\{[ \t]*(?P<name>[A-Za-z_$][\w$.]{0,100})[ \t]*\}(?!\})"
    r"|^(?P<lead>[ \t]*)<(?P<tag>[A-Z][\w.]{0,60})"
    r"(?P<arguments>(?:[^<>{}\"']|\"[^\"]{0,300}\"|'[^']{0,300}'|\{[^{}]{0,300}\}){0,200}?)>",
    re.MULTILINE | re.DOTALL,
)
_KIND = re.compile(r"(?<![\w-])(?:type|variant|kind|intent)=\{?[\"'](\w+)")
_LABEL = re.compile(r"(?<![\w-])(?:label|title|header|heading|summary|caption)=\{?(?:\"([^\"]*)\"|'([^']*)')")


def constants_of(text: str) -> dict[str, str]:
    """Return the constants that an MDX page exports and shows as `{name}`."""
    found = _CONSTANT.finditer(text) if "export" in text else ()
    return {each["name"]: each["double"] or each["single"] or each["number"] or "" for each in found}


def without_javascript(text: str, constants: Mapping[str, str] | None) -> str:
    """Return a stretch of an MDX page without fenced code as Markdown.

    Args:
        constants: of the page. None: the file does not say that it is MDX, so that only what Docusaurus allows in any
            Markdown is removed: import lines and comments.
    """
    if "import" in text or "export" in text:
        pattern = _IMPORTS if constants is None else _MODULE
        text = pattern.sub(lambda found: found["code"] or "", text)

    def replacement(found: re.Match[str]) -> str:
        if found["code"]:
            return found.group()
        if found["comment"]:
            return ""
        if found["name"]:
            return found.group() if constants is None else constants.get(found["name"], "")
        words = [first or second for first, second in _LABEL.findall(found["arguments"])]
        kind = _KIND.search(found["arguments"])
        label = box_title(kind[1] if kind else found["tag"], " ".join(words))
        return f"\n{found['lead']}{label}\n\n{found.group()}" if label else found.group()

    return _EXPRESSION.sub(replacement, text) if "{" in text or "=" in text else text
