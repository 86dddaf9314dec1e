"""Measure retrieval over documents in other languages: XQuAD, with each paragraph as a Markdown file.

    python -m tests.benchmarks.languages de es zh --embedder multilingual-e5-small

Each language gets its own index. With `--mixed` one index has each paragraph in one of the languages, with questions
in all of them. The data are in `languages/xquad.LANG.json` below TURNMARK_DATA, or `reading/xquad.en.json` for English.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import turnmark as tm

DATA = Path(os.environ.get("TURNMARK_DATA") or Path(__file__).parents[2] / "../shared/data")
RETRIEVERS = (None, "bm25", "dense")

Question = tuple[str, int]
"""A question, and the number of its paragraph."""


def load(language: str) -> tuple[list[str], list[Question]]:
    """Return the paragraphs and the questions of a language."""
    folder = "reading" if language == "en" else "languages"
    data = json.loads((DATA / folder / f"xquad.{language}.json").read_text(encoding="utf-8"))["data"]
    paragraphs, questions = [], []
    for paragraph in (paragraph for article in data for paragraph in article["paragraphs"]):
        questions += [(entry["question"], len(paragraphs)) for entry in paragraph["qas"]]
        paragraphs.append(paragraph["context"])
    return paragraphs, questions


def measure(name: str, paragraphs: Sequence[str], questions: Sequence[Question], embedder: str, n: int) -> None:
    """Build an index of the paragraphs and print R@1 and R@5 of some questions, with the time of the build."""
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(paragraphs):
            (Path(folder) / f"{number:03}.md").write_text(text, encoding="utf-8")
        began, cpu = time.monotonic(), time.process_time()
        index = tm.Index.build(folder, f"xquad-{name}", embedder=embedder)
        seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    manifest = index.manifest
    weights = {ranker: (weight.share, weight.mrr) for ranker, weight in manifest.weights.items()}
    print(f"{name}: {manifest.embedder and manifest.embedder.spec}, {manifest.passages} passages, {manifest.languages}")
    print(f"  build {seconds:.1f} s, processor {cpu:.1f} s, peak {peak:.0f} MiB, {weights}, sure {manifest.sure_from}")
    for retriever in RETRIEVERS:
        ranks = []
        for question, number in random.Random(0).sample(list(questions), n):
            found = [hit.passage.document for hit in index.search(question, 5, retriever=retriever)]
            ranks.append(found.index(f"{number:03}.md") + 1 if f"{number:03}.md" in found else 99)
        at_1, at_5 = (sum(rank <= k for rank in ranks) / n for k in (1, 5))
        print(f"  {retriever or 'default':8} R@1 {at_1:.3f} R@5 {at_5:.3f}", flush=True)


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("languages", nargs="+")
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument("--mixed", action="store_true")
    arguments = parser.parse_args()
    loaded = {language: load(language) for language in arguments.languages}
    if not arguments.mixed:
        for language, (paragraphs, questions) in loaded.items():
            measure(language, paragraphs, questions, arguments.embedder, arguments.questions)
        return
    rng = random.Random(0)
    count = len(next(iter(loaded.values()))[0])
    mixed = [loaded[rng.choice(arguments.languages)][0][number] for number in range(count)]
    questions = [question for _, questions in loaded.values() for question in questions]
    measure("mixed", mixed, questions, arguments.embedder, arguments.questions)


if __name__ == "__main__":
    main()
