"""Calibrates the decide step, and says how well it does on conversations, domains and a benchmark it has not seen.

    TURNMARK_DATA=… python -m tests.benchmarks.decide [--signals FILE] [--write]

Over MTRAG and MTRAG-UN with the passages at hand. The signals of every task are made by the product's own code and
search (some minutes); `--signals` keeps them in a file. `--write` writes assistant/steps/decide.json. Intervals are 95%
bootstraps over groups of tasks that are held out together.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from turnmark.assistant.steps.clarify import unclear

import turnmark.assistant.steps.decide
from turnmark.assistant.steps.decide import (
    ABOUT,
    Calibration,
    Form,
    Scale,
    calibration,
    confidence_of,
    mean_z,
    signals_of,
)
from turnmark.assistant.steps.retrieve import conversation_query
from turnmark.assistant.steps.understand import understand
from turnmark.corpora import mtrag
from turnmark.corpora.rows import Source
from turnmark.corpora.types import Record
from turnmark.evaluation.benchmarks.mtrag_data import load_data
from turnmark.evaluation.metrics.decisions import Detection, auroc
from turnmark.retrieval.build import corpus_index
from turnmark.retrieval.registry import open_retriever

BENCHMARKS: tuple[mtrag.Benchmark, ...] = ("mtrag", "mtrag-un")
PASSAGES = 5
QUESTION_WORDS = 4
"""A question of more tells of one conversation: "Why?" is asked in many that have nothing to do with each other."""
FORMS = ("all", "no sentences", "words")


class Seen(Record):
    """A task and what the decide step sees of it.

    Attributes:
        group: tasks of one group share a conversation, a first question or the question itself.
        signals: by the name of a form of `FORMS`.
    """

    id: str
    benchmark: str
    domain: str
    label: str
    group: int = 0
    signals: Mapping[str, Mapping[str, float]]
    unclear: bool

    @property
    def unknown(self) -> bool:
        """Whether the documents do not hold the answer."""
        return self.label == "UNANSWERABLE"


def seen(file: Path | None) -> list[Seen]:
    """All tasks but conversational ones; read from `file` where it is there, else made and written to it."""
    if file and file.is_file():
        return [Seen.model_validate(row) for row in json.loads(file.read_text(encoding="utf-8"))]
    source = mtrag.locate(None)
    rows = grouped(source, [row for domain in _domains(source) for row in _of_domain(source, domain)])
    if file:
        file.write_text(json.dumps([row.model_dump(mode="json") for row in rows]), encoding="utf-8")
    return rows


def _tasks(source: Source) -> Iterator[tuple[mtrag.Benchmark, mtrag.Task]]:
    for benchmark in BENCHMARKS:
        for task in mtrag.load_tasks(source.root, benchmark).data.values():
            if task.answerability not in (None, "CONVERSATIONAL"):
                yield benchmark, task


def _domains(source: Source) -> list[str]:
    return list(dict.fromkeys(domain for row in BENCHMARKS for domain in load_data(row, source, ()).qrels))


def _of_domain(source: Source, domain: str) -> Iterator[Seen]:
    index = corpus_index(mtrag.corpus_path(source.root, domain), "conversational")
    default, bm25 = (open_retriever(name, index) for name in ("conversational", "bm25"))

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        return index.embedder.encode(texts, "passage")

    for benchmark, task in _tasks(source):
        if task.domain != domain:
            continue
        sys.stderr.write(f"\r{benchmark} {task.id[:40]:40}")
        query = conversation_query(task.history, task.question)
        hits, by_words = (retriever.search([query], PASSAGES)[0] for retriever in (default, bm25))
        texts = list(dict.fromkeys((task.question, understand(task.history, task.question).rewrite)))
        yield Seen(
            id=task.id,
            benchmark=benchmark,
            domain=domain,
            label=task.answerability or "",
            signals={
                "all": signals_of(texts, hits, embed),
                "no sentences": signals_of(texts, hits, None),
                "words": signals_of(texts, by_words, None),
            },
            unclear=unclear(task.question, task.history, hits, embed) is not None,
        )


def grouped(source: Source, rows: Sequence[Seen]) -> list[Seen]:
    """The tasks with their groups: 15 tasks of MTRAG-UN begin as one of MTRAG does, which gives the other away."""
    tasks = {task.id: task for _, task in _tasks(source)}
    parent: dict[str, str] = {}

    def root(key: str) -> str:
        while parent.setdefault(key, key) != key:
            key = parent[key]
        return key

    for row in rows:
        task = tasks[row.id]
        opening = task.history[0].content if task.history else task.question
        for text in (opening, task.question):
            if text is opening or len(text.split()) > QUESTION_WORDS:
                parent[root(" ".join(text.lower().split()))] = root(f"conversation {task.conversation}")
    numbers: dict[str, int] = {}
    return [
        row.model_copy(
            update={"group": numbers.setdefault(root(f"conversation {tasks[row.id].conversation}"), len(numbers))}
        )
        for row in rows
    ]


# --- calibration

PRIOR = 0.12
"""Between the shares of MTRAG (.07) and MTRAG-UN (.19)."""
REFUSED = 0.05
"""The share of the answerable tasks that the threshold refuses."""
USED: Mapping[str, tuple[str, ...]] = {
    "all": ("cosine", "sentences", "agreement"),
    "no sentences": ("cosine", "agreement"),
    "words": ("words", "agreement"),
}
FOLDS, SEEDS, DRAWS, CUTS = 10, 5, 1000, (0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Tasks:
    """Tasks with a label that counts, as arrays."""

    rows: Sequence[Seen]

    @property
    def unknown(self) -> Bools:
        """Which are unanswerable."""
        return np.array([row.unknown for row in self.rows])

    @property
    def groups(self) -> NDArray[np.int64]:
        """The groups."""
        return np.array([row.group for row in self.rows])

    def where(self, keep: Callable[[Seen], bool]) -> Bools:
        """Which are to be kept."""
        return np.array([keep(row) for row in self.rows])

    def part(self, keep: Bools) -> Tasks:
        """Some of them."""
        return Tasks([row for row, chosen in zip(self.rows, keep, strict=True) if chosen])


def fitted(tasks: Tasks, form: str, used: Sequence[str]) -> Form:
    """A form calibrated on tasks: scales, then a logistic curve at the prior, then the threshold."""
    signals = [row.signals[form] for row in tasks.rows]
    values = {name: np.array([own[name] for own in signals if name in own]) for name in used}
    scales = {name: Scale(mean=float(own.mean()), deviation=float(own.std()) + 1e-6) for name, own in values.items()}
    plain = Form(scales=scales, slope=1.0, intercept=0.0, least=0.5)
    z = np.array([mean_z(plain, own) for own in signals])
    weights = at_prior(tasks.unknown, PRIOR)
    slope, intercept = logistic(z, ~tasks.unknown, weights)
    level = plain.model_copy(update={"slope": slope, "intercept": intercept})
    confidences = np.array([confidence_of(level, own) for own in signals])
    return level.model_copy(update={"least": threshold(tasks.unknown, confidences)})


def at_prior(unknown: Bools, prior: float) -> Floats:
    """Weights under which a share `prior` of the tasks is unanswerable; they sum to the number of tasks."""
    share = unknown.mean()
    weights: Floats = np.where(unknown, prior / share, (1 - prior) / (1 - share))
    return weights


def logistic(z: Floats, answerable: Bools, weights: Floats) -> tuple[float, float]:
    """Slope and intercept of greatest likelihood, by Newton's method."""
    design, beta = np.column_stack([z, np.ones_like(z)]), np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-design @ beta))
        step = np.linalg.solve(
            design.T @ (design * (weights * p * (1 - p))[:, None]) + 1e-6 * np.eye(2),
            design.T @ (weights * (answerable - p)),
        )
        beta = beta + step
    return float(beta[0]), float(beta[1])


def threshold(unknown: Bools, confidences: Floats) -> float:
    """The least confidence to answer at: it refuses `REFUSED` of the answerable tasks.

    The confidence of the best F1 would be another on every fold, with so few unanswerable tasks.
    """
    return round(float(np.quantile(confidences[~unknown], REFUSED)), 3)


Split = list[tuple[Bools, Bools]]


def splits(tasks: Tasks) -> Iterator[tuple[str, Split]]:
    """Ways to hold tasks out: folds over groups (several times), the other domain, the other benchmark."""
    groups = tasks.groups
    names = np.unique(groups)
    for seed in range(SEEDS):
        fold = dict(zip(names.tolist(), np.random.default_rng(seed).permutation(len(names)) % FOLDS, strict=True))
        own = np.array([fold[group] for group in groups.tolist()])
        yield "other conversations", [(own != fold_number, own == fold_number) for fold_number in range(FOLDS)]
    for title, key in (("the other domain", "domain"), ("the other benchmark", "benchmark")):
        values = sorted({getattr(row, key) for row in tasks.rows})
        parts: Split = []
        for value in values:
            inside = tasks.where(lambda row, key=key, value=value: getattr(row, key) == value)  # type: ignore[misc]
            outside = ~inside & (~np.isin(groups, groups[inside]) if key == "benchmark" else True)
            parts.append((outside, inside))
        if len(values) > 1:
            yield title, parts


@dataclass(frozen=True)
class Held:
    """What came of tasks that were held out: z on the scale of the others, confidence, and whether refused."""

    z: Floats
    confidence: Floats
    refused: Bools


def held_out(tasks: Tasks, split: Split, form: str, used: Sequence[str]) -> Held:
    """Each part calibrated on what goes with it."""
    n = len(tasks.rows)
    result = Held(np.zeros(n), np.zeros(n), np.zeros(n, dtype=bool))
    for train, test in split:
        form_fitted = fitted(tasks.part(train), form, used)
        for place in np.flatnonzero(test).tolist():
            signals = tasks.rows[place].signals[form]
            result.z[place], result.confidence[place] = (
                mean_z(form_fitted, signals),
                confidence_of(form_fitted, signals),
            )
            result.refused[place] = result.confidence[place] < form_fitted.least
    return result


def detection(positive: Sequence[bool], predicted: Sequence[bool]) -> Detection:
    """Predictions counted against the truth."""
    pairs = list(zip(positive, predicted, strict=True))
    return Detection(*(pairs.count(pair) for pair in ((True, True), (False, True), (True, False), (False, False))))


def always_positive(positive: Sequence[bool]) -> Detection:
    """The baseline that calls every sample positive."""
    return detection(positive, [True] * len(positive))


def unknown_auroc(
    positive: Sequence[bool], confidences: Sequence[float], weights: Sequence[int] | None = None
) -> float | None:
    """`unknown.auroc`: low confidence speaks for "unknown"."""
    return auroc(positive, [-value for value in confidences], weights)


def figures(tasks: Tasks, result: Held, keep: Bools) -> dict[str, float]:
    """AUROC of the confidence, and what the threshold does."""
    unknown, refused = tasks.unknown[keep], result.refused[keep]
    counts = detection(unknown.tolist(), refused.tolist())
    return {
        "AUROC": unknown_auroc(unknown.tolist(), result.confidence[keep].tolist()) or 0.0, "F1": counts.f1 or 0.0,
        "precision": counts.precision or 0.0, "recall": counts.recall or 0.0,
        "refused": counts.false_positives / max(1, counts.false_positives + counts.true_negatives),
    }  # fmt: skip


def interval(tasks: Tasks, result: Held, keep: Bools) -> str:
    """95% of bootstraps over groups, of AUROC and F1."""
    groups, draw = tasks.groups[keep], np.random.default_rng(0)
    unknown, confidence, refused = tasks.unknown[keep], result.confidence[keep], result.refused[keep]
    names, positions = np.unique(groups, return_inverse=True)
    rocs, f1s = [], []
    for _ in range(DRAWS):
        times = np.bincount(draw.integers(0, len(names), len(names)), minlength=len(names))[positions]
        if not times[unknown].sum() or not times[~unknown].sum():
            continue
        rocs.append(unknown_auroc(unknown.tolist(), confidence.tolist(), times.tolist()) or 0.0)
        f1s.append(2 * times[unknown & refused].sum() / (times[unknown].sum() + times[refused].sum()))
    cells = [f"{name} {low:.2f}-{high:.2f}" for name, (low, high) in
            (("AUROC", np.percentile(rocs, [2.5, 97.5])), ("F1", np.percentile(f1s, [2.5, 97.5])))]  # fmt: skip
    return ", ".join(cells)


def honest(tasks: Tasks, form: str, used: Sequence[str]) -> None:
    """Print how a form does on what was held out."""
    say(f"\n== {form}: {' + '.join(used)}")
    rows: dict[tuple[str, str], list[dict[str, float]]] = {}
    last: dict[tuple[str, str], tuple[Held, Bools]] = {}
    for title, split in splits(tasks):
        result = held_out(tasks, split, form, used)
        for name in BENCHMARKS:
            keep = tasks.where(lambda row, name=name: row.benchmark == name)  # type: ignore[misc]
            rows.setdefault((title, name), []).append(figures(tasks, result, keep))
            last[title, name] = result, keep
    for key, figures_of in rows.items():
        mean = {name: float(np.mean([row[name] for row in figures_of])) for name in figures_of[0]}
        cells = "  ".join(f"{name} {value:.3f}" for name, value in mean.items())
        say(f"{key[0]:20} {key[1]:8} {cells}  ({interval(tasks, *last[key])})")


def curve(tasks: Tasks) -> None:
    """Print the operating curve of "all", held out by conversation: what each threshold does."""
    _, split = next(splits(tasks))
    result = held_out(tasks, split, "all", USED["all"])
    for name in BENCHMARKS:
        keep = tasks.where(lambda task, name=name: task.benchmark == name)  # type: ignore[misc]
        unknown, confidence = tasks.unknown[keep], result.confidence[keep]
        always = always_positive(unknown.tolist())
        say(f"\n== {name}: {unknown.sum()} unanswerable of {len(unknown)}; always unknown F1 {always.f1:.3f}")
        for cut in CUTS:
            refused = confidence < cut
            say(f"least {cut:.2f}: recall {refused[unknown].mean():.2f}, refused {refused[~unknown].mean():.3f}")


def clarifying(everything: Sequence[Seen]) -> None:
    """Print what asking back does, as it ships."""
    form = calibration().forms[0]
    for name in BENCHMARKS:
        rows = [task for task in everything if task.benchmark == name]
        truth = [task.label == "UNDERSPECIFIED" for task in rows]
        sure = [task.unclear and confidence_of(form, task.signals["all"]) >= ABOUT for task in rows]
        counts = detection(truth, sure)
        wrong = f"{counts.false_positives} of {counts.false_positives + counts.true_negatives} wrongly"
        always = always_positive(truth).f1
        say(f"\n== clarify, {name}: precision {counts.precision or 0:.2f} recall {counts.recall or 0:.2f} "
            f"F1 {counts.f1 or 0:.3f} (always {always or 0:.3f}); {wrong}")  # fmt: skip


def say(line: str) -> None:
    """To standard output, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(file: Path | None, write: bool) -> None:
    """Print the tables; write the calibration where that is asked for."""
    everything = seen(file)
    tasks = Tasks([task for task in everything if task.label != "UNDERSPECIFIED"])
    if write:
        calibrated = Calibration(prior=PRIOR, forms=tuple(fitted(tasks, form, USED[form]) for form in FORMS))
        path = Path(turnmark.assistant.steps.decide.__file__).with_suffix(".json")
        rounded = json.loads(calibrated.model_dump_json(), parse_float=lambda text: round(float(text), 4))
        path.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")
        calibration.cache_clear()
    for form in FORMS:
        honest(tasks, form, USED[form])
    honest(tasks, "all", ("cosine",))
    curve(tasks)
    clarifying(everything)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--signals", type=Path, metavar="FILE", help="keep the signals there")
    parser.add_argument("--write", action="store_true", help="write assistant/steps/decide.json")
    arguments = parser.parse_args()
    main(arguments.signals, arguments.write)
