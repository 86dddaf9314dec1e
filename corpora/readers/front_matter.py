"""Front matter: the metadata that site generators put at the head of a page, between `---` (YAML) or `+++` (TOML).

Only its title is used. The block is read line by line and not as YAML, because many pages hold front matter that no
YAML parser accepts (`title: Travel: before you go`) and because a document may not decide how much memory is used.
"""

from __future__ import annotations

import re

_YAML = re.compile(r"---[ \t]*\n(?P<body>(?:(?!---|\.\.\.)[^\n]*\n)*+)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_TOML = re.compile(r"\+\+\+[ \t]*\n(?P<body>(?:(?!\+\+\+)[^\n]*\n)*+)\+\+\+[ \t]*(?:\n|\Z)")
# What may stand at the beginning of a line of YAML or TOML; a text between two rules is no front matter.
_METADATA_LINE = re.compile(r"\s|$|#|[-\]})]|\[|[\w\"'.$-][^:=\n]{0,100}[:=](?:\s|$|(?<==))")
_TITLE = re.compile(
    r"^(?:title|\"title\")[ \t]*[:=][ \t]*(?P<title>[^\n]*)(?P<more>(?:\n[ \t]+[^\n]*)*+)", re.MULTILINE
)
_BLOCK_SCALAR = re.compile(r"[>|][+-]?\d?$")


def split_front_matter(text: str) -> tuple[str, str]:
    """(title, the text behind the front matter) of a page; no title is "", and no front matter leaves the text."""
    match = _YAML.match(text) or _TOML.match(text)
    if match is None:
        return "", text
    lines = [line for line in match["body"].split("\n") if line.strip()]
    if not all(_METADATA_LINE.match(line) for line in lines):
        return "", text
    return _title(match["body"]), text[match.end() :].lstrip("\n")


def _title(body: str) -> str:
    match = _TITLE.search(body)
    if match is None:
        return ""
    first, more = match["title"].strip(), match["more"]
    value = more if _BLOCK_SCALAR.match(first) else first + more
    value = " ".join(value.split())
    if quoted := re.match(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^']|'')*)'", value):
        double, single = quoted.groups()
        return double.replace('\\"', '"').replace("\\\\", "\\") if double is not None else single.replace("''", "'")
    return re.split(r"[ \t]#", value)[0].strip()
