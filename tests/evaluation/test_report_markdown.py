"""The report as Markdown: the whole of it, and nothing of the data read as markup."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from tests.evaluation.reported import SAMPLES, SUMMARY, golden, metric, write_run
from turnmark.evaluation.records import DataUsed, Summary
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.overview import overview, run_document
from turnmark.evaluation.report.rendering import escaped, markdown, show
from turnmark.evaluation.report.stored import Stored, StoredRun


def section(summary: Summary, run: Path) -> str:
    return markdown([run_document(summary, run, 3)])


GITHUB = MarkdownIt("gfm-like", {"html": True, "linkify": False})


def test_the_whole_report() -> None:
    text = section(SUMMARY, write_run(Path("runs/mtrag-0123456789ab")))
    assert "demo data" in text.split("\n")[0]
    golden("report.md", text)


def test_a_file_of_several_runs_begins_with_the_first_and_says_what_has_no_figures() -> None:
    folder = Path("all")
    runs = tuple(StoredRun(folder / name, SUMMARY) for name in ("a", "b"))
    stored = Stored(folder, runs, {"kiwi": "no | data"}, several=True)
    together = overview([stored])
    assert together is not None
    text = markdown([together, *(run_document(run.summary, run.path, 3) for run in runs)])
    assert "demo data" in text.split("\n")[0]
    assert text.index("### All runs") < text.index("## mtrag generation")
    assert text.count("## mtrag generation (rag) on demo data") == 2
    assert "kiwi: no figures: no \\| data" in text


EVIL = "a|b\n# heading `code` <script>alert(1)</script> <img src=x> **b** [t](http://x.y) ![i](u) ~~s~~ \\| &lt; _e_"


def test_texts_of_the_data_are_text(tmp_path: Path) -> None:
    published = SUMMARY.published[0].model_copy(update={"system": EVIL, "source": EVIL, "note": EVIL, "why": EVIL})
    summary = Summary(
        benchmark=EVIL, task=EVIL, setting=EVIL, data=DataUsed(name=EVIL, demo=False, fingerprint="f"), n=1, failed=1,
        metrics={EVIL: metric(0.5, 0.4, 0.6)}, breakdowns={EVIL: {EVIL: {EVIL: metric(0.5, 0.4, 0.6)}}},
        published=(published,),
        usage={EVIL: {"calls": 1.0}}, seconds={EVIL: 1.0}, notes=(EVIL,), specs={EVIL: EVIL},
    )  # fmt: skip
    failed = SAMPLES[2].model_copy(update={"kind": EVIL})
    text = section(summary, write_run(tmp_path / "r", summary, (failed,)))
    kinds = {child.type for token in GITHUB.parse(text) for child in token.children or ()}
    assert kinds == {"text", "strong_open", "strong_close"}
    html = GITHUB.render(text)
    for tag in ("<script", "<img", "<a ", "<code", "<em", "<s>", "<h1"):
        assert tag not in html
    assert html.count("<table>") == 3
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") == html.count("&lt;img src=x&gt;") >= 12


VISIBLE = st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"), exclude_characters="@\u3164\uffa0")
MARKS = st.sampled_from("|`*_~[]()<>&\\#!-+.123ab $:/w")


@given(st.text(VISIBLE, max_size=60) | st.text(MARKS, max_size=30))
def test_what_is_escaped_reads_as_it_stands(text: str) -> None:
    cell = MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(
        f"| a | b |\n| --- | --- |\n| x {escaped(text)} | y |"
    )
    inlines = [token for token in cell if token.type == "inline"]
    assert len(inlines) == 4
    children = inlines[2].children or []
    assert {child.type for child in children} <= {"text", "text_special"}
    assert "".join(child.content for child in children).split() == f"x {text}".split()


@pytest.mark.parametrize("text", ["- a", "+ a", "1. a", "12) a", "---", "===", "# a", "> a", "~~~", "```", "* a", "a"])
def test_no_line_begins_a_block(text: str) -> None:
    summary = SUMMARY.model_copy(update={"notes": ("n", text), "specs": {}, "published": (), "usage": {}})
    tokens = GITHUB.parse(section(summary, Path("nowhere")).split("### Notes\n\n")[1])
    assert [token.type for token in tokens][:5] == [
        "bullet_list_open", "list_item_open", "paragraph_open", "inline", "paragraph_close",
    ]  # fmt: skip
    assert tokens[3].children is not None
    assert "".join(child.content for child in tokens[3].children) == text


def test_names_call_nobody() -> None:
    assert escaped("recall@5") == "recall@5"
    assert escaped("@someone a@b.org") == "@<!-- -->someone a@<!-- -->b.org"


def test_what_a_judge_of_itself_makes_of_the_figures_is_said_first(tmp_path: Path) -> None:
    warning = "the judge openai:x is the model under test"
    summary = SUMMARY.model_copy(update={"warnings": (warning,), "notes": (*SUMMARY.notes, warning, "another note")})
    console = Console(width=100, file=io.StringIO(), color_system=None)
    show(summary, tmp_path, console)
    assert isinstance(console.file, io.StringIO)
    for text in (section(summary, tmp_path), console.file.getvalue()):
        assert text.count(warning) == 1
        assert text.index(warning) < text.index(tables.headline(summary).split(" ")[1])
        assert "another note" in text
