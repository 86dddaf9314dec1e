"""Files of an index cut, flipped and gone: found, named, and rebuilt by the command that `index verify` names."""

from __future__ import annotations

import random
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.drills.forking import fine, turnmark
from tests.drills.kills import _source
from tests.drills.tally import Effort, Tally


def drills(effort: Effort) -> Iterator[Tally]:
    """Each file that a build wrote, cut, with one bit flipped, and gone."""
    folder, dice = effort.folder("damage"), random.Random(effort.seed)
    _source(folder / "notes", notes=12)
    pristine, mine = folder / "home", folder / "mine"
    build = ("index", "build", folder / "notes", "--name", "b", "--retriever", "bm25")
    fine(turnmark(*build, home=pristine, folder=folder))
    tally = Tally("index files cut, flipped, gone")
    generation = pristine / "indexes" / "b" / "g0001"
    names = [p.relative_to(generation).as_posix() for p in sorted(generation.rglob("*")) if p.is_file()]
    for name in (name for name in names if name != "models"):
        for way in ("cut", "flipped", "gone") * max(1, effort.kills // 40):
            with tally.attempt(f"{name} {way}"):
                shutil.rmtree(mine, ignore_errors=True)
                shutil.copytree(pristine / "indexes" / "b", mine / "indexes" / "b")
                path = mine / "indexes" / "b" / "g0001" / name
                if not harm(path, way, dice):
                    continue
                fine(turnmark("search", "kettle", "--index", "b", home=mine, folder=folder), 0, 1)
                ended = fine(turnmark("index", "verify", "b", home=mine, folder=folder), 1)
                assert name.partition("/")[0] in ended.err, f"not named: {ended.err[-200:]}"
                _rebuild(ended.err, mine, folder)
    with tally.attempt("manifest.json cut"):
        harm(mine / "indexes" / "b" / "manifest.json", "cut", dice)
        ended = fine(turnmark("search", "kettle", "--index", "b", home=mine, folder=folder), 1)
        assert "manifest.json" in ended.err
        fine(turnmark("index", "list", home=mine, folder=folder))
    yield tally


def _rebuild(message: str, home: Path, folder: Path) -> None:
    """Type the commands that a message ends with, and check that the index is intact afterwards."""
    commands = message.partition("rebuild it with: ")[2].strip().split(", then ")
    assert len(commands) == 2, message
    for command in commands:
        fine(turnmark(*shlex.split(command)[1:], home=home, folder=folder))
    fine(turnmark("index", "verify", "b", home=home, folder=folder))


def harm(path: Path, way: str, dice: random.Random) -> bool:
    """Do that to a file; False where there is nothing to be done to it."""
    if way == "gone":
        path.unlink()
        return True
    content = bytearray(path.read_bytes())
    if not content:
        return False
    if way == "cut":
        path.write_bytes(content[: dice.randrange(len(content))])
    else:
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        path.write_bytes(content)
    return True
