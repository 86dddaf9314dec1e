"""Reads mail messages (.eml) and mailboxes (.mbox) with Python's email package (RFC 5322, RFC 4155)."""

from __future__ import annotations

import re
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import getaddresses, parsedate_to_datetime
from pathlib import Path
from quopri import decodestring
from typing import TypeVar

from turnmark.corpora.readers.calendar import sections_of
from turnmark.corpora.readers.common.encoded_data import without_encoded_data
from turnmark.corpora.readers.common.prose import (
    Unreadable,
    clean_text,
    date_part,
    declared_encoding,
    decode,
    limited_metadata,
    python_encoding,
    shorten_title,
    title_from_name,
)
from turnmark.corpora.readers.markup.html import parse_html
from turnmark.corpora.readers.markup.markdown import blocks
from turnmark.corpora.readers.registry import ProgressCallback
from turnmark.corpora.types import Block, Document, Problem

T = TypeVar("T")

MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # bytes
_MAX_ATTACHED_MESSAGES = 200  # attached to one message, e.g. a digest
_MAIL_FIELDS = ("from", "to", "subject", "date", "message-id", "received", "return-path")
_DISPLAYED_FIELDS = ("From", "To", "Cc", "Date")
_QUOTE_INTRODUCTION = re.compile(
    r"^[ \t]*(?:On|Am|Le|El|Op|Il|Em)\b(?=[^\n]*[\d@])[^\n]{5,200}(?::|\n[^\n]{0,100}:)\s*\Z", re.MULTILINE
)
_FORWARD_MARK = re.compile(
    r"^(?:-{2,}\s*(?:Original Message|Forwarded message|Ursprüngliche Nachricht|Message d'origine)\b[^\n]*"
    r"|_{20,}(?=\s*\n[ \t*]*(?:From|Von|De|Van|Da)\b[^\n]{0,3}:))$",  # a line alone may precede a list's footer
    re.MULTILINE | re.IGNORECASE,
)
_MBOX_SEPARATOR = re.compile(rb"From .*\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|\d\d:\d\d)\b")
"""Matches the line above a message, which has a date. "From my side" is part of a message."""
_SIGNATURE = re.compile(r"(?<=\S)\n-- ?\n")
"""Matches the line above a signature. Without a blank line before it, it would make the last paragraph a heading."""
_MAX_STUB_LENGTH = 300  # characters; for such a short text, a much longer HTML part may be the message


def read_eml(path: Path, relative: str, _: ProgressCallback) -> Document:
    """Read one message."""
    data = path.read_bytes()
    if not data.strip():
        raise Unreadable("empty: there is no text in it")
    return _document(data, relative, relative)


def read_mbox(path: Path, relative: str, progress: ProgressCallback) -> Iterator[Document | Problem]:
    """Read the messages of a mailbox. The id of each is the file name with "#" and its number."""
    number = 0
    for number, data in enumerate(_messages(path), 1):
        progress(0, 0)
        key = f"{relative}#{number}"
        try:
            yield _document(data, key, relative)
        except Unreadable as error:
            yield Problem(file=key, what=str(error))
        except RecursionError:
            yield Problem(file=key, what="nested too deeply")
        except Exception as error:  # the parser may raise any exception for a broken header
            yield Problem(file=key, what=f"a broken message ({type(error).__name__}: {error})")
    if not number:
        raise Unreadable("not a mailbox: no message begins with a 'From ' line")


def _messages(path: Path) -> Iterator[bytes]:
    """Yield the messages one at a time. A line begins each, at the start of the file or after a blank line."""
    lines: list[bytes] | None = None
    size, blank = 0, True
    with path.open("rb") as file:
        while line := file.readline(1 << 20):
            if blank and _MBOX_SEPARATOR.match(line):
                if lines is not None:
                    yield b"".join(lines)
                lines, size = [], 0
            elif lines is not None and size <= MAX_MESSAGE_BYTES:
                lines.append(line[1:] if line.startswith(b">From ") else line)
                size += len(line)
            blank = not line.strip()
    if lines is not None:
        yield b"".join(lines)


def _document(data: bytes, key: str, path: str) -> Document:
    message = message_from_bytes(data, policy=policy.default)
    assert isinstance(message, EmailMessage)
    if not any(name in message for name in _MAIL_FIELDS):
        raise Unreadable("not a mail: it has no sender, subject or date")
    left_out: Counter[str] = Counter()
    text, found = _join_parts(_parts(message, left_out))
    return Document(
        id=key,
        title=shorten_title(_header(message, "Subject")) or title_from_name(path),
        text=text,
        path=path,
        blocks=found,
        metadata=limited_metadata((name, _participants(_header(message, name))) for name in ("from", "to", "cc")),
        date=date_part(_date(message)) if re.search(r"\d", _header(message, "Date")) else "",
        left_out=dict(left_out),
    )


_Parts = list[tuple[str, tuple[Block, ...]]]
"""Texts, each with its blocks."""


def _parts(message: EmailMessage, left_out: Counter[str], level: int = 1) -> _Parts:
    """Return a message as a section, followed by its attached messages."""
    parts: _Parts = []
    subject = _header(message, "Subject") or ("Attached message" if level > 1 else "")
    if subject:
        _add_text(parts, f"{'#' * level} {subject}")
    _add_text(parts, "\n".join(_head_lines(message)))
    quotations: list[str] = []
    names: list[str] = []
    attached: list[EmailMessage] = []
    for part in _shown_parts(message):
        if _is_message(part):
            attached += _attached_messages(part)
        elif not _safely(part.is_attachment, False):
            own, quoted = _body(part, left_out)
            parts += own
            quotations += [quoted] if quoted else []
        names += _names(part)
    if names:
        _add_text(parts, f"Attachments: {', '.join(names[:100])}")
    for quoted in quotations:
        _add_text(parts, f"{'#' * (level + 1)} Quoted message\n\n{quoted}")
    for inner in attached[:_MAX_ATTACHED_MESSAGES]:
        parts += _parts(inner, left_out, min(level + 1, 5))
    return parts


_TRANSFER_ENCODINGS = frozenset({"base64", "quoted-printable"})


def _is_message(part: EmailMessage) -> bool:
    return part.get_content_type() == "message/rfc822" or any(
        name.lower().endswith(".eml") for name in _names(part) if not part.is_multipart()
    )


def _attached_messages(part: EmailMessage) -> Iterator[EmailMessage]:
    """Yield the messages that a part contains. Some gateways encode them, although RFC 2046 forbids it."""
    if not part.is_multipart():  # a file named .eml
        data = part.get_payload(decode=True)
        yield from _parse_message(data if isinstance(data, bytes) else b"")
        return
    encoding = str(part.get("Content-Transfer-Encoding", "")).strip().lower()
    for inner in part.iter_parts():
        if isinstance(inner, EmailMessage):
            yield (
                next(_parse_message(_decode(inner.as_bytes(), encoding)), inner)
                if encoding in _TRANSFER_ENCODINGS
                else inner
            )


def _parse_message(data: bytes) -> Iterator[EmailMessage]:
    """Yield the message of some bytes, if they are one."""
    message = message_from_bytes(data, policy=policy.default)
    if isinstance(message, EmailMessage) and any(name in message for name in _MAIL_FIELDS):
        yield message


def _decode(data: bytes, encoding: str) -> bytes:
    try:
        return b64decode(data) if encoding == "base64" else decodestring(data)
    except ValueError:
        return b""


def _shown_parts(message: EmailMessage) -> Iterator[EmailMessage]:
    """Yield the displayed parts of a message in order. Alternatives, and the parts of one page, count as one part."""
    is_one = message.get_content_subtype() in ("alternative", "related")
    if message.get_content_maintype() != "multipart" or is_one:
        yield message
        return
    for part in message.iter_parts():
        if isinstance(part, EmailMessage):
            yield from _shown_parts(part)


def _add_text(parts: _Parts, text: str) -> None:
    if text.strip():
        parts.append((text, tuple(blocks(text))))


def _join_parts(parts: _Parts) -> tuple[str, tuple[Block, ...]]:
    """Join texts into one, with the blocks of all."""
    text, found = "", []
    for part, part_blocks in parts:
        text += "\n\n" if text else ""
        at = len(text)
        found += [each.model_copy(update={"start": each.start + at, "end": each.end + at}) for each in part_blocks]
        text += part.rstrip()
    return text + "\n", tuple(found)


def _safely(read: Callable[[], T], default: T) -> T:
    """Return what a function of the parser returns, which may raise any exception for a broken header."""
    try:
        return read()
    except Exception:
        return default


def _header(message: EmailMessage, name: str) -> str:
    value = _safely(lambda: str(message.get(name) or ""), "")
    return " ".join(clean_text(value).split())


def _head_lines(message: EmailMessage) -> Iterator[str]:
    for name in _DISPLAYED_FIELDS:
        value = _date(message) if name == "Date" else _people(_header(message, name))
        if value:
            yield f"{name}: {value}"


def _people(header: str) -> str:
    """Return names with their addresses in parentheses, which are not read as markup."""
    people = getaddresses([header])[:50]
    shown = (f"{name} ({address})" if name and address else name or address for name, address in people)
    return ", ".join(filter(None, shown)) or header


def _participants(header: str) -> list[str]:
    """Return names and addresses, each as a value of its own."""
    return [each for pair in getaddresses([header])[:50] for each in pair if each]


def _date(message: EmailMessage) -> str:
    header = _header(message, "Date")
    try:
        return f"{parsedate_to_datetime(header):%Y-%m-%d %H:%M}"
    except (ValueError, TypeError, OverflowError):
        return header


# --- the text --------------------------------------------------------------------------------------------------------


def _body(part: EmailMessage, left_out: Counter[str]) -> tuple[_Parts, str]:
    """Return the text of a part in pieces with their blocks, and the message quoted below it."""
    plain, page = _content(part, "plain"), _content(part, "html")
    own: _Parts = []
    if len(plain.strip()) < _MAX_STUB_LENGTH and page.strip():
        document = parse_html(page, "mail")
        if len(document.text) > 3 * len(plain.strip()):
            own.append((document.text, document.blocks))
            return own, ""
    if not plain.strip() and not page.strip() and part.get_content_type() == "text/calendar":
        data = part.get_payload(decode=True)
        plain = "\n\n".join(sections_of(clean_text(data.decode("utf-8", "replace")))) if isinstance(data, bytes) else ""
    text, quoted = _without_quoted(without_encoded_data(plain, left_out))
    _add_text(own, _SIGNATURE.sub("\n\n-- \n", text))
    return own, quoted


def _content(message: EmailMessage, kind: str) -> str:
    part = _safely(lambda: message.get_body(preferencelist=(kind,)), None)
    data = part.get_payload(decode=True) if part is not None else None
    if part is None or not isinstance(data, bytes):
        return ""
    said = part.get_content_charset("") or (declared_encoding(data) if kind == "html" else "")
    try:
        text = decode(data, said or "cp1252")
    except Unreadable:  # the declared encoding is wrong
        text = data.decode(python_encoding(said) or "utf-8", "replace")
    text = clean_text(text)
    return _join_flowed_lines(text) if kind == "plain" and part.get_param("format") == "flowed" else text


def _join_flowed_lines(text: str) -> str:
    """Join lines that end with a space (RFC 3676), but not the line above a signature."""
    return re.sub(r"(?<=\S)(?<!\n--) \n(?=[^\s>])", " ", text)


def _without_quoted(text: str) -> tuple[str, str]:
    """Split off the message quoted at the end. Short quotations between the sender's own lines stay."""
    forwarded = _FORWARD_MARK.search(text)
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
    return _QUOTE_INTRODUCTION.sub("", above).strip("\n"), "\n".join(quoted).strip("\n")


def _names(message: EmailMessage) -> Iterator[str]:
    """Yield the names of attached files, which are not read."""
    parts = [message] if message.get_content_type() == "message/rfc822" else message.walk()
    for part in parts:
        if name := _safely(part.get_filename, None):
            yield " ".join(clean_text(str(name)).split())[:200]
