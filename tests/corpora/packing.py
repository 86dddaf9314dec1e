"""What the tests of data share: the demo's MTRAG files, packed as GitHub packs a repository."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

from tests.conftest import DEMO
from turnmark.corpora.catalog import CATALOG

MTRAG = CATALOG["mtrag"]
TASKS = "mtrag-human/generation_tasks/reference.jsonl"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def demo_files(folder: str = MTRAG.folder) -> dict[str, bytes]:
    root = DEMO / folder
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def zipped(path: Path, files: dict[str, bytes], top: str = "", comment: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = comment.encode()
        if top:
            archive.writestr(top, b"")
        for name, content in files.items():
            archive.writestr(top + name, content)
    return path


def tarred(path: Path, files: dict[str, bytes], mode: str = "w:gz", top: str = "", comment: str = "") -> Path:
    headers = {"comment": comment} if comment else {}
    with tarfile.open(path, mode, format=tarfile.PAX_FORMAT, pax_headers=headers) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(top + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def files_below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
