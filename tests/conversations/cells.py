"""Ask for table cells, and print how often the reply contains the cell and how often the right row is marked:
`python -m tests.conversations.cells` (`--help` lists the options).

The questions are in `data/cells/cells.toml`. Debian packages are downloaded with apt and unpacked below
`TURNMARK_CONVERSATIONS`, never installed; sheets are written as Markdown tables, as a reader of workbooks does.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import Field

from tests.conversations.collections import LABELS, data_folder, fetch_hatch, work_folder
from tests.conversations.labels import Half, Pattern
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.record import Record
from turnmark.corpora.text.segmentation import strip_citations

LABEL_FILE = LABELS / "cells" / "cells.toml"


class CellQuestion(Record):
    """A question about a cell. Patterns ignore case, emphasis and citation marks."""

    say: str = Field(min_length=1)
    facts: tuple[Pattern, ...] = Field(min_length=1, description="must all match in the reply")
    row: Pattern = Field(description="must match in the first marked row")


class TableDocument(Record):
    """Documents with tables: their origin, indexed files and questions."""

    name: str
    half: Half
    package: str = Field(default="", description="Debian package that is unpacked")
    version: str = ""
    data: str = Field(default="", description="folder of the project's data")
    folders: tuple[str, ...] = Field(default=(), description="folders of installed Debian packages")
    needs: str = ""
    pypi: str = Field(default="", description="source archive from PyPI")
    files: tuple[str, ...] = ()
    sheets: tuple[str, ...] = Field(default=(), description="CSV or JSON, each written as a Markdown table")
    question: tuple[CellQuestion, ...]


class _Labels(Record):
    document: tuple[TableDocument, ...]


def read_cells(half: str = "all") -> list[TableDocument]:
    """Return the documents of a half with their questions."""
    documents = _Labels.model_validate(tomllib.loads(LABEL_FILE.read_text("utf-8"))).document
    return [each for each in documents if half in ("all", each.half)]


def documents_of(document: TableDocument) -> Path:
    """Return the folder with the files to index; make it if it is missing."""
    folder = work_folder() / "documents" / "cells" / document.name
    if folder.is_dir():
        return folder
    draft = folder.with_name(f"{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    for root in _roots(document):
        for pattern in document.files:
            for file in sorted(root.glob(pattern)):
                _put(file, draft)
        for name in document.sheets:
            (draft / f"{Path(name).stem}.md").write_text(sheet_as_markdown(root / name), encoding="utf-8")
    if not any(draft.iterdir()):
        raise RequestError(f"{document.name}: no files found; install {document.needs or document.package}")
    draft.rename(folder)
    return folder


def _roots(document: TableDocument) -> list[Path]:
    if document.package:
        return [_unpacked(document.package)]
    if document.data:
        return [data_folder() / document.data]
    if document.pypi:
        return [fetch_hatch()]
    return [Path(folder) for folder in document.folders]


def _unpacked(package: str) -> Path:
    """Download and unpack a Debian package."""
    folder = work_folder() / "documents" / "packages" / package
    if folder.is_dir():
        return folder
    scratch = folder.with_name(f"{package}.download")
    scratch.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(["apt-get", "download", "--quiet", package], cwd=scratch, check=True)
        archive = next(scratch.glob("*.deb"))
        subprocess.run(["dpkg-deb", "-x", archive.name, "content"], cwd=scratch, check=True)
    except (OSError, subprocess.CalledProcessError, StopIteration) as error:
        raise TurnmarkError(f"{package} could not be downloaded and unpacked ({error})") from error
    (scratch / "content").rename(folder)
    return folder


def _put(file: Path, folder: Path) -> None:
    """Copy a file, or unpack one that is compressed."""
    if file.suffix == ".gz":
        (folder / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
    elif file.is_file():
        shutil.copy(file, folder / file.name)


def sheet_as_markdown(path: Path) -> str:
    """Convert a CSV file, or the rows of an iso-codes JSON file, to a heading and a table."""
    rows: list[dict[str, str]]
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            rows = [{key: value or "" for key, value in row.items()} for row in csv.DictReader(file)]
    else:
        (rows,) = json.loads(path.read_text("utf-8")).values()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [columns, ["---"] * len(columns), *([row.get(name, "") for name in columns] for row in rows)]
    return f"# {path.stem}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def marked_rows(reply: str) -> list[str]:
    """Return the bold rows of a reply, without the emphasis."""
    return [line.replace("**", "") for line in reply.split("\n") if "|" in line and "**" in line]


def judge(question: CellQuestion, reply: str) -> tuple[bool, bool]:
    """Return whether a reply contains the facts, and whether its first marked row is also the right one."""
    text = strip_citations(reply)
    plain = text.replace("**", "").replace("`", "")
    holds = all(re.search(fact, plain, re.IGNORECASE | re.MULTILINE) for fact in question.facts)
    marked = [line.replace("`", "") for line in marked_rows(text)]
    return holds, holds and bool(marked) and bool(re.search(question.row, marked[0], re.IGNORECASE))


def ask_all(documents: Sequence[TableDocument]) -> Iterator[tuple[TableDocument, CellQuestion, str]]:
    """Return every question with its reply without a model."""
    from tests.opened import assistant_over
    from turnmark.retrieval.index.build import build_index
    from turnmark.retrieval.search.opened_index import open_index

    for document in documents:
        name = f"cells-{document.name}"
        build_index(documents_of(document), name)
        assistant = assistant_over(open_index(name))
        for question in document.question:
            yield document, question, assistant.reply((), question.say).answer


def main() -> int:
    """Print the figures and, with `--show`, the wrong replies."""
    parser = argparse.ArgumentParser(prog="python -m tests.conversations.cells", description=__doc__)
    parser.add_argument("--half", choices=("tuning", "test", "all"), default="tuning", help="default: tuning")
    parser.add_argument("--show", action="store_true", help="print each reply whose marked row is not the right one")
    parser.add_argument("--only", metavar="NAME", help="one of the documents")
    options = parser.parse_args()
    os.environ.setdefault("TURNMARK_HOME", str(work_folder() / "home"))
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    documents = [each for each in read_cells(options.half) if options.only in (None, each.name)]
    counts: dict[str, list[int]] = {}
    for document, question, reply in ask_all(documents):
        holds, marked = judge(question, reply)
        for name in (document.name, "all"):
            count = counts.setdefault(name, [0, 0, 0])
            count[0] += holds
            count[1] += marked
            count[2] += 1
        if options.show and not marked:
            print(f"--- {document.name}: {question.say}\n    holds {holds}, wanted row {question.row}\n{reply}\n")
    for name, (holds, marked, asked) in sorted(counts.items(), key=lambda item: item[0] == "all"):
        print(f"{name:18} fact {holds:2}/{asked}   right row marked first {marked:2}/{asked}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
