"""Open judges from their specs: language models, presets of the papers' judges, BERTScore."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.core.specs import Spec, parse_spec
from turnmark.evaluation.judging.bertscore import bert_rubrics, open_bert
from turnmark.evaluation.judging.embedded_judge import NoModel
from turnmark.evaluation.judging.ragas import ragas_rubrics
from turnmark.evaluation.judging.rubrics import BERT_METRICS, EMBEDDED_JUDGE
from turnmark.evaluation.model_names import RAGAS
from turnmark.evaluation.tasks.declarations import JudgePreset, benchmarks
from turnmark.evaluation.tasks.rubric import Rubric

PANEL = "panel"
BERTSCORE = "bertscore"
METRICS = "metrics"
"""Option of a judge's spec: names of the metrics that it grades, separated by commas."""


@dataclass(frozen=True)
class Judge:
    """One judge.

    Attributes:
        name: its spec in normal form.
        metrics: names of the metrics that it grades, or None for all.
        rubrics: the judge's own rubrics, which replace the benchmark's; if empty, those of the benchmark.
        excluded: names of metrics that it does not grade, if `metrics` is None.
    """

    name: str
    generator: Generator
    metrics: frozenset[str] | None = None
    rubrics: tuple[Rubric, ...] = ()
    excluded: frozenset[str] = frozenset()

    @property
    def has_model(self) -> bool:
        """Whether a language model judges."""
        return _kind(self.name) == ""

    def grades(self, metric: str) -> bool:
        """Return whether the judge grades a metric."""
        if self.rubrics:
            return any(rubric.name == metric for rubric in self.rubrics)
        if self.metrics is None:
            return can_grade(metric, self.name) and metric not in self.excluded
        return metric in self.metrics


def can_grade(metric: str, judge: str) -> bool:
    """Return whether a judge is of the right kind for a metric: BERTScore, embedded or a language model."""
    if metric.partition("[")[0] in BERT_METRICS:
        return _kind(judge) == BERTSCORE
    if metric.endswith(f"[{EMBEDDED_JUDGE}]"):
        return _kind(judge) == EMBEDDED_JUDGE
    return _kind(judge) == ""


def _kind(judge: str) -> str:
    """Return `embedded`, `bertscore` or, for a language model, the empty string."""
    if judge == EMBEDDED_JUDGE:
        return EMBEDDED_JUDGE
    return BERTSCORE if judge == BERTSCORE or judge.startswith(f"{BERTSCORE}:") else ""


def own_rubrics(judges: Iterable[Judge], names: Iterable[str]) -> list[Rubric]:
    """Return the judges' own rubrics for the judged metrics `names` of a benchmark."""
    judged = set(names)
    rubrics = [rubric for judge in judges for rubric in judge.rubrics]
    return [rubric for rubric in rubrics if rubric.name.partition("[")[0] in judged]


def open_judges(specs: Sequence[str]) -> tuple[Judge, ...]:
    """Open the judges that `--judge` names, in order; no endpoint is called.

    Raises:
        RequestError: all mistakes in the specs.
    """
    errors = ErrorCollector()
    judges: list[Judge] = []
    for spec in specs:
        for judge in errors.collect(_open, spec, specs) or ():
            if any(judge.name == earlier.name for earlier in judges):
                errors.add(f"--judge {judge.name} is given twice")
            else:
                judges.append(judge)
    errors.raise_all()
    return tuple(judges)


def _open(text: str, specs: Sequence[str]) -> list[Judge]:
    """Return the judges of one spec; a panel leaves out the judges that `specs` also name."""
    try:
        spec, metrics = _split_metrics(parse_spec(text))
        if spec.name != PANEL:
            return [_single(spec, metrics)]
        presets = judge_presets()
        if metrics is None and spec.argument in presets:
            preset = presets[spec.argument]
            # A panel of one judge is the named judge itself, so naming it again is a mistake.
            named = specs if preset.others else ()
            return [judge for judge in _panel(spec, preset) if judge.name not in named]
        listed = ", ".join(f"{PANEL}:{name}[@URL]" for name in presets)
        raise RequestError(
            f"the panels are {listed}, without the option {METRICS!r}; name other judges one by one, each with its "
            "own --judge"
        )
    except RequestError as error:
        raise RequestError([f"--judge {text}: {problem}" for problem in error.problems]) from error


def judge_presets() -> dict[str, JudgePreset]:
    """Return the judges of the benchmarks' papers by the benchmark's name, the panels of several judges first."""
    presets = {name: benchmark.judges for name, benchmark in benchmarks().items() if benchmark.judges is not None}
    return dict(sorted(presets.items(), key=lambda pair: not pair[1].others))


def _panel(spec: Spec, preset: JudgePreset) -> list[Judge]:
    """Open the judges of a paper and, if the paper uses it and its model is on this machine, BERTScore."""
    first = _single(replace(spec, name="openai", argument=preset.first), None)
    others = [_single(replace(spec, name="openai", argument=name), preset.shared) for name in preset.others]
    panel = [replace(first, excluded=preset.skipped), *others]
    if preset.bertscore and missing_bertscore() is None:
        panel.append(_single(parse_spec(BERTSCORE), None))
    return panel


def missing_bertscore() -> str | None:
    """Return why the published model of BERTScore cannot be used on this machine, or None if it can."""
    try:
        open_bert()
    except TurnmarkError as error:
        return str(error)
    return None


def panel_notes(specs: Iterable[str]) -> list[str]:
    """Return notes on panel members that are missing."""
    for spec in specs:
        parsed = parse_spec(spec)
        preset = judge_presets().get(parsed.argument)
        if parsed.name != PANEL or preset is None or not preset.bertscore:
            continue
        missing = missing_bertscore()
        return [f"{spec}: rb_alg is not measured: {missing}"] if missing else []
    return []


def _split_metrics(spec: Spec) -> tuple[Spec, frozenset[str] | None]:
    """Remove the option `metrics` from a spec; return the spec and the names of these metrics (None: no option)."""
    if METRICS not in spec.options:
        return spec, None
    names = [name.strip() for name in spec.options[METRICS].split(",")]
    other_options = {key: value for key, value in spec.options.items() if key != METRICS}
    return replace(spec, options=other_options), frozenset(filter(None, names))


def _single(spec: Spec, metrics: frozenset[str] | None) -> Judge:
    if spec.name in (EMBEDDED_JUDGE, BERTSCORE):
        return _without_model(spec, metrics)
    if spec.name == RAGAS:
        return _ragas(spec, metrics)
    if spec.name == "reference":
        raise RequestError("it returns the targets of the data, and cannot judge")
    generator = open_generator(str(spec))
    if generator is None:
        raise RequestError(f"{str(spec)!r} is not a language model")
    # The response cache only with `cache=1`: verdicts of two runs over the same answers would not be independent.
    return Judge(generator.name, generator, metrics)


def _without_model(spec: Spec, metrics: frozenset[str] | None) -> Judge:
    if spec.url or spec.options or (spec.name == EMBEDDED_JUDGE and spec.argument):
        forms = EMBEDDED_JUDGE if spec.name == EMBEDDED_JUDGE else "bertscore, bertscore:minilm or bertscore:FOLDER"
        raise RequestError(f"write {forms}; its only option is {METRICS}=NAME,…")
    if spec.name == EMBEDDED_JUDGE:
        return Judge(EMBEDDED_JUDGE, NoModel(), metrics)
    rubrics = bert_rubrics(open_bert(spec.argument or None), str(spec))
    selected = tuple(rubric for rubric in rubrics if metrics is None or rubric.name.partition("[")[0] in metrics)
    return Judge(str(spec), NoModel(str(spec)), metrics, selected)


def _ragas(spec: Spec, metrics: frozenset[str] | None) -> Judge:
    """Return a judge `ragas:JUDGE`: the package ragas asks one of our judges."""
    if not spec.argument:
        raise RequestError("write ragas:JUDGE, e.g. ragas:openai:gpt-4o-mini@URL")
    inner = parse_spec(spec.argument)
    judge = _single(Spec(inner.name, inner.argument, spec.url, dict(spec.options)), None)
    if not judge.has_model:
        raise RequestError(f"ragas asks a language model, and {inner} is not one")
    return Judge(f"{RAGAS}:{judge.name}", judge.generator, metrics, ragas_rubrics())
