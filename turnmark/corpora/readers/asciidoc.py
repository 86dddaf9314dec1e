"""Prepares AsciiDoc for pandoc, which ends a list at every blank line, so that its steps would all be number 1."""

from __future__ import annotations

import re

_CONDITION = re.compile(r"^(?:include|ifdef|ifndef|ifeval|endif)::[^\n]*\[[^\n]*\]$", re.MULTILINE)
"""After a definition list, pandoc reads such a line as one of the terms."""
_ITEM = re.compile(r"[ \t]*(?:\.{1,5}|\*{1,5}|-|\d{1,3}\.|[a-z]\.|<(?:\d{1,3}|\.)>)[ \t]+\S")
_DELIMITER = re.compile(r"(?:-{4,}|={4,}|\*{4,}|\.{4,}|_{4,}|\+{4,}|/{4,}|--|```[\w-]*|[|,:!]={3,})[ \t]*$")
_COMMENT = re.compile(r"//(?!/)")


def with_joined_lists(text: str) -> str:
    """Return AsciiDoc without the blank lines between the items of a list, and without conditions and includes."""
    lines: list[str] = []
    blanks: list[str] = []
    in_list, delimiter = False, ""
    for line in _CONDITION.sub("", text).split("\n"):
        stripped = line.rstrip()
        if delimiter:
            delimiter = "" if stripped == delimiter else delimiter
        elif not stripped:
            blanks.append(line)
            continue
        elif _ITEM.match(line):
            if in_list:
                blanks.clear()
            in_list = True
        elif _COMMENT.match(line):
            if not stripped.startswith("//-"):  # the usual mark between two lists
                continue
            in_list = False
        elif stripped == "+":
            pass
        else:
            in_list = in_list and not blanks
            if _DELIMITER.match(line):
                delimiter = "```" if stripped.startswith("```") else stripped
        lines += [*blanks, line]
        blanks.clear()
    return "\n".join(lines + blanks)
