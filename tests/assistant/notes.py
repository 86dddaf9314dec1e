"""Assistants over a few notes, and scripts of replies: what the tests of the turn share."""

from __future__ import annotations

import json
from pathlib import Path

from turnmark.assistant.assistant import Assistant
from turnmark.assistant.open import open_assistant
from turnmark.retrieval.build import build_index


def notes(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def over(
    tmp_path: Path,
    generator: str = "extractive",
    retriever: str = "bm25",
    steps: tuple[str, ...] = (),
    **files: str,
) -> Assistant:
    """An assistant over some notes."""
    build_index(notes(tmp_path, **files), "n", retriever=retriever)
    return open_assistant("n", generator, steps=steps)


def script(tmp_path: Path, *texts: str) -> str:
    path = tmp_path / "script.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return f"replay:{path}"
