"""Seconds to bring an index up to date after one file changed: `python -m tests.benchmarks.rebuild SOURCE [TIMES]`.

Copies a folder of Markdown files several times over, each copy with some words exchanged, until there are a thousand
files; builds it in a folder that is deleted afterwards, then changes one file at a time. Prints files, passages, and
the seconds of each build; the first one after a change also loads what only a rebuild needs.
"""

from __future__ import annotations

import os
import random
import re
import sys
import tempfile
import time
from pathlib import Path

from turnmark.retrieval.index.build import build_again, build_index
from turnmark.retrieval.index.source_reading import SETTLED_NS
from turnmark.retrieval.search.opened_index import open_index

FILES = 1000
EXCHANGED = 0.15
"""Share of the words that are exchanged."""


def write_files(source: Path, folder: Path) -> list[Path]:
    """Write the thousand files, and return them."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.md"))]
    words = [word for text in texts for word in re.findall(r"[a-z]{4,}", text)]
    dice = random.Random(0)
    files = []
    for number in range(FILES):
        path = folder / f"part{number % 20:02}" / f"page{number:04}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        changed = re.sub(
            r"[a-z]{4,}",
            lambda match: dice.choice(words) if dice.random() < EXCHANGED else match[0],
            texts[number % len(texts)],
        )
        path.write_text(changed, encoding="utf-8")
        files.append(path)
    return files


def main() -> None:
    """Print the figures."""
    source, times = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TURNMARK_HOME"] = f"{folder}/home"
        files = write_files(source, Path(folder) / "files")
        time.sleep(SETTLED_NS / 1e9)
        report = build_index(Path(folder) / "files", "big")
        print(f"{report.documents} files, {report.passages} passages: {report.seconds:.1f} s", flush=True)
        for path in files[:times]:
            path.write_text(
                f"{path.read_text(encoding='utf-8')}\n\n## Added\n\nOne paragraph more.\n", encoding="utf-8"
            )
            changed = build_again(open_index("big").manifest).seconds
            unchanged = build_again(open_index("big").manifest).seconds
            print(
                f"one changed: {changed:.2f} s, {report.seconds / changed:.0f} times as fast as the first build; "
                f"nothing changed: {unchanged:.2f} s, {report.seconds / unchanged:.0f} times",
                flush=True,
            )


if __name__ == "__main__":
    main()
