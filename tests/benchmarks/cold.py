"""CPU seconds of commands in a new process, beside the import of sentence-transformers alone.

    python -m tests.benchmarks.cold [RUNS]

User and system time of each process, the middle of RUNS (5): on a busy machine it changes less than wall time. The
first build and the search for 8-bit ranges are measured in a new home each time.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

DOCUMENT = "# Kettle\n\nTo descale the kettle, boil vinegar in it.\n"
QUESTION = "How do I descale the kettle?"
COMMANDS = {
    "--help": ["--help"],
    "search --retriever bm25": ["search", QUESTION, "--index", "tiny", "--retriever", "bm25"],
    "search": ["search", QUESTION, "--index", "tiny"],
    "ask": ["ask", QUESTION, "--index", "tiny"],
}
RUN = "from turnmark.cli import main; main()"


def cpu_seconds(code: str, words: list[str], home: Path) -> float:
    """Return user and system time of a Python process."""
    environment = os.environ | {"TURNMARK_HOME": str(home), "TURNMARK_CACHE": str(home / "cache")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code, *words], env=environment, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if sys.argv[1:] else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "documents").mkdir()
        (folder / "documents" / "kettle.md").write_text(DOCUMENT, encoding="utf-8")
        build = ["index", "build", str(folder / "documents"), "--name", "tiny"]
        library = statistics.median(
            cpu_seconds("import sentence_transformers", [], folder / "home") for _ in range(runs)
        )
        print("| what | CPU seconds | import sentence_transformers | ratio |\n|---|---|---|---|")
        first = [cpu_seconds(RUN, build, folder / f"home-{number}") for number in range(runs)]
        measured = {"index build, first in a home": statistics.median(first)}
        cpu_seconds(RUN, build, folder / "home")
        for label, words in COMMANDS.items():
            measured[label] = statistics.median(cpu_seconds(RUN, words, folder / "home") for _ in range(runs))
        for label, seconds in measured.items():
            print(f"| {label} | {seconds:.2f} | {library:.2f} | {library / seconds:.1f} |", flush=True)
    print(f"\n{os.cpu_count()} processors, load over the last minute {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
