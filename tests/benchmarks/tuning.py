"""Whether questions made without a model predict which configuration answers people's questions earliest.

    TURNMARK_DATA=… TURNMARK_CONVERSATIONS=… python -m tests.benchmarks.tuning measure COLLECTION…
    python -m tests.benchmarks.tuning tables

`measure` computes the gain of every configuration of `turnmark tune` for made questions and for labeled ones, over
collections of tests/conversations or MTRAG's domains, and keeps it under `$TURNMARK_HOME/cache/tuning`. `tables` prints
Kendall's tau of both rankings of configurations, what tuning without labels proposes and gains on labels, and the share
of null runs that propose a change.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from tests.benchmarks.pools import POOLS, root, turns
from tests.conversations.collections import collections_named
from tests.conversations.labels import LabelledTurn, read_labels
from tests.conversations.runner import Corpus
from turnmark.core.console import NoProgress
from turnmark.core.errors import ErrorCollector
from turnmark.core.home import home, write_json
from turnmark.corpora.benchmarks import mtrag
from turnmark.corpora.types import Message, Passage
from turnmark.evaluation.storage.corpus_passages import Span
from turnmark.evaluation.tune.measuring import measure_questions
from turnmark.evaluation.tune.plan import plan_tune
from turnmark.evaluation.tune.questions import TuneQuestion, draw_questions, hide_answers
from turnmark.evaluation.tune.rankings import SearchChoice, all_choices
from turnmark.evaluation.tune.request import TuneRequest
from turnmark.evaluation.tune.verdict import choose_finalists, compare_choices, halves, units_of
from turnmark.retrieval.index.build import corpus_index
from turnmark.retrieval.index.changed_copy import copy_with_passages
from turnmark.retrieval.search.opened_index import StoredIndex

MADE = 160
"""Number of made questions per collection."""
SEED = 0
MIN_QUOTE = 12
"""Minimum characters of a quotation in a label that says where the answer stands."""
WAYS = tuple(
    SearchChoice(weight=weight, late=late)
    for weight, late in ((0, 1), (0, 0), (0.1, 1), (0.3, 1), (1, 1), (3, 1), (10, 1), (0.3, 0), (1, 0), (3, 0), (10, 0),
                         (0.3, 4), (0.3, 0.3), (1, 4))
)  # fmt: skip
"""The configurations whose ranking is compared; they differ widely."""
BAD_STARTS = (
    SearchChoice(weight=3.0, late=0.0), SearchChoice(weight=10.0, late=1.0), SearchChoice(weight=0.0, late=0.0),
)  # fmt: skip
"""Configurations that people's questions find bad, from which tuning starts."""
NULL_RUNS = 200
Gains = NDArray[np.float64]


def _squash(text: str) -> str:
    return re.sub(r"[^\w]+", " ", text).lower().strip()


def labeled_questions(index: StoredIndex, collection: str) -> Iterator[TuneQuestion]:
    """Yield the labeled questions of a collection whose answers have a place.

    Labels name a document and quote it; the place of the quotation answers. Without one, the places of all facts do.
    """
    documents: dict[str, list[Passage]] = {}
    for page in index.store.pages():
        for _, _, passage in page:
            documents.setdefault(passage.document, []).append(passage)
    for conversation in read_labels(collections_named([collection])[collection].labels):
        history: list[Message] = []
        for number, turn in enumerate(conversation.turn):
            is_answered = turn.facts and turn.kind in ("answer", "compound", "steps")
            passages, patterns = _places(turn, documents) if is_answered else ([], [])
            if passages:
                gold = tuple(_span_of(patterns, each) for each in passages)
                name = f"{conversation.id}-{number}"
                kind = "later" if history else "first"
                yield TuneQuestion(id=name, kind=kind, message=turn.say, history=tuple(history), gold=gold)
            reply = passages[0].text[:500] if passages else "I do not know."
            history += [Message(role="user", content=turn.say), Message(role="assistant", content=reply)]


def _places(turn: LabelledTurn, documents: Mapping[str, Sequence[Passage]]) -> tuple[list[Passage], Sequence[str]]:
    """Return the passages that answer a turn, and patterns of what answers it in them."""
    match = re.match(r"\s*([^:;']+?\.\w{2,4})\b", turn.source)
    named = [name for name in documents if match and (name == match[1] or name.endswith(f"/{match[1].strip()}"))]
    quoted = [_squash(quote)[:60] for quote in re.findall(rf"'([^']{{{MIN_QUOTE},}}(?:'\w[^']*)*)'", turn.source)]
    inside = [passage for name in named for passage in documents[name]]
    found = [each for each in inside if any(quote in _squash(each.shown_text) for quote in quoted)]
    if found:
        return found, [r"[\W_]+".join(quote.split()) for quote in quoted]
    pool = inside or [passage for passages in documents.values() for passage in passages]
    stating = [each for each in pool if all(re.search(fact, " ".join(each.text.split()), re.I) for fact in turn.facts)]
    return (stating if named or len(stating) <= 3 else []), [fact.replace(" ", r"\s+") for fact in turn.facts]


def _span_of(patterns: Sequence[str], passage: Passage) -> Span:
    """Return the place in a passage from the first to the last match of some patterns; all of it without a match."""
    matches = [match for pattern in patterns if (match := re.search(pattern, passage.text, re.I))]
    if not matches:
        return Span(passage.document, passage.start, passage.end)
    start, end = min(match.start() for match in matches), max(match.end() for match in matches)
    return Span(passage.document, passage.start + start, passage.start + end)


def mtrag_questions(domain: str) -> Iterator[TuneQuestion]:
    """Yield the judged turns of a domain of MTRAG's human conversations."""
    judged = mtrag.load_qrels(root(), "mtrag", domain).data
    for task in turns():
        if task.id in judged:
            gold = tuple(Span(name, 0, 1) for name, grade in judged[task.id].items() if grade > 0)
            kind = "later" if task.history else "first"
            yield TuneQuestion(id=task.id, kind=kind, message=task.question, history=tuple(task.history), gold=gold)


def measure(name: str) -> None:
    """Measure all configurations on made and labeled questions, and keep the gains."""
    if name in POOLS:
        index = corpus_index(mtrag.corpus_path(root(), name), "conversational").parts[0]
        labeled = list(mtrag_questions(name))
    else:
        index = Corpus(collections_named([name])[name], NoProgress()).index.parts[0]
        labeled = list(labeled_questions(index, name))
    # A request with a model, since one without questions is refused for an index with SPLADE.
    plan = plan_tune(TuneRequest(index=index.name, generator="model", seed=SEED), ErrorCollector())
    plan = replace(plan, choices=all_choices(SearchChoice(), late=True, follow_ups=True))
    made = draw_questions(index, MADE, SEED)
    with tempfile.TemporaryDirectory() as scratch:
        copy = copy_with_passages(index, hide_answers(index, made), Path(scratch))
        gains = measure_questions(plan, copy, made)
    result = {
        "choices": [choice.model_dump() for choice in plan.choices],
        "default": plan.default,
        "made": gains.round(5).tolist(),
        "made_questions": [one.model_dump() for one in made],
        "labeled": measure_questions(plan, index, labeled).round(5).tolist(),
        "kinds": [one.kind for one in labeled],
        "units": [one.id.rpartition("-")[0] if name not in POOLS else one.id.partition("<")[0] for one in labeled],
    }
    write_json(home() / "cache" / "tuning" / f"{name}.json", result)
    print(f"{name}: {len(made)} made, {len(labeled)} labeled questions", flush=True)


class Measured:
    """The gains of a collection.

    Attributes:
        made, labeled: (configurations, questions).
        made_units, labeled_units: documents of the made questions, conversations of the labeled ones.
        later: whether a labeled question has earlier messages.
    """

    def __init__(self, path: Path) -> None:
        stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        self.name = path.stem
        self.choices = [SearchChoice.model_validate(choice) for choice in stored["choices"]]
        self.default = int(stored["default"])
        self.made, self.labeled = (np.array(stored[name], dtype=np.float64) for name in ("made", "labeled"))
        questions = [TuneQuestion.model_validate(one) for one in stored["made_questions"]]
        self.made_units, self.labeled_units = np.array(units_of(questions)), np.array(stored["units"])
        self.later = np.array(stored["kinds"]) == "later"

    def rows(self, ways: Sequence[SearchChoice]) -> list[int]:
        """Return the numbers of configurations."""
        return [self.choices.index(way) for way in ways]

    def propose(self, made: Gains, seed: int) -> int:
        """Return the number of the configuration that is proposed, which may be the default.

        Without labels, the weight of the earlier answers is not tuned.
        """
        tried = self.rows(all_choices(self.choices[self.default], late=True, follow_ups=False))
        choices, default = [self.choices[number] for number in tried], tried.index(self.default)
        searched = halves(self.made_units.tolist(), seed)
        search, test = made[np.ix_(tried, searched)], made[np.ix_(tried, ~searched)]
        units = self.made_units[~searched].tolist()
        finalists = compare_choices(choices, test, default, choose_finalists(choices, search, default), units, seed)
        better = [one for one in finalists if one.is_better]
        winner = max(better, key=lambda one: one.difference, default=None)
        return self.choices.index(winner.choice) if winner else self.default


def print_transfer(found: Sequence[Measured]) -> None:
    """Print Kendall's tau per collection, and the configuration that tuning without labels proposes."""
    print("| collection | labeled | made | tau | proposed | gain reported | gain on labels | 95% | p |")
    print("|---|--:|--:|--:|---|--:|--:|---|--:|")
    taus, changes = [], []
    for one in found:
        ways = one.rows(WAYS)
        means = one.made[ways].mean(axis=1), one.labeled[ways].mean(axis=1)
        changes.append([mean - mean.mean() for mean in means])
        tau = kendalltau(*means).statistic
        taus.append(tau)
        winner = one.propose(one.made, SEED)
        cells = ["default", "", "", "", ""]
        if winner != one.default:
            searched = halves(one.made_units.tolist(), SEED)
            test = one.made[:, ~searched]
            ((label,), units) = ([winner], one.labeled_units.tolist())
            (on_labels,) = compare_choices(one.choices, one.labeled, one.default, [label], units, SEED)
            reported = float((test[winner] - test[one.default]).mean())
            low, high = on_labels.ci95 or (0.0, 0.0)
            choice = " ".join(f"{value:g}" for value in one.choices[winner].model_dump().values())
            p = f"{on_labels.p_holm or 1:.2f}"
            cells = [choice, f"{reported:+.3f}", f"{on_labels.difference:+.3f}", f"{low:+.3f} to {high:+.3f}", p]
        sizes = f"{one.labeled.shape[1]} | {one.made.shape[1]}"
        print(f"| {one.name} | {sizes} | {tau:.2f} | {' | '.join(cells)} |")
    print(f"median tau {np.median(taus):.2f} over {len(taus)} collections")
    made, labeled = (np.concatenate([pair[side] for pair in changes]) for side in (0, 1))
    print(f"a change of the gain on made questions is {made @ labeled / (made @ made):.1f} times as large on labels")


def print_bad_starts(found: Sequence[Measured]) -> None:
    """Print what tuning without labels proposes if the default were bad, and what that gains on labels."""
    reported, labeled = [], []
    for start in BAD_STARTS:
        for one in found:
            one.default = one.choices.index(start)
            winner = one.propose(one.made, SEED)
            if winner == one.default:
                continue
            test = one.made[:, ~halves(one.made_units.tolist(), SEED)]
            units = one.labeled_units.tolist()
            (on_labels,) = compare_choices(one.choices, one.labeled, one.default, [winner], units, SEED)
            reported.append(float((test[winner] - test[one.default]).mean()))
            labeled.append(on_labels.difference)
            print(f"{one.name}, from {start}: {one.choices[winner]}, gain {reported[-1]:+.3f}; on labels {on_labels}")
    share = sum(reported) / sum(labeled)
    print(f"{len(reported)} of {len(BAD_STARTS) * len(found)} proposed a change; gain reported / on labels {share:.2f}")


def print_null_runs(found: Sequence[Measured]) -> None:
    """Print how often a change is proposed although no configuration differs from the default.

    The differences of all configurations from the default are multiplied by a random sign per document, the same for
    all of them. This keeps their variance and correlations, and makes their expectation zero.
    """
    proposed = 0
    for run in range(NULL_RUNS):
        one, rng = found[run % len(found)], np.random.default_rng(run)
        units, number = np.unique(one.made_units, return_inverse=True)
        signs = rng.choice([-1.0, 1.0], size=len(units))[number]
        default = one.made[one.default]
        null = default + (one.made - default) * signs
        proposed += one.propose(null, run) != one.default
    print(f"null runs: a change was proposed in {proposed} of {NULL_RUNS}")


def main() -> None:
    """Measure, or print the tables."""
    if sys.argv[1] == "measure":
        for name in sys.argv[2:]:
            measure(name)
        return
    found = [Measured(path) for path in sorted((home() / "cache" / "tuning").glob("*.json"))]
    print_transfer(found)
    print_null_runs(found)
    print_bad_starts(found)


if __name__ == "__main__":
    main()
