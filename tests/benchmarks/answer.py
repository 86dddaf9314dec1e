"""What a quotation is worth next to MTRAG's references.

    TURNMARK_DATA=… python -m tests.benchmarks.answer

MTRAG and MTRAG-UN with the passages at hand: ROUGE-L, token recall and K-precision of the answer without a model, and
of the first sentences of the passages at its length. ROUGE-L is no goal of the form: it quotes, references say. Key
facts are counted by tests.benchmarks.decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from tests.benchmarks.pools import root
from tests.intervals import mean_interval
from turnmark.assistant.assistant import Assistant
from turnmark.corpora import mtrag
from turnmark.corpora.text import strip_citations, words
from turnmark.corpora.types import Passage
from turnmark.evaluation.benchmarks.measures import lead
from turnmark.evaluation.metrics.overlap import k_precision, rouge_l_word, token_recall
from turnmark.retrieval.embed import open_embedder
from turnmark.retrieval.task_passages import hits_of

BENCHMARKS: tuple[mtrag.Benchmark, ...] = ("mtrag", "mtrag-un")


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


def main() -> None:
    """Print the tables."""
    print("| benchmark | tasks | ROUGE-L | first sentences | token recall | K-precision | words |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for benchmark in BENCHMARKS:
        on_references(benchmark)


if __name__ == "__main__":
    main()
