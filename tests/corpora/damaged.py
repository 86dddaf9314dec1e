"""Damaged variants of valid files, for every type that is read in a separate process. Some of them show a picture."""

from __future__ import annotations

import io
import random
import zipfile
from pathlib import Path

from tests.corpora.made import REPORT, by_pandoc, open_document, printed, workbook
from tests.corpora.shown import picture

_TABLE = (
    "<table:table table:name='S'><table:table-row><table:table-cell office:value-type='string'><text:p>Gate</text:p>"
    "</table:table-cell><table:table-cell office:value-type='float' office:value='4'><text:p>4</text:p>"
    "</table:table-cell></table:table-row></table:table>"
)
_PAGE = (
    "<draw:page><draw:frame presentation:class='title'><draw:text-box><text:p>Gates</text:p></draw:text-box>"
    "</draw:frame><presentation:notes><draw:frame><text:p>Note</text:p></draw:frame></presentation:notes></draw:page>"
)
_MAIL = b"From: a@example.org\nSubject: Gates\nDate: Fri, 01 Mar 2024 10:22:00 +0100\n\nShut.\n\n> Are they shut?\n"
_NOTEBOOK = (
    b'{"cells": [{"cell_type": "markdown", "metadata": {}, "source": ["# Gates"]}, {"cell_type": "code", "metadata":'
    b' {}, "source": ["shut()"], "outputs": [], "execution_count": 1}], "metadata": {}, "nbformat": 4,'
    b' "nbformat_minor": 5}'
)
_TOKENS = (
    b"",
    b"\0",
    b"<",
    b">",
    b"&x;",
    b"'",
    b"]]>",
    b"\xff\xfe",
    b"9" * 300,
    b"<w:p>" * 200,
    b"a" * 5000,
    b"{" * 200,
)
_PICTURES = {".png": "PNG", ".jpg": "JPEG", ".gif": "GIF", ".webp": "WEBP", ".tif": "TIFF", ".bmp": "BMP"}
_PANDOC = (".docx", ".odt", ".epub", ".pptx", ".rtf", ".rst", ".org", ".tex", ".textile")


def seeds(folder: Path) -> dict[str, bytes]:
    """Return a valid file of each type, by suffix."""
    (folder / "gate.png").write_bytes(picture("red"))
    shown = f"{REPORT}\n![The gate](gate.png)\n"
    found = {
        suffix: by_pandoc(folder / f"seed{suffix}", shown, f"--resource-path={folder}").read_bytes()
        for suffix in _PANDOC
    }
    for suffix, form in ((".mediawiki", "mediawiki"), (".1", "man")):
        found[suffix] = by_pandoc(folder / f"seed{suffix}", REPORT, "--to", form).read_bytes()
    found[".xlsx"] = workbook(folder / "seed.xlsx", Gates=[["Gate", "Width"], ["north", 4.5]]).read_bytes()
    sheets = f"<office:spreadsheet>{_TABLE}</office:spreadsheet>"
    found[".ods"] = open_document(folder / "seed.ods", sheets).read_bytes()
    slides = f"<office:presentation>{_PAGE}</office:presentation>"
    found[".odp"] = open_document(folder / "seed.odp", slides).read_bytes()
    found[".pdf"] = printed(folder / "seed.pdf").read_bytes()
    found |= {suffix: picture("red", form=form) for suffix, form in _PICTURES.items()}
    return found | {
        ".csv": b"Gate,Width\nnorth,4.5\n",
        ".eml": _MAIL,
        ".mbox": b"From a\n" + _MAIL + b"\nFrom b\n" + _MAIL,
        ".jsonl": b'{"title": "Gates", "text": "Shut."}\n' * 3,
        ".ipynb": _NOTEBOOK,
        ".adoc": b"= Gates\n\n== North\n\nIt is *shut*.\n\n|===\n|a |b\n|1 |2\n|===\n",
        ".py": b'"""Gates."""\n\n\ndef shut(a):\n    return a\n',
        ".c": b"/* Gates. */\nint shut(int a)\n{\n    return a;\n}\n",
    }


def damaged(content: bytes, number: int) -> bytes:
    """Return a variant in which bytes of the file, or of a part of an archive, are changed, cut or repeated."""
    chance = random.Random(number)
    if content.startswith(b"PK") and number % 4:
        return _with_damaged_part(content, chance)
    return _changed(content, chance)


def _with_damaged_part(content: bytes, chance: random.Random) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as packed, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as copy:
        parts = packed.infolist()
        unlucky = chance.choice([part.filename for part in parts if part.file_size])
        for part in parts:
            data = packed.read(part)
            if part.filename != unlucky:
                copy.writestr(part.filename, data)
            elif chance.random() < 0.9:  # otherwise the part is missing
                copy.writestr(part.filename, _changed(data, chance))
    return buffer.getvalue()


def _changed(content: bytes, chance: random.Random) -> bytes:
    result = content
    for _ in range(chance.randint(1, 5)):
        at = chance.randrange(len(result) + 1)
        token = chance.choice(_TOKENS)
        before, after = result[:at], result[at:]
        variants = (
            before + token + after,
            before + token + after[len(token) :],
            before + after[200:],
            before,
            before + after[:500] + after,
        )
        result = chance.choice(variants)
    return result
