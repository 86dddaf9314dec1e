"""Reads appointments, tasks and notes (.ics, RFC 5545) and contacts (.vcf, RFC 6350), each as a section."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from quopri import decodestring

from turnmark.corpora.readers.common.encodings import decode_or_guess
from turnmark.corpora.readers.common.prose import Unreadable, shorten_title, title_from_name
from turnmark.corpora.readers.markup.markdown import parse_markdown
from turnmark.corpora.readers.registry import ProgressCallback
from turnmark.corpora.types import Document

_FOLD = re.compile(r"\n[ \t]|=\n(?=[^\n]*(?:=[0-9A-F]{2}|;|$))")
_LINE = re.compile(
    r"(?:[\w-]+\.)?(?P<name>[\w-]+)(?P<parameters>(?:;(?:\"[^\"]*\"|[^\":])*)?):(?P<value>.*)", re.DOTALL
)
_ITEMS = frozenset(("VEVENT", "VTODO", "VJOURNAL", "VCARD"))
_LABELS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
"""Properties that are read, with their labels."""
_DATE = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})(?:T(\d{2}):?(\d{2}):?\d{0,2}(Z?))?(?=$|[,/])")
_ESCAPED = re.compile(r"\\([\\;,nN])")
_NAMED = re.compile(r"(?:CN|TYPE|TZID)=(\"[^\"]*\"|[^;:]*)", re.IGNORECASE)


def read_calendar(path: Path, relative: str, _: ProgressCallback) -> Document:
    """Read the appointments, tasks, notes or contacts of a file."""
    text, remarks = decode_or_guess(path.read_bytes())
    sections, name = list(sections_of(text)), re.search(r"^X-WR-CALNAME[^:\n]*:([^\n]+)", text, re.MULTILINE)
    if not sections:
        raise Unreadable("without an appointment, a task or a contact; export it again")
    document = parse_markdown("\n\n".join(sections) + "\n", relative, of_site=False)
    title = shorten_title(name[1].strip()) if name else title_from_name(relative)
    return document.model_copy(update={"title": title, "remarks": remarks})


def sections_of(text: str) -> Iterator[str]:
    """Yield each appointment, task, note or contact of a calendar as a section of Markdown."""
    heading, lines, depth = "", list[str](), 0
    for line in _FOLD.sub("", text).split("\n"):
        found = _LINE.match(line.rstrip())
        if found is None:
            continue
        name, value = found["name"].lower(), found["value"]
        if name in ("begin", "end"):
            is_item = value.upper() in _ITEMS
            if name == "end" and is_item:
                yield "\n\n".join(filter(None, (f"## {heading or '?'}", "\n".join(lines))))
            if is_item:
                heading, lines, depth = "", [], int(name == "begin")
            else:
                depth += (1 if name == "begin" else -1) * bool(depth)
        elif depth == 1:  # not in an alarm or the definition of a time zone
            shown = _shown_value(value, found["parameters"])
            if name in ("summary", "fn"):
                heading = shown
            elif name in _LABELS and shown:
                lines.append(f"- {_LABELS[name]}: {shown}")


def _shown_value(value: str, parameters: str) -> str:
    """Return a value as a person reads it, with the name, kind or time zone that its parameters state."""
    if "QUOTED-PRINTABLE" in parameters.upper():
        value = decodestring(value.encode("latin-1", "replace")).decode("utf-8", "replace")
    value = _DATE.sub(_shown_date, value)
    value = re.sub(r"^(?:mailto|tel):", "", value, flags=re.IGNORECASE)
    whole = value if "FREQ=" in value else re.sub(r"(?<!\\);+", ", ", value).strip(", ")
    value = _ESCAPED.sub(lambda sign: " " if sign[1] in "nN" else sign[1], whole)
    said = [name.strip('"') for name in _NAMED.findall(parameters)]
    named = f" ({', '.join(said)})" if said else ""
    return " ".join(f"{value}{named}".split()) if value else ""


def _shown_date(date: re.Match[str]) -> str:
    day = "-".join(date.group(1, 2, 3))
    return f"{day} {date[4]}:{date[5]}{' UTC' if date[6] else ''}" if date[4] else day
