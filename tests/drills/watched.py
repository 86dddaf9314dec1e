"""`kill -9` of a watch over a changing folder: old passages stay until the new ones are complete, and none is lost."""

from __future__ import annotations

import json
import random
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tests.drills.forking import Ended, fine, turnmark
from tests.drills.tally import Effort, Tally
from turnmark.retrieval.index.components import verify_index
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.storage.manifest import Manifest, read_manifest

NOTES = 200
LONGEST = 6.0
"""Maximum seconds before a kill, enough for a start and a few builds."""
PAUSES = 0.1, 1.0
"""Seconds between two changes: bursts that become one build, and changes in the middle of a build."""
QUESTIONS = 5_000
"""Number of questions; more than can be answered before a kill."""
_STATED = re.compile(r"kettle number (\d+) is in version (\d+)\.")
_ANSWERED = re.compile(r"^(answer|partial|unknown)( · .*)? · [0-9.]+ s$", re.MULTILINE)

Versions = dict[int, int]
"""Note -> version."""


def drills(effort: Effort) -> Iterator[Tally]:
    """Kill `index build --watch` half of the time, and `chat --watch` in the middle of its answers otherwise."""
    dice = random.Random(effort.seed)
    for name, times in (("build", effort.kills - effort.kills // 2), ("chat", effort.kills // 2)):
        tally = Tally(f"kill -9: {name} --watch")
        drill = _Drill(effort.folder(f"watch-{name}"), dice, name)
        try:
            drill.up_to_date()
        except AssertionError as error:
            tally.tried += 1
            tally.lost.append(f"undisturbed: {error}")
            times = 0
        for number in range(times):
            wait = dice.uniform(0.2, LONGEST)
            with tally.attempt(f"kill {number} after {wait:.3f} s"):
                drill.kill(wait)
        answers = f", {drill.answers} answers before them" if name == "chat" else ""
        tally.name += f" ({drill.half_built} in the middle of a build{answers})"
        yield tally


class _Drill:
    """A folder that changes while a watch runs.

    Attributes:
        written: the version of each note on the disk.
        half_built: kills that left an unfinished generation.
        answers: of chats, before they were killed.
    """

    def __init__(self, folder: Path, dice: random.Random, name: str) -> None:
        self.folder, self.dice, self.name = folder, dice, name
        self.home, self.notes = folder / "home", folder / "notes"
        self.index = self.home / "indexes" / "k"
        self.notes.mkdir()
        self.written: Versions = {}
        for note in range(NOTES):
            self._write(note, 1)
        self._next_change = 0.0
        self.half_built = self.answers = 0

    def kill(self, wait: float) -> None:
        """Kill a watch after some seconds; check the index, and that the next start brings it up to date."""
        before = dict(self.written)
        ended = self._watch(wait)
        assert ended.killed, f"it ended by itself, with {ended.code}: {ended.err[-300:]}"
        assert "Traceback" not in ended.out + ended.err
        self.half_built += self._is_unfinished()
        held = self._held()
        self._between(before, held)
        self._intact()
        if self.name == "chat":
            self._answers(before, ended.out)
        self._found(held)
        self.up_to_date()

    def up_to_date(self) -> None:
        """Start a watch undisturbed; check that it answers and that the index is up to date."""
        if self.name == "build":
            self._run("index", "build", self.notes, "--name", "k", "--retriever", "bm25")
        else:
            asked = "Which version is the kettle number 7 in?\n"
            words = ("chat", self.notes, "--index", "k", "--retriever", "bm25", "--no-save")
            said = self._run(*words, stdin=asked).out
            assert list(_stated(said))[:1] == [(7, self.written[7])], "not answered from the last version"
        assert self._held() == self.written, "the next start did not bring everything up to date"
        self._intact()

    def _watch(self, wait: float) -> Ended:
        words = ["index", "build", self.notes, "--name", "k", "--retriever", "bm25", "--watch"]
        typed = ""
        if self.name == "chat":
            words = ["chat", self.notes, "--index", "k", "--retriever", "bm25", "--watch", "--no-save"]
            numbers = [self.dice.randrange(NOTES) for _ in range(QUESTIONS)]
            typed = "".join(f"Which version is the kettle number {number} in?\n" for number in numbers)
        return turnmark(
            *words, home=self.home, folder=self.folder, stdin=typed, kill_after=wait, meanwhile=self._change
        )

    def _change(self) -> None:
        """Rewrite a few notes if the time has come."""
        if time.monotonic() < self._next_change:
            return
        for note in self.dice.sample(range(NOTES), self.dice.randint(1, 5)):
            self._write(note, self.written[note] + 1)
        self._next_change = time.monotonic() + self.dice.uniform(*PAUSES)

    def _write(self, note: int, version: int) -> None:
        # The file is replaced atomically, since reading a half-written file would be a different failure.
        half = self.notes / ".half"
        text = f"# Kettle {note}\n\nThe kettle number {note} is in version {version}. It stands on the shelf.\n"
        half.write_text(text, encoding="utf-8")
        half.replace(self.notes / f"note{note:03}.md")
        self.written[note] = version

    def _is_unfinished(self) -> bool:
        """Return whether the build that was killed had begun to write."""
        manifest = self._manifest()
        with closing(sqlite3.connect(self.index / f"g{manifest.generation:04d}" / "passages.db")) as db:
            statement = "SELECT 1 FROM passages WHERE made > ? LIMIT 1"
            return db.execute(statement, [manifest.revision]).fetchone() is not None

    def _manifest(self) -> Manifest:
        manifest = read_manifest(self.index)
        assert manifest is not None, "there is no index"
        return manifest

    def _held(self) -> Versions:
        """Return the version of each note in the index."""
        store = StoredIndex(self.index, self._manifest()).store
        try:
            stated = [_stated(passage.text) for page in store.pages() for _, _, passage in page]
        finally:
            store.close()
        return dict(pair for pairs in stated for pair in pairs)

    def _between(self, before: Versions, held: Versions) -> None:
        assert held.keys() == self.written.keys(), f"{len(self.written) - len(held)} notes are lost"
        for note, version in held.items():
            assert before[note] <= version <= self.written[note], f"note {note} is in version {version}"

    def _answers(self, before: Versions, printed: str) -> None:
        """Check that every answer states a version that is not older than in an earlier answer."""
        newest = dict(before)
        *answers, _ = _ANSWERED.split(printed)[::3]
        self.answers += len(answers)
        for answer in answers:
            stated = list(_stated(answer))
            assert stated, f"an answer without a version: {answer[-200:]!r}"
            for note, version in stated:
                assert newest[note] <= version <= self.written[note], f"answered with version {version} of note {note}"
                newest[note] = version

    def _found(self, held: Versions) -> None:
        """Check that a search finds what the index contains."""
        hits = json.loads(self._run("search", "kettle number 7", "--index", "k", "--json").out)["hits"]
        found = dict(stated for hit in hits for stated in _stated(hit["passage"]["text"]))
        assert found, "nothing is found"
        assert found.items() <= held.items(), "what is found is not what the index holds"

    def _intact(self) -> None:
        assert verify_index(StoredIndex(self.index, self._manifest())) == []

    def _run(self, *words: str | Path, stdin: str = "") -> Ended:
        return fine(turnmark(*words, home=self.home, folder=self.folder, stdin=stdin))


def _stated(text: str) -> Iterator[tuple[int, int]]:
    """Yield note and version of each sentence of a text that states one; bold and line breaks do not matter."""
    for note, version in _STATED.findall(" ".join(text.replace("*", "").split())):
        yield int(note), int(version)
