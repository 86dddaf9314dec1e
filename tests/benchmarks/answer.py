"""What a quotation is worth: beside MTRAG's references, and by the key facts of conversations.

    TURNMARK_DATA=… python -m tests.benchmarks.answer

MTRAG and MTRAG-UN with the passages at hand: ROUGE-L, token recall and K-precision of the answer without a model, and
of the first sentences of the passages at its length. Then for each suite of tests.benchmarks.decide the share of
answerable turns all of whose key facts are in the reply. ROUGE-L is no goal of the form: it quotes, references say.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from tests.benchmarks.decide import OWN
from tests.benchmarks.pools import root
from tests.intervals import mean_interval
from turnmark.assistant.assistant import Assistant
from turnmark.assistant.open import open_assistant
from turnmark.corpora import mtrag
from turnmark.corpora.text import strip_citations, words
from turnmark.corpora.types import Message, Passage
from turnmark.evaluation.benchmarks.measures import lead
from turnmark.evaluation.metrics.overlap import k_precision, rouge_l_word, token_recall
from turnmark.retrieval.build import build_index
from turnmark.retrieval.embed import open_embedder
from turnmark.retrieval.task_passages import hits_of

BENCHMARKS: tuple[mtrag.Benchmark, ...] = ("mtrag", "mtrag-un")
HALVES = ("tuning", "test")


def plain(text: str) -> str:
    """An answer as it is scored: without marks and without our bold."""
    return strip_citations(text).replace("**", "")


def measured(text: str, reference: str, passages: Sequence[str]) -> Mapping[str, float]:
    """The figures of one answer, and of the first sentences at its length."""
    figures = {
        "rouge": rouge_l_word(text, reference), "recall": token_recall(text, reference),
        "k_prec": k_precision(text, passages), "words": float(len(words(text))),
        "lead": rouge_l_word(lead(passages, len(words(text))), reference),
    }  # fmt: skip
    return {name: value or 0.0 for name, value in figures.items()}


def on_references(benchmark: mtrag.Benchmark) -> None:
    """Print the row of a benchmark."""
    embedder = open_embedder("minilm")
    assistant = Assistant(None, embed=lambda texts: embedder.encode(list(texts), "passage"))
    rows, clusters = [], []
    for task in mtrag.load_tasks(root(), benchmark).data.values():
        if not (task.contexts and task.reference and task.answerability in ("ANSWERABLE", "PARTIAL")):
            continue
        passages = [
            Passage(id=c.document_id, document=c.document_id, title=c.title, text=c.text, start=0, end=len(c.text))
            for c in task.contexts[:10]
        ]
        reply = assistant.reply(task.history, task.question, evidence=hits_of(passages), trusted=True)
        rows.append(measured(plain(reply.answer), task.reference, [passage.text for passage in passages]))
        clusters.append(task.conversation)
    mean, low, high = mean_interval([row["rouge"] for row in rows], clusters, 0)
    others = " | ".join(f"{fmean(row[name] for row in rows):.3f}" for name in ("lead", "recall", "k_prec"))
    size = fmean(row["words"] for row in rows)
    print(f"| {benchmark} | {len(rows)} | {mean:.3f} ({low:.3f} to {high:.3f}) | {others} | {size:.0f} |", flush=True)


def facts(data: Path, suite: str, folder: str) -> None:
    """Print, for each half of a suite, how many answerable turns have all of their key facts in the reply."""
    build_index(data / "docs" / folder, folder)
    assistant = open_assistant(folder)
    found: dict[str, list[bool]] = {half: [] for half in HALVES}
    for at, talk in enumerate(json.loads((data / "conversations" / f"{suite}_suite.json").read_text(encoding="utf-8"))):
        history: list[Message] = []
        for turn in talk["turns"]:
            text = plain(assistant.reply(history, turn["q"]).answer)
            history += [Message(role="user", content=turn["q"]), Message(role="assistant", content=text)]
            if turn["kind"] in ("answer", "compound", "steps"):
                found[HALVES[at % 2]].append(all(re.search(fact, text, re.IGNORECASE) for fact in turn["must"]))
    for half, right in found.items():
        print(f"| {suite}, {half} | {sum(right)} of {len(right)} | {fmean(right):.2f} |", flush=True)


def main() -> None:
    """Print the tables."""
    print("| benchmark | tasks | ROUGE-L | first sentences | token recall | K-precision | words |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for benchmark in BENCHMARKS:
        on_references(benchmark)
    data = Path(os.environ["TURNMARK_DATA"])
    if (data / "conversations").is_dir():
        print("\n| suite | all key facts | share |\n| --- | --- | --- |")
        for suite, folder in OWN.items():
            facts(data, suite, folder)


if __name__ == "__main__":
    sys.exit(main())
