"""Fits the embedded judges, and says how far they agree with people and with the official judge.

    TURNMARK_DATA=… python -m tests.benchmarks.judging idk|rated|agreeing [--write]

`idk`: the IDK verdict against the official judge's, its one number chosen on one system and tested on another.
`rated`: the ratings of people, over the human evaluation without its reference answers; fitted and tested on other
systems, other conversations, and both at once. `agreeing`: which
answers of the human evaluation, and which random sentences of their passages, have enough words of the reference for
`turnmark check`. `--write` writes the product's weights, fitted to all of it. Intervals are 95% bootstraps over
conversations.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.metrics import classification_report, cohen_kappa_score

from tests.conftest import DATA
from tests.intervals import mean_interval
from turnmark.assistant.wording.refusals import refusal_extent, refusal_wording
from turnmark.corpora.benchmarks.task_ids import conversation_of
from turnmark.corpora.text.segmentation import strip_citations
from turnmark.corpora.types import Message
from turnmark.evaluation.benchmarks.index_questions import MIN_FAITHFULNESS
from turnmark.evaluation.check.judged_figures import MIN_AGREEMENT
from turnmark.evaluation.judging.embedded_judge import (
    MAX_RATING,
    MIN_RATING,
    WEIGHTS_FILE,
    Embed,
    SentenceVectors,
    parts_of,
    reply_features,
)
from turnmark.evaluation.metrics.overlap import k_precision, rouge_l_word, token_recall
from turnmark.evaluation.scores.cluster_statistics import draw_clusters, rank_correlations
from turnmark.evaluation.tasks.items import Case
from turnmark.retrieval.embedding.embedders import open_embedder
from turnmark.retrieval.embedding.vector_cache import cache_by_text

RATED = "mt-rag-benchmark/mtrag-human/evaluations/reference_subset_with_human_evaluations.json"
SYNTHETIC = "mt-rag-benchmark/mtrag-synthetic/evaluations/synthetic.json"
RECORDED = "mtragun-predictions"
LABELS = {1.0: "yes", 0.5: "partial", 0.0: "no"}
REFERENCE = "reference"
MAX_RATED = 4.0


@dataclass(frozen=True)
class Row:
    """An answer.

    Attributes:
        people: property -> median of the raters.
        scores: what the file says of it, by the file's names.
        idk: the official judge's verdict; None where it is not known.
        says_idk: whether the verdict is yes; None where it is not known.
    """

    task: str
    system: str
    case: Case
    people: dict[str, float]
    scores: dict[str, float]
    idk: str | None = None
    says_idk: bool | None = None

    @property
    def conversation(self) -> str:
        return conversation_of(self.task)


def evaluated(path: Path) -> list[Row]:
    """The rows of a file in the format of InspectorRAGet, in its order; the reference answers are a system too."""
    content = json.loads(path.read_text(encoding="utf-8"))
    tasks = {task["task_id"]: task for task in content["tasks"]}
    documents = {document["document_id"]: document["text"] for document in content["documents"]}
    raters = {metric["name"] for metric in content["metrics"] if metric["author"] == "human"}
    rows = []
    for answer in content["evaluations"]:
        task = tasks[answer["task_id"]]
        label = _first(task["Answerability"])
        people: dict[str, float] = {}
        scores: dict[str, float] = {}
        for name, ratings in answer["annotations"].items():
            values = [float(rating["value"]) for rating in ratings.values() if rating["value"] is not None]
            if not values:
                continue
            (people if name in raters else scores)[name] = statistics.median(values)
        right = scores.get("conditional_idk")
        case = _case(
            task["input"], answer["model_response"], task["targets"],
            [documents[context["document_id"]] for context in task["contexts"]], label,
        )  # fmt: skip
        says = None if right is None else (right == 1) == (label == "UNANSWERABLE")
        rows.append(Row(answer["task_id"], answer["model_id"], case, people, scores, says_idk=says))
    return rows


def recorded(folder: Path) -> list[Row]:
    """The recorded answers to MTRAG-UN, with the official script's scores."""
    return [row for path in sorted(folder.glob("*.jsonl")) for row in _recorded(path)]


def _recorded(path: Path) -> Iterator[Row]:
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        scores = {name: float(values[0]) for name, values in record["metrics"].items() if values[0] is not None}
        case = _case(
            record["input"], record["predictions"][0]["text"], record["targets"],
            [context["text"] for context in record["contexts"]], _first(record["answerability"]),
        )  # fmt: skip
        idk = LABELS.get(scores["idk_eval"]) if "idk_eval" in scores else None
        yield Row(record["task_id"], path.stem, case, {}, scores, idk, None if idk is None else idk == "yes")


def _first(label: Any) -> str:
    return str(label[0] if isinstance(label, list) else label).upper()


def _case(messages: Any, answer: str, targets: Any, passages: list[str], label: str) -> Case:
    roles = {"user": "user", "agent": "assistant"}
    history = tuple(Message(role=roles[message["speaker"]], content=message["text"]) for message in messages[:-1])
    reference = targets[0]["text"] if targets else ""
    return Case(messages[-1]["text"], answer, history, reference, tuple(passages), label)


USED = {
    "faithfulness": ("strange", "meant", "evidence"),
    "completeness": ("covered", "strange", "evidence"),
    "appropriateness": ("on_topic",),
}
ALPHA = 10.0
"""Of the ridge, over standardised measures; not tuned."""
CLAIMED = (0, 5, 10, 15, 20, 25, 30, 40)
SEED, DRAWS = 0, 10_000
REMEMBERED = 200_000
"""Vectors: of all texts."""

Floats = NDArray[np.float64]


# --- idk -------------------------------------------------------------------------------------------------------------


def best_claimed(rows: Sequence[Row]) -> int:
    """The number of words with most three-way agreement; of several the middle one."""
    right = {most: sum(refusal_wording(row.case.answer).extent(most) == row.idk for row in rows) for most in CLAIMED}
    best = [most for most in CLAIMED if right[most] == max(right.values())]
    return best[(len(best) - 1) // 2]


def idk() -> None:
    """Print the figures, and what the product should take as `MAX_CLAIMED_WORDS`."""
    rows = [row for row in recorded(DATA / RECORDED) if row.idk is not None]
    systems = sorted({row.system for row in rows})
    for system in systems:
        most = best_claimed([row for row in rows if row.system != system])
        tested = [row for row in rows if row.system == system]
        verdicts = [refusal_wording(row.case.answer).extent(most) for row in tested]
        print(f"{system}, n {len(tested)}, most_claimed {most} from the other system:")
        conversations = [row.conversation for row in tested]
        for name, right in (
            ("yes/not yes", [(a == "yes") == (b.idk == "yes") for a, b in zip(verdicts, tested, strict=True)]),
            ("three labels", [a == b.idk for a, b in zip(verdicts, tested, strict=True)]),
        ):
            mean, low, high = mean_interval(list(map(float, right)), conversations, SEED)
            print(f"  {name}: {mean:.3f} [{low:.3f}, {high:.3f}]")
        truth = [str(row.idk) for row in tested]
        report = classification_report(truth, verdicts, output_dict=True, zero_division=0)
        labels = [(name, report[name]) for name in sorted({*truth, *verdicts})]
        print("  " + ", ".join(f"{k} F1 {v['f1-score']:.2f} of {v['support']:.0f}" for k, v in labels), end="")
        print(f", kappa {cohen_kappa_score(truth, verdicts):.2f}")
    for path in (SYNTHETIC, RATED):
        rows_of_file = evaluated(DATA / path)
        for system in dict.fromkeys(row.system for row in rows_of_file):
            own = [row for row in rows_of_file if row.system == system and row.says_idk is not None]
            right = [(refusal_extent(row.case.answer) == "yes") == row.says_idk for row in own]
            yes = sum(bool(row.says_idk) for row in own)
            print(f"{Path(path).stem} {system}: yes/not yes {sum(right) / len(right):.4f}, n {len(own)}, {yes} yes")
    print(f"MAX_CLAIMED_WORDS = {best_claimed(rows)}")


# --- ratings ---------------------------------------------------------------------------------------------------------


def fitted(x: Floats, y: Floats) -> tuple[float, Floats]:
    """Intercept and weights of a ridge over standardised columns, for columns as they are."""
    mean, scale = x.mean(axis=0), np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
    z = (x - mean) / scale
    weights = np.linalg.solve(z.T @ z + ALPHA * np.eye(x.shape[1]), z.T @ (y - y.mean())) / scale
    return float(y.mean() - mean @ weights), weights


def held_out(x: Floats, y: Floats, *groups: Sequence[str]) -> Floats:
    """Predictions for each row by what was fitted to the rows that share none of its groups."""
    sides = [np.unique(group, return_inverse=True)[1] for group in groups]
    predictions = np.zeros(len(y))
    for cell in {tuple(int(side[i]) for side in sides) for i in range(len(y))}:
        test = np.all([side == value for side, value in zip(sides, cell, strict=True)], axis=0)
        train = np.all([side != value for side, value in zip(sides, cell, strict=True)], axis=0)
        intercept, weights = fitted(x[train], y[train])
        predictions[test] = intercept + x[test] @ weights
    return predictions


def held_out_selection(features: dict[str, Floats], y: Floats, *groups: Sequence[str]) -> Floats:
    """As `held_out`, with the measures chosen anew without each row's groups: the best of all sets of up to three."""
    sides = [np.unique(group, return_inverse=True)[1] for group in groups]
    sets = [names for size in (1, 2, 3) for names in combinations(sorted(features), size)]
    predictions = np.zeros(len(y))
    for cell in {tuple(int(side[i]) for side in sides) for i in range(len(y))}:
        test = np.all([side == value for side, value in zip(sides, cell, strict=True)], axis=0)
        train = np.all([side != value for side, value in zip(sides, cell, strict=True)], axis=0)
        inner = [str(number) for number in sides[-1][train]]

        def inside(names: Sequence[str], train: Floats = train, inner: Sequence[str] = inner) -> float:
            x = np.stack([features[name][train] for name in names], axis=1)
            return float(spearmanr(held_out(x, y[train], inner), y[train]).statistic)

        best = max(sets, key=inside)
        x = np.stack([features[name] for name in best], axis=1)
        intercept, weights = fitted(x[train], y[train])
        predictions[test] = intercept + x[test] @ weights
    return predictions


def correlated(scores: Floats, y: Floats, rows: Sequence[Row], beside: Floats | None = None) -> str:
    """Spearman's correlation with its interval and, with `beside`, that of the difference, over the same draws."""
    clusters = np.unique([row.conversation for row in rows], return_inverse=True)[1]
    draws = np.concatenate(list(draw_clusters(int(clusters.max()) + 1, SEED, DRAWS)))[:, clusters]
    levels = [
        np.unique(side, return_inverse=True)[1] for side in (y, scores, *([beside] if beside is not None else []))
    ]
    values = [rank_correlations(side, levels[0], draws) for side in levels[1:]]
    rho = spearmanr(scores, y).statistic
    low, high = np.percentile(values[0], [2.5, 97.5])
    text = f"{rho:.3f} [{low:.3f}, {high:.3f}]"
    if beside is not None and len(values[0]) == len(values[1]):
        difference = rho - spearmanr(beside, y).statistic
        low, high = np.percentile(values[0] - values[1], [2.5, 97.5])
        text += f", ahead by {difference:+.3f} [{low:+.3f}, {high:+.3f}]"
    return text


def measured(rows: Sequence[Row], embed: Embed) -> dict[str, Floats]:
    """Rubric -> its values."""
    embedded, names = SentenceVectors(embed), sorted({name for used in USED.values() for name in used})
    measures = [reply_features(row.case, embedded, names) for row in rows]
    return {name: np.array([values[name] for values in measures]) for name in names}


def baselines(rows: Sequence[Row], prop: str) -> dict[str, Floats]:
    """What the embedded judges are held against; the first is the one to beat."""

    def of(measure: Callable[[Row, str], float | None]) -> Floats:
        return np.array([measure(row, strip_citations(row.case.answer)) or 0.0 for row in rows])

    def said(row: Row) -> list[str]:
        return [*(turn.content for turn in row.case.history), row.case.question]

    files = {
        name: np.array([row.scores[name] for row in rows]) for name in ("Bert-KPrec", "Bert-Rec", "rl_f", "rb_llm")
    }
    files = {f"the file's {name}": values for name, values in files.items()}
    if prop == "faithfulness":
        with_history = of(lambda row, text: k_precision(text, row.case.passages or (), said(row)))
        return {
            "k_precision[+history]": with_history,
            "k_precision": of(lambda row, text: k_precision(text, row.case.passages or ())),
        } | files
    own = token_recall if prop == "completeness" else rouge_l_word
    return {own.__name__: of(lambda row, text: own(text, row.case.reference))} | files


def rated(embed: Embed) -> dict[str, Any]:
    """Print the figures; the weights that the product takes."""
    rows = [row for row in evaluated(DATA / RATED) if row.system != REFERENCE]
    features = measured(rows, embed)
    print(f"{len(rows)} answers, {len({row.conversation for row in rows})} conversations")
    return {prop: _fit_of(rows, prop, features) for prop in USED}


def _ratings(rows: Sequence[Row], prop: str) -> Floats:
    return np.array([row.people[prop] for row in rows])


def _fit_of(rows: Sequence[Row], prop: str, features: dict[str, Floats]) -> dict[str, Any]:
    answerable = np.array([row.case.answerability != "UNANSWERABLE" for row in rows])
    y, names = _ratings(rows, prop), USED[prop]
    x = np.stack([features[name] for name in names], axis=1)
    ratings = dict(zip(*(side.tolist() for side in np.unique(y, return_counts=True)), strict=True))
    print(f"\n{prop}: ratings {ratings}")
    rivals = baselines(rows, prop)
    first = next(iter(rivals.values()))
    for name, scores in rivals.items():
        print(f"  {name}: {correlated(scores, y, rows)}; without UNANSWERABLE {_without(scores, y, answerable)}")
    for name in names:
        alone = features[name] * (-1 if name == "strange" else 1)
        text = correlated(alone, y, rows, first)
        print(f"  {name} alone: {text}; without UNANSWERABLE {_without(alone, y, answerable)}")
    systems, conversations = [row.system for row in rows], [row.conversation for row in rows]
    groupings = {"system": [systems], "conversation": [conversations], "both": [systems, conversations]}
    for name, groups in groupings.items():
        predictions = held_out(x, y, *groups)
        text = correlated(predictions, y, rows, first)
        print(f"  embedded, other {name}: {text}; without UNANSWERABLE {_without(predictions, y, answerable)}")
    passing = (predictions - MIN_RATING) / (MAX_RATING - MIN_RATING) >= MIN_FAITHFULNESS
    for what, chosen in (("at most 2", y <= MAX_RATED / 2), ("of 4", y >= MAX_RATED)):
        print(f"  reach {MIN_FAITHFULNESS}, rating {what}: {passing[chosen].mean():.2f} of {chosen.sum()}")
    chosen_anew = held_out_selection(features, y, *groupings["both"])
    print(f"  embedded, other both, measures chosen anew: {correlated(chosen_anew, y, rows, first)}")
    intercept, weights = fitted(x, y)
    rounded = {name: round(float(weight), 4) for name, weight in zip(names, weights, strict=True)}
    print(f"  fitted to all: {intercept:.4f}, {rounded}")
    return {"intercept": round(intercept, 4), "weights": rounded}


def _without(scores: Floats, y: Floats, answerable: NDArray[np.bool_]) -> str:
    return f"{spearmanr(scores[answerable], y[answerable]).statistic:.3f}"


def agreeing() -> None:
    """Print how many answers agree with the reference by `turnmark check`: good ones, bad ones, random sentences."""
    rows = [
        row for row in evaluated(DATA / RATED) if row.system != REFERENCE and row.case.answerability == "ANSWERABLE"
    ]
    random = np.random.default_rng(0)
    sentences = {row.task: parts_of(" ".join(row.case.passages or ())) for row in rows}
    drawn = {row.task: str(random.choice(sentences[row.task])) for row in rows if sentences[row.task]}
    references = {row.task: row.case.reference for row in rows}
    groups = {
        "complete and appropriate (both 4)": [row for row in rows if min(_both(row)) >= MAX_RATED],
        "incomplete (at most 2)": [row for row in rows if row.people["completeness"] <= MAX_RATED / 2],
    }
    for name, group in groups.items():
        recalls = [token_recall(row.case.answer, row.case.reference) or 0.0 for row in group]
        print(f"{name}: {np.mean(np.array(recalls) >= MIN_AGREEMENT):.2f} of {len(recalls)}")
    recalls = [token_recall(text, references[task]) or 0.0 for task, text in drawn.items()]
    print(f"a random sentence of the passages: {np.mean(np.array(recalls) >= MIN_AGREEMENT):.2f} of {len(recalls)}")


def _both(row: Row) -> tuple[float, float]:
    return row.people["completeness"], row.people["appropriateness"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("idk", "rated", "agreeing"))
    parser.add_argument("--write", action="store_true", help="write the product's weights")
    chosen = parser.parse_args(arguments)
    if not (DATA / RATED).is_file():
        print(f"no real benchmark data at {DATA}; set TURNMARK_DATA", file=sys.stderr)
        return 1
    if chosen.what == "agreeing":
        agreeing()
        return 0
    if chosen.what == "idk":
        idk()
        return 0
    fits = rated(cache_by_text(lambda texts: open_embedder("minilm").encode(texts, "passage"), REMEMBERED))
    if chosen.write:
        made_by = {"made_by": "python -m tests.benchmarks.judging rated --write"}
        stored = made_by | json.loads(WEIGHTS_FILE.read_text(encoding="utf-8")) | {"fits": fits}
        WEIGHTS_FILE.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
