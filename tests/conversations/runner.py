"""Run the conversations: one index per collection. Finished conversations are stored, so a kill loses at most one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.conversations.collections import ROOT, Collection, work_folder
from tests.conversations.labels import LabelledConversation
from tests.conversations.opening import open_system
from tests.conversations.scoring import Answer
from tests.conversations.systems import Ask, System
from turnmark.core.console import Progress
from turnmark.core.errors import TurnmarkError
from turnmark.core.record import Record
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.index_api import Index

PRODUCT = ("turnmark/core", "turnmark/corpora", "turnmark/retrieval", "turnmark/assistant")


class HeldConversation(Record):
    """A labeled conversation and the replies of a system to it, one per turn."""

    collection: str
    conversation: LabelledConversation
    answers: tuple[Answer, ...]


class Corpus:
    """A collection, its documents, and the index over them."""

    def __init__(self, collection: Collection, progress: Progress) -> None:
        self.name = collection.name
        documents = collection.documents()
        name = f"conversations-{collection.name}"
        build_index(documents, name, include=collection.include, exclude=collection.exclude, progress=progress)
        self.index: Index = Index.open(name)


class Journal:
    """The finished conversations of one system, one JSON line per conversation.

    The replies belong to a version of the product and of the documents: both are in the key of a line, so that a change
    of either asks again. A change of the labels' patterns does not: replies are scored when they are read.
    """

    def __init__(self, system: str) -> None:
        slug = re.sub(r"[^a-z0-9.]+", "-", system.lower())[:60].strip("-")
        digest = hashlib.sha256(f"{system}|{code_digest()}".encode()).hexdigest()[:12]
        self.path = work_folder() / "replies" / f"{slug}-{digest}.jsonl"
        self.answers: dict[str, tuple[Answer, ...]] = {}
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:  # a kill tore the last line
            self.path.write_bytes(whole)
        for line in whole.splitlines():
            row = json.loads(line)
            self.answers[row["key"]] = tuple(Answer.model_validate(answer) for answer in row["answers"])

    def add(self, key: str, answers: tuple[Answer, ...]) -> None:
        """Store the replies. A conversation with a failed turn is not stored, so that the next run repeats it."""
        self.answers[key] = answers
        if any(answer.error for answer in answers):
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        row = {"key": key, "answers": [answer.model_dump() for answer in answers]}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def code_digest() -> str:
    """Return a digest that changes with every file that a reply may depend on."""
    files = [path for room in PRODUCT for path in (ROOT / room).rglob("*") if path.suffix in (".py", ".txt", ".json")]
    files += [Path(__file__).with_name(name) for name in ("systems.py", "llama_index.py")]
    digest = hashlib.sha256()
    for path in sorted(files):
        if "demo" not in path.parts:
            digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def hold_all(
    spec: str,
    corpora: Mapping[str, Corpus],
    labels: Mapping[str, Sequence[LabelledConversation]],
    progress: Progress,
    steps: Sequence[str] = (),
    open_it: Callable[[str, Index, Sequence[str]], System] = open_system,
) -> list[HeldConversation]:
    """Run every conversation with one system; `spec` and `steps` as for `open_system`, `labels` by collection."""
    journal = Journal(" ".join((spec, *steps)))
    progress.start(spec, sum(len(each.turn) for conversations in labels.values() for each in conversations))
    held = []
    for name, conversations in labels.items():
        corpus, system = corpora[name], None
        for conversation in conversations:
            key = _key(corpus, conversation)
            answers = journal.answers.get(key)
            if answers is None:
                system = system or open_it(spec, corpus.index, steps)
                answers = _hold(system.converse(), conversation, progress)
                journal.add(key, answers)
            else:
                progress.advance(len(answers))
            held.append(HeldConversation(collection=name, conversation=conversation, answers=answers))
    return held


def _hold(ask: Ask, conversation: LabelledConversation, progress: Progress) -> tuple[Answer, ...]:
    answers = []
    for turn in conversation.turn:
        try:
            answers.append(ask(turn.say))
        except TurnmarkError as error:
            answers.append(Answer(text="", decision=None, seconds=0.0, error=str(error)))
        progress.advance()
    return tuple(answers)


def _key(corpus: Corpus, conversation: LabelledConversation) -> str:
    messages = [turn.say for turn in conversation.turn]
    content = json.dumps([corpus.name, corpus.index.manifest.fingerprint(), messages])
    return hashlib.sha256(content.encode()).hexdigest()[:24]
