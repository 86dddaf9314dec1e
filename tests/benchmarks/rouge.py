"""How many pairs a second `rouge_l.word` scores against rouge-score: `python -m tests.benchmarks.rouge`.

Both score the same pairs in turns, in one process, and the best of their rounds counts. The pairs are the answers of
MTRAG's human evaluation where they are there ($TURNMARK_DATA, or shared/data beside the checkout), else made ones of
the same length. Pairs of equal texts are left out: they are easier for us. Exits with 1 below 50 times.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable

from rouge_score.rouge_scorer import RougeScorer

from tests.conftest import DATA
from turnmark.evaluation.metrics.overlap import rouge_l_word

TARGET = 50
ROUNDS = 5
FILE = "mt-rag-benchmark/mtrag-human/evaluations/reference_subset_with_human_evaluations.json"


def real_pairs() -> list[tuple[str, str]]:
    """(answer, reference); none where the data are not there."""
    file = DATA / FILE
    if not file.is_file():
        return []
    data = json.loads(file.read_text(encoding="utf-8"))
    references = {task["task_id"]: task["targets"][0]["text"] for task in data["tasks"]}
    pairs = [(row["model_response"], references[row["task_id"]]) for row in data["evaluations"]]
    return [(answer, reference) for answer, reference in pairs if answer != reference]


def made_pairs(n: int = 150, words: int = 90) -> list[tuple[str, str]]:
    """Texts of as many words as the real ones have, drawn with repetitions as in prose."""
    dice = random.Random(0)
    vocabulary = ["".join(dice.choices("etaoinshrdlu", k=dice.randint(2, 9))) for _ in range(400)]

    def text() -> str:
        return " ".join(vocabulary[int(400 * dice.random() ** 3)] for _ in range(words)).capitalize() + "."

    return [(text(), text()) for _ in range(n)]


def timed(score: Callable[[str, str], float | None], pairs: list[tuple[str, str]]) -> tuple[float, list[float]]:
    """Seconds, and the values."""
    begin = time.perf_counter()
    values = [score(*pair) for pair in pairs]
    return time.perf_counter() - begin, [value or 0.0 for value in values]


def main() -> int:
    """Measure, print, and say whether the target was reached."""
    pairs, kind = real_pairs(), "real"
    if not pairs:
        pairs, kind = made_pairs(), "made"
    scorer = RougeScorer(["rougeL"], use_stemmer=False)

    def google(answer: str, reference: str) -> float:
        return float(scorer.score(reference, answer)["rougeL"].fmeasure)

    rouge_l_word(*pairs[0])  # loads rapidfuzz
    ours, theirs = [], []
    for _ in range(ROUNDS):
        seconds, values = timed(rouge_l_word, pairs)
        ours.append(seconds)
        seconds, expected = timed(google, pairs)
        theirs.append(seconds)
    apart = max(abs(one - two) for one, two in zip(values, expected, strict=True))
    ratio = min(theirs) / min(ours)
    print(f"{len(pairs)} {kind} pairs, best of {ROUNDS} rounds")
    print(f"rouge-score {len(pairs) / min(theirs):10,.0f} pairs/s")
    print(f"turnmark    {len(pairs) / min(ours):10,.0f} pairs/s")
    print(f"{ratio:.0f} times as fast (target {TARGET}); values at most {apart:.1e} apart")
    return 0 if ratio >= TARGET and apart <= 1e-9 else 1


if __name__ == "__main__":
    sys.exit(main())
