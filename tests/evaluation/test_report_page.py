"""`report.html` and its samples: complete, inert, within its bounds; what `browse.jsonl` has of each benchmark."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tracemalloc
from pathlib import Path

import pytest
from lxml import etree, html

import turnmark as tm
from tests.conftest import ROOT
from tests.evaluation.reported import CLEAN, DEMO, EVIL, SUMMARY, golden, write_run
from tests.evaluation.requests import request_of
from turnmark.evaluation.records import ContextRef, Panel, Sample
from turnmark.evaluation.report import html_page, sample_browser
from turnmark.evaluation.report.finished_runs import read_run, samples
from turnmark.evaluation.report.html_page import write_page
from turnmark.evaluation.report.sample_browser import BROWSE_FILE, BrowsedSample, SeenPassage, clip_text, samples_json
from turnmark.evaluation.runs import benchmark_run
from turnmark.evaluation.runs.planning import plan_run
from turnmark.evaluation.storage.journal import json_line, read_records


def parsed(path):
    return html.fromstring(path.read_text(encoding="utf-8"))


def data(path):
    """What the page's script reads."""
    (script,) = parsed(path).xpath("//script[@type='application/json']")
    return json.loads(script.text)


def digest(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_page_matches_the_golden_file():
    folder = write_run(Path("runs/mtrag-0123456789ab"))
    assert write_page(folder) == folder / "report.html"
    text = (folder / "report.html").read_text(encoding="utf-8")
    # Style and script are files of their own.
    for name in ("page.css", "page.js"):
        own = Path(html_page.__file__).with_name(name).read_text(encoding="utf-8")
        assert own in text
        text = text.replace(own, f"({name})")
    (policy,) = parsed(folder / "report.html").xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    golden("report.html", text.replace(html_of(policy), "(policy)"))
    assert sorted(path.name for path in folder.iterdir()) == [
        "predictions.jsonl", "report.html", "scores.jsonl", "summary.json",
    ]  # fmt: skip


def test_plot_of_a_run_shows_the_dots_of_its_report(tmp_path):
    folder = write_run(Path("runs/mtrag-0123456789ab"))
    run = tm.Run.open(folder)
    dots = re.compile(r"<circle [^>]*>")
    drawn = dots.findall(run.plot()._repr_svg_())
    assert len(drawn) == sum(metric.shown.fraction and metric.mean is not None for metric in SUMMARY.metrics.values())
    page = write_page(folder).read_text(encoding="utf-8")
    assert dots.findall(page)[: len(drawn)] == drawn
    run.plot("rouge_l.word").save(tmp_path / "by.svg")
    assert set(dots.findall((tmp_path / "by.svg").read_text(encoding="utf-8"))) <= set(dots.findall(page))
    with pytest.raises(tm.TurnmarkError, match="no metric is called 'rouge'"):
        run.plot("rouge")


def test_plot_is_well_formed_and_escapes_hostile_texts():
    values = {EVIL: {"rouge_l.word": SUMMARY.metrics["rouge_l.word"]}}
    plot = tm.Run(Path("run"), SUMMARY.model_copy(update={"breakdowns": {EVIL: values}})).plot("rouge_l.word")
    svg = etree.fromstring(plot.svg.encode())
    texts = svg.xpath("//*[local-name()='text']/text()")
    assert texts[0].startswith("rouge_l.word, mtrag generation (rag) on demo data")
    assert "0.2871" in texts
    assert "0.241-0.333" in texts
    assert {etree.QName(element).localname for element in svg.iter()} <= {
        "svg", "style", "rect", "text", "line", "circle",
    }  # fmt: skip


def html_of(text):
    return text.replace("&", "&amp;").replace("'", "&#39;")


def test_page_loads_nothing_and_runs_no_other_script(stored_run):
    tree = parsed(write_page(stored_run))
    (policy,) = tree.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    (style,) = tree.xpath("//style")
    stored, script = tree.xpath("//script")
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest(style.text)}'; script-src 'sha256-{digest(script.text)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert stored.get("type") == "application/json"
    assert tree.xpath("//head/meta[1]/@charset | //head/meta[2]/@http-equiv") == ["utf-8", "Content-Security-Policy"]
    assert "prefers-color-scheme: dark" in style.text
    assert not tree.xpath("//link | //img | //iframe | //object | //form | //base | //@style")
    assert not tree.xpath("//@*[starts-with(name(), 'on')] | //@src | //@*[name()='href'][not(starts-with(., '#'))]")
    unsafe = "innerHTML outerHTML insertAdjacent document.write eval( fetch( XMLHttp import("
    assert not [call for call in unsafe.split() if call in script.text]
    # Every table that may be wide scrolls in a box of its own.
    tables = tree.xpath("//table[not(ancestor::dialog)]")
    assert tables
    assert all(table.getparent().get("class") == "box" for table in tables)


def test_page_shows_judges_and_their_warnings(tmp_path):
    panel = Panel(judges=("openai:a", "openai:b"), rule="median", alpha=0.61, level="interval", n=4,
                  means={"openai:a": 0.5, "openai:b": None}, failed={"openai:b": 4},
                  judged={"openai:a": 5, "openai:b": 0})  # fmt: skip
    text = "the judge openai:a is the model under test: it grades its own answers"
    summary = SUMMARY.model_copy(update={
        "judging": {"rb_llm": panel}, "warnings": (text,), "notes": (DEMO, text, "another"),
        "metrics": {**SUMMARY.metrics, "rb_llm": SUMMARY.metrics["rouge_l.word"]},
    })  # fmt: skip
    tree = parsed(write_page(write_run(tmp_path / "r", summary)))
    assert [element.text_content() for element in tree.xpath("//body/p[@class='warning']")] == [DEMO, text]
    assert [element.text_content() for element in tree.xpath("//ul[@class='notes']/li")] == ["another"]
    (table,) = [element for element in tree.xpath("//table") if element.xpath("./thead//th[.='agreement']")]
    assert [[cell.text_content() for cell in row] for row in table.xpath("./tbody/tr")] == [
        ["rb_llm", "openai:a", "0.5000", "5", "0", "4", "median", "alpha 0.61 over 4 (interval)"],
        ["rb_llm", "openai:b", "-", "0", "4", "4", "", ""],
    ]  # fmt: skip


def test_page_stays_within_its_size_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(html_page, "MAX_PAGE_BYTES", 300_000)
    monkeypatch.setattr(sample_browser, "MAX_SAMPLES", 290)
    text = "Ein Satz mit Umlauten, äöü <&> und mehr. " * 90
    lines = tuple(Sample(id=str(i), status="done", query=f"question {i}", prediction=f"{i} {text}") for i in range(300))
    written = write_page(write_run(tmp_path / "r", lines=lines))
    assert 200_000 < written.stat().st_size <= 300_000
    payload = data(written)
    samples = payload["runs"][0]["samples"]
    assert (len(samples), payload["runs"][0]["more"]) == (290, 10)
    assert [payload["texts"][sample["q"]] for sample in samples] == [f"question {i}" for i in range(290)]
    shown_text, left_out = payload["texts"][samples[7]["p"]]
    assert len(shown_text) + left_out == len(f"7 {text}")
    assert f"7 {text}".startswith(shown_text)


def test_texts_of_the_data_stay_text(tmp_path):
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
    assert not tree.xpath("//img | //@onerror | //@src")
    assert len(tree.xpath("//script")) == 2
    assert text.count("<script") == text.count("</script") == 2
    assert text.count("&lt;script&gt;") >= 10
    payload = data(written)
    assert len(payload["runs"][0]["samples"]) == len(lines)
    first = payload["runs"][0]["samples"][0]
    assert first["i"] == CLEAN
    assert [payload["texts"][first[key]] for key in "qwp"] == [CLEAN] * 3
    assert dict(payload["runs"][0]["dimensions"]) == {"domain": [CLEAN], "decision": [CLEAN]}
    assert payload["passages"][0][0] == CLEAN
    stored = tree.xpath("//script[@type='application/json']")[0].text
    assert not {"<", ">", "&"} & set(stored)


def test_a_run_without_samples_or_predictions(tmp_path):
    empty = SUMMARY.model_copy(update={"metrics": {}, "breakdowns": {}, "published": (), "n": 0, "usage": {}})
    without = write_run(tmp_path / "b", empty)
    (without / "predictions.jsonl").unlink()
    assert "There are no predictions" in parsed(write_page(without)).text_content()
    for folder in (write_run(tmp_path / "a", empty, ()), without):
        assert data(write_page(folder))["runs"][0]["samples"] == []


def test_memory_stays_flat(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_browser, "MAX_SAMPLES", 50)

    def peak(folder, n):
        template = Sample(id="x", status="done", query="q " * 200, prediction="words " * 500)
        lines = tuple(template.model_copy(update={"id": str(i)}) for i in range(n))
        write_run(folder, SUMMARY, lines)
        del lines
        tracemalloc.start()
        write_page(folder)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    peak(tmp_path / "warm", 50)
    few, many = peak(tmp_path / "few", 100), peak(tmp_path / "many", 800)
    assert many < few * 1.2


def lines(run):
    return list(read_records(run / BROWSE_FILE, BrowsedSample))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each benchmark's demo split."""
    folders = {}
    for name in ("mtrag", "inscoqa", "compound-qa", "kiwi"):
        path = tmp_path_factory.mktemp("runs") / name
        benchmark_run.run_plan(plan_run(request_of(benchmark=name, limit=3, out=path)))
        folders[name] = path
    return folders


@pytest.mark.parametrize("name", ["mtrag", "inscoqa", "compound-qa", "kiwi"])
def test_every_sample_of_every_benchmark_has_a_line(runs, name):
    browsed_lines, answered = lines(runs[name]), list(samples(runs[name]))
    assert [browsed.key for browsed in browsed_lines] == [sample.key for sample in answered]
    assert all(browsed.labels for browsed in browsed_lines)
    assert all(browsed.question.text and browsed.reference.text for browsed in browsed_lines)
    for browsed, sample in zip(browsed_lines, answered, strict=True):
        found_passages = [passage for passage in browsed.passages if passage.rank is not None]
        assert [passage.id for passage in found_passages] == [ref.document_id for ref in sample.contexts]
        assert [passage.rank for passage in found_passages] == list(range(1, len(found_passages) + 1))
        # What was shown to the system is known, whichever way the benchmark gives it.
        assert all(passage.text is not None and passage.text.text for passage in found_passages)
    assert any(browsed.passages for browsed in browsed_lines)


def test_mtrag_says_which_passages_are_relevant_and_has_the_conversation(runs):
    rows = lines(runs["mtrag"])
    later = [row for row in rows if row.labels["turn"] == ("later",)]
    assert later
    assert [message.role for message in later[0].history[:2]] == ["user", "assistant"]
    assert {passage.relevant for row in rows for passage in row.passages} == {True}


def test_page_of_a_real_run_is_complete(runs):
    run = read_run(runs["mtrag"]).runs[0]
    payload = json.loads(samples_json([("mine", run)]))
    (mine,) = payload["runs"]
    sample_entry = next(sample for sample in mine["samples"] if "h" in sample)
    text = [entry if isinstance(entry, str) else entry[0] for entry in payload["texts"]]
    browsed = next(line for line in lines(runs["mtrag"]) if line.id == sample_entry["i"])
    assert [(role, text[index]) for role, index in sample_entry["h"]] == [
        (int(message.role != "user"), message.text.text) for message in browsed.history
    ]
    assert text[sample_entry["f"]] == browsed.reference.text
    assert len(sample_entry["v"]) == len(mine["metrics"])
    assert dict(mine["dimensions"])["domain"] == list(
        dict.fromkeys(line.labels["domain"][0] for line in lines(runs["mtrag"]))
    )


def test_retrieval_lists_show_relevant_and_missed_passages(turnmark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trec = ROOT / "tests/frozen/run.trec"
    assert turnmark("score", "mtrag", "--task", "retrieval", "--predictions", trec, "--out", "run").code == 0
    rows = lines(tmp_path / "run")
    assert all(row.question.text and row.labels["domain"] for row in rows)
    assert any(row.history for row in rows)
    passages = [passage for row in rows for passage in row.passages]
    assert {(passage.rank is None, passage.relevant) for passage in passages} == {
        (False, True), (False, False), (True, True),
    }  # fmt: skip
    assert all(passage.text for passage in passages if passage.relevant)


def test_passages_are_stored_once_and_lose_the_title_that_they_begin_with(tmp_path):
    folder = write_run(tmp_path / "r")
    passage = SeenPassage(id="p", title="Bells", text=clip_text("Bells\nThey ring."), rank=1, score=1.0, relevant=True)
    browsed_lines = [
        BrowsedSample(id=name, question=clip_text("Q"), reference=clip_text(""), passages=(passage,))
        for name in ("c1<::>1", "c1<::>2")
    ]
    (folder / BROWSE_FILE).write_text("".join(map(json_line, browsed_lines)), encoding="utf-8")
    payload = json.loads(samples_json([("mine", read_run(folder).runs[0])]))
    ((name, title, index),) = payload["passages"]
    assert (name, title, payload["texts"][index]) == ("p", "Bells", "They ring.")
    assert [sample["c"] for sample in payload["runs"][0]["samples"][:2]] == [[[0, 1, 1, 1]]] * 2
