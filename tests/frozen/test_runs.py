"""Small frozen runs of every task, so that a change of `eval` or `score` cannot change a result unnoticed.

Each run is repeated on the demo data, without a model or with a scripted one, and compared with its file in `runs/`:
the parts of the run's id, the samples, the lines of `scores.jsonl`, and the figures of `summary.json`. Times,
versions, token counts and hashes of prompts are left out. Numbers are rounded to six digits and may differ in the last
one, since processors differ in the last bits.

After a deliberate change of results, `python -m tests.frozen.test_runs` rewrites the files; the commit says why.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ran, Turnmark
from tests.evaluation.rated import write_evaluation
from tests.run_checker import problems_of_run
from turnmark.assistant.config import AssistantConfig

FOLDER = Path(__file__).parent
FROZEN = FOLDER / "runs"
SCRIPTED = "replay:replies.jsonl"
"""A scripted model: any prompt gets the same plain reply."""
RATED = "replay:ratings.jsonl"
"""A scripted judge whose replies every rubric can parse."""

EVAL: dict[str, str] = {
    "mtrag-reference": "mtrag --sample 5 --judge embedded",
    "mtrag-reference-model": f"mtrag --sample 3 --generator {SCRIPTED}",
    "mtrag-reference-judge": f"mtrag --limit 2 --judge {RATED}?metrics=rb_llm,idk,rl_mtb",
    "mtrag-reference-rag": "mtrag --setting reference+rag --retriever bm25 --limit 3",
    "mtrag-rag": "mtrag --setting rag --retriever bm25 --sample 5 --counterfactual",
    "mtrag-rag-query": "mtrag --setting rag --retriever bm25 --limit 3 --query last-turn --repeat 2",
    "mtrag-paper": f"mtrag --protocol paper --limit 2 --generator {SCRIPTED}",
    "mtrag-targets": "mtrag --limit 3 --generator reference",
    "mtrag-retrieval": "mtrag --task retrieval --retriever bm25 --query rewrite --limit 6",
    "mtrag-retrieval-assistant": "mtrag --task retrieval --retriever bm25 --sample 6 --seed 3",
    "mtrag-retrieval-minimal": "mtrag --task retrieval --retriever bm25 --query minimal --limit 3 --generator "
    f"{SCRIPTED}",
    "mtrag-un": "mtrag-un --sample 5",
    "mtrag-un-rag": "mtrag-un --setting rag --retriever bm25 --limit 3",
    "mtrag-un-retrieval": "mtrag-un --task retrieval --retriever bm25 --query last-2 --limit 4",
    "mtrag-s": "mtrag-s --limit 4",
    "inscoqa-documents": "inscoqa --limit 3 --judge embedded",
    "inscoqa-prompt": f"inscoqa --setting prompt --limit 2 --generator {SCRIPTED}",
    "inscoqa-rag": "inscoqa --setting rag --retriever bm25 --limit 2",
    "compound-decompose": "compound-qa --sample 4",
    "compound-judge": "compound-qa --limit 2 --judge replay:pairs.jsonl",
    "compound-vanilla": f"compound-qa --setting vanilla --limit 2 --generator {SCRIPTED}",
    "compound-cot": f"compound-qa --setting cot --limit 2 --generator {SCRIPTED}",
    "compound-few-shot": f"compound-qa --setting few-shot --limit 2 --generator {SCRIPTED}",
    "compound-dialogue": "compound-qa --setting dialogue --limit 2",
    "compound-positions": "compound-qa --setting positions --limit 4",
    "kiwi-revise": "kiwi --limit 4 --judge embedded",
    "kiwi-chain": "kiwi --chain --limit 3",
    "kiwi-judge": "kiwi --task judge --judge embedded",
    "kiwi-judge-few-shot": "kiwi --task judge --setting few-shot --judge replay:verdicts.jsonl",
    "kiwi-analyse": "kiwi --task analyse --limit 5",
}
SCORE: dict[str, str] = {
    "score-official": "mtrag-un --setting rag --predictions official.jsonl",
    "score-ours": "inscoqa --predictions ours.jsonl",
    "score-trec": "mtrag --task retrieval --predictions run.trec",
}
TIMED = ("timings", "usage")
SCRIPTS = (
    *("replies.jsonl", "ratings.jsonl", "verdicts.jsonl", "pairs.jsonl"),
    *("official.jsonl", "ours.jsonl", "run.trec"),
)


def rounded(value: Any) -> Any:
    """Round every number in a value to six decimal places."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list) else value


def alike(first: Any, second: Any) -> bool:
    """Return whether two values are equal, allowing for rounding differences between processors."""
    if isinstance(first, float) and isinstance(second, float):
        return abs(first - second) < 5e-6
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(alike, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return list(first) == list(second) and all(alike(first[key], second[key]) for key in first)
    return bool(first == second)


def opened(frozen: Any) -> Any:
    """Convert a frozen line to the current format: older manifests call the assistant's `top_k` `passages`."""
    if isinstance(frozen, dict) and frozen.get("assistant"):
        config = AssistantConfig.model_validate(frozen["assistant"])
        return {**frozen, "assistant": config.model_dump(mode="json")}
    return frozen


def lines_of(run: Path) -> Iterator[str]:
    """Yield the frozen content of a run as lines of JSON."""
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    inputs = {name: content for name, content in manifest["inputs"].items() if not name.startswith("prompt ")}
    left_out = ("version", "versions", "makers", "judge_prompts", "prompts", "command", "started", "ended", "inputs")
    yield json.dumps({name: value for name, value in manifest.items() if name not in left_out} | {"inputs": inputs})
    for text in (run / "predictions.jsonl").read_text(encoding="utf-8").splitlines():
        sample = {name: value for name, value in json.loads(text).items() if name not in TIMED and value}
        yield json.dumps(rounded(sample), ensure_ascii=False)
    for text in (run / "scores.jsonl").read_text(encoding="utf-8").splitlines():
        yield json.dumps(list(rounded(json.loads(text)).values()), ensure_ascii=False)
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    for name, metric in summary["metrics"].items():
        metric.pop("shown", None)  # its display is not a result
        yield json.dumps([name, *rounded(metric).values()])
    for dimension, values in summary["breakdowns"].items():
        for value, metrics in values.items():
            yield json.dumps([dimension, value, {name: rounded(summed)["mean"] for name, summed in metrics.items()}])
    yield json.dumps([summary["n"], summary["failed"], summary["skipped"], list(summary["seconds"])])
    yield json.dumps([
        [row["system"], row["comparable"], row["differs"]] for row in summary["published"]
    ])  # fmt: skip
    files = sorted(path.name for path in run.iterdir() if not path.name.startswith("."))
    yield json.dumps(files)


def arguments(name: str) -> list[str]:
    """Return the command of a run."""
    if name in SCORE:
        return ["score", *SCORE[name].split(), "--json"]
    return ["eval", *EVAL[name].split(), "--concurrency", "1", "--json"] if not _retrieves(name) else [
        "eval", *EVAL[name].split(), "--json"
    ]  # fmt: skip


def _retrieves(name: str) -> bool:
    return "--task retrieval" in EVAL[name] and "minimal" not in EVAL[name]


def make(name: str, command: Callable[..., Any]) -> list[str]:
    """Repeat a run in the working folder; the command chooses the run's own folder."""
    ran = command(*arguments(name))
    assert ran.code == 0, ran.err
    run = Path(json.loads(ran.out)["run"])
    assert problems_of_run(run) == []
    assert run.parent == Path("runs")
    return list(lines_of(run))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make one home for all runs, so that each index is built only once."""
    return tmp_path_factory.mktemp("frozen-home")


@pytest.fixture
def folder(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a working folder with the scripts and files that the commands name."""
    for name in SCRIPTS:
        shutil.copy(FOLDER / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TURNMARK_HOME", str(home))
    return tmp_path


@pytest.mark.parametrize("name", [*EVAL, *SCORE])
def test_run_is_unchanged(name: str, folder: Path, turnmark: Turnmark) -> None:
    lines = make(name, turnmark)
    frozen = (FROZEN / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(frozen)
    assert [
        (new, old)
        for new, old in zip(lines, frozen, strict=True)
        if not alike(json.loads(new), opened(json.loads(old)))
    ] == []


def reports(turnmark: Callable[..., Any]) -> dict[str, Any]:
    """Return a comparison of two runs, and the agreement of metrics with human ratings."""
    runs = []
    for retriever in ("bm25", "bm25?b=0.1"):
        ran = turnmark(
            "eval", "mtrag", "--task", "retrieval", "--retriever", retriever, "--out", retriever[-3:], "--json"
        )
        assert ran.code == 0, ran.err
        runs.append(retriever[-3:])
    compared = turnmark("compare", *runs, "--json")
    agreed = turnmark("agreement", write_evaluation(Path("human.json")), "--json")
    assert (compared.code, agreed.code) == (0, 0), compared.err + agreed.err
    return {"compare": json.loads(compared.out), "agreement": json.loads(agreed.out)}


def frozen_report(report: Any) -> Any:
    """Remove the fields with folders, times or versions."""
    if isinstance(report, dict):
        left_out = ("path", "started", "ended", "command", "version", "seconds", "shown")
        return {key: frozen_report(value) for key, value in report.items() if key not in left_out}
    return [frozen_report(part) for part in report] if isinstance(report, list) else rounded(report)


def test_comparison_and_agreement_are_unchanged(folder: Path, turnmark: Turnmark) -> None:
    records = reports(turnmark)
    for name, report in records.items():
        assert frozen_report(report) == json.loads((FROZEN / f"{name}.json").read_text(encoding="utf-8"))


def freeze(names: Sequence[str]) -> None:
    """Rewrite files of `runs/`; "" stands for the comparison and the agreement."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TURNMARK_HOME"] = str(Path(folder, "home"))
        for name in names:
            work = Path(folder, name or "reports")
            shutil.copytree(FOLDER, work, ignore=shutil.ignore_patterns("runs", "*.py*"))
            os.chdir(work)
            if name:
                (FROZEN / f"{name}.jsonl").write_text("\n".join(make(name, in_process)) + "\n", encoding="utf-8")
                continue
            for report, content in reports(in_process).items():
                text = json.dumps(frozen_report(content), ensure_ascii=False)
                (FROZEN / f"{report}.json").write_text(text + "\n", encoding="utf-8")


def in_process(*words: str | Path) -> Ran:
    """Run the command line in this process and capture its output."""
    from turnmark.cli import main

    sys.argv = ["turnmark", *map(str, words)]
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            main()
            code = 0
        except SystemExit as left:
            code = int(left.code or 0)
    return Ran(code, out.getvalue(), err.getvalue())


if __name__ == "__main__":
    freeze(sys.argv[1:] or [*EVAL, *SCORE, ""])
