"""How long a folder takes to read with one process and with several.

    python -m tests.benchmarks.reading FOLDER [PROCESSES …]

Reads all files of the folder and cuts them into passages, without a model, ROUNDS times with each number of processes
(1 and 2), in turns, and prints the best time. Files that are read in this process (Markdown, text) gain nothing.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from pathlib import Path

from turnmark.corpora.chunking import regex_tokens
from turnmark.corpora.readers import isolation
from turnmark.corpora.readers.report import ReadingReport
from turnmark.retrieval.index.components import CHUNK_SIZE, Window
from turnmark.retrieval.index.source_reading import SourceReader

ROUNDS = 2


def seconds(folder: Path, processes: int) -> tuple[float, int]:
    """Return the seconds of reading the folder, and its number of passages."""
    isolation.end_processes()
    window = Window(CHUNK_SIZE, CHUNK_SIZE, regex_tokens)
    began = time.perf_counter()
    with closing(SourceReader(folder, (), (), window, None, {}, ReadingReport(), processes)) as reader:
        passages = sum(len(entry.passages) for entry in map(reader.cut, reader.entries()))
    return time.perf_counter() - began, passages


def main() -> None:
    """Print the table."""
    folder = Path(sys.argv[1])
    counts = [int(word) for word in sys.argv[2:]] or [1, 2]
    times: dict[int, list[float]] = {count: [] for count in counts}
    for _ in range(ROUNDS):
        for count in counts:
            elapsed, passages = seconds(folder, count)
            times[count].append(elapsed)
    print(f"{passages:,} passages\n\n| processes | seconds | ratio |\n|---|---|---|")
    for count in counts:
        print(f"| {count} | {min(times[count]):.1f} | {min(times[counts[0]]) / min(times[count]):.2f} |")
    print(f"\n{os.cpu_count()} processors, load over the last minute {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
