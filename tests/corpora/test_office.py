"""PDF and Word files: pages, what cannot be read, what is hostile."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.corpora.reading import problems, told, write
from turnmark.corpora.readers import prose, read_source


def make_pdf(path: Path, pages: list[str], password: str = "") -> None:
    canvas = pytest.importorskip("reportlab.pdfgen.canvas")
    encrypt = pytest.importorskip("reportlab.lib.pdfencrypt")
    sheet = canvas.Canvas(str(path), encrypt=encrypt.StandardEncryption(password) if password else None)
    for text in pages:
        if text:
            sheet.drawString(72, 720, text)
        sheet.rect(10, 10, 20, 20)
        sheet.showPage()
    sheet.save()


def test_pdf_pages(tmp_path: Path) -> None:
    make_pdf(tmp_path / "two-pages.pdf", ["The first page.", "", "The third page."])
    (document,) = read_source(tmp_path)
    assert document.title == "two pages"
    assert document.text.split() == ["The", "first", "page.", "The", "third", "page."]
    assert len(document.pages) == 3
    assert document.text[document.pages[2] :].strip() == "The third page."


def test_pdfs_that_give_no_text(tmp_path: Path) -> None:
    make_pdf(tmp_path / "a-scan.pdf", ["", ""])
    make_pdf(tmp_path / "b-locked.pdf", ["secret"], password="x")
    write(tmp_path, {"c-broken.pdf": b"%PDF-1.4\ngarbage", "d-empty.pdf": b""})
    make_pdf(tmp_path / "e-cut.pdf", ["text"])
    (tmp_path / "e-cut.pdf").write_bytes((tmp_path / "e-cut.pdf").read_bytes()[:300])
    messages = problems(tmp_path)
    assert len(messages) == 5
    assert "run OCR" in messages[0]
    assert "encrypted" in messages[1]
    assert "broken" in messages[2]
    assert all("\n" not in line for line in messages)


def make_docx(path: Path, extra: dict[str, bytes]) -> None:
    word = pytest.importorskip("docx").Document()
    for line in ("A heading", "First paragraph.", "Second."):
        word.add_paragraph(line)
    word.save(str(path))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as packed:
        for name, content in extra.items():
            packed.writestr(name, content)


def test_docx(tmp_path: Path) -> None:
    make_docx(tmp_path / "my-doc.docx", {})
    (document,) = read_source(tmp_path)
    assert document.title == "A heading"
    assert [text for *_, text in told(document)] == ["A heading", "First paragraph.", "Second."]


def test_docx_that_are_broken_or_hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "MAX_UNPACKED", 1_000_000)
    bomb = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><x>&b;</x>'
    make_docx(tmp_path / "a-bomb.docx", {"word/header1.xml": bomb})
    make_docx(tmp_path / "b-large.docx", {"word/media/x.bin": b"0" * 1_000_001})
    with zipfile.ZipFile(tmp_path / "c-other.docx", "w") as packed:
        packed.writestr("a.txt", "no word file")
    write(tmp_path, {"d-zip.docx": b"PK\3\4broken", "e-old.docx": b"\xd0\xcf\x11\xe0" + b"\0" * 600})
    make_docx(tmp_path / "f-packed.docx", {})
    with zipfile.ZipFile(tmp_path / "f-packed.docx") as packed:
        part_of_it = packed.getinfo("word/document.xml")
    content = bytearray((tmp_path / "f-packed.docx").read_bytes())
    begins = part_of_it.header_offset + 30 + len(part_of_it.filename)
    content[begins : begins + 20] = b"\xff" * 20  # no such kind of block in what is compressed
    (tmp_path / "f-packed.docx").write_bytes(content)
    parts = ("XML entities", "unpacks to", "word/document.xml", "broken", "encrypted", "decompressing")
    assert all(part in line for part, line in zip(parts, problems(tmp_path), strict=True))


def test_reading_word_sets_up_no_logging(tmp_path: Path) -> None:
    """LlamaIndex's slides reader calls logging.basicConfig when its package is imported; the screen must not see it."""
    make_docx(tmp_path / "a.docx", {})
    script = (
        "import logging, sys\nfrom pathlib import Path\nfrom turnmark.corpora.readers import read_source\n"
        f"print(len(list(read_source(Path({str(tmp_path)!r})))))\nassert 'llama_index.readers.file' in sys.modules\n"
        "assert (logging.getLogger().handlers, logging.getLogger().level) == ([], logging.WARNING)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stdout) == (0, "1\n"), ran.stderr
