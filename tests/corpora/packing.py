"""What the tests of data share: the demo's MTRAG files, packed as GitHub packs a repository."""

from __future__ import annotations

import zipfile
from pathlib import Path

from tests.conftest import DEMO
from turnmark.corpora.fetching import CATALOG

MTRAG = CATALOG["mtrag"]
TASKS = "mtrag-human/generation_tasks/reference.jsonl"


def demo_files(folder: str = MTRAG.folder) -> dict[str, bytes]:
    root = DEMO / folder
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def zipped(path: Path, files: dict[str, bytes], top: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        if top:
            archive.writestr(top, b"")
        for name, content in files.items():
            archive.writestr(top + name, content)
    return path
