"""Reports as text: what the tables choose, Markdown, the command as it is typed, and all of it at 80 columns.

After a change that is meant: TURNMARK_UPDATE_GOLDEN=1 pytest …
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from tests.conftest import ROOT
from tests.evaluation.reported import DEMO, SAMPLES, SUMMARY, golden, metric, write_run
from turnmark.core.errors import RequestError
from turnmark.core.home import write_json
from turnmark.core.untrusted import escape_cell
from turnmark.evaluation.metric_style import MetricStyle
from turnmark.evaluation.records import DataUsed, MetricSummary, PublishedRow, Summary
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.finished_runs import RunCollection, StoredRun, read_run, scores, why_not_done
from turnmark.evaluation.report.metric_meanings import metric_meaning
from turnmark.evaluation.report.output_formats import draw, markdown, show_report, show_run
from turnmark.evaluation.report.overview import describe_run, overview
from turnmark.evaluation.report.plots import round_scale


def test_metrics_are_chosen_by_their_rank_and_those_without_values_last():
    def ranked(mean, rank):
        return metric(mean).model_copy(update={"shown": MetricStyle(headline=rank)})

    assert tables.choose_headline(SUMMARY.metrics, 2) == ["rouge_l.word", "k_precision"]
    metrics = {"a": ranked(None, 1), "b": ranked(3.0, 2), "odd": metric(1.0)}
    assert tables.choose_headline(metrics, 3) == ["b", "a"]
    assert tables.choose_headline({"a[embedded]": ranked(1.0, 1), "x": metric(1.0)}, 3) == ["a[embedded]"]
    assert tables.choose_headline({"a": ranked(1.0, 2), "a[embedded]": ranked(1.0, 1)}, 3) == ["a"]
    assert tables.choose_headline({"odd": metric(1.0), "odd[lead]": metric(1.0)}, 3) == ["odd"]
    assert tables.choose_headline({}, 3) == []


def test_scores_are_found_in_any_order(stored_run):
    path = stored_run / "scores.jsonl"
    path.write_text("torn\n" + "".join(reversed(path.read_text().splitlines(keepends=True))), encoding="utf-8")
    keys = [SAMPLES[4].key, SAMPLES[0].key]
    scores_of = scores(stored_run, keys, ["answer_words"])
    assert {key: score["answer_words"].value for key, score in scores_of.items()} == {keys[0]: 1400.0, keys[1]: 4.0}


def test_unreadable_lines_are_counted(stored_run):
    before = list(why_not_done(stored_run))
    path = stored_run / "predictions.jsonl"
    path.write_text("torn\n\n{}\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert list(why_not_done(stored_run)) == [*before, "2 lines of predictions.jsonl cannot be read and are left out"]


@pytest.mark.parametrize("name", ["../run", "/etc", "a/b", "..", ""])
def test_names_in_a_summary_stay_inside_the_folder(tmp_path, name):
    write_run(tmp_path / "run")
    write_json(tmp_path / "all/summary.json", {name: SUMMARY.model_dump(mode="json"), "b": {"n": 1}})
    with pytest.raises(RequestError) as caught:
        read_run(tmp_path / "all")
    assert f"benchmark {name!r}: use up to 100 letters" in caught.value.problems[0]
    assert "benchmark 'b', field " in caught.value.problems[1]


FINITE = st.floats(-1e6, 1e6, allow_nan=False).filter(lambda value: value == 0 or abs(value) > 1e-6)


@given(st.lists(FINITE, max_size=8))
def test_scale_contains_all_values(values):
    plot_scale = round_scale(values)
    width = plot_scale.high - plot_scale.low
    assert width > 0
    assert 2 <= len(plot_scale.ticks) <= 9
    assert all(plot_scale.low - 1e-6 * width <= value <= plot_scale.high + 1e-6 * width for value in values)


def section(summary, run):
    return markdown([describe_run(summary, run)])


GITHUB = MarkdownIt("gfm-like", {"html": True, "linkify": False})


def test_report_matches_the_golden_file():
    text = section(SUMMARY, write_run(Path("runs/mtrag-0123456789ab")))
    assert "demo data" in text.split("\n")[0]
    golden("report.md", text)


EVIL = "a|b\n# heading `code` <script>alert(1)</script> <img src=x> **b** [t](http://x.y) ![i](u) ~~s~~ \\| &lt; _e_"


def test_texts_of_the_data_are_text(tmp_path):
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
def test_escaped_text_renders_as_the_original(text):
    cell = MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(
        f"| a | b |\n| --- | --- |\n| x {escape_cell(text)} | y |"
    )
    inlines = [token for token in cell if token.type == "inline"]
    assert len(inlines) == 4
    children = inlines[2].children or []
    assert {child.type for child in children} <= {"text", "text_special"}
    assert "".join(child.content for child in children).split() == f"x {text}".split()
    assert escape_cell("recall@5 @someone") == "recall@5 @<!-- -->someone", "a name of a metric calls nobody"


@pytest.mark.parametrize("text", ["- a", "+ a", "1. a", "12) a", "---", "===", "# a", "> a", "~~~", "```", "* a", "a"])
def test_escaped_lines_start_no_block(text):
    summary = SUMMARY.model_copy(update={"notes": ("n", text), "specs": {}, "published": (), "usage": {}})
    tokens = GITHUB.parse(section(summary, Path("nowhere")).split("### Notes\n\n")[1])
    assert [token.type for token in tokens][:5] == [
        "bullet_list_open", "list_item_open", "paragraph_open", "inline", "paragraph_close",
    ]  # fmt: skip
    assert tokens[3].children is not None
    assert "".join(child.content for child in tokens[3].children) == text


@pytest.fixture
def everything(tmp_path):
    """A folder of `eval all`."""
    write_run(tmp_path / "all/mtrag")
    entries = {"mtrag": SUMMARY.model_dump(mode="json"), "kiwi": {"skipped": "no data"}}
    write_json(tmp_path / "all/summary.json", entries)
    return tmp_path / "all"


def test_json_is_one_object(turnmark, stored_run, everything):
    ran = turnmark("report", stored_run, everything, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == {
        "runs": [
            {**SUMMARY.model_dump(mode="json"), "run": str(stored_run)},
            {**SUMMARY.model_dump(mode="json"), "run": str(everything / "mtrag")},
        ],
        "left_out": [{"run": str(everything), "benchmark": "kiwi", "skipped": "no data"}],
    }
    assert list(turnmark.json("report", stored_run, stored_run)) == ["runs"]
    assert len(turnmark.json("report", stored_run, stored_run)["runs"]) == 1


def test_folder_of_all_benchmarks_is_printed_and_written(turnmark, everything, tmp_path):
    page, text = tmp_path / "out/page.html", tmp_path / "out/text.md"
    ran = turnmark("report", everything, "--html", page, "--markdown", text)
    assert (ran.code, ran.err) == (0, "")
    assert "kiwi: no figures: no data" in ran.out
    assert f"written: {page}" in ran.out
    assert f"written: {text}" in ran.out
    for written in (page, text):
        assert "kiwi: no figures: no data" in written.read_text(encoding="utf-8")
    again = turnmark("report", everything, "--html", page, "--markdown", text, "--json")  # its own files
    assert (again.code, again.err) == (0, "")
    assert json.loads(again.out)["left_out"]


def test_reports_all_mistakes_of_a_report_request(turnmark, stored_run, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun/manifest.json").write_text("{}")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/summary.json").write_text('{"benchmark": 3}')
    predictions, note = stored_run / "predictions.jsonl", tmp_path / "note.md"
    note.write_text("my own notes")
    before = predictions.read_bytes()
    names = ("nowhere", "empty", "begun", "odd", "run/summary.json")
    wrong = ("--html", predictions, "--markdown", note, "--csv", note)
    ran = turnmark("report", *(tmp_path / name for name in names), stored_run, *wrong)
    assert (ran.code, ran.out) == (2, "")
    for pair in (
        "nowhere' does not exist; name the folder of a run", "empty' is not a run: it has no summary.json",
        "begun' has not ended (no summary.json)", "odd': summary.json, field benchmark: ", "field task: Field required",
        "run/summary.json' is a file; name the folder", "predictions.jsonl' already exists and is not a report",
        "note.md' already exists and is not a report", "is a file; name a folder",
    ):  # fmt: skip
        assert ran.err.count(pair) == 1, pair
    assert (predictions.read_bytes(), note.read_text()) == (before, "my own notes")


def test_hostile_names_are_printed_inert(turnmark, tmp_path):
    folder = write_run(tmp_path / "run[bold]\x1b[31m\u202e")
    ran = turnmark("report", folder, "--html", tmp_path / "p\x1b[31m.html")
    wrong = turnmark("report", tmp_path / "no\x1b[31m\u202e")
    assert (ran.code, wrong.code) == (0, 2)
    for text in (ran.out, ran.err, wrong.out, wrong.err):
        assert not {"\x1b", "\u202e"} & set(text)


# --- on a terminal ---------------------------------------------------------------------------------------------------


def written(out):
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


def drawn(summary, width=80, run=Path("runs/x")):
    out = io.StringIO()
    show_run(summary, run, Console(file=out, width=width, color_system=None, force_terminal=False))
    return written(out)


def test_prints_a_generation_run():
    text = drawn(SUMMARY, run=write_run(Path("runs/mtrag-0123456789ab")))
    assert max(map(len, text.split("\n"))) <= 80
    assert text.startswith(DEMO[:60])
    golden("report.txt", text)


def together(stored):
    out = io.StringIO()
    document = overview([stored])
    assert document is not None
    show_report(document, Console(file=out, width=80, color_system=None, force_terminal=False))
    return written(out)


def test_wide_table_is_split_without_cutting_values():
    heads = [tables.Column(f"m{index}", True, over=f"over {index // 3}") for index in range(15)]
    figures = [f"0.{index:02}{index:02}" for index in range(15)]
    rows = (
        tables.ReportRow(("a run", *figures), "ours"),
        tables.ReportRow(("a run of a very long name, published", *figures[:3], *["-"] * 12), "dim"),
    )
    table = tables.Table("Wide", (tables.Column("system"), *heads), rows, ("legend",), tight=True, narrow=True)
    console = Console(file=io.StringIO(), width=80)
    draw(table, console)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    for figure in figures:
        assert sum(figure in line.split() for line in lines) == (2 if figure in figures[:3] else 1), figure
    assert sum(line.startswith("a run ") and "0." in line for line in lines) >= 3, "named in each part"
    assert sum("published" in line for line in lines) == 1, "left out where it has no figure"
    assert sum("legend" in line for line in lines) == 1
    for over in range(5):
        assert sum(f"over {over}" in line for line in lines) == 1, "columns under one heading stay together"


def test_breakdowns_show_separate_counts_if_they_differ():
    """One count for all was the largest: a judged metric stood beside the n of one that nobody judges."""
    judged = {"rouge_l.word": metric(0.3, 0.2, 0.4, n=9), "rb_llm": metric(0.5, 0.4, 0.6, n=3), "rl_f": metric(None)}
    summary = SUMMARY.model_copy(update={"metrics": judged, "breakdowns": {"domain": {"clapnq": judged}}})
    names = list(judged)
    apart = tables.breakdowns(summary, names)
    assert [column.name for column in apart.columns].count("n") == 3
    assert apart.rows[1].cells == (
        "clapnq", "0.3000", "0.200-0.400", "9", "0.5000", "0.400-0.600", "3", "-", "-", "0",
    )  # fmt: skip
    together = tables.breakdowns(summary, ["rouge_l.word", "rl_f"])
    assert together.rows[1].cells == ("clapnq", "9", "0.3000", "0.200-0.400", "-", "-"), "none has no count"


def test_several_benchmarks_in_one_table():
    folder = Path("runs/all")
    real = DataUsed(name="mt-rag-benchmark", demo=False, fingerprint="f")
    other = SUMMARY.model_copy(update={"benchmark": "mtrag-un", "data": real, "setting": "reference", "failed": 0})
    runs = (StoredRun(folder / "mtrag", SUMMARY), StoredRun(folder / "mtrag-un", other))
    text = together(RunCollection(folder, runs, {"kiwi": "its [bold]data\x1b[31m are not there"}, several=True))
    assert max(map(len, text.split("\n"))) <= 80
    assert text.count("demo data: a small split") == 1
    assert "kiwi: no figures: its [bold]data are not there" in text
    golden("report_all.txt", text)


def test_texts_of_the_data_are_inert_on_a_terminal(tmp_path):
    evil = "[bold red]x[/]\x1b[31m\x1b]0;title\x07\u202e\u200b abc\r\nforged\u2028line [/nonsense]"
    metric = MetricSummary(mean=0.5, ci95=(0.4, 0.6), n=2, failed=1, not_applicable=0)
    empty = MetricSummary(mean=None, ci95=None, n=0, failed=3, not_applicable=0)
    row = PublishedRow(
        system=evil, metrics={"ndcg@5": 0.5}, source=evil, n=1, subset=evil, domains=(evil,), query=evil,
        comparable=True, slice="all",
    )  # fmt: skip
    summary = Summary(
        benchmark="mtrag", task="retrieval", data=DataUsed(name=evil, demo=False, fingerprint="f"), n=3, failed=1,
        metrics={"ndcg@5": metric, "recall@5": empty}, breakdowns={evil: {evil: {"ndcg@5": metric}}}, published=(row,),
        usage={evil: {"calls": 1}}, seconds={evil: 1.0}, notes=(evil,), specs={"retriever": evil},
    )  # fmt: skip
    failed = SAMPLES[2].model_copy(update={"kind": evil})
    text = drawn(summary, width=400, run=write_run(tmp_path / "r", summary, (failed,)))
    assert not {"\x1b", "\x07", "\r", "\u202e", "\u200b", "\u2028"} & set(text)
    assert "title" not in text
    # data, specs, reason, dimension, value, role, price, seconds, note
    assert text.count("[bold red]x[/] abc␤forged␤line [/nonsense]") == 9
    assert "3 queries, 1 failed" in text


def test_report_explains_each_metric_in_a_sentence(stored_run, turnmark):
    shown = turnmark.ok("report", str(stored_run), "--explain").out
    assert "rouge_l.word" in shown
    assert "longest common sequence of words" in " ".join(shown.split())
    assert "What the metrics mean" not in turnmark.ok("report", str(stored_run)).out


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("ndcg@5", "how high the relevant passages are among the first k, 1 if they come first"),
        ("rl_f[embedded].idk[embedded]",
         "share of the claims of the answer that its passages support; estimated without a model; where no answer "
         "exists, saying so counts as right; estimated without a model"),
        ("part_coverage.q1@2", "share of the sub-questions that the reply answers"),
        ("somebody's own", ""),
    ],
)  # fmt: skip
def test_variant_of_a_metric_has_its_meaning_and_that_of_its_endings(name, meaning):
    assert metric_meaning(name) == meaning


def test_every_metric_of_the_frozen_runs_has_a_meaning():
    rows = (
        json.loads(line)
        for path in (ROOT / "tests/frozen/runs").glob("*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    )
    names = {row[2] for row in rows if isinstance(row, list) and len(row) == 8 and isinstance(row[1], int)}
    assert len(names) > 60
    assert [name for name in sorted(names) if not metric_meaning(name)] == []
