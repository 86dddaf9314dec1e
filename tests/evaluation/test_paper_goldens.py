"""Every table of a paper with a run in it: on the terminal, in Markdown, and on the page, from one `turnmark report`.

The runs are small ones, made here by commands; only a language model's replies are scripted. After a change that is
meant: TURNMARK_UPDATE_GOLDEN=1 pytest …
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lxml import html  # type: ignore[import-untyped]

from tests.evaluation import instructions as inscoqa
from tests.evaluation import judged_runs as mtrag
from tests.evaluation.kiwis import four_turns, session, turn, written
from tests.evaluation.reported import golden
from tests.servers import ScriptedServer
from turnmark.corpora.benchmarks import compound_qa


@pytest.fixture(autouse=True)
def _keys_and_width(turnmark, monkeypatch):  # its own width is another
    monkeypatch.setenv("COLUMNS", "80")


def paper(text, mark):
    """What stands from the first of the paper's tables on, up to the breakdowns, what was spent, or the next run."""
    begin = text.index(f"{mark}As ")
    words = (f"{mark}By what is asked", f"{mark}Used\n", f"{mark}seconds:", "\n\nmtrag ", "\n## mtrag ")
    ends = [index for word in words if (index := text.find(word, begin)) > 0]
    return "".join(f"{line.rstrip()}\n" for line in text[begin : min(ends, default=len(text))].splitlines())


def check(turnmark, name, *runs):
    """The golden files of these runs, and the same tables on the page."""
    text, page = runs[0].parent / f"{name}.md", runs[0].parent / f"{name}.html"
    ran = turnmark("report", *runs, "--markdown", text, "--html", page)
    assert (ran.code, ran.err) == (0, "")
    printed, written = paper(ran.out, "\n"), paper(text.read_text(encoding="utf-8"), "### ")
    assert max(map(len, printed.splitlines())) <= 80, printed
    golden(f"papers/{name}.txt", printed)
    golden(f"papers/{name}.md", written)
    for table in written.split("### As ")[1:]:
        lines = [line.replace("&emsp;", "") for line in table.splitlines() if line.startswith("|")]
        rows = [[cell.strip(" *") for cell in line.split("|")] for line in lines]
        assert "n" in rows[0] or any("n" in row[1:3] for row in rows), table
    tree = html.fromstring(page.read_text(encoding="utf-8"))
    titles = [line.removeprefix("### ") for line in written.splitlines() if line.startswith("### As ")]
    drawn = [element for element in tree.xpath("//summary") if element.text_content().startswith("As ")]
    assert [element.text_content() for element in drawn][: len(titles)] == titles
    for heading in drawn:
        (table,) = heading.xpath("following-sibling::div[@class='box'][1]/table")
        rows = table.xpath("./tbody/tr")
        assert {len(row) for row in rows} == {len(table.xpath("./thead/tr/th"))}
        assert rows[0].get("class") in ("ours", "group", "dim", "plain")
        assert "ours" in {row.get("class") for row in rows}
        assert all(("†" in row.text_content()) == (row.get("class") == "dim") for row in rows)
        legend = heading.xpath("following-sibling::p[@class='under'][1]")
        assert any("†" in row.text_content() for row in rows) == any("†" in line.text_content() for line in legend)


def test_mtrag_retrieval(turnmark, benchmark_root, tmp_path):
    runs = [tmp_path / mode for mode in ("last-turn", "rewrite")]
    for run in runs:
        words = "eval mtrag --task retrieval --retriever bm25 --query".split()
        ran = turnmark.ok(*words, run.name, "--data", benchmark_root, "--out", run)
        assert ran.out.count("As MTRAG Table") == 1
        assert "By what is asked" not in ran.out
    check(turnmark, "mtrag_retrieval", runs[1])
    check(turnmark, "mtrag_retrieval_two", *runs)
    text, page = tmp_path / "c.md", tmp_path / "c.html"
    ran = turnmark.ok("compare", *runs, "--markdown", text, "--html", page)
    for printed in (ran.out, html.fromstring(page.read_text(encoding="utf-8")).text_content()):
        assert printed.index("A last-turn", printed.index("As MTRAG Table 3")) < printed.index("(rerun)")
    assert "| **A last-turn** | **Last Turn** |" in text.read_text(encoding="utf-8")
    assert "| **B rewrite** | **Query Rewrite** |" in text.read_text(encoding="utf-8")


def test_mtrag_answers(turnmark, benchmark_root, tmp_path):
    file = mtrag.official(tmp_path / "x.jsonl", mtrag.ANSWERS)
    runs = [tmp_path / setting for setting in ("reference", "rag")]
    with ScriptedServer(mtrag.judge()) as server:
        for run in runs:
            words: list[str | Path] = ["--data", benchmark_root, "--predictions", file, "--setting", run.name]
            turnmark.ok("score", "mtrag", *words, "--judge", mtrag.spec_of(server), "--out", run)
    check(turnmark, "mtrag_answers", runs[0])
    check(turnmark, "mtrag_settings", *runs)


def test_inscoqa(turnmark, tmp_path):
    file = inscoqa.predicted(tmp_path / "x.jsonl", a=["Light it.", "Bake it."], b=["Light it."])
    words: list[str | Path] = ["--data", inscoqa.source(tmp_path), "--predictions", file, "--out", tmp_path / "run"]
    with ScriptedServer(inscoqa.judge(6, 75)) as server:
        turnmark.ok("score", "inscoqa", *words, "--judge", f"openai:org/Judge-7B@{server.url}")
    check(turnmark, "inscoqa", tmp_path / "run")


def test_compound_qa(turnmark, tmp_path):
    root = shutil.copytree(compound_qa.DEMO_ROOT, tmp_path / "compound-qa")
    # Table 3 is over questions of three parts about a text; the demo has such questions without one.
    knowledge, understanding = (
        root / f"data/{name}/{name}_Factual_Statement.jsonl" for name in ("Knowledge", "Understanding")
    )
    understanding.write_bytes(knowledge.read_bytes())
    with ScriptedServer(mtrag.compound_replies) as server:
        spec = f"openai:tiny@{server.url}?cache=0"
        references = tmp_path / "dialogue"
        common: list[str | Path] = ["eval", "compound-qa", "--data", root]
        turnmark.ok(*common, "--generator", spec.replace("tiny", "refs"), "--setting", "dialogue", "--out", references)
        judged: list[str | Path] = ["--references", references, "--judge", spec.replace("tiny", "judge")]
        for setting in ("vanilla", "positions"):
            turnmark.ok(*common, "--generator", spec, "--setting", setting, *judged, "--out", tmp_path / setting)
    check(turnmark, "compound_qa", tmp_path / "vanilla")
    check(turnmark, "compound_qa_positions", tmp_path / "positions")


def test_kiwi(turnmark, tmp_path):
    ratings = ("good", "bad", "neutral", "good")
    turns = [turn(instruction=f"Remove sentence {index}.", rating=rating) for index, rating in enumerate(ratings)]
    written(tmp_path / "rated", *(session(*turns, original_question=f"What of lamp {index}?") for index in range(10)))
    turnmark.ok("eval", "kiwi", "--task", "judge", "--data", tmp_path / "rated", "--out", tmp_path / "rated-run")
    check(turnmark, "kiwi_judge", tmp_path / "rated-run")
    root = four_turns(tmp_path / "data").source.root
    for task in ("analyse", "revise"):
        turnmark.ok("eval", "kiwi", "--task", task, "--data", root, "--out", tmp_path / task)
        check(turnmark, f"kiwi_{task}", tmp_path / task)


def test_demo_data_is_not_compared_with_papers(turnmark, tmp_path):
    ran = turnmark.ok("eval", "kiwi", "--task", "analyse", "--out", tmp_path / "run", "--full")
    assert "By what is asked" in ran.out
    assert ran.out.count("As KIWI") > 1
    text, page = tmp_path / "r.md", tmp_path / "r.html"
    turnmark.ok("report", tmp_path / "run", "--markdown", text, "--html", page)
    for printed in (ran.out, text.read_text(encoding="utf-8"), page.read_text(encoding="utf-8")):
        assert "As KIWI Table 6" in printed
        assert "†" not in printed
        assert not [line for line in printed.splitlines() if "published" in line and "no published rows" not in line]
