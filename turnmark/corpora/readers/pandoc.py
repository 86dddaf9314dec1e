"""Reads text documents, EPUB, markup languages, man pages and notebooks with pandoc.

Pandoc (https://pandoc.org) runs as a program in its sandbox, with limits on memory and time. `pandoc.lua` prepares its
output, which is read like any other Markdown.
"""

from __future__ import annotations

import importlib.util
import posixpath
import re
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory, TemporaryFile
from urllib.parse import unquote

from turnmark.corpora.readers.common.encodings import decode_or_guess
from turnmark.corpora.readers.common.prose import (
    Unreadable,
    WrongFileType,
    clean_text,
    declared_encoding,
    decode,
    is_said_in,
    is_utf8,
    parse_text,
)
from turnmark.corpora.readers.markup.markdown import parse_markdown
from turnmark.corpora.readers.office.archive import (
    EPUB,
    MAX_UNPACKED_BYTES,
    OPEN_DOCUMENT,
    WORD,
    OfficeMetadata,
    check_packed,
    parse_part,
    read_metadata,
    read_open_part,
    read_part,
    write_changed,
)
from turnmark.corpora.readers.office.opendocument import with_all_words_and_code
from turnmark.corpora.readers.office.rtf import with_letters
from turnmark.corpora.readers.office.word import with_all_words
from turnmark.corpora.readers.pictures.collector import MAX_PICTURE_BYTES, NO_PICTURE, PictureCollector
from turnmark.corpora.readers.pictures.image_size import HEAD_BYTES
from turnmark.corpora.readers.pictures.links import LinkedPictures, read_from
from turnmark.corpora.readers.registry import ProgressCallback
from turnmark.corpora.types import Document

_NUMBER = re.compile("\U0010f1c3(\\d{1,5})\U0010f1c2")


class PandocPictures:
    """The pictures of one document.

    Args:
        folder: an empty folder for the filter.
        path: the file that is read.
        relative: its path below the indexed folder.
        is_archive: whether the addresses of pictures name parts of the file rather than files next to it.
    """

    def __init__(self, folder: Path, path: Path, relative: str, is_archive: bool) -> None:
        self._linked = LinkedPictures(path, relative)
        self._folder, self._path, self._is_archive = folder, path, is_archive

    @property
    def collector(self) -> PictureCollector:
        """The collector of the document's pictures."""
        return self._linked.collector

    @property
    def options(self) -> list[str]:
        """Options of pandoc. Without a folder for the pictures, only as much of each is written as tells its size."""
        is_marked = self.collector.folder is not None
        size = MAX_PICTURE_BYTES + 1 if is_marked else HEAD_BYTES
        options = [f"--metadata=pictures-folder={self._folder}", f"--metadata=pictures-bytes={size}"]
        return [*options, "--metadata=pictures-marked=1"] if is_marked else options

    def take(self, markdown: str) -> str:
        """Hand over the pictures of a text, and return the text with their marks (`PictureCollector.placed`)."""
        if self.collector.folder is None:
            for number in sorted(int(file.stem) for file in self._folder.glob("*.alt")):
                self._mark(number)
            return markdown
        return _NUMBER.sub(lambda found: self._mark(int(found[1])) or NO_PICTURE, markdown)

    def _mark(self, number: int) -> str:
        content, link = self._folder / str(number), self._folder / f"{number}.link"
        alt = (self._folder / f"{number}.alt").read_text("utf-8", errors="replace")
        if content.is_file():
            return self.collector.mark(str(number), read_from(content), alt)
        name = link.read_text("utf-8", errors="replace")
        if self._is_archive:
            return self.collector.mark(str(number), lambda size: read_part(self._path, name, size), alt)
        return self._linked.mark(name, alt)


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


MAX_MEMORY_MEGABYTES = 1200  # of pandoc's heap
MAX_SECONDS = 300.0  # for one file
MAX_MARKDOWN_BYTES = 64 * 1024 * 1024
_PROGRESS_INTERVAL_SECONDS = 0.5
_FILTER = Path(__file__).with_name("pandoc.lua")
_OPENING_LENGTH = 3000  # in which a title from the metadata must appear
_HEAP_EXHAUSTED = 251


def read_word(path: Path, relative: str, progress: ProgressCallback) -> Document:
    """Read a Word file."""
    check_packed(path, WORD)
    return _read_prepared(with_all_words, "docx", path, relative, progress, read_metadata(path), bold_headings=True)


def read_odt(path: Path, relative: str, progress: ProgressCallback) -> Document:
    """Read an OpenDocument text."""
    check_packed(path, OPEN_DOCUMENT)
    said = read_metadata(path)
    return _read_prepared(with_all_words_and_code, "odt", path, relative, progress, said, bold_headings=True)


def read_epub(path: Path, relative: str, progress: ProgressCallback) -> Document:
    """Read a book."""
    check_packed(path, EPUB)
    return _read_prepared(_with_readable_pages, "epub", path, relative, progress)


def _read_prepared(
    prepare: Callable[[Path, Path, Counter[str]], bool], form: str, path: Path, relative: str,
    progress: ProgressCallback, metadata: OfficeMetadata | None = None, bold_headings: bool = False,
) -> Document:  # fmt: skip
    """Read a file, or the copy that `prepare` writes of it if pandoc would not read it completely."""
    with TemporaryDirectory() as folder:
        made, left_out = Path(folder) / f"made.{form}", Counter[str]()
        source = made if prepare(path, made, left_out) else path
        document = _document(form, source, path, relative, progress, metadata, bold_headings)
        return document.model_copy(update={"left_out": dict(+(left_out + Counter(document.left_out)))})


_READING = re.compile(r"<(rt|rp)\b[^>]*>.*?</\1\s*>", re.DOTALL)
_DOCTYPE = re.compile(r"<!DOCTYPE[^<>\[]*\[.*?\]\s*>", re.DOTALL)
_ENCODING = re.compile(r"<\?xml\b[^>]*\?>")
_PAGES = (".xhtml", ".html", ".htm")
_BLANK_PAGE = b'<html xmlns="http://www.w3.org/1999/xhtml"><body></body></html>'


def _with_readable_pages(path: Path, made: Path, left_out: Counter[str]) -> bool:
    """Write a copy of a book in which every page can be read; return False if the book is such a one.

    A page that is missing or damaged becomes blank, since pandoc would refuse the book. Pronunciation guides (ruby)
    inside words are left out.
    """
    changed: dict[str, bytes] = {}
    with zipfile.ZipFile(path) as book:
        names = book.namelist()
        pages = [name for name in names if name.lower().endswith(_PAGES)]
        for name in dict.fromkeys([*pages, *_listed_pages(book)]):
            content = read_open_part(book, name, MAX_UNPACKED_BYTES)
            readable = _readable_page(content)
            if not readable and (name not in names or book.getinfo(name).file_size):
                left_out["damaged pages"] += 1
                changed[name] = _BLANK_PAGE
            elif readable != content:
                changed[name] = readable
        if changed:
            write_changed(book, made, changed)
    return bool(changed)


def _listed_pages(book: zipfile.ZipFile) -> Iterator[str]:
    """Yield the names of the pages that the table of a book's parts lists."""
    for name in [name for name in book.namelist() if name.lower().endswith(".opf")]:
        tree = parse_part(book, name)
        for item in tree.iter("{*}item"):
            if item.get("media-type") == "application/xhtml+xml":
                place = posixpath.join(posixpath.dirname(name), unquote(str(item.get("href") or "").partition("#")[0]))
                yield posixpath.normpath(place)


def _readable_page(content: bytes) -> bytes:
    """Return a page in UTF-8 without pronunciation guides and declared entities; empty if it cannot be decoded."""
    try:
        text, _ = decode_or_guess(content, declared_encoding(content))
    except Unreadable:
        return b""
    cleaned = _READING.sub("", text) if "<rt" in text else text
    cleaned = _DOCTYPE.sub("", cleaned) if "<!ENTITY" in cleaned else cleaned
    if cleaned == text and is_utf8(content):
        return content
    return _ENCODING.sub("", cleaned, count=1).encode()


def read_rtf(path: Path, relative: str, progress: ProgressCallback) -> Document:
    """Read a Rich Text file."""
    data = path.read_bytes()
    if not data.lstrip().startswith(b"{\\rtf"):
        raise Unreadable(
            "not an RTF file, or a broken one; open it and save it again" if data.strip() else _EMPTY_MESSAGE
        )
    return _document("rtf", with_letters(data), path, relative, progress, bold_headings=True)


def read_notebook(path: Path, relative: str, progress: ProgressCallback) -> Document:
    """Read a Jupyter notebook."""
    return _document("ipynb", decode(path.read_bytes()), path, relative, progress)


_MAN = re.compile(r"^[.'][ \t]*(?P<macro>TH|SH|Dd|Dt|Sh)\b", re.MULTILINE)
_ROFF_LINE = re.compile(r"[.'\n]|\\")


def read_man(path: Path, relative: str, progress: ProgressCallback) -> Document:
    """Read a man page. Raises WrongFileType if it is not roff, e.g. `log.1`."""
    try:
        text = decode(path.read_bytes())
    except Unreadable:
        raise WrongFileType from None
    macro = _MAN.search(text, 0, 50_000)
    if not macro or not _ROFF_LINE.match(text.lstrip()):
        raise WrongFileType
    form = "mdoc" if macro["macro"] in ("Dd", "Dt", "Sh") else "man"
    document = _markup(form, text, path, relative, progress)
    name = PurePosixPath(relative)
    title = f"{name.stem}({name.suffix[1:]})"
    return document.model_copy(update={"title": title})


_MARKUP = {
    ".rst": "rst", ".rest": "rst", ".adoc": "asciidoc", ".asciidoc": "asciidoc", ".org": "org", ".tex": "latex",
    ".latex": "latex", ".mediawiki": "mediawiki", ".wiki": "mediawiki", ".textile": "textile", ".typ": "typst",
    ".opml": "opml", ".fb2": "fb2", ".dbk": "docbook", ".docbook": "docbook",
}  # fmt: skip


# Sphinx: pandoc does not know domain names, reads `class` as a style, and reads stars as emphasis.
_SIGNATURE = re.compile(
    r"^([ \t]*\.\. )(?:(?:py|c|cpp|js|rst):(?!module|currentmodule)[a-z]+|class(?=::[^\n]*[A-Z(.])|function|method"
    r"|classmethod|staticmethod|decorator|exception|attribute|data)::[ \t]+(\S[^\n]*)$",
    re.MULTILINE,
)
# Code that contains links, which pandoc reads as paragraphs.
_PARSED_LITERAL = re.compile(
    r"^([ \t]*)\.\. parsed-literal::[ \t]*\n((?:[ \t]*\n|\1[ \t]+[^\n]*(?:\n|\Z))*)", re.MULTILINE
)
_INTERPRETED_TEXT = re.compile(
    r"(?::[\w:+.-]+:)?`(?P<link>(?:\\.|[^`<>\n\\])+?)(?:[ ]?<[^`\n]*>)?`_{0,2}"
    r"|(?<![\w*])\*{1,2}(?P<bold>[^*\s]+)\*{1,2}(?![\w*])"
)


_NAME_PART = re.compile(r"</(?:honorific|firstname|givenname|othername|surname|year)>(?=<)")


def read_markup(path: Path, relative: str, progress: ProgressCallback) -> Document:
    """Read a text in a markup language."""
    form = _MARKUP[PurePosixPath(relative).suffix.lower()]
    data = path.read_bytes()
    is_xml = form in ("opml", "fb2", "docbook")
    text, remarks = decode_or_guess(data, declared_encoding(data) if is_xml or form == "latex" else "")
    if form == "rst":
        text = _PARSED_LITERAL.sub(_as_code, text)
        text = _SIGNATURE.sub(lambda found: f"{found[1]}object:: {found[2].replace('*', chr(92) + '*')}", text)
    elif form == "asciidoc":
        text = with_joined_lists(text)
    elif form == "docbook":
        text = _NAME_PART.sub(r"\g<0> ", text)
    if is_xml and "<!ENTITY" in text[:100_000]:
        raise Unreadable("declares XML entities; not opened")
    document = _markup(form, text, path, relative, progress)
    return document.model_copy(update={"remarks": remarks}) if remarks else document


def _as_code(literal: re.Match[str]) -> str:
    words = _INTERPRETED_TEXT.sub(lambda marked: marked["link"] or marked["bold"], literal[2])
    return f"{literal[1]}.. code::\n\n" + re.sub(r"\\(.)", r"\1", words)


def _markup(form: str, text: str, path: Path, relative: str, progress: ProgressCallback) -> Document:
    try:
        return _document(form, text, path, relative, progress)
    except _ParseFailure:
        return parse_text(text, relative)  # markup that a person wrote is readable as plain text


# --- pandoc ----------------------------------------------------------------------------------------------------------

_ARCHIVES = ("docx", "odt", "epub")
_EMPTY_MESSAGE = "empty: there is no text in it"


class _ParseFailure(Unreadable):
    """Raised if pandoc cannot parse a file."""


def _document(
    form: str,
    source: Path | str,
    path: Path,
    relative: str,
    progress: ProgressCallback,
    metadata: OfficeMetadata | None = None,
    bold_headings: bool = False,
) -> Document:
    """Convert a file, or a text, to a Document.

    Args:
        path: the file that is read; `source` may be a changed copy of it.
        metadata: title and date of the file, used if the text has none.
        bold_headings: whether short bold lines are headings if there are no others.
    """
    if isinstance(source, str) and not source.strip():
        raise Unreadable(_EMPTY_MESSAGE)
    with TemporaryDirectory() as folder:
        pictures = PandocPictures(Path(folder), path, relative, is_archive=form in _ARCHIVES)
        markdown = clean_text(_convert(form, source, progress, bold_headings, pictures.options))
        markdown = pictures.take(markdown)
    document = parse_markdown(markdown, relative, of_site=False, pictures=pictures.collector)
    said = metadata or OfficeMetadata()
    title, changed = document.title, said.date or document.date
    has_heading = any(block.kind == "heading" and block.level == 1 for block in document.blocks)
    is_trusted = not has_heading or is_said_in(said.title, document.text[:_OPENING_LENGTH])
    if said.title and is_trusted and not _has_title(markdown):
        title = said.title
    if not document.text.strip() and _has_title(markdown):  # all of its text is the title
        named = parse_markdown(title + "\n", relative)
        document = named.model_copy(update={"pictures": document.pictures, "left_out": document.left_out})
    return document.model_copy(update={"title": title, "date": changed})


_SHOWN_FIELDS = {"rst": "labelled"} | dict.fromkeys(("latex", "asciidoc", "org", "docbook", "fb2"), "plain")
"""How formats show authors, date and abstract, which pandoc takes for metadata: with labels, or without."""


def _has_title(markdown: str) -> bool:
    return markdown.startswith("---\n") and bool(re.match(r"---\n(?:[^\n]+\n)*?title:", markdown))


def _convert(
    form: str, source: Path | str, progress: ProgressCallback, bold_headings: bool, options: Sequence[str]
) -> str:
    """Run pandoc and return the Markdown that it writes.

    Raises:
        Unreadable: pandoc failed, or exceeded a limit.
    """
    command = [
        str(_pandoc_path()), "+RTS", f"-M{MAX_MEMORY_MEGABYTES}m", "-RTS", "--sandbox", "--from", form, "--to", "gfm",
        "--standalone", "--wrap=none", "--reference-location=block", "--markdown-headings=atx",
        f"--lua-filter={_FILTER}", *options,
    ]  # fmt: skip
    if bold_headings:
        command.append("--metadata=bold-headings=1")
    if form in _SHOWN_FIELDS:
        command.append(f"--metadata=shown-fields={_SHOWN_FIELDS[form]}")
    if form == "epub":  # the classes of its code blocks are styles, not languages
        command.append("--metadata=no-languages=1")
    with TemporaryFile() as given, TemporaryFile() as output, TemporaryFile() as errors:
        if isinstance(source, Path):
            command.append(str(source.absolute()))
        else:
            given.write(source.encode("utf-8", "replace"))
            given.seek(0)
        process = subprocess.Popen(
            command,
            stdin=given,
            stdout=output,
            stderr=errors,
            preexec_fn=_limit_cpu_time if sys.platform != "win32" else None,
        )
        code = _wait(process, progress)
        size = output.seek(0, 2)
        output.seek(0)
        errors.seek(0)
        complaint = errors.read(4000).decode("utf-8", "replace")
        if code == 0 and size <= MAX_MARKDOWN_BYTES:
            return output.read().decode("utf-8", "replace")
    if code == 0:
        raise Unreadable(f"becomes {size / 2**20:,.0f} MB of text, more than {MAX_MARKDOWN_BYTES // 2**20}; split it")
    if code == _HEAP_EXHAUSTED or "out of memory" in complaint or "Heap exhausted" in complaint:
        raise Unreadable(f"needs more than {MAX_MEMORY_MEGABYTES / 1000:.1f} GB of memory to be read; split it")
    if code < 0:
        raise Unreadable("stopped pandoc, which reads it: it is broken; open it and save it again")
    reason = " ".join(complaint.replace("-: ", "").split())[:200] or f"pandoc ended with {code}"
    raise _ParseFailure(f"broken, or of a kind that pandoc cannot read ({reason}); open it and save it again")


def _pandoc_path() -> Path:
    """Return the path of pandoc in the package `pypandoc_binary`."""
    found = importlib.util.find_spec("pypandoc")
    name = "pandoc.exe" if sys.platform == "win32" else "pandoc"
    program = Path(found.origin).parent / "files" / name if found and found.origin else None
    if program is None or not program.is_file():
        raise Unreadable("needs pandoc, which is not installed: pip install pypandoc_binary")
    return program


def _wait(process: subprocess.Popen[bytes], progress: ProgressCallback) -> int:
    """Wait for pandoc and report progress meanwhile."""
    ends = time.monotonic() + MAX_SECONDS
    while True:
        try:
            return process.wait(_PROGRESS_INTERVAL_SECONDS)
        except subprocess.TimeoutExpired:
            progress(0, 0)
        if time.monotonic() > ends:
            process.kill()
            process.wait()
            raise Unreadable(f"given up after {MAX_SECONDS:.0f} seconds; split it, or open it and save it again")


def _limit_cpu_time() -> None:
    """Limit the CPU time of pandoc's process, so that it ends even if this process no longer waits for it."""
    import resource

    seconds = int(MAX_SECONDS) + 10
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
