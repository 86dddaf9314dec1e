"""An hour of changes to a large folder that is watched while it is searched, as a plot.

    python -m tests.benchmarks.changes OUT.svg MINUTES RETRIEVER WORK FILES FOLDER…

Copies text files of the folders, such as /usr/share/doc, to WORK, and starts `turnmark index build --watch` over the
copies. If WORK exists, its files and its index are used again.

Every few seconds, files are added, removed, renamed or edited, and a question is asked in this process, which opens the
index again when a build has published a new state. Prints a line per minute. OUT.jsonl has every question.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from xml.etree import ElementTree

from turnmark.core.home import home

SUFFIXES, MIN_BYTES, MAX_BYTES = (".md", ".rst", ".txt", ".html"), 200, 10_000
KEPT_FILES = 500
"""Number of files that are kept for being added later."""
PAUSE_SECONDS = 3.0
MARKED_SECONDS = 60.0
"""Interval at which a file gets a word of its own, to see how long it takes until the word is found."""
WIDTH, ROW_HEIGHT, MARGIN = 860, 150, 60


@dataclass
class Folder:
    """The folder, and the files that may still be added to it."""

    path: Path
    kept: list[Path]
    dice: random.Random = field(default_factory=lambda: random.Random(0))
    files: list[Path] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def copy(self, source: Path) -> None:
        number = sum(self.counts.values()) + len(self.files)
        target = self.path / f"{number % 40:02}" / f"{number:06}-{source.name}"
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, target)
        self.files.append(target)

    def change(self) -> None:
        """Make one to five random changes."""
        for _ in range(self.dice.randint(1, 5)):
            what = self.dice.choice(["added", "removed", "renamed", "edited", "edited"])
            place = self.dice.randrange(len(self.files))
            path = self.files[place]
            if what == "added":
                self.copy(self.dice.choice(self.kept))
            elif what == "removed":
                path.unlink()
                del self.files[place]
            elif what == "renamed":
                self.files[place] = path.rename(path.with_name(f"renamed-{path.name[-100:]}"))
            else:
                self.append(path, f"This was edited as change {sum(self.counts.values())}.")
            self.counts[what] = self.counts.get(what, 0) + 1

    def append(self, path: Path, sentence: str) -> None:
        text = path.read_text(encoding="utf-8", errors="replace")
        sentence = f"<p>{sentence}</p>" if path.suffix == ".html" else f"\n\n{sentence}\n"
        path.write_text(text + sentence, encoding="utf-8")

    def question(self) -> str:
        words = self.dice.choice(self.kept).read_text(encoding="utf-8", errors="replace").split()
        words = [word for word in words if word.isalpha()]
        start = self.dice.randrange(max(len(words) - 8, 1))
        return " ".join(words[start : start + 8]) or "how is it installed?"


def memory(process: int) -> float:
    """Return the MiB that a process has in memory (Linux)."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def bytes_under(folder: Path) -> int:
    """Return the size of the files in a folder, some of which may be deleted meanwhile."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class Watched:
    """The index, opened again when there is a new state."""

    def __init__(self, began: float) -> None:
        self._began, self._index = began, None

    def search(self, question: str) -> dict[str, Any]:
        """Search, and return what it took, or nothing if there is no index yet."""
        import turnmark as tm
        from turnmark.core.errors import TurnmarkError
        from turnmark.retrieval.search.opened_index import open_index

        started = time.monotonic()
        try:
            reopened = self._index is None or not self._index.is_current()
            if reopened:
                self._index = tm.Index.open("changes")
            hits = self._index.search(question, 10)  # type: ignore[attr-defined]
        except TurnmarkError:
            self._index = None
            return {}
        manifest = open_index("changes").manifest
        return {
            "minute": (started - self._began) / 60, "seconds": time.monotonic() - started, "reopened": reopened,
            "passages": manifest.passages, "pending": manifest.pending, "own_mib": memory(os.getpid()),
            "found": bool(hits) and any(word in hits[0].passage.text for word in question.split()),
        }  # fmt: skip


def run(folder: Folder, minutes: float, log: Path, retriever: str) -> list[dict[str, Any]]:
    """Change and search for some minutes; return a record for each question."""
    command = [sys.executable, "-m", "turnmark", "index", "build", str(folder.path), "--name", "changes"]
    command += ["--retriever", retriever, "--watch"]
    records: list[dict[str, Any]] = []
    marked, marked_at, last, minute = "", 0.0, 0.0, 0
    with (log.with_suffix(".log").open("w") as said, log.open("w", encoding="utf-8") as lines,
          subprocess.Popen(command, stdout=said, stderr=said) as build):  # fmt: skip
        began = time.monotonic()
        watched = Watched(began)
        while (now := time.monotonic()) < began + 60 * minutes and build.poll() is None:
            if record := watched.search(marked or folder.question()):
                record |= {"build_mib": memory(build.pid), "disk": bytes_under(home() / "indexes")}
                if marked and record["found"]:
                    record["fresh"], marked = time.monotonic() - marked_at, ""
                records.append(record)
                lines.write(json.dumps(record) + "\n")
                lines.flush()
                folder.change()
            if records and not marked and now > last + MARKED_SECONDS:
                marked, marked_at, last = f"quokka{len(records)}x", now, now
                folder.append(folder.dice.choice(folder.files), f"The word of this change is {marked}.")
            if records and now > began + 60 * minute:
                minute = int((now - began) / 60) + 1
                print(json.dumps(records[-1] | folder.counts), flush=True)
            time.sleep(PAUSE_SECONDS)
        build.terminate()
    return records


def curve(drawing: ElementTree.Element, points: Sequence[tuple[float, float]], minutes: float, **style: str) -> float:
    """Add a curve to a drawing of one row, and return the value at its upper edge."""
    highest = max(value for _, value in points) or 1.0
    places = []
    for minute, value in points:
        x = MARGIN + (WIDTH - 2 * MARGIN) * minute / minutes
        places.append(f"{x:.1f},{ROW_HEIGHT - 20 - (ROW_HEIGHT - 45) * value / highest:.1f}")
    ElementTree.SubElement(drawing, "polyline", {"points": " ".join(places), "fill": "none", **style})
    return highest


def draw(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw latency, delay, memory and passages over time."""
    minutes = records[-1]["minute"]
    rows = {
        "seconds of a search": ("seconds", 1.0), "seconds until a change is found": ("fresh", 1.0),
        "memory of the build, MiB": ("build_mib", 1.0), "memory of the search, MiB": ("own_mib", 1.0),
        "thousand passages without vectors": ("pending", 1e-3), "index on disk, MB": ("disk", 1e-6),
    }  # fmt: skip
    svg = ElementTree.Element(
        "svg", {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {WIDTH} {ROW_HEIGHT * len(rows)}",
                "font-family": "sans-serif", "font-size": "12"},
    )  # fmt: skip
    ElementTree.SubElement(svg, "rect", {"width": "100%", "height": "100%", "fill": "white"})
    for number, (label, (key, scale)) in enumerate(rows.items()):
        row = ElementTree.SubElement(svg, "g", {"transform": f"translate(0 {number * ROW_HEIGHT})"})
        points = [(record["minute"], record[key] * scale) for record in records if key in record]
        if not points:
            continue
        highest = curve(row, points, minutes, stroke="#1f5fa8")
        bottom = str(ROW_HEIGHT - 20)
        ElementTree.SubElement(
            row, "line", {"x1": str(MARGIN), "x2": str(WIDTH - MARGIN), "y1": bottom, "y2": bottom, "stroke": "#888"}
        )
        for at, text in ((25, f"{highest:,.1f}"), (ROW_HEIGHT - 20, "0")):
            ElementTree.SubElement(row, "text", {"x": str(MARGIN - 6), "y": str(at), "text-anchor": "end"}).text = text
        ElementTree.SubElement(row, "text", {"x": str(MARGIN), "y": "14"}).text = label
        for minute in range(0, int(minutes) + 1, 10):
            x = MARGIN + (WIDTH - 2 * MARGIN) * minute / minutes
            ElementTree.SubElement(
                row, "text", {"x": f"{x:.0f}", "y": str(ROW_HEIGHT - 6), "text-anchor": "middle"}
            ).text = f"{minute} min"
    ElementTree.ElementTree(svg).write(path, encoding="utf-8", xml_declaration=True)


def middle_and_high(values: Sequence[float]) -> str:
    """Return the median, the 95th percentile and the maximum of some values, in words."""
    ordered = sorted(values)
    return f"median {median(ordered):.2f}, p95 {ordered[int(len(ordered) * 0.95)]:.2f}, maximum {ordered[-1]:.2f}"


def main() -> None:
    """Print the figures, and write the plot."""
    target, minutes, retriever, work = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    files = int(sys.argv[5])
    os.environ["TURNMARK_HOME"] = f"{work}/home"
    found = [
        path
        for source in sys.argv[6:]
        for path in sorted(Path(source).rglob("*"))
        if path.suffix in SUFFIXES and path.is_file() and MIN_BYTES <= path.stat().st_size <= MAX_BYTES
    ][: files + KEPT_FILES]
    random.Random(1).shuffle(found)
    folder = Folder(work / "files", found[:KEPT_FILES])
    if work.exists():
        folder.files = sorted(path for path in folder.path.rglob("*") if path.is_file())
    else:
        folder.path.mkdir(parents=True)
        for path in found[KEPT_FILES:]:
            folder.copy(path)
    print(f"{len(folder.files):,} files", flush=True)
    records = run(folder, minutes, target.with_suffix(".jsonl"), retriever)
    draw(records, target)
    print(f"asked {len(records)} times; {folder.counts}; first answer after {records[0]['minute']:.1f} minutes")
    for key in ("seconds", "fresh", "build_mib", "own_mib"):
        print(f"{key}: {middle_and_high([record[key] for record in records if key in record] or [0])}")
    print(f"load of the machine over the last 1, 5 and 15 minutes: {os.getloadavg()}")


if __name__ == "__main__":
    main()
