"""Reads mail: a message (.eml), or a mailbox of many (.mbox), with Python's email package (RFC 5322, RFC 4155)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import getaddresses, parsedate_to_datetime
from pathlib import Path

from turnmark.corpora.readers.html import parse_html
from turnmark.corpora.readers.markdown import blocks
from turnmark.corpora.readers.office.packed import clean
from turnmark.corpora.readers.prose import Unreadable, shorten_title, stem
from turnmark.corpora.readers.table import Progress
from turnmark.corpora.types import Block, Document, Problem

MAX_MESSAGE = 64 * 1024 * 1024  # bytes
_KNOWN = ("from", "to", "subject", "date", "message-id", "received", "return-path")
_SHOWN = ("From", "To", "Cc", "Date")
_WRITES = re.compile(r"(?:On|Am|Le|El|Op|Il|Em)\b[^\n]{5,200}(?::|\n[^\n]{0,100}:)\s*\Z")
_FORWARDED = re.compile(
    r"^(?:-{2,}\s*(?:Original Message|Forwarded message|Ursprüngliche Nachricht|Message d'origine)\b[^\n]*|_{20,})$",
    re.MULTILINE | re.IGNORECASE,
)


def read_eml(path: Path, relative: str, _: Progress) -> Document:
    """Read one message."""
    data = path.read_bytes()
    if not data.strip():
        raise Unreadable("empty: there is no text in it")
    return _document(data, relative, relative)


def read_mbox(path: Path, relative: str, progress: Progress) -> Iterator[Document | Problem]:
    """Read the messages of a mailbox; the id of each is the file with "#" and its number."""
    number = 0
    for number, data in enumerate(_messages(path), 1):
        progress(0, 0)
        key = f"{relative}#{number}"
        try:
            yield _document(data, key, relative)
        except (Unreadable, RecursionError) as error:
            yield Problem(file=key, what=str(error) or "nested too deeply")
    if not number:
        raise Unreadable("no mailbox: no line begins a message with 'From '")


def _messages(path: Path) -> Iterator[bytes]:
    """The messages, one in memory at a time. One begins with "From " at the beginning or after a blank line."""
    lines: list[bytes] | None = None
    size, blank = 0, True
    with path.open("rb") as file:
        while line := file.readline(1 << 20):
            if blank and line.startswith(b"From "):
                if lines is not None:
                    yield b"".join(lines)
                lines, size = [], 0
            elif lines is not None and size <= MAX_MESSAGE:
                lines.append(line[1:] if line.startswith(b">From ") else line)
                size += len(line)
            blank = not line.strip()
    if lines is not None:
        yield b"".join(lines)


def _document(data: bytes, key: str, path: str) -> Document:
    message = message_from_bytes(data, policy=policy.default)
    assert isinstance(message, EmailMessage)
    if not any(name in message for name in _KNOWN):
        raise Unreadable("no mail: it has neither sender nor subject nor date")
    subject = _header(message, "Subject")
    parts: list[tuple[str, tuple[Block, ...]]] = []
    if subject:
        _add(parts, f"# {subject}")
    _add(parts, "\n".join(_head_lines(message)))
    own, quoted = _body(message)
    parts += own
    attachments = _attachments(message)
    if attachments:
        _add(parts, f"Attachments: {', '.join(attachments)}")
    if quoted:
        _add(parts, f"## Quoted message\n\n{quoted}")
    text, found = _joined(parts)
    return Document(
        id=key,
        title=shorten_title(subject) or stem(path),
        text=text,
        path=path,
        blocks=found,
        date=_date(message)[:10],
    )


def _add(parts: list[tuple[str, tuple[Block, ...]]], text: str) -> None:
    if text.strip():
        parts.append((text, tuple(blocks(text))))


def _joined(parts: list[tuple[str, tuple[Block, ...]]]) -> tuple[str, tuple[Block, ...]]:
    """One text of several, with their blocks in it."""
    text, found = "", []
    for part, part_blocks in parts:
        text += "\n\n" if text else ""
        at = len(text)
        for block in part_blocks:
            found.append(block.model_copy(update={"start": block.start + at, "end": block.end + at}))
        text += part.rstrip()
    return text + "\n", tuple(found)


def _header(message: EmailMessage, name: str) -> str:
    try:
        value = str(message.get(name) or "")
    except Exception:  # of a broken header the parser raises whatever it stumbles over
        return ""
    return " ".join(clean(value).split())


def _head_lines(message: EmailMessage) -> Iterator[str]:
    for name in _SHOWN:
        value = _date(message) if name == "Date" else _people(_header(message, name))
        if value:
            yield f"{name}: {value}"


def _people(header: str) -> str:
    """Names with their addresses in brackets that are not taken for markup."""
    shown: list[str] = []
    for name, address in getaddresses([header])[:50]:
        shown.append(f"{name} ({address})" if name and address else name or address)
    return ", ".join(filter(None, shown)) or header


def _date(message: EmailMessage) -> str:
    header = _header(message, "Date")
    try:
        return f"{parsedate_to_datetime(header):%Y-%m-%d %H:%M}"
    except (ValueError, TypeError, OverflowError):
        return header


# --- the text --------------------------------------------------------------------------------------------------------


def _body(message: EmailMessage) -> tuple[list[tuple[str, tuple[Block, ...]]], str]:
    """The text of a message in pieces with their blocks, and the message that is quoted below it."""
    plain, page = _content(message, "plain"), _content(message, "html")
    own: list[tuple[str, tuple[Block, ...]]] = []
    if len(plain.strip()) < 20 and page.strip():
        document = parse_html(page, "mail")
        if document.text.strip():
            own.append((document.text, document.blocks))
        return own, ""
    text, quoted = _without_quoted(plain)
    _add(own, text)
    return own, quoted


def _content(message: EmailMessage, kind: str) -> str:
    try:
        part = message.get_body(preferencelist=(kind,))
    except Exception:
        part = None
    if part is None:
        return ""
    try:
        text = str(part.get_content())
    except Exception:  # an unknown or a wrong encoding
        data = part.get_payload(decode=True)
        text = data.decode("utf-8", "replace") if isinstance(data, bytes) else ""
    text = clean(text)
    return _flowed(text) if kind == "plain" and part.get_param("format") == "flowed" else text


def _flowed(text: str) -> str:
    """Join the lines that end with a space (RFC 3676)."""
    return re.sub(r"(?<=\S) \n(?=[^\s>])", " ", text)


def _without_quoted(text: str) -> tuple[str, str]:
    """Split off the message that is quoted at the end. Short quotations between the sender's lines stay there."""
    forwarded = _FORWARDED.search(text)
    if forwarded and text[: forwarded.start()].strip():
        return text[: forwarded.start()].strip("\n"), text[forwarded.end() :].strip("\n")
    lines = text.rstrip().split("\n")
    first = len(lines)
    while first and (lines[first - 1].startswith(">") or not lines[first - 1].strip()):
        first -= 1
    quoted = [re.sub(r"^(?:>[ ]?)+", "", line) for line in lines[first:]]
    above = "\n".join(lines[:first])
    if not above.strip() or not any(line.strip() for line in quoted):
        return text.strip("\n"), ""
    return _WRITES.sub("", above).strip("\n"), "\n".join(quoted).strip("\n")


def _attachments(message: EmailMessage) -> list[str]:
    """The names of what is attached, which is not read."""
    names: list[str] = []
    for part in message.walk():
        try:
            name = part.get_filename()
        except Exception:
            name = None
        if name:
            names.append(" ".join(clean(str(name)).split())[:200])
    return names[:100]
