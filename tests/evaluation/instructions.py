"""A split of instructional conversations, a scripted judge of them and a file of answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.servers import Say
from turnmark.corpora.jsonl_rows import Source


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


REFERENCE_STEPS = ("Light the oven.", "Wait an hour.", "Bake the bread.", "Let it cool.")


def by_steps(body: dict[str, Any]) -> bool:
    return "You compare two procedures" in body["messages"][0]["content"]


def judge(rating: Any = 8, completion: Any = 50, covered: tuple[int, ...] = (1, 3)) -> Callable[[dict[str, Any]], Say]:
    """A judge that says the same of everything; of a procedure, that its first step covers those reference steps."""

    def reply(body: dict[str, Any]) -> Say:
        if by_steps(body):
            return Say(json.dumps({"covered": [{"step": step, "by": 1} for step in covered]}))
        return Say(json.dumps({"reason": "Fair.", "rating": rating, "completion": completion}))

    return reply


def source(tmp_path: Path) -> Path:
    first, second = (
        row(procedure=list(REFERENCE_STEPS)),
        row(id="b", domain="Study", procedure=["Light the oven.", "Wait."]),
    )
    return written(tmp_path / "inscoqa", first, second).root


def predicted(path: Path, **steps: list[str]) -> Path:
    rows = [
        {
            "id": name,
            "prediction": "Light the oven and bake.",
            "procedure": [{"step": s, "citations": []} for s in row_steps],
        }
        for name, row_steps in steps.items()
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
