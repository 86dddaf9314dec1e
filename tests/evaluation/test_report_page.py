"""`report.html`: the whole of it; nothing of the data becomes markup; a size and a memory that stay bounded."""

from __future__ import annotations

import base64
import hashlib
import json
import tracemalloc
from pathlib import Path

from lxml import html

from tests.evaluation.reported import CLEAN, DEMO, EVIL, SUMMARY, golden, write_run
from turnmark.evaluation.records import ContextRef, Panel, Sample
from turnmark.evaluation.report import html_page, sample_browser
from turnmark.evaluation.report.html_page import write_page


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
