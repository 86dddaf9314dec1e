"""What the tests of archives share: the demo's MTRAG files, packed as GitHub packs a repository."""

from __future__ import annotations

import zipfile
from pathlib import Path

from tests.conftest import DEMO
from turnmark.corpora.catalog import CATALOG

MTRAG = CATALOG["mtrag"]
TASKS = "mtrag-human/generation_tasks/reference.jsonl"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def demo_files() -> dict[str, bytes]:
    root = DEMO / MTRAG.folder
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def packed(path: Path, files: dict[str, bytes], top: str = "", comment: str = "") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = comment.encode()
        if top:
            archive.writestr(top, b"")
        for name, content in files.items():
            archive.writestr(top + name, content)
    return path
