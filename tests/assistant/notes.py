"""Assistants over a few notes, and scripts of replies, shared by the tests of the turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.opened import assistant_over
from turnmark.assistant.steps.retrieve.retrieve_sections import hits_of_parts
from turnmark.assistant.steps.step_results import Evidence, PartEvidence, UnderstoodMessage
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.types import Understanding
from turnmark.corpora.types import Message, Passage
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.types import Hit


def notes(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def over(
    tmp_path: Path, generator: str = "extractive", retriever: str = "bm25", steps: tuple[str, ...] = (), **files: str
) -> Assistant:
    """Build an index over some notes; return an assistant over it."""
    build_index(notes(tmp_path, **files), "n", retriever=retriever)
    return assistant_over("n", generator, steps=steps)


def script(tmp_path: Path, *lines: dict[str, Any] | str) -> str:
    """Return the spec of a model that replies with these lines, or texts, in turn."""
    path = tmp_path / "script.jsonl"
    rows = [{"text": line} if isinstance(line, str) else line for line in lines]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return f"replay:{path}"


def scripted(folder: Path, *texts: str) -> str:
    """Return the spec of a model that gives these answers in turn and keeps every message unchanged."""
    understood = [{"text": "{}", "match": "The user's new message:"} for _ in texts]
    return script(folder, *understood, *({"text": text, "match": "Sections of the documents:"} for text in texts))


KETTLE = "# Kettle\n\nThe kettle is red. It boils water in four minutes.\n"
TOASTER = "# Toaster\n\nThe toaster is blue. The toaster was made by Ada Berg.\n"
BERG = "# Ada Berg\n\nAda Berg died in 1931 in Oslo. She made toasters all her life.\n"
RADIO = {
    "kettle": f"{KETTLE.strip()} The kettle must not be washed in the machine.\n",
    "toaster": "# Toaster\n\nThe toaster is blue. The toaster was made by Ada Berg in 1931.\n",
    "reset": "# Reset\n\nHow to reset the radio:\n\n1. Hold the button.\n2. Wait for the light.\n3. Turn it on.\n",
}


def with_model(
    home: Path, *lines: dict[str, Any] | str, steps: tuple[str, ...] = (), index: str = "n", options: str = ""
) -> Assistant:
    """Return an assistant over an index of the kitchen, with a scripted model."""
    return assistant_over(index, script(home, *lines) + options, steps=steps)


def prompts_of(assistant: Assistant) -> list[str]:
    """Record the last message of every model call from now on; return the growing list."""
    asked: list[str] = []
    model: Any = assistant.generator
    complete = model.complete

    def recorded(prompt: Any, *arguments: Any, **options: Any) -> Any:
        asked.append(prompt[-1].content)
        return complete(prompt, *arguments, **options)

    model.complete = recorded
    return asked


def understanding(*parts: str, **fields: Any) -> str:
    """Return a model's reply to the prompt `understand`."""
    rows = [{"question": part} for part in parts]
    return json.dumps({"kind": "question", "leans": False, "rewrite": "", "parts": rows, "procedure": False} | fields)


def understood_as(message: str, *questions: str, **fields: Any) -> UnderstoodMessage:
    """Return a message that was understood unchanged, or as some questions."""
    understanding = Understanding(**{"rewrite": message, "sub_questions": questions or (message,)} | fields)
    return UnderstoodMessage(understanding, message)


def evidence_of(*parts: PartEvidence) -> Evidence:
    """Return the evidence of some parts, whose hits are numbered in their order."""
    return Evidence(parts, tuple(hits_of_parts(parts)))


class Room:
    """The part of a generator that is needed to build a prompt."""

    name = "room"

    def __init__(self, context: int = 8192, reply: int = 512) -> None:
        self.context_tokens, self.reply_tokens = context, reply


def hit(text: str, n: int = 1, title: str = "Title", start: int = 0, **more: Any) -> Hit:
    """Return the n-th hit, a passage of its own document."""
    identity, end = f"d{n}-{start}-{start + len(text)}", start + len(text)
    passage = Passage(id=identity, document=f"d{n}", title=title, text=text, start=start, end=end)
    return Hit(passage=passage, score=1 / n, **more)


def conversation(*texts: str) -> list[Message]:
    """Return messages that alternate between user and assistant."""
    return [Message(role=("user", "assistant")[n % 2], content=text) for n, text in enumerate(texts)]
