"""Fits the embedded judges, and says how far they agree with people and with the official judge.

    TURNMARK_DATA=… python -m tests.benchmarks.judging idk|rated [--vectors FILE] [--write]
    TURNMARK_DATA=… python -m tests.benchmarks.judging transfer|bert [--vectors FILE] [--model FOLDER]

`idk`: the IDK verdict against the official judge's, its one number chosen on one system and tested on another.
`rated`: the ratings of people, over the human evaluation without its reference answers; fitted and tested on other
systems, other conversations, and both at once. `transfer`: the same measures fitted to RL_F of other answers instead,
without one rating of a person. `bert`: BERTScore by a local model beside the file's. `--write` writes the product's
weights, fitted to all of it; `--vectors` keeps embeddings. Intervals are 95% bootstraps over conversations.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.judging_rows import RATED, RECORDED, REFERENCE, SYNTHETIC, Row, evaluated, recorded
from tests.conftest import DATA
from tests.intervals import mean_interval
from turnmark.corpora.text import strip_citations
from turnmark.evaluation.judging.extractive import FAITHFULNESS, HIGH, IDK, LOW, Embed, ReplyFeatures, SentenceVectors
from turnmark.evaluation.judging.idk import WEIGHTS, conditioned, mark_of, says_idk, wording
from turnmark.evaluation.judging.rubrics import EMBEDDED
from turnmark.evaluation.metrics.agreement import classified, rank_correlations, spearman
from turnmark.evaluation.metrics.overlap import k_precision, rouge_l_word, token_recall
from turnmark.evaluation.records import Score
from turnmark.evaluation.stats import _draws

USED = {
    "faithfulness": ("strange", "meant", "evidence"),
    "completeness": ("covered", "strange", "evidence"),
    "appropriateness": ("on_topic",),
}
ALPHA = 10.0
"""Of the ridge, over standardised measures; not tuned."""
CLAIMED = (0, 5, 10, 15, 20, 25, 30, 40)
FILE_RL_F = "the file's rl_f"
SEED, DRAWS, TRANSFERRED = 0, 10_000, 200

Floats = NDArray[np.float64]


# --- idk -------------------------------------------------------------------------------------------------------------


def best_claimed(rows: Sequence[Row]) -> int:
    """The number of words with most three-way agreement; of several the middle one."""
    right = {most: sum(wording(row.case.answer).verdict(most) == row.idk for row in rows) for most in CLAIMED}
    best = [most for most in CLAIMED if right[most] == max(right.values())]
    return best[(len(best) - 1) // 2]


def idk() -> dict[str, Any]:
    """Print the figures; what the product takes."""
    rows = [row for row in recorded(DATA / RECORDED) if row.idk is not None]
    systems = sorted({row.system for row in rows})
    for system in systems:
        most = best_claimed([row for row in rows if row.system != system])
        tested = [row for row in rows if row.system == system]
        said = [wording(row.case.answer).verdict(most) for row in tested]
        print(f"{system}, n {len(tested)}, most_claimed {most} from the other system:")
        conversations = [row.conversation for row in tested]
        for name, right in (
            ("yes/not yes", [(a == "yes") == (b.idk == "yes") for a, b in zip(said, tested, strict=True)]),
            ("three labels", [a == b.idk for a, b in zip(said, tested, strict=True)]),
        ):
            mean, low, high = mean_interval(list(map(float, right)), conversations, SEED)
            print(f"  {name}: {mean:.3f} [{low:.3f}, {high:.3f}]")
        found = classified([str(row.idk) for row in tested], said)
        assert found is not None
        print("  " + ", ".join(f"{k} F1 {v.f1 or 0:.2f} of {v.support}" for k, v in found.labels.items()), end="")
        print(f", kappa {found.kappa:.2f}" if found.kappa is not None else "")
    for path in (SYNTHETIC, RATED):
        others = evaluated(DATA / path)
        for system in dict.fromkeys(row.system for row in others):
            own = [row for row in others if row.system == system and row.says_idk is not None]
            right = [(says_idk(row.case.answer) == "yes") == row.says_idk for row in own]
            yes = sum(bool(row.says_idk) for row in own)
            print(f"{Path(path).stem} {system}: yes/not yes {sum(right) / len(right):.4f}, n {len(own)}, {yes} yes")
    return {"most_claimed": best_claimed(rows)}


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
    made = np.zeros(len(y))
    for cell in {tuple(int(side[i]) for side in sides) for i in range(len(y))}:
        test = np.all([side == value for side, value in zip(sides, cell, strict=True)], axis=0)
        train = np.all([side != value for side, value in zip(sides, cell, strict=True)], axis=0)
        intercept, weights = fitted(x[train], y[train])
        made[test] = intercept + x[test] @ weights
    return made


def correlated(scores: Floats, y: Floats, rows: Sequence[Row], beside: Floats | None = None) -> str:
    """Spearman's correlation with its interval and, with `beside`, that of the difference, over the same draws."""
    clusters = np.unique([row.conversation for row in rows], return_inverse=True)[1]
    draws = np.concatenate(list(_draws(int(clusters.max()) + 1, SEED, DRAWS)))[:, clusters]
    levels = [
        np.unique(side, return_inverse=True)[1] for side in (y, scores, *([beside] if beside is not None else []))
    ]
    values = [rank_correlations(side, levels[0], draws) for side in levels[1:]]
    rho = spearman(list(scores), list(y))
    low, high = np.percentile(values[0], [2.5, 97.5])
    text = f"{rho:.3f} [{low:.3f}, {high:.3f}]"
    if beside is not None and len(values[0]) == len(values[1]):
        difference = (rho or 0) - (spearman(list(beside), list(y)) or 0)
        low, high = np.percentile(values[0] - values[1], [2.5, 97.5])
        text += f", ahead by {difference:+.3f} [{low:+.3f}, {high:+.3f}]"
    return text


def measured(rows: Sequence[Row], embed: Embed) -> dict[str, Floats]:
    """Rubric -> its values."""
    embedded, names = SentenceVectors(embed), sorted({name for used in USED.values() for name in used})
    found = [ReplyFeatures(row.case, embedded).measures(names) for row in rows]
    return {name: np.array([one[name] for one in found]) for name in names}


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
        both = of(lambda row, text: k_precision(text, row.case.passages or (), said(row)))
        return {
            "k_precision[+history]": both,
            "k_precision": of(lambda row, text: k_precision(text, row.case.passages or ())),
        } | files
    own = token_recall if prop == "completeness" else rouge_l_word
    return {own.__name__: of(lambda row, text: own(text, row.case.reference))} | files


def rated(embed: Embed) -> dict[str, Any]:
    """Print the figures; the weights that the product takes."""
    rows = [row for row in evaluated(DATA / RATED) if row.system != REFERENCE]
    found = measured(rows, embed)
    print(f"{len(rows)} answers, {len({row.conversation for row in rows})} conversations")
    made = {prop: _fit_of(rows, prop, found) for prop in USED}
    _summary_of(rows, found)
    return made


def _summary_of(rows: Sequence[Row], found: dict[str, Floats]) -> None:
    """Print what one figure for all three would be worth: the judges' mean beside that of people's ratings."""
    y = np.mean([[row.people[prop] for row in rows] for prop in USED], axis=0)
    known = np.array([row.case.answerability != "UNANSWERABLE" for row in rows])
    print("\nmean of the three ratings")
    for name, scores in (baselines(rows, "completeness") | baselines(rows, "appropriateness")).items():
        print(f"  {name}: {correlated(scores, y, rows)}; without UNANSWERABLE {_without(scores, y, known)}")
    systems, conversations = [row.system for row in rows], [row.conversation for row in rows]
    held = {"system": [systems], "conversation": [conversations], "both": [systems, conversations]}
    for name, groups in held.items():
        judges = {}
        for prop, used in USED.items():
            made = held_out(np.stack([found[one] for one in used], axis=1), _ratings(rows, prop), *groups)
            judges[prop] = np.clip((made - LOW) / (HIGH - LOW), 0, 1)
        mean = np.mean(list(judges.values()), axis=0)
        print(f"  mean of the judges, other {name}: {correlated(mean, y, rows)}; without UNANSWERABLE "
              f"{_without(mean, y, known)}")  # fmt: skip
        for prop, alone in judges.items():
            print(f"    {prop} alone {spearman(list(alone), list(y)):.3f}; the mean {correlated(mean, y, rows, alone)}")


def _ratings(rows: Sequence[Row], prop: str) -> Floats:
    return np.array([row.people[prop] for row in rows])


def _fit_of(rows: Sequence[Row], prop: str, found: dict[str, Floats]) -> dict[str, Any]:
    known = np.array([row.case.answerability != "UNANSWERABLE" for row in rows])
    y, names = _ratings(rows, prop), USED[prop]
    x = np.stack([found[name] for name in names], axis=1)
    ratings = dict(zip(*(side.tolist() for side in np.unique(y, return_counts=True)), strict=True))
    print(f"\n{prop}: ratings {ratings}")
    others = baselines(rows, prop)
    first = next(iter(others.values()))
    for name, scores in others.items():
        print(f"  {name}: {correlated(scores, y, rows)}; without UNANSWERABLE {_without(scores, y, known)}")
    for name in names:
        alone = found[name] * (-1 if name == "strange" else 1)
        print(f"  {name} alone: {correlated(alone, y, rows, first)}; without UNANSWERABLE {_without(alone, y, known)}")
    systems, conversations = [row.system for row in rows], [row.conversation for row in rows]
    held = {"system": [systems], "conversation": [conversations], "both": [systems, conversations]}
    for name, groups in held.items():
        made = held_out(x, y, *groups)
        told = correlated(made, y, rows, first)
        print(f"  embedded, other {name}: {told}; without UNANSWERABLE {_without(made, y, known)}")
        if prop == "faithfulness":
            _as_scored(rows, made, y, others)
    intercept, weights = fitted(x, y)
    rounded = {name: round(float(weight), 4) for name, weight in zip(names, weights, strict=True)}
    print(f"  fitted to all: {intercept:.4f}, {rounded}")
    return {"intercept": round(intercept, 4), "weights": rounded}


def _without(scores: Floats, y: Floats, known: NDArray[np.bool_]) -> str:
    return f"{spearman(list(scores[known]), list(y[known])):.3f}"


def _as_scored(rows: Sequence[Row], made: Floats, y: Floats, others: dict[str, Floats]) -> None:
    """The same held-out predictions as the product gives them: nothing for a reply that claims nothing; conditioned."""
    scored = np.array([says_idk(row.case.answer) != "yes" for row in rows])
    kept = [row for row, good in zip(rows, scored, strict=True) if good]
    first = next(iter(others.values()))
    print(f"    {FAITHFULNESS}, n {len(kept)}: {correlated(made[scored], y[scored], kept, first[scored])}")
    values = []
    for row, value in zip(rows, made, strict=True):
        share = min(1.0, max(0.0, (value - LOW) / (HIGH - LOW)))
        about = {"id": row.task, "metric": FAITHFULNESS, "by": EMBEDDED}
        after = conditioned(
            Score(status="scored", value=share, **about), row.case.answerability, says_idk(row.case.answer), EMBEDDED
        )
        values.append(after.value or 0.0)
    told = correlated(np.array(values), y, rows, others[FILE_RL_F])
    print(f"    {FAITHFULNESS}{mark_of(IDK)}, n {len(rows)}: {told}, {FILE_RL_F} being what it is held against")


# --- other measures of the same --------------------------------------------------------------------------------------


def transfer(embed: Embed) -> None:
    """Print what weights that no person's rating went into are worth: fitted to RL_F, which a language model gave."""
    rows = [row for row in evaluated(DATA / RATED) if row.system != REFERENCE]
    y, names = np.array([row.people["faithfulness"] for row in rows]), USED["faithfulness"]
    known = np.array([row.case.answerability != "UNANSWERABLE" for row in rows])
    found = measured(rows, embed)
    x, first = np.stack([found[name] for name in names], axis=1), next(iter(baselines(rows, "faithfulness").values()))
    synthetic = [row for row in evaluated(DATA / SYNTHETIC) if row.system != REFERENCE and "rl_f" in row.scores]
    chosen = set(sorted({row.task for row in synthetic})[:: max(1, 600 // TRANSFERRED)])
    for label, others, score in (
        ("MTRAG-S", [row for row in synthetic if row.task in chosen], "rl_f"),
        ("MTRAG-UN", [row for row in recorded(DATA / RECORDED) if "RL_F" in row.scores], "RL_F"),
    ):
        theirs = measured(others, embed)
        target = np.array([row.scores[score] for row in others])
        whole = np.stack([theirs[name] for name in names], axis=1)
        intercept, weights = fitted(whole, target)
        made = intercept + x @ weights
        print(f"fitted to RL_F of {len(others)} answers to {label}: {correlated(made, y, rows, first)}; "
              f"without UNANSWERABLE {_without(made, y, known)}")  # fmt: skip
        inside = held_out(whole, target, [row.system for row in others])
        print(f"  with RL_F itself, other systems: {spearman(list(inside), list(target)):.3f}")


def bert(model: str) -> None:
    """Print how a model's BERTScore ranks the answers beside the figures of the file."""
    from turnmark.evaluation.judging.bertscore import bert_k_precision, bert_recall, open_bert, rb_alg

    opened = open_bert(model)
    rows = [row for row in evaluated(DATA / RATED) if row.system != REFERENCE]
    y = np.array([row.people["faithfulness"] for row in rows])
    recall = np.array([bert_recall(opened, strip_citations(row.case.answer), row.case.reference) or 0 for row in rows])
    print(f"bert_recall[{opened.name}] with Bert-Rec, n {len(rows)}: {_file(recall, rows, 'Bert-Rec')}")
    some = [row for row in rows if row.case.passages]
    near = np.array(
        [bert_k_precision(opened, strip_citations(row.case.answer), row.case.passages or ()) for row in some]
    )
    print(f"bert_k_precision[{opened.name}] with Bert-KPrec, n {len(some)}: {_file(near, some, 'Bert-KPrec')}")
    people = y[np.array([bool(row.case.passages) for row in rows])]
    stored = np.array([row.scores["Bert-KPrec"] for row in some])
    print(
        f"  with faithfulness: {correlated(near, people, some, stored)}, the file's {correlated(stored, people, some)}"
    )
    known = dict(zip(map(id, some), near, strict=True))
    whole = []
    for row, one in zip(rows, recall, strict=True):
        rouge = rouge_l_word(strip_citations(row.case.answer), row.case.reference) or 0.0
        share = rb_alg(float(one), rouge, known.get(id(row)))
        score = Score(status="scored", value=share, id=row.task, metric="rb_alg", by=opened.by)
        whole.append(conditioned(score, row.case.answerability, says_idk(row.case.answer), EMBEDDED).value or 0.0)
    told = _file(np.array(whole), rows, "rb_agg")
    print(f"rb_alg[{opened.name}]{mark_of(IDK)} with rb_agg, n {len(rows)}: {told}")


def _file(scores: Floats, rows: Sequence[Row], name: str) -> str:
    return correlated(scores, np.array([row.scores[name] for row in rows]), rows)


# --- embedding -------------------------------------------------------------------------------------------------------


class Remembering:
    """The bundled embedder; with a file, what it embedded before is read from it. Texts are embedded as they come."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, Any] = {}
        self._embedder: Any = None
        if path is not None and path.is_file():
            with np.load(path, allow_pickle=False) as stored:
                self._known = dict(zip(stored["texts"].tolist(), stored["vectors"], strict=True))

    def __call__(self, texts: Sequence[str]) -> Any:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            if self._embedder is None:
                from turnmark.retrieval.embed import open_embedder

                self._embedder = open_embedder("minilm")
            self._known |= dict(zip(new, self._embedder.encode(new, "passage"), strict=True))
        return np.stack([self._known[text] for text in texts])

    def save(self) -> None:
        """Write all that is known."""
        if self._path is not None and self._known:
            np.savez(self._path, texts=np.array(list(self._known)), vectors=np.stack(list(self._known.values())))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("idk", "rated", "transfer", "bert"))
    parser.add_argument("--vectors", type=Path, help="a file that keeps embeddings (.npz)")
    parser.add_argument("--model", default="minilm", help="of BERTScore: a folder, or the bundled one")
    parser.add_argument("--write", action="store_true", help="write the product's weights")
    chosen = parser.parse_args(arguments)
    if not (DATA / RATED).is_file():
        print(f"no real benchmark data at {DATA}; set TURNMARK_DATA", file=sys.stderr)
        return 1
    made: dict[str, Any] = {}
    embed = Remembering(chosen.vectors)
    if chosen.what == "idk":
        made = {"idk": idk()}
    elif chosen.what == "rated":
        made = {"fits": rated(embed)}
    elif chosen.what == "transfer":
        transfer(embed)
    else:
        bert(chosen.model)
    embed.save()
    if chosen.write and made:
        stored = json.loads(WEIGHTS.read_text(encoding="utf-8")) | made
        stored = {"made_by": "python -m tests.benchmarks.judging idk|rated --write"} | stored
        WEIGHTS.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
