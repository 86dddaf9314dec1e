"""Two systems are two rows: runs and files of answers that have one name, and runs over other samples."""

from __future__ import annotations

import json
from pathlib import Path

from tests.evaluation import judged_runs as mtrag
from tests.servers import ScriptedServer
from turnmark.evaluation.report.finished_runs import distinct_names


def test_names_are_just_long_enough_to_be_distinct():
    paths = [Path(path) for path in ("x/a/run", "x/b/run", "y/a/run", "other")]
    assert distinct_names(paths) == ["x/a/run", "b/run", "y/a/run", "other"]
    assert distinct_names(paths[:2]) == ["a/run", "b/run"]
    assert distinct_names([Path("all/kiwi")], [2]) == ["all/kiwi"]
    assert distinct_names([Path("run"), Path("run")]) == distinct_names([Path("run")]) * 2


def score_both(turnmark, root, tmp_path, name, texts, *words, metrics="rb_llm,rl_f,idk"):
    """Runs of answers that lie in files of the same name, in `reference` and in `rag`."""
    runs = []
    with ScriptedServer(mtrag.judge()) as server:
        for system, (setting, answers) in texts.items():
            (tmp_path / system).mkdir(parents=True, exist_ok=True)
            file = mtrag.official(tmp_path / system / name, answers)
            runs.append(tmp_path / system / "run")
            common = ["--data", root, "--predictions", file, "--setting", setting, "--out", runs[-1], *words]
            turnmark.ok("score", "mtrag", *common, "--judge", mtrag.spec_of(server).replace("rb_llm,rl_f,idk", metrics))
    return runs


def rows_of(turnmark, tmp_path, *runs):
    """The names of our rows in Table 5 of a report."""
    turnmark.ok("report", *runs, "--markdown", tmp_path / "r.md")
    table = (tmp_path / "r.md").read_text().partition("### As MTRAG Table 5")[2].partition("### ")[0]
    return [line.split("|")[1].strip(" *") for line in table.splitlines() if line.startswith("| **")]


def test_two_systems_with_the_same_file_name_get_two_rows(benchmark_root, turnmark, tmp_path):
    other = {name: f"{text} Indeed." for name, text in mtrag.ANSWERS.items()}
    texts = {"gpt": ("reference", mtrag.ANSWERS), "llama": ("rag", other)}
    runs = score_both(turnmark, benchmark_root, tmp_path, "answers.jsonl", texts)
    specs = [json.loads((run / "summary.json").read_text())["specs"]["predictions"] for run in runs]
    assert specs[0] != specs[1]
    assert all(spec.startswith("answers.jsonl (") for spec in specs)
    assert rows_of(turnmark, tmp_path, *runs) == ["gpt/run", "llama/run"]
    out = turnmark.ok("report", *runs).out
    assert "gpt/run: mtrag generation (reference)" in " ".join(out.split())
    compared = turnmark.json("compare", *runs)
    assert compared["differs"]["specs.predictions"] == specs


def test_same_answers_share_a_row_across_settings_but_not_across_tasks(benchmark_root, turnmark, tmp_path):
    texts = {"one": ("reference", mtrag.ANSWERS), "two": ("rag", mtrag.ANSWERS)}
    runs = score_both(turnmark, benchmark_root, tmp_path, "answers.jsonl", texts, metrics="idk")
    assert rows_of(turnmark, tmp_path, *runs) == ["these runs"]
    (third,) = score_both(
        turnmark, benchmark_root, tmp_path, "answers.jsonl", {"three": texts["two"]},
        "--domains", "clapnq,fiqa", metrics="idk",
    )  # fmt: skip
    ours, theirs = (json.loads((run / "summary.json").read_text())["samples"] for run in (runs[0], third))
    assert ours["domain=clapnq"] == theirs["domain=clapnq"]
    assert ours["all"] != theirs["all"]
    assert rows_of(turnmark, tmp_path, runs[0], third) == ["one/run", "three/run"]
