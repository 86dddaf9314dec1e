"""`report.html`: the whole of it; nothing of the data becomes markup; memory that does not grow with the run."""

from __future__ import annotations

import base64
import hashlib
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from lxml import html

from evaluation.records import ContextRef, Sample, Summary
from evaluation.report import page
from evaluation.report.page import write_html, write_page
from evaluation.report.stored import read_run
from tests.evaluation.test_report_tables import DEMO, SAMPLES, SUMMARY, compare, run, write_run

__all__ = ["run"]


def parsed(path: Path) -> Any:
    return html.fromstring(path.read_text(encoding="utf-8"))


def rows(tree: Any) -> list[Any]:
    return list(tree.xpath("//table[@class='samples']/tbody/tr"))


def test_the_whole_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = write_run(Path("runs/mtrag-0123456789ab"))
    assert write_page(folder) == folder / "report.html"
    compare("report.html", (folder / "report.html").read_text(encoding="utf-8"))
    assert sorted(path.name for path in folder.iterdir()) == [
        "predictions.jsonl", "report.html", "scores.jsonl", "summary.json",
    ]  # fmt: skip


def test_nothing_is_asked_of_the_network_and_nothing_runs(run: Path) -> None:
    tree = parsed(write_page(run))
    (policy,) = tree.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    (style,) = tree.xpath("//style")
    digest = base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "prefers-color-scheme: dark" in style.text
    assert not tree.xpath("//script | //link | //img | //iframe | //object | //form | //a | //base | //@style")
    assert not tree.xpath("//@*[starts-with(name(), 'on')] | //@src | //@href")
    # Every table scrolls in a box of its own.
    assert all(table.getparent().get("class") == "box" for table in tree.xpath("//table"))


def test_a_row_a_sample_in_the_order_of_the_file(run: Path) -> None:
    found = rows(parsed(write_page(run)))
    assert [row[0].text_content() for row in found] == [
        "c1<::>1", "c1<::>2", "c2<::>1", "c2<::>2", "c2<::>3 (repeat 1)", "c3<::>1",
    ]  # fmt: skip
    assert [row[2].text_content() for row in found] == [
        "done", "done", "failedtimeout: no answer within 60 s", "done", "done",
        "skippedthe budget of 10 tokens is spent",
    ]  # fmt: skip
    assert [row[5].text_content() for row in found] == ["answer", "partial", "-", "unknown", "answer", "-"]
    assert [[cell.text_content() for cell in row[6:]] for row in found[:3]] == [
        ["0.2500", "0.5000", "0.2500", "0.2500"], ["0.2500", "0.5000", "0.2500", "0.2500"], ["failed"] * 4,
    ]  # fmt: skip
    assert [cell.text_content() for cell in found[5][6:]] == ["n/a"] * 4
    assert "searched: who made Big Ben" in found[0][3].text_content()
    assert "In 1858.\n\n- It was cast twice." in found[1][4].text_content()


def test_demo_data_are_said_to_be_so_before_all_else(run: Path) -> None:
    assert parsed(write_page(run)).xpath("//body/*[1]")[0].text_content() == DEMO


def test_long_texts_are_cut_and_unfolded_up_to_a_length(tmp_path: Path) -> None:
    lengths = (600, 601, 4_000, 4_321)
    folder = write_run(tmp_path / "r", lines=tuple(
        Sample(id=str(length), status="done", prediction="x" * length) for length in lengths
    ))  # fmt: skip
    cells = [row[4] for row in rows(parsed(write_page(folder)))]
    assert [cell.text_content().count("x") for cell in cells] == [600, 601, 4_000, 4_000]
    assert [len(cell.xpath(".//details")) for cell in cells] == [0, 1, 1, 1]
    assert cells[1][0].text == "x" * 600 + "…"
    assert "321 more characters in predictions.jsonl" in cells[3].text_content()


def test_runs_of_retrieval_show_what_was_found(tmp_path: Path) -> None:
    refs = tuple(ContextRef(document_id=f"p{i}", score=1 / (i + 1)) for i in range(9))
    folder = write_run(tmp_path / "r", lines=(Sample(id="1", status="done", query="bell", contexts=refs),))
    assert rows(parsed(write_page(folder)))[0][4].text_content() == "found: p0, p1, p2, p3, p4"


EVIL = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}\x1b[31m\u202e\u200bevil\x00</td></table>&amp;"
)
CLEAN = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}evil</td></table>&amp;"


def test_texts_of_the_data_stay_text(tmp_path: Path) -> None:
    lines = (
        Sample(id=EVIL, status="done", domain=EVIL, query=EVIL, rewrite=EVIL, prediction=EVIL, decision=EVIL),
        Sample(id="2", status="failed", kind=EVIL, reason=EVIL),
        Sample(id="3", status="done", contexts=(ContextRef(document_id=EVIL, score=1.0),)),
        Sample(id="4", status="done", prediction=EVIL * 10),
    )
    published = SUMMARY.published[0].model_copy(update={"system": EVIL, "why": EVIL, "source": EVIL, "setting": EVIL})
    summary = SUMMARY.model_copy(update={
        "benchmark": EVIL, "setting": EVIL, "notes": (EVIL, EVIL), "specs": {"generator": EVIL},
        "published": (published,),
        "breakdowns": {EVIL: {EVIL: SUMMARY.metrics}}, "usage": {EVIL: {"calls": 1.0}}, "seconds": {EVIL: 1.0},
        "metrics": {EVIL: SUMMARY.metrics["rouge_l.word"]},
    })  # fmt: skip
    written = write_page(write_run(tmp_path / "r", summary, lines))
    text, tree = written.read_text(encoding="utf-8"), parsed(written)
    assert not {"\x1b", "\u202e", "\u200b", "\x00"} & set(text)
    assert not tree.xpath("//script | //img | //@onerror | //@src")
    assert len(rows(tree)) == len(lines)
    first = rows(tree)[0]
    assert [first[at].text_content() for at in (0, 1, 4, 5)] == [CLEAN] * 4
    assert text.count("&lt;script&gt;") == text.count("<script>".replace("<", "&lt;").replace(">", "&gt;")) >= 30
    assert "49" not in first.text_content()


def test_at_most_so_many_rows_and_the_rest_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "SAMPLES", 3)
    tree = parsed(write_page(write_run(tmp_path / "r")))
    assert len(rows(tree)) == 3
    assert "3 more samples are in predictions.jsonl; here are the first 3." in tree.text_content()


def test_lines_that_are_no_sample_are_counted_and_make_no_row(run: Path) -> None:
    path = run / "predictions.jsonl"
    path.write_text("no sample\n" + path.read_text(encoding="utf-8") + '{"torn', encoding="utf-8")
    tree = parsed(write_page(run))
    assert len(rows(tree)) == len(SAMPLES)
    assert "2 lines of predictions.jsonl cannot be read" in tree.text_content()


def test_a_run_without_samples_or_predictions(tmp_path: Path) -> None:
    empty = SUMMARY.model_copy(update={"metrics": {}, "breakdowns": {}, "published": (), "n": 0, "usage": {}})
    for folder in (write_run(tmp_path / "a", empty, ()), write_run(tmp_path / "b", empty)):
        if folder.name == "b":
            (folder / "predictions.jsonl").unlink()
        assert "There are no predictions" in parsed(write_page(folder)).text_content()


def test_several_runs_on_one_page(tmp_path: Path) -> None:
    stored = [read_run(write_run(tmp_path / name)) for name in ("a", "b")]
    tree = parsed(write_html(stored, tmp_path / "new/folder/page.html"))
    assert [table.get("class") for table in tree.xpath("//table")].count("samples") == 2
    assert [cell.text_content() for cell in tree.xpath("(//table)[1]/tbody/tr/th")] == ["a", "b"]
    assert tree.text_content().count(DEMO) == 1


def test_a_page_that_cannot_be_made_leaves_the_old_one(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = write_page(run).read_bytes()

    def broken(sample: Sample, values: tuple[str, ...]) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(page, "_row", broken)
    with pytest.raises(OSError, match="the disk is gone"):
        write_page(run)
    assert (run / "report.html").read_bytes() == before
    assert not list(run.glob("*.part")) + list(run.glob(".*.part"))


def test_memory_stays_flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "SAMPLES", 50)

    def peak(folder: Path, n: int) -> int:
        template = Sample(id="x", status="done", query="q " * 200, prediction="words " * 500)
        lines = tuple(template.model_copy(update={"id": str(i)}) for i in range(n))
        write_run(folder, SUMMARY, lines)
        del lines
        tracemalloc.start()
        write_page(folder)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    few, many = peak(tmp_path / "few", 100), peak(tmp_path / "many", 800)
    assert many < few * 1.2


def test_summaries_are_not_changed_by_being_shown(run: Path) -> None:
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    write_page(run)
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.name != "report.html"} == before
    assert Summary.model_validate_json(before["summary.json"]) == SUMMARY
