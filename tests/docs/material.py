"""The files and runs that the examples of the pages begin with: each made once, and by the product where it can."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conftest import DEMO
from tests.evaluation.rated import PROPERTIES, ratings

if TYPE_CHECKING:
    from tests.docs.scene import Scene

Maker = Callable[["Scene", Path], object]

NOTES = ("handbook/sourdough-*.md", "handbook/bees-*.md", "handbook/*knife*.md", "almanac/stack-nell-*.md")
"""Enough documents to find something in, few enough to be embedded at once."""
QUESTIONS = "How do I keep a sourdough starter?\nWho won the 1998 World Cup?\n"
ONE_QUESTION = QUESTIONS.splitlines()[0]
SCORED = 4
"""So many answers are in a file of them."""
PREFERENCES = {"A > B": 1.0, "A = B": 0.5, "B > A": 0.0}
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
    """A folder of notes."""
    for pattern in NOTES:
        for path in DEMO.joinpath("documents").glob(pattern):
            (target / path.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target / path.parent.name)


def _texts(name: str) -> list[tuple[str, str]]:
    """Each task of a demo split with its reference answer."""
    if name == "inscoqa":
        return [(row["id"], row["answer"]) for row in rows(DEMO / "inscoqa" / "test.jsonl")]
    split = {"mtrag": "mtrag-human", "mtrag-un": "mtragun-human"}[name]
    tasks = rows(DEMO / "mt-rag-benchmark" / split / "generation_tasks" / "reference.jsonl")
    return [(row["task_id"], row["targets"][0]["text"]) for row in tasks]


def answers(name: str, words: int = 30) -> Maker:
    """A few answers of a system that begins as the reference does, and says no more than so many words."""

    def make(_: Scene, target: Path) -> None:
        replies = [(task, " ".join(text.split()[:words]) or "I don't know.") for task, text in _texts(name)]
        write_rows(target, [{"id": task, "prediction": text} for task, text in replies[:SCORED]])

    return make


def evaluated(*words: str) -> Maker:
    """The folder of a finished run of `turnmark eval WORDS`."""
    return lambda scene, target: scene.fine("eval", *words, "--out", target)


def scored(name: str, *words: str) -> Maker:
    """The folder of a finished run of `turnmark score mtrag` on a file of answers."""

    def make(scene: Scene, target: Path) -> None:
        scene.bring(name, target.parent)
        scene.fine("score", "mtrag", "--predictions", target.parent / name, *words, "--out", target)

    return make


def rated(run: str, scale: Mapping[str, float], names: Sequence[str]) -> Maker:
    """The answers of a run as three people rated them, in InspectorRAGet's format."""

    def make(scene: Scene, target: Path) -> None:
        scene.bring(run, target.parent)
        text = (target.parent / run / "predictions.jsonl").read_text("utf-8")
        answers = [json.loads(line) for line in text.splitlines()]
        values = [{"value": name, "numeric_value": number} for name, number in scale.items()]
        content: dict[str, Any] = {
            "models": [{"model_id": run}],
            "metrics": [{"name": name, "author": "human", "type": "categorical", "values": values} for name in names],
            "tasks": [{"task_id": answer["id"]} for answer in answers],
            "evaluations": [],
        }
        for number, answer in enumerate(answers):
            people = ratings(1 + number % 4, number % 2)
            if len(scale) == len(PREFERENCES):
                people = {name: {"value": list(scale)[(number + n // 2) % 3]} for n, name in enumerate(people)}
            content["evaluations"].append({
                "task_id": answer["id"], "model_id": run, "model_response": answer["prediction"],
                "annotations": dict.fromkeys(names, people),
            })  # fmt: skip
        target.write_text(json.dumps(content), encoding="utf-8")

    return make


def _run(scene: Scene, target: Path) -> None:
    """A TREC run of both domains."""
    scene.fine("eval", "mtrag", "--task", "retrieval", "--query", "last-turn", "--out", target.with_suffix(""))
    shutil.copy(target.with_suffix("") / "run.trec", target)


def _corpus(_: Scene, target: Path) -> None:
    """Twelve rows of a BEIR corpus."""
    lines = (DEMO / "mt-rag-benchmark/corpora/passage_level/almanac.jsonl").read_text("utf-8").splitlines(True)
    target.write_text("".join(lines[:12]), encoding="utf-8")


def _synthetic(scene: Scene, target: Path) -> None:
    """Two conversations that a model wrote."""
    spec = f"openai:tiny@{scene.server.url}"
    scene.fine("synth", "mtrag", "--index", "notes", "--n", "2", "--turns", "3", "--generator", spec, "--out", target)


def _exported(scene: Scene, target: Path) -> None:
    """What a chat exports."""
    scene.fine("chat", "--index", "notes", "--no-save", stdin=f"{ONE_QUESTION}\n/rate good\n/export mtrag {target}\n")


def _clone(_: Scene, target: Path) -> None:
    """The demo split with a file of found passages, as the repository has one for each setting that searches."""
    shutil.copytree(DEMO / "mt-rag-benchmark", target)
    tasks = target / "mtrag-human/generation_tasks"
    shutil.copy(tasks / "reference.jsonl", tasks / "RAG.jsonl")


def _of_demo(name: str) -> Maker:
    return lambda _, target: shutil.copytree(DEMO / name, target)


MATERIAL: dict[str, Maker] = {
    "documents": documents,
    "corpus.jsonl": _corpus,
    "questions.txt": lambda _, target: target.write_text(QUESTIONS, encoding="utf-8"),
    "my_retrievers.py": lambda _, target: target.write_text(BEES, encoding="utf-8"),
    "mt-rag-benchmark": _clone,
    "inscoqa": _of_demo("inscoqa"),
    "compound-qa": _of_demo("compound-qa"),
    "kiwi": _of_demo("kiwi"),
    "answers.jsonl": answers("mtrag-un"),
    "claude.jsonl": answers("mtrag-un"),
    "llama.jsonl": answers("mtrag-un", words=8),
    "mtrag.jsonl": answers("mtrag"),
    "short.jsonl": answers("mtrag", words=8),
    "gpt-4o.jsonl": answers("mtrag"),
    "inscoqa.jsonl": answers("inscoqa"),
    "run.trec": _run,
    "elser_rewrite.trec": _run,
    "elser_clapnq_rewrite.trec": _run,
    "runs/a": scored("mtrag.jsonl"),
    "runs/b": scored("short.jsonl"),
    "runs/rag": evaluated("mtrag", "--setting", "rag", "--limit", "3"),
    "runs/reference": evaluated("mtrag", "--limit", "3"),
    "runs/reference+rag": evaluated("mtrag", "--setting", "reference+rag", "--limit", "3"),
    "runs/judged": evaluated("compound-qa", "--limit", "3", "--judge", "openai:tiny"),
    "human_evaluations.json": rated("runs/a", {str(score): float(score) for score in range(1, 5)}, PROPERTIES),
    "people.json": rated("runs/judged", PREFERENCES, ["preference"]),
    "synth/mtrag": _synthetic,
    "exported": _exported,
}
"""Path in the working folder of an example -> what makes it."""
MATERIAL["mt-rag-benchmark/mtrag-human/evaluations/reference_subset_with_human_evaluations.json"] = MATERIAL[
    "human_evaluations.json"
]


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write_rows(target: Path, lines: Sequence[Mapping[str, object]]) -> None:
    """A file of JSON lines."""
    target.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
