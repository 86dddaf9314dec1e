"""Parses plain text and front matter, and defines the errors and helpers that all readers share."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

from turnmark.corpora.readers.common.encoded_data import without_encoded_data
from turnmark.corpora.text.segmentation import lines, trim_range, words
from turnmark.corpora.types import Block, Document

MAX_TITLE_LENGTH = 200  # characters; a longer title is cut at a word
MAX_TITLE_LINE_LENGTH = 80  # characters of a first line that still counts as a title
SOFT_HYPHEN = "\u00ad"
"""An invisible mark where a word may be hyphenated. It is removed, because a search would not find the word."""
_MIN_SAID_SHARE = 0.7  # of the words of a title in the metadata, which the beginning of the text contains
_UNDERLINE = re.compile(r"([=\-~*^#])\1{2,}\s*$")


class Unreadable(Exception):
    """A file cannot be read as a document and becomes a Problem. `binary` says that it is not text at all."""

    def __init__(self, message: str, line: int | None = None, binary: bool = False) -> None:
        super().__init__(message)
        self.line = line
        self.binary = binary


class WrongFileType(Exception):
    """A file does not have the type its suffix suggests, e.g. a `notes.1` that is not a man page. It is skipped."""


class UndescribedPicture(Exception):
    """A file is a picture, and pictures are not described. `reason` is the key under which it is counted."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def small_number(said: object, default: int = 1, digits: int = 3) -> int:
    """Return the whole number that a file states in an attribute; `default` if it is none, or has more digits."""
    text = str(said).strip()
    return int(text) if text.isdecimal() and len(text) <= digits else default


def first_line(error: BaseException) -> str:
    """Return the first line of an error, up to 200 characters, or else its type."""
    return (str(error).splitlines() or [""])[0][:200] or type(error).__name__


_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


_CODE_PAGES = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "shift_jis": "cp932", "gb2312": "gb18030", "gbk": "gb18030",
    "euc_kr": "cp949", "iso8859-9": "cp1254", "iso8859-11": "cp874",
}  # fmt: skip
"""Encoding names that programs write for a larger encoding (https://encoding.spec.whatwg.org)."""


def python_encoding(name: str) -> str:
    """Return Python's name of a declared encoding; empty if it is unknown."""
    try:
        known = codecs.lookup(name.strip().lower().removeprefix("x-")).name
        "".encode(known)  # some listed codecs do not encode text
    except (LookupError, ValueError):
        return ""
    return _CODE_PAGES.get(known, known)


_SAID_ENCODING = re.compile(
    rb"<meta\b[^>]{0,200}\bcharset\s*=\s*[\"']?\s*([\w:.-]+)|<\?xml\b[^>]{0,200}\bencoding\s*=\s*[\"']([\w:.-]+)"
    rb"|\\usepackage\[([\w-]+)\]\{inputenc\}|\A(?:[^\n]*\n)?[ \t]*#[^\n]*?coding[:=][ \t]*([\w.-]+)",
    re.IGNORECASE,
)


def declared_encoding(data: bytes) -> str:
    """Return the encoding that HTML, XML, LaTeX or a script declares; empty if it declares none."""
    said = _SAID_ENCODING.search(data, 0, 10_000)
    return next(filter(None, said.groups())).decode("ascii", "ignore") if said else ""


def decode(data: bytes, said: str = "") -> str:
    """Decode the bytes of a text file, with "\\n" for newlines.

    The encoding is UTF-8, UTF-16 if a byte order mark says so, or else the declared one.

    Args:
        said: the encoding that the file declares, used if the file is not UTF-8.
    """
    encoding = next((name for mark, name in _BOMS if data.startswith(mark)), "utf-8")
    meant = python_encoding(said)
    if encoding == "utf-8" and meant and not meant.startswith("utf"):
        # ISO 2022 text consists of ASCII bytes, so it looks like UTF-8.
        encoding = meant if meant.startswith("iso2022") or not is_utf8(data) else encoding
    if encoding.startswith("utf-8") and b"\0" in data:
        line = _line_number(data, data.index(b"\0"))
        raise Unreadable("contains NUL bytes, so it is not text", line=line, binary=True)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"not valid {encoding.removesuffix('-sig').upper()} (byte {error.start + 1}: 0x{data[error.start]:02x}); "
            "save the file as UTF-8",
            line=_line_number(data, error.start) if encoding.startswith("utf-8") else None,
        ) from error
    if "\0" in text:
        raise Unreadable("contains NUL characters, so it is not text", binary=True)
    return text.replace("\r\n", "\n").replace("\r", "\n").replace(SOFT_HYPHEN, "")


def is_utf8(data: bytes) -> bool:
    """Return whether bytes are text in UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


_UNSAFE = re.compile("\x1b\\[[\\d;]*[A-Za-z]|[\0-\x08\x0b\x0c\x0e-\x1f\xad\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Remove control characters, terminal color codes, soft hyphens and lone surrogates, and normalize newlines."""
    return _UNSAFE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def _line_number(data: bytes, offset: int) -> int:
    return data[:offset].replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1


def parse_text(text: str, relative: str) -> Document:
    """Parse a text file. The document's text has "\\n" for newlines. Data in base64 are left out."""
    left_out: Counter[str] = Counter()
    text = without_encoded_data(text, left_out)
    return Document(
        id=relative,
        title=_first_line_title(text) or title_from_name(relative),
        text=text,
        path=relative,
        blocks=tuple(paragraphs(text)),
        left_out=dict(+left_out),
    )


def fence_around(code: str) -> str:
    """Return a fence that is longer than every run of backticks in a code."""
    longest = max((len(run) for run in re.findall(r"`{3,}", code)), default=2)
    return "`" * (longest + 1)


def title_from_name(relative: str) -> str:
    """Make a title from a file name, without its suffix and with spaces for '-' and '_'."""
    name = PurePosixPath(relative)
    return " ".join(re.sub(r"[-_]+", " ", name.stem).split()) or name.name


def main_heading(headings: Sequence[str], relative: str) -> str:
    """Choose the title: the only heading of level 1, or the first of several if it resembles the file name.

    Otherwise the file name is the title.
    """
    first, name = headings[0] if headings else "", title_from_name(relative)
    if len(headings) > 1 and name.lower() not in ("readme", "index") and not {*words(first)} & {*words(name)}:
        return name
    return first or name


_NO_TITLE = re.compile(
    r"(?:untitled|microsoft|slide|title|document|no title|powerpoint|presentation|workbook)\b.*"
    r"|.*\.(?:dvi|tex|docx?|pptx?|xlsx?|indd|qxd|pdf|ps|odt|odp|ods|fm|rtf|html?)",
    re.IGNORECASE,
)


def is_meaningful_title(text: str) -> bool:
    """Return whether a title in metadata was written by a person, unlike "Microsoft Word - x.doc"."""
    return len(text) >= 3 and not _NO_TITLE.fullmatch(text)


def is_said_in(title: str, opening: str) -> bool:
    """Return whether the opening of a text contains a title. Many files keep the title of their template."""
    opening_words = {*words(opening)}
    said = words(title)
    return bool(said) and sum(word in opening_words for word in said) >= _MIN_SAID_SHARE * len(said)


def shorten_title(title: str) -> str:
    """Shorten a title to `MAX_TITLE_LENGTH` characters."""
    if len(title) <= MAX_TITLE_LENGTH:
        return title
    return title[:MAX_TITLE_LENGTH].rsplit(" ", 1)[0] + "…"


def paragraphs(text: str) -> Iterator[Block]:
    """Yield the paragraphs of a text, which blank lines separate."""
    blank = [offset for offset, line in lines(text) if not line.strip()]
    for begin, stop in pairwise([0, *blank, len(text)]):
        start, end = trim_range(text, begin, stop)
        if start < end:
            yield Block(kind="paragraph", start=start, end=end)


def _first_line_title(text: str) -> str:
    """Return a text's first line; empty if it does not look like a title."""
    head = [line.strip() for line in text.lstrip("\n").split("\n", 4)[:4]]
    if len(head) > 2 and _UNDERLINE.match(head[0]):  # reStructuredText: a line above and below the title
        head = head[1:]
    if len(head) < 2 or not 0 < len(head[0]) <= MAX_TITLE_LINE_LENGTH:
        return ""
    return " ".join(head[0].split()) if not head[1] or _UNDERLINE.match(head[1]) else ""


_YAML = re.compile(r"---[ \t]*\n(?P<body>(?:(?!---|\.\.\.)[^\n]*\n)*+)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_TOML = re.compile(r"\+\+\+[ \t]*\n(?P<body>(?:(?!\+\+\+)[^\n]*\n)*+)\+\+\+[ \t]*(?:\n|\Z)")
# The possible beginnings of a line of YAML or TOML. Other text between two rules is not front matter.
_METADATA_LINE = re.compile(r"\s|$|#|[-\]})]|\[|[\w\"'.$-][^:=\n]{0,100}[:=](?:\s|$|(?<==))")
_DATES = "last_modified last-modified last_updated lastmod updated modified date".split()  # in order of preference
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?![\d-])")
_BLOCK_SCALAR = re.compile(r"[>|][+-]?\d?$")


_SEARCHED_FIELD = re.compile(
    r"(?:alias(?:es)?|tags?|keywords?|categor(?:y|ies)|topics?|authors?|owners?|maintainers?|reviewers?|approvers?"
    r"|contacts?|departments?|teams?|projects?|products?|customers?|clients?|locations?|audience|status|state|stage"
    r"|priority|version|severity|due|deadline|expires|valid[_-](?:from|until|to)|effective(?:[_-]date)?"
    r"|(?:next[_-])?review(?:[_-]date|ed(?:[_-](?:by|on))?)?|(?:due|start|end|expiry|release)[_-]date|subtitle"
    r"|description|summary|abstract|intro(?:duction)?)",
    re.IGNORECASE,
)
"""Fields of front matter that people search for. Others are settings of a site generator."""
_FIELD_NAME = re.compile(r"^([A-Za-z][\w-]{0,40})[ \t]*[:=]", re.MULTILINE)
_MAX_FIELD_LENGTH = 500  # characters
_LISTED_FIELD = re.compile(r"tags?|keywords?|categor(?:y|ies)|topics?", re.IGNORECASE)
_MAX_KEYS, _MAX_KEY_LENGTH, _MAX_VALUES, _MAX_VALUE_LENGTH = 50, 40, 100, 200
_PATH = re.compile(r"\.{0,2}/\S*|\w+://\S*")


class FrontMatter(NamedTuple):
    """Title and date from a page's front matter, and other fields as lines "owner: Mira"; empty if they are missing.

    `metadata` has the values of all keys, as `limited_metadata` returns them.
    """

    title: str = ""
    date: str = ""
    fields: tuple[str, ...] = ()
    metadata: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    """Split a page into its front matter and the text after it."""
    match = _YAML.match(text) or _TOML.match(text)
    if match is None:
        return FrontMatter(), text
    lines = [line for line in match["body"].split("\n") if line.strip()]
    if not all(_METADATA_LINE.match(line) for line in lines):
        return FrontMatter(), text
    dates = (_metadata(match["body"], key) for key in _DATES)
    date = date_part(next(filter(None, dates), ""))
    names = dict.fromkeys(_FIELD_NAME.findall(match["body"]))
    metadata = limited_metadata((name, _values(match["body"], name)) for name in names)
    front = FrontMatter(_metadata(match["body"], "title"), date, tuple(_searched_fields(match["body"])), metadata)
    return front, text[match.end() :].lstrip("\n")


def limited_metadata(given: Iterable[tuple[str, Sequence[str]]]) -> dict[str, tuple[str, ...]]:
    """Return the first keys in lower case, each with its first values without empty ones; long values are left out.

    Of a time only the date is kept. Tags on one line are separated.
    """
    metadata: dict[str, tuple[str, ...]] = {}
    for key, values in given:
        if len(metadata) == _MAX_KEYS or len(key) > _MAX_KEY_LENGTH:
            continue
        separated = values[0].split(",") if len(values) == 1 and _LISTED_FIELD.fullmatch(key) else values
        stripped = (value.strip() for value in separated[:_MAX_VALUES])
        kept = (date_part(value) if _ISO_DATE.match(value) else value for value in stripped)
        if short := tuple(value for value in kept if 0 < len(value) <= _MAX_VALUE_LENGTH):
            metadata[key.lower()] = short
    return metadata


def _searched_fields(body: str) -> Iterator[str]:
    """Yield the fields that people search for: "tags: baking, bread"."""
    for name in dict.fromkeys(_FIELD_NAME.findall(body)):
        if _SEARCHED_FIELD.fullmatch(name):
            values = [value for value in _values(body, name) if not _PATH.fullmatch(value)]
            words = ", ".join(values)
            if words and len(words) <= _MAX_FIELD_LENGTH:
                yield f"{name}: {words}"


def _values(body: str, key: str) -> list[str]:
    """Return the values of a key, which may be a list; empty if it has fields of its own."""
    listed = re.search(rf"^{key}[ \t]*[:=][ \t]*(?:#[^\n]*)?((?:\n[ \t]*-[ \t]+[^\n]*)+)", body, re.MULTILINE)
    value = _metadata(body, key)
    if listed:
        items = [line.strip()[1:].strip() for line in listed[1].split("\n") if line.strip()]
    elif value.startswith("[") and value.endswith("]") and not value.startswith("[["):
        items = re.findall(r"\"[^\"]*\"|'[^']*'|[^,]+", value[1:-1])
    else:
        items = [] if re.match(r"\[(?!\[)|\{|[\w-]+:[ \t]", value) else [value]
    stripped = (item.strip().strip("\"'").replace("[[", "").replace("]]", "").strip() for item in items)
    return [item for item in stripped if item and not re.match(r"[\w-]+:(?:[ \t]|$)", item)]


def date_part(value: str) -> str:
    """Return an ISO 8601 date without its time, or the first 40 characters of any other value."""
    iso = _ISO_DATE.match(value.strip())
    return iso.group() if iso else value.strip()[:40]


def _metadata(body: str, key: str) -> str:
    """Return the value of a key in YAML or TOML front matter; empty if it is missing."""
    match = re.search(
        rf"^(?:{key}|\"{key}\")[ \t]*[:=][ \t]*(?P<first>[^\n]*)(?P<more>(?:\n[ \t]+[^\n]*)*+)", body, re.MULTILINE
    )
    if match is None:
        return ""
    first, continuation = match["first"].strip(), match["more"]
    value = continuation if _BLOCK_SCALAR.match(first) else first + continuation
    value = " ".join(value.split())
    quoted = re.match(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^']|'')*)'", value)
    if quoted:
        double_quoted, single_quoted = quoted.groups()
        if double_quoted is None:
            return single_quoted.replace("''", "'")
        return double_quoted.replace('\\"', '"').replace("\\\\", "\\")
    return re.split(r"[ \t]#", value)[0].strip()
