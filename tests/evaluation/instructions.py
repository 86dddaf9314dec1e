"""A split of instructional conversations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from turnmark.corpora.rows import Source


def row(**changes: Any) -> dict[str, Any]:
    oven = {"id": "oven", "title": "The oven", "text": "Steps:\n\n1. Light the oven.\n2. Wait an hour.\n3. Bake bread."}
    sample = {
        "id": "a", "domain": "Gourmet", "documents": [oven], "history": [], "question": "How do I bake bread?",
        "answer": "Light the oven, wait an hour and bake bread.", "procedure": ["Light the oven.", "Bake bread."],
    }  # fmt: skip
    return sample | changes


def written(folder: Path, *rows: Any, split: str = "test") -> Source:
    folder.mkdir(exist_ok=True)
    lines = [entry if isinstance(entry, str) else json.dumps(entry) for entry in rows]
    (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Source(root=folder, demo=False)
