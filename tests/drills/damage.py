"""Files of an index cut, flipped and gone: found, named, and rebuilt by the command that `index verify` names."""

from __future__ import annotations

import random
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from tests.drills.forking import fine, turnmark
from tests.drills.kills import _source
from tests.drills.tally import Effort, Tally


def drills(effort: Effort) -> Iterator[Tally]:
    """Every file of an index; then Chroma's."""
    folder = effort.folder("damage")
    dice = random.Random(effort.seed)
    _source(folder / "notes")
    for path in sorted((folder / "notes").iterdir())[12:]:
        path.unlink()
    with mock.patch("turnmark.retrieval.build.FLAT_LIMIT", 0):  # so few vectors would not be in Chroma
        for name, retriever in (("b", "bm25"), ("h", "hybrid")):
            fine(turnmark("index", "build", folder / "notes", "--name", name, "--retriever", retriever,
                          home=folder / "home", folder=folder))  # fmt: skip
    yield _files(folder, dice, max(1, effort.kills // 40))
    yield _chroma(folder, dice)


def _files(folder: Path, dice: random.Random, times: int) -> Tally:
    """Each file that a build wrote, cut, with one bit flipped, and gone."""
    tally = Tally("index files cut, flipped, gone")
    pristine, mine = folder / "home", folder / "mine"
    generation = pristine / "indexes" / "b" / "g0001"
    names = [p.relative_to(generation).as_posix() for p in sorted(generation.rglob("*")) if p.is_file()]
    for name in (name for name in names if name != "models"):
        for way in ("cut", "flipped", "gone") * times:
            with tally.attempt(f"{name} {way}"):
                shutil.rmtree(mine, ignore_errors=True)
                shutil.copytree(pristine / "indexes" / "b", mine / "indexes" / "b")
                path = mine / "indexes" / "b" / "g0001" / name
                if not harm(path, way, dice):
                    continue
                fine(turnmark("search", "kettle", "--index", "b", home=mine, folder=folder), 0, 1)
                ended = fine(turnmark("index", "verify", "b", home=mine, folder=folder), 1)
                assert name.partition("/")[0] in ended.err, f"not named: {ended.err[-200:]}"
                _rebuild("b", ended.err, mine, folder)
    with tally.attempt("manifest.json cut"):
        harm(mine / "indexes" / "b" / "manifest.json", "cut", dice)
        ended = fine(turnmark("search", "kettle", "--index", "b", home=mine, folder=folder), 1)
        assert "manifest.json" in ended.err
        fine(turnmark("index", "list", home=mine, folder=folder))
    return tally


def _chroma(folder: Path, dice: random.Random) -> Tally:
    """Chroma's own files: damage is found, and the index rebuilt from its source."""
    tally = Tally("Chroma's files damaged")
    pristine, mine = folder / "home", folder / "mine"
    chroma = pristine / "indexes" / "h" / "g0001" / "chroma"
    database = [(path, way) for path in sorted(chroma.rglob("*.sqlite3")) for way in ("cut", "header", "gone")]
    segments = [(path, way) for path in sorted(chroma.rglob("*.bin")) for way in ("cut", "gone")]
    for path, way in (*database, *segments, (chroma, "gone")):
        with tally.attempt(f"{path.name} {way}"):
            shutil.rmtree(mine, ignore_errors=True)
            shutil.copytree(pristine / "indexes" / "h", mine / "indexes" / "h")
            mended = mine / "indexes" / "h" / path.relative_to(pristine / "indexes" / "h")
            if not harm(mended, way, dice):
                continue
            searched = turnmark("search", "red kettle", "--index", "h", home=mine, folder=folder)
            fine(searched, 0, 1)
            report = fine(turnmark("index", "verify", "h", home=mine, folder=folder), 0, 1)
            assert report.code == 1 or searched.code == 0, "a search fails, and nothing is found"
            if report.code == 0:
                continue  # Chroma has the vectors in its log too, and needs this file no more
            _rebuild("h", report.err, mine, folder)
    return tally


def _rebuild(name: str, message: str, home: Path, folder: Path) -> None:
    """Type the commands that a message ends with, and check that the index is intact afterwards."""
    commands = message.partition("rebuild it with: ")[2].strip().split(", then ")
    assert len(commands) == 2, message
    for command in commands:
        fine(turnmark(*shlex.split(command)[1:], home=home, folder=folder))
    fine(turnmark("index", "verify", name, home=home, folder=folder))


def harm(path: Path, way: str, dice: random.Random) -> bool:
    """Do that to a file; False where there is nothing to be done to it."""
    if way == "gone":
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        return True
    content = bytearray(path.read_bytes())
    if not content:
        return False
    if way == "cut":
        path.write_bytes(content[: dice.randrange(len(content))])
    else:
        offset = dice.randrange(16) if way == "header" else dice.randrange(len(content))
        content[offset] ^= 1 << dice.randrange(8)
        path.write_bytes(content)
    return True
