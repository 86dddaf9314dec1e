"""Write `browse.jsonl` (conversation, passages and reference of each sample) and the JSON of a report page.

`predictions.jsonl` names a task and its passages by their ids. A page shows the conversation, the texts and the
reference, even after the data have been moved. These texts are therefore written while a run is scored, when each item
is loaded anyway. They are cut to a readable length, and nothing is scored from them.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import Field, FiniteFloat

from turnmark.core.record import Record
from turnmark.core.untrusted import make_printable
from turnmark.evaluation.records import ContextRef, Sample, Score
from turnmark.evaluation.report.finished_runs import Key, StoredRun, samples, scores
from turnmark.evaluation.report.tables import arrange_variants, choose_headline
from turnmark.evaluation.storage.journal import json_line, open_atomic, read_records
from turnmark.evaluation.storage.run_folder import RunFolder
from turnmark.evaluation.tasks.items import Case, Item
from turnmark.evaluation.tasks.metric import try_scorer
from turnmark.evaluation.tasks.task import Task
from turnmark.evaluation.tasks.turn_samples import heading_of
from turnmark.retrieval.search.task_passages import cut_passages

BROWSE_FILE = "browse.jsonl"
MAX_TEXT_CHARACTERS = 4_000
"""Maximum characters of a text in the file."""
MAX_PASSAGES = 20
"""Maximum passages of a sample in the file."""


class Text(Record):
    """A text, or its beginning."""

    text: str
    left_out: int = Field(default=0, ge=0, description="number of characters cut off its end")


class SeenPassage(Record):
    """A passage of a sample: retrieved, or relevant and not retrieved."""

    id: str
    title: str = ""
    text: Text | None = Field(default=None, description="None: the text is not known")
    rank: int | None = Field(default=None, description="1-based rank among the retrieved passages, if it is one")
    score: FiniteFloat | None = None
    relevant: bool | None = Field(default=None, description="None: the data does not say")


class Utterance(Record):
    """One utterance before the question."""

    role: str
    text: Text


class BrowsedSample(Record):
    """One line of `browse.jsonl`."""

    id: str
    repeat: int = 0
    labels: Mapping[str, tuple[str, ...]] = Field(default_factory=dict, description="dimension -> values")
    history: tuple[Utterance, ...] = ()
    question: Text
    reference: Text
    passages: tuple[SeenPassage, ...] = ()

    @property
    def key(self) -> tuple[str, int]:
        """Id and repeat, which identify the sample in its run."""
        return self.id, self.repeat


def note_samples(run: RunFolder, task: Task, items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items, and write the `BrowsedSample` line of each of their samples.

    The file appears after the last item has been yielded.
    """
    with open_atomic(run.path / BROWSE_FILE) as file:
        for item in items:
            for sample in run.samples_of(item.id):
                file.write(json_line(make_browsed_sample(task, item, sample)))
            yield item


def make_browsed_sample(task: Task, item: Item, sample: Sample) -> BrowsedSample:
    """Return the line of a sample."""
    # An exception is dropped here: the metrics make the same call and report it.
    case, _ = try_scorer(partial(task.context, item, sample))
    # In the order of the sample's contexts.
    texts = case.passages or () if isinstance(case, Case) else ()
    history = [Utterance(role=message.role, text=clip_text(message.content)) for message in item.history]
    passages = list(_seen_passages(sample, item, texts))
    return BrowsedSample(
        id=sample.id,
        repeat=sample.repeat,
        labels=dict(item.labels),
        history=tuple(history),
        question=clip_text(item.question or sample.query or ""),
        reference=clip_text(item.reference),
        passages=tuple(passages[:MAX_PASSAGES]),
    )


def _seen_passages(sample: Sample, item: Item, texts: tuple[str, ...]) -> Iterator[SeenPassage]:
    """Yield the retrieved passages by rank, then the relevant ones that were not retrieved."""
    refs = sample.contexts
    retrieved_ids = {ref.document_id for ref in refs}
    known_texts = _texts_of(item, retrieved_ids)
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
    relevant_ids = item.relevant or frozenset()
    for passage_id in sorted(relevant_ids - retrieved_ids):
        title, text = known_texts.get(passage_id, ("", None))
        yield SeenPassage(id=passage_id, title=title, text=None if text is None else clip_text(text), relevant=True)


def _texts_of(item: Item, ids: set[str]) -> dict[str, tuple[str, str]]:
    """Return id -> title and text of an item's passages, or of the passages that its documents are cut into."""
    texts = dict(item.passages)
    if ids <= texts.keys():
        return texts
    passages = (part for name, text in item.passages.items() for part in cut_passages(name, *text))
    return texts | {passage.id: (heading_of(passage), passage.text) for passage in passages}


def clip_text(text: str) -> Text:
    """Cut a text to `MAX_TEXT_CHARACTERS` characters."""
    return Text(text=text[:MAX_TEXT_CHARACTERS], left_out=max(0, len(text) - MAX_TEXT_CHARACTERS))


# --- the page's JSON -------------------------------------------------------------------------------------------------

# The samples of runs as one JSON text for a page to browse. Each text appears once; texts are cut until the page fits.
#
# The page's script (`page.js`) reads this and nothing else; the two agree on these short names:
#
#     texts     [text | [text, characters left out]]
#     passages  [[id, title, text | -1]]
#     runs      [{name, metrics: [[name, digits, by]], first: index of the first headline metric, dimensions: [[name,
#               [value]]], phases: [name], more, samples: [sample]}]
#     sample    i id, r repeat, s status (0 done, 1 failed, 2 skipped), y reason, l values of each dimension, h earlier
#               turns ([0 user | 1 assistant, text]), q question, w query, p answer, f reference, b previous answer (of
#               a revision), c passages ([passage, rank | 0, score, 1 relevant | 0 not | -1 unknown]), d steps ([text,
#               [citation]]), e sub-answers ([question, answer]), o operations, v scores (number, null: not applicable,
#               false: failed), g reasons of scores ({metric: text}), t seconds of each phase, u usage ({role: [calls,
#               prompt tokens, completion tokens]}), a attempts, n notes, x other queries ({mode: text})
#
# Each text is given by its index in `texts`. Empty fields are left out.

MAX_SAMPLES = 1_000
"""Maximum samples of a run that a page shows."""
STATUS_NUMBERS = {"done": 0, "failed": 1, "skipped": 2}

# Character limits of a text, from generous to tight; the first one with which the page is small enough is used.
_LIMITS = [max(100, round(MAX_TEXT_CHARACTERS * 0.93**step)) for step in range(52)]
# Escaped so that no text can close the `<script>` element or end a line of JavaScript.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


class TextIndex(dict[str, int]):
    """Text -> index, in the order in which the texts were first added."""

    def add(self, text: str) -> int:
        """Return the index of a text."""
        return self.setdefault(text, len(self))


class _Pool:
    """The texts and passages that all samples of a page share, each stored once."""

    def __init__(self) -> None:
        self.passages: list[list[str | int]] = []
        self._texts: dict[tuple[str, int], int] = {}
        self._indices: dict[tuple[str, int], int] = {}

    def add(self, text: str | Text) -> int:
        """Return the index of a text."""
        text_cut = clip_text(text) if isinstance(text, str) else text
        return self._texts.setdefault((make_printable(text_cut.text), text_cut.left_out), len(self._texts))

    def add_if_any(self, text: str | Text | None) -> int | None:
        """Return the index of a text, or None if there is none."""
        return self.add(text) if text else None

    def texts(self, limit: int) -> Iterator[str | list[str | int]]:
        """Yield each text, cut to a limit."""
        for text, left_out in self._texts:
            total_left_out = max(0, len(text) - limit) + left_out
            yield [text[:limit], total_left_out] if total_left_out else text

    def passage(self, name: str, title: str, text: Text | None) -> int:
        """Return the index of a passage. Runs on different data may have different texts under the same id."""
        if title and text is not None and text.text.startswith(title):  # many corpora begin a text with its title
            text = text.model_copy(update={"text": text.text[len(title) :].lstrip()})
        body = -1 if text is None else self.add(text)
        index = self._indices.setdefault((name, body), len(self.passages))
        if index == len(self.passages):
            self.passages.append([make_printable(name), make_printable(title), body])
        return index


def samples_json(runs: Sequence[tuple[str, StoredRun]], limit: int = 1_700_000) -> str:
    """Return the samples of these runs as JSON for a `<script type="application/json">`.

    Args:
        runs: the displayed name of each run, and the run.
        limit: maximum bytes of UTF-8; exceeded only if even the shortest texts do not fit.
    """
    pool = _Pool()
    payload = _json({"passages": pool.passages, "runs": [_run(name, run, pool) for name, run in runs]})
    size = len(payload.encode("utf-8"))

    def texts(level: int) -> str:
        return _json(list(pool.texts(_LIMITS[level])))

    def fits(level: int) -> bool:
        return size + len(texts(level).encode("utf-8")) <= limit

    first = bisect_left(range(len(_LIMITS) - 1), True, key=fits)
    return f'{{"texts":{texts(first)},{payload[1:]}'


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def _run(name: str, run: StoredRun, pool: _Pool) -> dict[str, Any]:
    shown: dict[Key, Sample] = {}
    more = 0
    for sample in samples(run.path):
        if len(shown) < MAX_SAMPLES:
            shown[sample.key] = sample
        else:
            more += 1
    metric_names = [metric for metric, _, _ in arrange_variants(run.summary.metrics)]
    # Judged metrics first.
    metric_names.sort(key=lambda metric: metric.partition("[")[0].removesuffix(".idk") not in run.summary.judging)
    measured = scores(run.path, shown.keys(), metric_names)
    entries = read_records(run.path / BROWSE_FILE, BrowsedSample)
    browsed = {entry.key: entry for entry in entries if entry.key in shown}
    dimensions: dict[str, TextIndex] = {}
    phases = TextIndex()
    page_samples = [
        _sample(sample, browsed.get(key), measured[key], metric_names, dimensions, phases, pool)
        for key, sample in shown.items()
    ]
    judge_of = {score.metric: score.by for of_sample in measured.values() for score in of_sample.values()}
    metrics = [
        [make_printable(name), run.summary.metrics[name].shown.digits[0], make_printable(judge_of.get(name, ""))]
        for name in metric_names
    ]
    headline_metrics = choose_headline(run.summary.metrics, 1)
    return {
        "name": make_printable(name),
        "metrics": metrics,
        "dimensions": [[dimension, list(values)] for dimension, values in dimensions.items()],
        "first": metric_names.index(headline_metrics[0]) if headline_metrics else 0,
        "phases": list(phases),
        "more": more,
        "samples": page_samples,
    }


def _sample(
    sample: Sample,
    browsed: BrowsedSample | None,
    measured: Mapping[str, Score],
    metric_names: Sequence[str],
    dimensions: dict[str, TextIndex],
    phases: TextIndex,
    pool: _Pool,
) -> dict[str, Any]:
    add, add_if_any = pool.add, pool.add_if_any
    scored = ((index, measured.get(name)) for index, name in enumerate(metric_names))
    reasons = {index: add(score.reason) for index, score in scored if score and score.reason}
    reason = ": ".join(filter(None, (sample.kind, sample.reason)))
    history = browsed.history if browsed else ()
    question = browsed.question if browsed and browsed.question.text else sample.query or ""
    reference = browsed.reference if browsed and browsed.reference.text else None
    fields: dict[str, Any] = {
        "i": make_printable(sample.id),
        "r": sample.repeat or None,
        "s": STATUS_NUMBERS[sample.status] or None,
        "y": add_if_any(reason),
        "l": _labels(sample, browsed, dimensions),
        "h": [[int(turn.role != "user"), add(turn.text)] for turn in history],
        "q": add(question),
        "w": add_if_any(sample.rewrite),
        "p": add_if_any(sample.prediction),
        "f": add_if_any(reference),
        "b": add_if_any(sample.previous),
        "c": _passages(sample, browsed, pool),
        "d": [[add(step["step"]), _indices(step.get("citations"))] for step in sample.procedure],
        "e": [[add(part.question), add(part.answer)] for part in sample.sub_answers],
        "o": [add(json.dumps(entry, ensure_ascii=False)) for entry in sample.operations],
        "v": [_value(measured.get(name)) for name in metric_names],
        "g": reasons,
        "t": _phase_seconds(sample, phases),
        "u": {
            make_printable(role): [used.calls, used.prompt_tokens, used.completion_tokens]
            for role, used in sample.usage.items()
        },
        "a": sample.attempts if sample.attempts > 1 else None,
        "n": [add(note) for note in sample.notes],
        "x": {make_printable(mode): add(text) for mode, text in sample.variants.items()},
    }  # fmt: skip
    return {key: value for key, value in fields.items() if value not in (None, [], {})}


def _phase_seconds(sample: Sample, phases: TextIndex) -> list[float | None]:
    """Return the seconds of each phase, in the order of the phases known so far."""
    if not sample.timings:
        return []
    seconds = {make_printable(phase): _number(value) for phase, value in sample.timings.items()}
    for phase in seconds:
        phases.add(phase)
    return [seconds.get(phase) for phase in phases]


def _indices(citations: Any) -> list[int]:
    if not isinstance(citations, list | tuple):
        return []
    return [entry for entry in citations if isinstance(entry, int)]


def _labels(sample: Sample, browsed: BrowsedSample | None, dimensions: dict[str, TextIndex]) -> list[list[int]]:
    """Return the values of each dimension, in the order of the dimensions known so far."""
    labels: dict[str, tuple[str, ...]] = {}
    if sample.domain:
        labels["domain"] = (sample.domain,)
    if browsed:
        labels.update(browsed.labels)
    if sample.decision:
        labels["decision"] = (sample.decision,)
    printable_labels = {make_printable(name): values for name, values in labels.items()}
    for name in printable_labels:
        dimensions.setdefault(name, TextIndex())
    return [
        [known_values.add(make_printable(value)) for value in printable_labels.get(name, ())]
        for name, known_values in dimensions.items()
    ]


def _passages(sample: Sample, browsed: BrowsedSample | None, pool: _Pool) -> list[list[float]]:
    """Return index, rank (0: not retrieved), score and relevance (-1: unknown) of each passage."""
    entries: list[list[float]] = []
    shown: Iterable[SeenPassage] = browsed.passages if browsed else ()
    for passage in shown or map(_seen, sample.contexts, range(1, len(sample.contexts) + 1)):
        index = pool.passage(passage.id, passage.title, passage.text)
        relevance = -1 if passage.relevant is None else int(passage.relevant)
        entries.append([index, passage.rank or 0, _number(passage.score or 0.0), relevance])
    return entries


def _seen(ref: ContextRef, rank: int) -> SeenPassage:
    text = clip_text(ref.text) if ref.text else None
    return SeenPassage(id=ref.document_id, title=ref.title or "", text=text, rank=rank, score=ref.score)


def _value(score: Score | None) -> float | bool | None:
    if score is None or score.status == "not_applicable":
        return None
    return False if score.value is None else _number(score.value)


def _number(value: float) -> float:
    """Round to the digits that a page shows, without a trailing `.0`."""
    rounded = round(value, 4)
    return int(rounded) if rounded.is_integer() else rounded
