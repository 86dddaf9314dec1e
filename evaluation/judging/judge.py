"""Who judges: specs opened, the papers' judges as presets, each with the response cache in front of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from turnmark.assistant.generators.base import Generator
from turnmark.corpora.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.corpora.specs import Spec, parse_spec
from turnmark.evaluation.judging.rubrics import BERT, EMBEDDED, Rubric

PANEL = "panel"
RAGAS = "ragas"
BERTSCORE = "bertscore"
CHAIRS: Mapping[str, str] = {"mtrag": "gpt-4o-mini-2024-07-18", "mtrag-un": "openai/gpt-oss-120b"}
"""Presets of four judges. MTRAG appendix F.1 names four models for rb_llm, whose median counts, and F.3 the first of
them for the IDK verdict; MTRAG-UN asks another model in the first one's stead. The names are those of
OpenAI and of Hugging Face."""
_MEMBERS = ("Qwen/Qwen2.5-72B-Instruct", "mistralai/Mixtral-8x22B-Instruct-v0.1", "meta-llama/Llama-3.1-405B-Instruct")
RB_LLM = frozenset({"rb_llm"})
UNASKED = frozenset({"rl_mtb", "rl_r"})
"""What MTRAG's section 8 tried and set aside: of its panels asked only with `panel:mtrag?metrics=rl_mtb,rl_r`."""
ALONE: Mapping[str, str] = {"inscoqa": "Qwen/Qwen2-7B-Instruct", "compound-qa": "gpt-3.5-turbo"}
"""Presets of one judge: InsCoQA section 5.1, under its Hugging Face name, and Compound-QA section 4."""
METRICS = "metrics"
"""Option of a judge's spec: names of the metrics that it is asked for, separated by commas."""


@dataclass(frozen=True)
class Judge:
    """One judge.

    Attributes:
        name: its spec in normal form.
        generator: what is asked.
        metrics: names of the metrics it is asked for; None: all.
        rubrics: what it alone is asked for, and nothing else; empty: what the benchmark asks judges for.
        excluded: names of metrics that it is not asked for, where `metrics` is None.
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
        """Whether it is asked for a metric."""
        if self.rubrics:
            return any(rubric.name == metric for rubric in self.rubrics)
        if self.metrics is None:
            return can_grade(metric, self.name) and metric not in self.excluded
        return metric in self.metrics

    def for_try(self, times: int) -> Generator:
        """What is asked after so many times without success: the cache does not say the same once more."""
        from turnmark.assistant.generators.cache import Cached, with_cache

        return with_cache(self.generator, times) if isinstance(self.generator, Cached) else self.generator


def can_grade(metric: str, judge: str) -> bool:
    """Whether a metric is one of those that a judge can be asked for: some are for judges without a language model."""
    if metric.partition("[")[0] in BERT:
        return _kind(judge) == BERTSCORE
    return _kind(judge) == (EMBEDDED if metric.endswith(f"[{EMBEDDED}]") else "")


def _kind(judge: str) -> str:
    """`embedded` or `bertscore`; empty for a language model."""
    if judge == EMBEDDED:
        return EMBEDDED
    return BERTSCORE if judge == BERTSCORE or judge.startswith(f"{BERTSCORE}:") else ""


def own_rubrics(judges: Iterable[Judge], names: Iterable[str]) -> list[Rubric]:
    """What judges bring with them, as far as it is among the judged metrics of a benchmark."""
    judged = set(names)
    return [rubric for judge in judges for rubric in judge.rubrics if rubric.name.partition("[")[0] in judged]


def open_judges(specs: Sequence[str]) -> tuple[Judge, ...]:
    """The judges that `--judge` names, in order; nothing is sent."""
    errors = ErrorCollector()
    judges: list[Judge] = []
    for spec, metrics, excluded in _members(specs, errors):
        judge = errors.collect(_open, spec, metrics)
        if judge is not None and excluded:
            judge = replace(judge, excluded=excluded)
        if judge is not None and any(judge.name == earlier.name for earlier in judges):
            errors.add(f"--judge {judge.name} is given twice")
        elif judge is not None:
            judges.append(judge)
    errors.raise_all()
    return tuple(judges)


Member = tuple[str, frozenset[str] | None, frozenset[str]]
"""Spec, metrics it is asked for (None: all), metrics it is not asked for."""


def _members(specs: Sequence[str], errors: ErrorCollector) -> list[Member]:
    """The specs, a panel as its members."""
    members: list[Member] = []
    for text in specs:
        try:
            spec, metrics = _measures(parse_spec(text))
        except RequestError as error:
            for problem in error.problems:
                errors.add(f"--judge: {problem}")
            continue
        if spec.name != PANEL:
            members.append((str(spec), metrics, frozenset()))
        elif spec.argument in CHAIRS:
            panel = errors.collect(_mtrag_panel, spec, metrics) or []
            members += [member for member in panel if member[0] not in specs]
        elif spec.argument in ALONE and metrics is None:
            judge = Spec("openai", ALONE[spec.argument], spec.url, dict(spec.options))
            members.append((str(judge), None, frozenset()))
        else:
            presets = ", ".join(f"{PANEL}:{name}[@URL]" for name in (*CHAIRS, *ALONE))
            errors.add(
                f"--judge {text}: the panels are {presets}, without the option {METRICS!r}; name other judges one by "
                "one, each with its own --judge"
            )
    return members


def _mtrag_panel(spec: Spec, extra: frozenset[str] | None) -> list[Member]:
    """What Tables 5 and 16 need: the judges of appendix F and, where its model is at hand, BERTScore for `rb_alg`.

    Args:
        extra: of `UNASKED`, what is asked for besides.
    """
    if unknown := sorted((extra or frozenset()) - UNASKED):
        raise RequestError(
            f"--judge {spec}: {METRICS}={','.join(unknown)}: the panel is asked for all metrics of Tables 5 and 16; "
            f"{METRICS} adds {', '.join(sorted(UNASKED))}, and others are for judges named one by one"
        )
    options = dict(spec.options)
    members: list[Member] = [
        (str(Spec("openai", CHAIRS[spec.argument], spec.url, options)), None, UNASKED - (extra or frozenset())),
        *((str(Spec("openai", name, spec.url, options)), RB_LLM, frozenset[str]()) for name in _MEMBERS),
    ]
    return members if missing_bertscore() else [*members, (BERTSCORE, None, frozenset())]


def missing_bertscore() -> str | None:
    """Why the published model of BERTScore cannot be used here; None where it can."""
    from turnmark.evaluation.judging.bertscore import open_bert

    try:
        open_bert()
    except TurnmarkError as error:
        return str(error)
    return None


def panel_notes(specs: Iterable[str]) -> list[str]:
    """What of a preset's panel is not here."""
    panels = [spec for spec in specs if (parsed := parse_spec(spec)).name == PANEL and parsed.argument in CHAIRS]
    missing = missing_bertscore() if panels else None
    return [f"{panels[0]}: rb_alg is not measured: {missing}"] if missing else []


def _measures(spec: Spec) -> tuple[Spec, frozenset[str] | None]:
    """The spec without the option that names metrics, and these."""
    if METRICS not in spec.options:
        return spec, None
    names = frozenset(filter(None, map(str.strip, spec.options[METRICS].split(","))))
    return replace(spec, options={key: value for key, value in spec.options.items() if key != METRICS}), names


def _open(text: str, metrics: frozenset[str] | None) -> Judge:
    from turnmark.assistant.generators import open_generator
    from turnmark.assistant.generators.cache import with_cache

    if text == EMBEDDED:
        from turnmark.evaluation.judging.extractive import NoModel

        return Judge(EMBEDDED, NoModel(), metrics)
    spec = parse_spec(text)
    if spec.name == EMBEDDED:
        raise RequestError(f"--judge {text}: write {EMBEDDED}, or {EMBEDDED}?{METRICS}=NAME,…; it takes nothing else")
    if spec.name == BERTSCORE:
        return _bertscore(spec, metrics)
    if spec.name == RAGAS:
        return _ragas(spec, metrics)
    if spec.name == "reference":
        raise RequestError(f"--judge {text}: it is the targets of the data, and judges nothing")
    try:
        generator = open_generator(text)
        if generator is None:
            raise RequestError(f"{text!r} is no language model")
        # Not of a script, each of whose lines is said once.
        plain = spec.name == "replay" or spec.options.get("cache") == "0"
        cached = generator if plain else with_cache(generator)
    except RequestError as error:
        raise RequestError([f"--judge {text}: {problem}" for problem in error.problems]) from error
    return Judge(generator.name, cached, metrics)


def _bertscore(spec: Spec, metrics: frozenset[str] | None) -> Judge:
    if spec.url or spec.options:
        raise RequestError(
            f"--judge {spec}: write bertscore, bertscore:minilm, bertscore:FOLDER or bertscore:ORG/MODEL"
        )
    from turnmark.evaluation.judging.bertscore import bert_rubrics, open_bert
    from turnmark.evaluation.judging.extractive import NoModel

    try:
        rubrics = bert_rubrics(open_bert(spec.argument or None), str(spec))
    except RequestError as error:
        raise RequestError([f"--judge {spec}: {problem}" for problem in error.problems]) from error
    selected = tuple(rubric for rubric in rubrics if metrics is None or rubric.name.partition("[")[0] in metrics)
    return Judge(str(spec), NoModel(str(spec)), metrics, selected)


def _ragas(spec: Spec, metrics: frozenset[str] | None) -> Judge:
    """A judge of ours behind the package ragas."""
    from turnmark.evaluation.judging.ragas import ragas_rubrics

    if not spec.argument:
        raise RequestError(f"--judge {spec}: write ragas:JUDGE, such as ragas:openai:gpt-4o-mini@URL")
    inner = parse_spec(spec.argument)
    judge = _open(str(Spec(inner.name, inner.argument, spec.url, dict(spec.options))), None)
    if not judge.has_model:
        raise RequestError(f"--judge {spec}: ragas asks a language model, and {inner} is not one")
    return Judge(f"{RAGAS}:{judge.name}", judge.generator, metrics, ragas_rubrics())


def same_model(judge: str, other_spec: str) -> bool:
    """Whether two specs name one model, whatever serves it."""
    judge = judge.removeprefix(f"{RAGAS}:")
    if judge == other_spec:
        return True
    try:
        first, second = parse_spec(judge), parse_spec(other_spec)
    except RequestError:
        return False
    if not first.argument or not second.argument:
        return False
    if "replay" in (first.name, second.name) or "python" in (first.name, second.name):
        return (first.name, first.argument) == (second.name, second.argument)
    return model_key(judge) == model_key(other_spec)


def short_name(judge: str) -> str:
    """A model's own name, whatever serves it."""
    try:
        name = parse_spec(judge.removeprefix(f"{RAGAS}:")).argument or judge
    except RequestError:
        name = judge
    return name.rpartition("/")[2]


def model_key(judge: str) -> str:
    """What two spellings of a model's name have in common."""
    return "".join(filter(str.isalnum, short_name(judge).casefold()))


_DATE = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8}|\d{4})")


def is_snapshot(model: str, judge: str) -> bool:
    """Whether a model's name is the judge's with a date behind it: `gpt-4o-2024-08-06` of the alias `gpt-4o`."""
    alias, name = short_name(judge).casefold(), model.rpartition("/")[2].casefold()
    return name.startswith(alias) and _DATE.fullmatch(name[len(alias) :]) is not None


def with_snapshots(judge: str, answered: Mapping[str, Sequence[str]]) -> str:
    """A judge, and the dated snapshots that answered in its name."""
    snapshots = answered.get(judge, ())
    return f"{judge} (answered as {', '.join(snapshots)})" if snapshots else judge
