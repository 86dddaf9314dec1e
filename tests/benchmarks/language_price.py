"""Measure the price of other languages: builds of a folder in processes of their own, and the detection alone.

    python -m tests.benchmarks.language_price "$TURNMARK_DATA/docs/based-cooking"

The folder is indexed with each embedder, and with `minilm` without detection. Fetch multilingual-e5-small first. The
first build of each embedder also prepares its 8-bit form, so the builds are repeated and the second ones count.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

BUILDS = (
    ("minilm", "conversational"),
    ("minilm", "conversational?language=english"),
    ("multilingual-e5-small", "conversational"),
)


def build(folder: Path, embedder: str, retriever: str) -> str:
    """Build an index in another process; return its processor time, peak memory and size."""
    from turnmark.retrieval.index.components import remove_index
    from turnmark.retrieval.search.opened_index import indexes_folder

    name = "language-price"
    command = ["index", "build", str(folder), "--name", name, "--embedder", embedder, "--retriever", retriever]
    process = subprocess.Popen([sys.executable, "-m", "turnmark", *command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"the build with {embedder} and {retriever} failed")
    size = sum(path.stat().st_size for path in (indexes_folder() / name).rglob("*") if path.is_file())
    remove_index(name)
    seconds = usage.ru_utime + usage.ru_stime
    return f"processor {seconds:.1f} s, peak {usage.ru_maxrss / 1024:.0f} MiB, index {size / 2**20:.1f} MiB"


def detection(folder: Path) -> str:
    """Return the processor time of the detection of each document's language, with the time of loading its model."""
    from turnmark.corpora.text.languages import detect_language, detect_languages

    texts = {str(path): path.read_text(encoding="utf-8", errors="replace") for path in folder.rglob("*.md")}
    began = time.process_time()
    detect_language("Switch the machine off and let it cool down before you descale it.")
    loaded = time.process_time()
    detect_languages(texts)
    return f"{len(texts)} documents: load {loaded - began:.2f} s, detect {time.process_time() - loaded:.2f} s"


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    print("detection:", detection(folder), flush=True)
    for repeat in (1, 2):
        for embedder, retriever in BUILDS:
            print(f"{repeat}. {embedder}, {retriever}: {build(folder, embedder, retriever)}", flush=True)


if __name__ == "__main__":
    main()
