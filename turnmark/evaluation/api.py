"""The functions of the Python API that run benchmarks, score predictions and compare runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError, unknown_name
from turnmark.evaluation.records import MetricSummary, RunManifest, Sample, Summary
from turnmark.evaluation.runs.request_options import keywords, request_from_keywords
from turnmark.evaluation.tasks.registry import measures_judges

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from turnmark.assistant.turn.assistant import Assistant
    from turnmark.evaluation.comparison.run_comparison import RunComparison
    from turnmark.evaluation.report.plots import Plot


class Run:
    """A finished run in its folder.

    Attributes:
        path: the folder, which also contains `report.html`.
        summary: the contents of `summary.json`.
    """

    def __init__(self, path: Path, summary: Summary) -> None:
        self.path, self.summary = path, summary

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Open a finished run from its folder."""
        from turnmark.evaluation.report.finished_runs import read_run

        stored = read_run(Path(path))
        if stored.several:
            inside = ", ".join(str(run.path) for run in stored.runs)
            raise RequestError(f"{str(path)!r} contains the runs of `eval all`; open one of them: {inside}")
        return cls(Path(path), stored.runs[0].summary)

    @property
    def metrics(self) -> Mapping[str, MetricSummary]:
        """The mean of each metric with a 95% interval, and how many samples were scored, failed, or not applicable."""
        return self.summary.metrics

    @property
    def manifest(self) -> RunManifest:
        """The specs, prompts, data and versions of the run."""
        return RunManifest.model_validate_json((self.path / "manifest.json").read_bytes())

    def samples(self) -> Iterator[Sample]:
        """Return the samples, which contain the answers of the system, in the order of the data."""
        from turnmark.evaluation.report.finished_runs import samples

        return samples(self.path)

    def to_pandas(self) -> pd.DataFrame:
        """Return a table with a row for each sample and a column for each metric; NaN where a metric has no value."""
        from turnmark.evaluation.report.finished_runs import scores

        samples = list(self.samples())
        rows = [
            {
                "id": sample.id, "repeat": sample.repeat, "domain": sample.domain, "status": sample.status,
                "query": sample.query, "prediction": sample.prediction, "decision": sample.decision,
            }
            for sample in samples
        ]  # fmt: skip
        by_sample = scores(self.path, [sample.key for sample in samples], self.metrics)
        scores_of = [by_sample[sample.key] for sample in samples]
        columns = {name: [one[name].value if name in one else None for one in scores_of] for name in self.metrics}
        return _pandas().DataFrame(rows).assign(**columns)

    def plot(self, metric: str | None = None) -> Plot:
        """Draw the mean of every metric with its 95% interval, as the report does; a notebook shows the drawing.

        Args:
            metric: draw this metric by what is asked, such as the domain and the turn; None: all metrics.
        """
        from turnmark.evaluation.report import tables
        from turnmark.evaluation.report.plots import Plot

        title = tables.headline(self.summary)
        if metric is None:
            return Plot(title, tables.means(self.summary))
        if metric not in self.metrics:
            raise RequestError(unknown_name("metric", metric, self.metrics))
        return Plot(f"{metric}, {title}", tables.breakdowns(self.summary, [metric]))

    def __str__(self) -> str:
        from turnmark.evaluation.report.output_formats import show_run

        return _print(lambda console: show_run(self.summary, self.path, console))

    def _repr_markdown_(self) -> str:
        from turnmark.evaluation.report.output_formats import markdown
        from turnmark.evaluation.report.overview import describe_run

        return markdown([describe_run(self.summary, self.path)])

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"


class Comparison:
    """A comparison of each run with the first run, over the same samples.

    Attributes:
        record: all figures, as `turnmark compare --json` prints them.
    """

    def __init__(self, record: RunComparison) -> None:
        self.record = record

    def to_pandas(self) -> pd.DataFrame:
        """Return a table with a row for each metric and each run except the first.

        Its columns include the difference, its 95% interval and the corrected p value.
        """
        names = {side.letter: side.name for side in self.record.runs}
        rows = [
            (name, names[of.run], of.n, *of.means, of.difference, *(of.ci95 or (None, None)), of.p_holm)
            for name, compared in self.record.metrics.items()
            for of in compared.changes
        ]
        columns = ["metric", "run", "n", "first", "mean", "difference", "low", "high", "p"]
        return _pandas().DataFrame(rows, columns=columns)

    def __str__(self) -> str:
        from turnmark.evaluation.comparison.comparison_tables import show_comparison

        return _print(lambda console: show_comparison(self.record, console))

    def _repr_markdown_(self) -> str:
        from turnmark.evaluation.comparison.comparison_tables import comparison_markdown

        return comparison_markdown(self.record)

    def __repr__(self) -> str:
        return f"Comparison({', '.join(side.name for side in self.record.runs)})"


def _pandas() -> Any:
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise RequestError("to_pandas needs a package that is not installed: pip install pandas") from None
    return pd


def evaluate(benchmark: str, assistant: Assistant | str = "extractive", **options: Any) -> Run:
    """Run a benchmark, or continue an interrupted run. The keywords are the flags of `turnmark eval`.

    Args:
        benchmark: `mtrag`, `mtrag-un`, `mtrag-s`, `inscoqa`, `compound-qa`, `kiwi`, or `python:module:attribute`.
        assistant: the assistant whose generator, retriever and steps are measured (the documents are the
            benchmark's); or a generator spec.
        options: flags without dashes, such as `setting="rag"`, `limit=20` or `live=True`. A setting of the assistant,
            such as `top_k`, replaces the one in its configuration. `out` is the run's folder; None:
            `runs/<benchmark>-<hash of everything that can change a result>`.
    """
    from turnmark.evaluation.runs.benchmark_run import run_plan
    from turnmark.evaluation.runs.planning import plan_run
    from turnmark.evaluation.runs.ray_workers import use_workers

    errors = ErrorCollector()
    fields = _config_fields(assistant, errors)
    if options.get("judge") and measures_judges(benchmark, options.get("task")):
        errors.add("judge: in this task the assistant's generator is the judge that is measured; leave out `judge`")
    request = request_from_keywords("eval", benchmark, options, fields, errors)
    opened = None if isinstance(assistant, str) else assistant.parts.generator
    finished = run_plan(use_workers(plan_run(request, errors, opened)))
    if finished.gave_up:
        raise TurnmarkError(
            f"{finished.summary.failed} samples failed; repeat the call to retry them and to run the skipped samples "
            f"({finished.folder})"
        )
    return Run(finished.folder, finished.summary)


def score(benchmark: str, predictions: str | Path | Sequence[str | Path], **options: Any) -> Run:
    """Score the predictions of another system, or of an earlier run. The keywords are the flags of `turnmark score`.

    Args:
        benchmark: as in `evaluate`.
        predictions: official prediction files, a run or its `predictions.jsonl`; for `task="retrieval"`, TREC runs.
        options: flags without dashes, such as `data="mt-rag-benchmark"`.
    """
    from turnmark.evaluation.runs.benchmark_run import run_plan
    from turnmark.evaluation.runs.planning import plan_run

    errors = ErrorCollector()
    files = [predictions] if isinstance(predictions, str | Path) else predictions
    request = request_from_keywords("score", benchmark, options, {"predictions": tuple(map(Path, files))}, errors)
    finished = run_plan(plan_run(request, errors))
    return Run(finished.folder, finished.summary)


def _derive_signature(function: Callable[..., Run], command: Literal["eval", "score"]) -> None:
    """Show the derived keywords in `help()` and in editors that run the module."""
    own = inspect.signature(function)
    fixed = [parameter for parameter in own.parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD]
    derived = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=flag.default, annotation=flag.field.annotation)
        for name, flag in keywords(command).items()
    ]
    function.__signature__ = own.replace(parameters=[*fixed, *derived])  # type: ignore[attr-defined]


_derive_signature(evaluate, "eval")
_derive_signature(score, "score")


def compare(runs: Sequence[Run | str | Path], missing: Literal["leave-out", "zero"] = "leave-out") -> Comparison:
    """Compare each finished run with the first one, over the samples that both have.

    Args:
        runs: at least two runs, or their folders.
        missing: what to do with a sample that one of the two runs lacks or failed on. `leave-out` ignores it; `zero`
            counts it as 0 in that run.
    """
    from turnmark.evaluation.comparison.run_comparison import compare_runs

    paths = [run.path if isinstance(run, Run) else Path(run) for run in runs]
    return Comparison(compare_runs(paths, missing))


def _config_fields(assistant: Assistant | str, errors: ErrorCollector) -> dict[str, Any]:
    """Return the fields of a request that come from the assistant's configuration.

    A generator or retriever given as an object is an error, since a manifest stores specs.
    """
    if isinstance(assistant, str):
        return {"generator": assistant}
    for role in assistant.objects:
        errors.add(
            f"assistant: its {role} is an object, but a run stores specs; open the assistant with "
            f"{role}='python:your.module:factory' to evaluate it"
        )
    from turnmark.retrieval.search.retriever_factory import default_retriever

    config, index = assistant.config, assistant.index
    fields = {
        "generator": config.generator if "generator" not in assistant.objects else "extractive",
        "top_k": config.top_k,
        "tokens": config.tokens,
        "prompts": config.prompts,
        "steps": config.steps,
    }
    if "retriever" not in assistant.objects and index is not None:
        fields["retriever"] = config.retriever or default_retriever(index)
    if index is not None and index.manifest.embedder is not None:
        fields["embedder"] = index.manifest.embedder.spec
    return fields


def _print(show: Callable[[Console], None]) -> str:
    """Return what `show` draws on a console, as text without colors."""
    from rich.console import Console

    text = StringIO()
    show(Console(file=text, width=120, force_jupyter=False, force_terminal=False))
    return text.getvalue()
