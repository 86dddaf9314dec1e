"""`kill -9` during updates, compaction and searches of an index that a reader has open: no state is lost."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

from tests.drills.forking import Ended, fine, turnmark
from tests.drills.tally import Effort, Tally
from turnmark.retrieval.index.components import verify_index
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.storage.manifest import read_manifest

NOTES = 60
UNDISTURBED_SHARE = 0.2
"""Share of the kills after which the command is repeated to its end."""
_STATED = re.compile(r"kettle (\w+) is in version (\d+)\.")

Versions = dict[str, int]
"""Note -> version."""


def drills(effort: Effort) -> Iterator[Tally]:
    """Divide the kills over the commands."""
    dice = random.Random(effort.seed)
    commands = {
        "update": ("bm25", ["index", "build", "notes", "--name", "k"]),
        "update with vectors": ("conversational", ["index", "build", "notes", "--name", "k"]),
        "compact": ("bm25", ["index", "compact", "k"]),
        "search": ("bm25", ["search", "kettle in version 7", "--index", "k"]),
    }
    for number, (name, (retriever, command)) in enumerate(commands.items()):
        times = effort.kills // len(commands) + (number < effort.kills % len(commands))
        tally = Tally(f"kill -9: {name}, while the old state is read")
        drill = _Drill(effort.folder(f"updates-{number}"), dice, retriever, command)
        for kill in range(times):
            wait = dice.uniform(0, drill.seconds)
            with tally.attempt(f"kill {kill} after {wait:.3f} s"):
                drill.kill(wait)
        yield tally


class _Drill:
    """A folder that changes between kills.

    Attributes:
        written: the version of each note on the disk.
        possible: the states that the index may have: the last complete one, and those of builds that were killed.
        seconds: time of the undisturbed command.
    """

    def __init__(self, folder: Path, dice: random.Random, retriever: str, command: list[str]) -> None:
        self.folder, self.dice, self.command = folder, dice, command
        self.notes, self.index = folder / "notes", folder / "home" / "indexes" / "k"
        self.notes.mkdir()
        self.written: Versions = {}
        self.last_number = 0
        for _ in range(NOTES):
            self._add()
        fine(self._run(["index", "build", "notes", "--name", "k", "--retriever", retriever]))
        self._change()
        self.seconds = fine(self._run(command)).seconds
        self.possible = [self._held(self._open())]

    def kill(self, wait: float) -> None:
        """Change the notes, kill the command, and check what a reader has and what is on the disk."""
        reader = self._open()
        before = self._held(reader)
        self._change()
        self.possible.append(dict(self.written))
        ended = self._run(self.command, wait)
        assert "Traceback" not in ended.out + ended.err, ended.err[-300:]
        assert self._held(reader) == before, "a reader lost its state"
        self._check()
        if self.dice.random() < UNDISTURBED_SHARE:
            fine(self._run(["index", "build", "notes", "--name", "k"]))
            self.possible.append(dict(self.written))
            self._check()
            assert self.possible == [self.written], "the next build did not bring everything up to date"

    def _check(self) -> None:
        index = self._open()
        problems = verify_index(index)
        assert not problems, problems
        held = self._held(index)
        assert held in self.possible, f"a state that no build made: {held}"
        self.possible = [held]

    def _open(self) -> StoredIndex:
        manifest = read_manifest(self.index)
        assert manifest is not None, "there is no index"
        return StoredIndex(self.index, manifest)

    def _held(self, index: StoredIndex) -> Versions:
        """Return the versions that an index has, by its passages; its terms must find as many."""
        texts = [passage.text for page in index.store.pages() for _, _, passage in page]
        assert len(index.bm25.rows_with("kettle version")) == len(texts)
        return {note: int(version) for text in texts for note, version in _STATED.findall(text)}

    def _run(self, command: list[str], wait: float | None = None) -> Ended:
        return turnmark(*command, home=self.folder / "home", folder=self.folder, kill_after=wait)

    def _add(self) -> None:
        self.last_number += 1
        self._write(f"n{self.last_number}", 1)

    def _change(self) -> None:
        """Add, edit, remove or rename some notes."""
        for _ in range(self.dice.randint(1, 12)):
            note = self.dice.choice(sorted(self.written))
            what = self.dice.choice(["add", "edit", "edit", "remove", "rename"])
            if what == "edit":
                self._write(note, self.written[note] + 1)
            elif what == "rename":
                (path,) = self.notes.glob(f"{note}-*.md")
                path.rename(self.notes / f"{note}-{self.dice.randrange(10**6)}.md")
            elif what == "remove" and len(self.written) > NOTES // 2:
                (path,) = self.notes.glob(f"{note}-*.md")
                path.unlink()
                del self.written[note]
            else:
                self._add()

    def _write(self, note: str, version: int) -> None:
        text = f"# Kettle {note}\n\nThe kettle {note} is in version {version}. It stands on the shelf.\n"
        path = next(self.notes.glob(f"{note}-*.md"), self.notes / f"{note}-0.md")
        path.write_text(text, encoding="utf-8")
        self.written[note] = version
