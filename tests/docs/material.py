"""The files and runs that the examples of the pages start from. Each is made once, by the product if possible."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conftest import DEMO
from tests.evaluation.rated import PROPERTIES, ratings

if TYPE_CHECKING:
    from tests.docs.scene import Scene

Maker = Callable[["Scene", Path], object]

NOTES = ("handbook/sourdough-*.md", "handbook/bees-*.md", "handbook/*knife*.md", "almanac/stack-nell-*.md")
"""Enough documents to find something, and few enough to embed quickly."""
QUESTIONS = "How do I keep a sourdough starter?\nWho won the 1998 World Cup?\n"
ONE_QUESTION = QUESTIONS.splitlines()[0]
SCORED = 4
"""Number of answers in a file of answers."""
BEES = """
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode


class Bees(BaseRetriever):
    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=TextNode(text="Feed them syrup in September.", id_="bees"), score=1.0)]


def bees(index):
    return Bees()
"""


def documents(_: Scene | None, target: Path) -> None:
    """Copy a folder of notes."""
    for pattern in NOTES:
        for path in DEMO.joinpath("documents").glob(pattern):
            (target / path.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target / path.parent.name)
    (target / "costs.csv").write_text("Team,Item,Amount\nNorth,Train,120.50\nSouth,Hotel,80\n", encoding="utf-8")


def answers(name: str, words: int = 30) -> Maker:
    """Write a few answers of a system that repeats the first words of each reference answer."""

    def make(_: Scene | None, target: Path) -> None:
        tasks = rows(DEMO / "mt-rag-benchmark" / name / "generation_tasks" / "reference.jsonl")[:SCORED]
        texts = [" ".join(task["targets"][0]["text"].split()[:words]) or "I don't know." for task in tasks]
        lines = [{"id": task["task_id"], "prediction": text} for task, text in zip(tasks, texts, strict=True)]
        target.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    return make


def evaluated(*words: str) -> Maker:
    """Make the folder of a finished run of `turnmark eval WORDS`."""
    return lambda scene, target: scene.fine("eval", *words, "--out", target)


def scored(name: str, *words: str) -> Maker:
    """Make the folder of a finished run of `turnmark score mtrag` on a file of answers."""

    def make(scene: Scene, target: Path) -> None:
        scene.bring(name, target.parent)
        scene.fine("score", "mtrag", "--predictions", target.parent / name, *words, "--out", target)

    return make


def _rated(scene: Scene, target: Path) -> None:
    """Write ratings of the answers of a run by three people, in InspectorRAGet's format."""
    scene.bring("runs/a", target.parent)
    values = [{"value": str(score), "numeric_value": float(score)} for score in range(1, 5)]
    content: dict[str, Any] = {
        "models": [{"model_id": "a"}],
        "metrics": [{"name": name, "author": "human", "type": "categorical", "values": values} for name in PROPERTIES],
        "tasks": [],
        "evaluations": [],
    }
    for number, answer in enumerate(rows(target.parent / "runs/a/predictions.jsonl")):
        content["tasks"].append({"task_id": answer["id"]})
        content["evaluations"].append({
            "task_id": answer["id"], "model_id": "a", "model_response": answer["prediction"],
            "annotations": dict.fromkeys(PROPERTIES, ratings(1 + number % 4, number % 2)),
        })  # fmt: skip
    target.write_text(json.dumps(content), encoding="utf-8")


def _run(scene: Scene, target: Path) -> None:
    """Write a TREC run of both domains."""
    scene.fine("eval", "mtrag", "--task", "retrieval", "--query", "last-turn", "--out", target.with_suffix(""))
    shutil.copy(target.with_suffix("") / "run.trec", target)


def _corpus(_: Scene, target: Path) -> None:
    """Write twelve rows of a BEIR corpus."""
    lines = (DEMO / "mt-rag-benchmark/corpora/passage_level/almanac.jsonl").read_text("utf-8").splitlines(True)
    target.write_text("".join(lines[:12]), encoding="utf-8")


def _synthetic(scene: Scene, target: Path) -> None:
    """Let the model write two conversations."""
    spec = f"openai:tiny@{scene.server.url}"
    scene.fine("synth", "mtrag", "--index", "notes", "--n", "2", "--turns", "3", "--generator", spec, "--out", target)


def _exported(scene: Scene, target: Path) -> None:
    """Export a chat."""
    lines = (
        ONE_QUESTION,
        "/rate good",
        "/revise as a list please",
        f"/export mtrag {target}",
        f"/export kiwi {target}",
    )
    scene.fine("chat", "--index", "notes", "--no-save", stdin="\n".join(lines) + "\n")


def _clone(_: Scene, target: Path) -> None:
    """Copy the demo split with a file of retrieved passages, as the repository has one per setting with retrieval."""
    shutil.copytree(DEMO / "mt-rag-benchmark", target)
    tasks = target / "mtrag-human/generation_tasks"
    shutil.copy(tasks / "reference.jsonl", tasks / "RAG.jsonl")


def _of_demo(name: str) -> Maker:
    return lambda _, target: shutil.copytree(DEMO / name, target)


MATERIAL: dict[str, Maker] = {
    "documents": documents,
    "corpus.jsonl": _corpus,
    "my_retrievers.py": lambda _, target: target.write_text(BEES, encoding="utf-8"),
    "mine.csv": lambda _, target: target.write_text(f"question,facts\n{ONE_QUESTION},/starter/\n", encoding="utf-8"),
    "mt-rag-benchmark": _clone,
    "inscoqa": _of_demo("inscoqa"),
    "compound-qa": _of_demo("compound-qa"),
    "kiwi": _of_demo("kiwi"),
    "answers.jsonl": answers("mtragun-human"),
    "claude.jsonl": answers("mtragun-human"),
    "llama.jsonl": answers("mtragun-human", words=8),
    "mtrag.jsonl": answers("mtrag-human"),
    "short.jsonl": answers("mtrag-human", words=8),
    "gpt-4o.jsonl": answers("mtrag-human"),
    "run.trec": _run,
    "elser_clapnq_rewrite.trec": _run,
    "runs/a": scored("mtrag.jsonl"),
    "runs/b": scored("short.jsonl"),
    "runs/rag": evaluated("mtrag", "--setting", "rag", "--limit", "3"),
    "runs/reference": evaluated("mtrag", "--limit", "3"),
    "runs/reference+rag": evaluated("mtrag", "--setting", "reference+rag", "--limit", "3"),
    "human_evaluations.json": _rated,
    "synth/mtrag": _synthetic,
    "exported": _exported,
}
"""The maker of each path in the working folder of an example."""
MATERIAL["mt-rag-benchmark/mtrag-human/evaluations/reference_subset_with_human_evaluations.json"] = MATERIAL[
    "human_evaluations.json"
]


def rows(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
