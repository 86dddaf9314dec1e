"""`browse.jsonl`: what a reader of samples wants to see with them, and the page's JSON that is made of it.

`predictions.jsonl` names a task and its passages by their ids; a page that shows the conversation, the texts and the
reference must not depend on the data still being where they were. They are written down while a run is scored, when
each item is at hand anyway, and cut to what anybody reads. Nothing is scored from this file.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import Field, FiniteFloat

from turnmark.core.console import printable
from turnmark.core.record import Record
from turnmark.evaluation.benchmarks.base import Case, Item, attempted
from turnmark.evaluation.benchmarks.task import Task
from turnmark.evaluation.benchmarks.turns import heading_of
from turnmark.evaluation.records import Sample, Score
from turnmark.evaluation.report.stored import Key, StoredRun, samples, scores
from turnmark.evaluation.report.tables import arranged, chosen
from turnmark.evaluation.runs.journal import json_line, open_atomic, read_records
from turnmark.evaluation.runs.rundir import RunFolder
from turnmark.retrieval.task_passages import cut_passages

FILE = "browse.jsonl"
TEXT = 4_000
"""Characters that are kept of a text."""
PASSAGES = 20
"""Passages that are kept of a sample."""


class Text(Record):
    """A text, or its beginning."""

    text: str
    left_out: int = Field(default=0, ge=0, description="characters after it")


class SeenPassage(Record):
    """A passage of a sample: found, or relevant and not found."""

    id: str
    title: str = ""
    text: Text | None = Field(default=None, description="None: nobody knows it any more")
    rank: int | None = Field(default=None, description="1-based rank among what was found; None: not found")
    score: FiniteFloat | None = None
    relevant: bool | None = Field(default=None, description="None: the data does not say")


class Said(Record):
    """One utterance before the question."""

    role: str
    text: Text


class Browsed(Record):
    """One line of `browse.jsonl`."""

    id: str
    repeat: int = 0
    labels: Mapping[str, tuple[str, ...]] = Field(default_factory=dict, description="dimension -> values")
    history: tuple[Said, ...] = ()
    question: Text
    reference: Text
    passages: tuple[SeenPassage, ...] = ()

    @property
    def key(self) -> tuple[str, int]:
        """What identifies the sample in its run."""
        return self.id, self.repeat


def note_samples(run: RunFolder, benchmark: Task, items: Iterable[Item]) -> Iterator[Item]:
    """Pass items on, and write down what is to be seen of their samples; the file is there when all were passed on."""
    with open_atomic(run.path / FILE) as file:
        for item in items:
            for repeat in range(run.manifest.repeat):
                sample = run.samples.get((item.id, repeat))
                if sample is not None:
                    file.write(json_line(browsed(benchmark, item, sample)))
            yield item


def browsed(benchmark: Task, item: Item, sample: Sample) -> Browsed:
    """The line of a sample."""
    # What it throws is reported by the metrics, which meet it too. Passages are in the order of the sample's contexts.
    case = attempted(partial(benchmark.context, item, sample))[0]
    texts = case.passages or () if isinstance(case, Case) else ()
    return Browsed(
        id=sample.id,
        repeat=sample.repeat,
        labels=dict(item.labels),
        history=tuple(Said(role=message.role, text=clip_text(message.content)) for message in item.history),
        question=clip_text(item.question or sample.query or ""),
        reference=clip_text(item.reference),
        passages=tuple(_seen(sample, item, texts))[:PASSAGES],
    )


def _seen(sample: Sample, item: Item, texts: tuple[str, ...]) -> Iterator[SeenPassage]:
    refs = sample.contexts
    known_texts = _texts_of(item, {ref.document_id for ref in refs})
    if len(texts) != len(refs):
        texts = ()
    for rank, ref in enumerate(refs, 1):
        title, text = known_texts.get(ref.document_id, (ref.title or "", ref.text))
        if text is None and texts:
            text = texts[rank - 1]
        yield SeenPassage(
            id=ref.document_id,
            title=title,
            text=None if text is None else clip_text(text),
            rank=rank,
            score=ref.score,
            relevant=None if item.relevant is None else ref.document_id in item.relevant,
        )
    found_ids = {ref.document_id for ref in refs}
    for name in sorted((item.relevant or frozenset()) - found_ids):
        title, text = known_texts.get(name, ("", None))
        yield SeenPassage(id=name, title=title, text=None if text is None else clip_text(text), relevant=True)


def _texts_of(item: Item, ids: set[str]) -> dict[str, tuple[str, str]]:
    """Id -> title and text of what comes with an item: passages, or the documents that passages are cut from."""
    texts = dict(item.passages)
    for name, (title, text) in item.passages.items() if not ids <= texts.keys() else ():
        texts |= {passage.id: (heading_of(passage), passage.text) for passage in cut_passages(name, title, text)}
    return texts


def clip_text(text: str) -> Text:
    """A text, or as much of it as is kept."""
    return Text(text=text[:TEXT], left_out=max(0, len(text) - TEXT))


# --- the page's JSON -------------------------------------------------------------------------------------------------

# The samples of runs as one JSON text for a page to browse: every text once, cut until all of it fits.
#
# The page's script (`page.js`) reads this and nothing else; the two agree on these short names:
#
#     texts     [text | [text, characters left out]]
#     passages  [[id, title, text | -1]]
#     runs      [{name, metrics: [[name, digits, by]], first: index of the most telling metric, dimensions: [[name,
#               [value]]], phases: [name], more, samples: [sample]}]
#     sample    i id, r repeat, s status (0 done, 1 failed, 2 skipped), y why, l values of each dimension, h what was
#               said before ([0 user | 1 assistant, text]), q question, w searched for, p answer, f reference, b the
#               answer before (a revision), c passages ([passage, rank | 0, score, 1 relevant | 0 not | -1 unknown]),
#               d steps ([text, [citation]]), e sub-answers ([question, answer]), o operations, v scores (number, null:
#               does not apply, false: failed), g reasons of scores ({metric: text}), t seconds of each phase, u usage
#               ({role: [calls, prompt tokens, completion tokens]}), a attempts, n notes, x more wordings ({mode: text})
#
# Everywhere a text is its index in `texts`. A field that would be empty is left out.

Kind = Literal["answer", "said", "passage", "reason"]

SAMPLES = 1_000
"""Samples of a run that a page shows."""
STATUS = {"done": 0, "failed": 1, "skipped": 2}

# Characters that are shown of the answer and the reference, of what was said before, of a passage and of a reason: the
# most that fits is taken. Answers are cut last, since a sample is read for them.
_LEVELS: tuple[Mapping[Kind, int], ...] = tuple(
    {
        "answer": max(160, round(TEXT * 0.957**step)),
        "said": max(100, round(TEXT * 0.93**step)),
        "passage": max(80, round(TEXT * 0.93**step)),
        "reason": max(60, round(800 * 0.94**step)),
    }
    for step in range(74)
)
# JSON stays JSON, and nothing in it ends its element, or a line of script.
_SAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


class _Texts:
    """Every text once; what is asked for as two kinds keeps as much as the longer."""

    def __init__(self) -> None:
        self._indices: dict[tuple[str, int], int] = {}
        self._texts: list[tuple[str, int]] = []
        self._kinds: list[set[Kind]] = []

    def add(self, text: str | Text | None, kind: Kind = "said") -> int:
        """The index of a text; -1 for none."""
        if text is None:
            return -1
        text_cut = clip_text(text) if isinstance(text, str) else text
        entry = (printable(text_cut.text), text_cut.left_out)
        index = self._indices.setdefault(entry, len(self._texts))
        if index == len(self._texts):
            self._texts.append(entry)
            self._kinds.append(set())
        self._kinds[index].add(kind)
        return index

    def at(self, level: Mapping[Kind, int]) -> Iterator[str | list[str | int]]:
        """Each text as much as a level allows."""
        for (text, left_out), kinds in zip(self._texts, self._kinds, strict=True):
            limit = max(level[kind] for kind in kinds)
            left_out_count = max(0, len(text) - limit) + left_out
            yield [text[:limit], left_out_count] if left_out_count else text


class _Numbers(dict[str, int]):
    """Names in the order in which they first came."""

    def of(self, name: str) -> int:
        return self.setdefault(printable(name), len(self))


class _Pool:
    """What all samples of a page share."""

    def __init__(self) -> None:
        self.texts = _Texts()
        self.passages: list[list[str | int]] = []
        self._indices: dict[tuple[str, int], int] = {}

    def passage(self, name: str, title: str, text: Text | None) -> int:
        """The index of a passage. Runs on other data may have another text under an id."""
        if title and text is not None and text.text.startswith(title):  # many corpora begin a text with its title
            text = text.model_copy(update={"text": text.text[len(title) :].lstrip()})
        body = self.texts.add(text, "passage")
        index = self._indices.setdefault((name, body), len(self.passages))
        if index == len(self.passages):
            self.passages.append([printable(name), printable(title), body])
        return index


def samples_json(runs: Sequence[tuple[str, StoredRun]], limit: int = 1_700_000) -> str:
    """The samples of these runs, as JSON for a `<script type="application/json">`.

    Args:
        runs: what to call each, and where it is.
        limit: bytes of UTF-8 to fit into; passed only where texts of a line each do not fit.
    """
    pool = _Pool()
    page_runs = [_run(name, run, pool) for name, run in runs]
    payload = _json({"passages": pool.passages, "runs": page_runs})
    size = len(payload.encode("utf-8"))

    def texts(level: int) -> str:
        return _json(list(pool.texts.at(_LEVELS[level])))

    def fits(level: int) -> bool:
        return size + len(texts(level).encode("utf-8")) <= limit

    first = bisect_left(range(len(_LEVELS) - 1), True, key=fits)
    return f'{{"texts":{texts(first)},{payload[1:]}'


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_SAFE)


def _run(name: str, run: StoredRun, pool: _Pool) -> dict[str, Any]:
    shown: dict[Key, Sample] = {}
    more = 0
    for sample in samples(run.path):
        if len(shown) < SAMPLES:
            shown[sample.key] = sample
        else:
            more += 1
    names = [metric for metric, _, _ in arranged(run.summary.metrics)]
    names.sort(key=lambda metric: metric.partition("[")[0].removesuffix(".idk") not in run.summary.judging)
    measured = scores(run.path, shown.keys(), names)
    browsed = {entry.key: entry for entry in read_records(run.path / FILE, Browsed) if entry.key in shown}
    dimensions: dict[str, _Numbers] = {}
    phases = _Numbers()
    page_samples = [
        _sample(sample, browsed.get(key), measured[key], names, dimensions, phases, pool)
        for key, sample in shown.items()
    ]
    judge_of = {score.metric: score.by for mine in measured.values() for score in mine.values()}
    return {
        "name": printable(name),
        "metrics": [
            [printable(metric), run.summary.metrics[metric].shown.digits[0], printable(judge_of.get(metric, ""))]
            for metric in names
        ],
        "dimensions": [[dimension, list(values)] for dimension, values in dimensions.items()],
        "first": names.index(first[0]) if (first := chosen(run.summary.metrics, 1)) else 0,
        "phases": list(phases),
        "more": more,
        "samples": page_samples,
    }


def _sample(
    sample: Sample,
    browsed: Browsed | None,
    measured: Mapping[str, Score],
    names: Sequence[str],
    dimensions: dict[str, _Numbers],
    phases: _Numbers,
    pool: _Pool,
) -> dict[str, Any]:
    add = pool.texts.add
    reasons = {
        index: add(entry.reason, "reason")
        for index, name in enumerate(names)
        if (entry := measured.get(name)) and entry.reason
    }
    reason = ": ".join(filter(None, (sample.kind, sample.reason)))
    fields: dict[str, Any] = {
        "i": printable(sample.id),
        "r": sample.repeat or None,
        "s": STATUS[sample.status] or None,
        "y": _some(add, reason),
        "l": _labels(sample, browsed, dimensions),
        "h": [[int(turn.role != "user"), add(turn.text)] for turn in (browsed.history if browsed else ())],
        "q": add(browsed.question if browsed and browsed.question.text else sample.query or ""),
        "w": _some(add, sample.rewrite),
        "p": add(sample.prediction, "answer") if sample.prediction else None,
        "f": add(browsed.reference, "answer") if browsed and browsed.reference.text else None,
        "b": _some(add, sample.previous),
        "c": _passages(sample, browsed, pool),
        "d": [[add(step["step"]), _indices(step.get("citations"))] for step in sample.procedure],
        "e": [[add(part.question), add(part.answer)] for part in sample.sub_answers],
        "o": [add(json.dumps(entry, ensure_ascii=False), "reason") for entry in sample.operations],
        "v": [_value(measured.get(name)) for name in names],
        "g": reasons,
        "t": _timed(sample, phases),
        "u": {
            printable(role): [used.calls, used.prompt_tokens, used.completion_tokens]
            for role, used in sample.usage.items()
        },
        "a": sample.attempts if sample.attempts > 1 else None,
        "n": [add(note, "reason") for note in sample.notes],
        "x": {printable(mode): add(text) for mode, text in sample.variants.items()},
    }  # fmt: skip
    return {key: value for key, value in fields.items() if value not in (None, [], {})}


def _timed(sample: Sample, phases: _Numbers) -> list[float | None]:
    """Seconds of each phase, in the order of the phases that are known so far."""
    for phase in sample.timings:
        phases.of(phase)
    clean = {printable(phase): _number(value) for phase, value in sample.timings.items()}
    return [clean.get(phase) for phase in phases] if clean else []


def _indices(citations: Any) -> list[int]:
    return [entry for entry in citations if isinstance(entry, int)] if isinstance(citations, list | tuple) else []


def _some(add: Any, text: str | None) -> int | None:
    return add(text) if text else None


def _labels(sample: Sample, browsed: Browsed | None, dimensions: dict[str, _Numbers]) -> list[list[int]]:
    """The values of each dimension, in the order of the dimensions that are known so far."""
    labels: dict[str, tuple[str, ...]] = {"domain": (sample.domain,)} if sample.domain else {}
    labels |= dict(browsed.labels) if browsed else {}
    labels |= {"decision": (sample.decision,)} if sample.decision else {}
    for name in labels:
        dimensions.setdefault(printable(name), _Numbers())
    clean = {printable(name): values for name, values in labels.items()}
    return [[values.of(value) for value in clean.get(name, ())] for name, values in dimensions.items()]


def _passages(sample: Sample, browsed: Browsed | None, pool: _Pool) -> list[list[float]]:
    if browsed is None or not browsed.passages:
        return [
            [pool.passage(ref.document_id, ref.title or "", clip_text(ref.text) if ref.text else None), rank,
             _number(ref.score), -1]
            for rank, ref in enumerate(sample.contexts, 1)
        ]  # fmt: skip
    return [
        [pool.passage(passage.id, passage.title, passage.text), passage.rank or 0, _number(passage.score or 0.0),
         -1 if passage.relevant is None else int(passage.relevant)]
        for passage in browsed.passages
    ]  # fmt: skip


def _value(score: Score | None) -> float | bool | None:
    if score is None or score.status == "not_applicable":
        return None
    return False if score.value is None else _number(score.value)


def _number(value: float) -> float:
    """As many digits as a page shows, and no `.0`."""
    short = round(value, 4)
    return int(short) if short.is_integer() else short
