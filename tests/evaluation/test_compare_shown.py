"""A comparison on the terminal, as Markdown, JSON and a page; and over recorded systems."""

from __future__ import annotations

import json
from pathlib import Path

from lxml import html

from tests.conftest import Turnmark
from tests.evaluation.compared import IDS, shifted, write_run
from tests.evaluation.reported import golden
from turnmark.evaluation.comparison.compare import Comparison, compare
from turnmark.evaluation.comparison.writing import markdown, page

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}\x1b[31m\u202e</td></table>&amp;|"


def test_the_whole_of_it_on_a_terminal(three_runs: list[Path], turnmark: Turnmark) -> None:
    golden("compare.txt", turnmark("compare", *three_runs).out)
    golden("compare_two.txt", turnmark("compare", *three_runs[:2]).out)


def test_the_whole_of_it_as_markdown(three_runs: list[Path]) -> None:
    golden("compare.md", markdown(compare(three_runs)))


def test_json_holds_all_of_it_and_files_are_written(three_runs: list[Path], turnmark: Turnmark, tmp_path: Path) -> None:
    target, text = tmp_path / "new/c.html", tmp_path / "c.md"
    ran = turnmark.ok("compare", *three_runs, "--json", "--html", target, "--markdown", text)
    comparison = Comparison.model_validate_json(ran.out)
    assert comparison == compare(three_runs)
    assert json.loads(ran.out)["metrics"]["rouge_l.word"]["changes"][0]["run"] == "B"
    assert target.read_text(encoding="utf-8") == page(comparison)
    assert text.read_text(encoding="utf-8") == markdown(comparison)
    # A file of ours is written again, one of somebody's is not.
    turnmark.ok("compare", *three_runs, "--html", target)
    text.write_text("my own")
    message = turnmark.refused("compare", *three_runs, tmp_path / "nowhere", "--html", text, "--markdown", text)
    assert text.read_text() == "my own"
    assert "nowhere" in message
    assert "is no report of this kind" in message
    assert "both name" in message


def test_texts_of_the_data_stay_text(tmp_path: Path, turnmark: Turnmark) -> None:
    answers = dict.fromkeys(IDS, EVIL * 20)
    runs = [
        write_run(tmp_path / f"r{name}", shifted(name), answers=answers, specs={"generator": EVIL + str(name)})
        for name in (0, 0.3)
    ]
    comparison = compare(runs)
    text = page(comparison)
    tree = html.fromstring(text)
    assert not tree.xpath("//script | //img | //@onerror | //@src | //link | //@style")
    assert not {"\x1b", "\u202e"} & set(text)
    assert "49" not in "".join(tree.xpath("//td[contains(., '7*7')]/text()"))
    policy = tree.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")[0]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert len(tree.xpath("//details[@class='change']")) == 5
    assert "<script>" not in markdown(comparison)
    assert "\x1b" not in turnmark("compare", *runs).out


def test_the_page_has_every_table_and_both_answers(three_runs: list[Path]) -> None:
    tree = html.fromstring(page(compare(three_runs)))
    titles = [title.text_content() for title in tree.xpath("//details[@class='fold']/summary")]
    assert titles[:7] == [
        "Runs", "Against A", "Ranking", "B against A", "C against A",
        "B - A, by what is asked: rouge_l.word", "B - A, by what is asked: token_recall",
    ]  # fmt: skip
    first = tree.xpath("//details[@class='change']")[0]
    assert first.xpath("./summary/b/text()") == ["+0.3000 (0.0100 to 0.3100)"]
    assert [side.text_content() for side in first.xpath(".//h3")] == ["A", "B"]
    assert first.xpath(".//span[@class='said']/text()") == ["answer of c1<::>2"] * 2


def test_dots_are_full_where_a_test_tells_two_apart(three_runs: list[Path]) -> None:
    comparison = compare(three_runs)
    tree = html.fromstring(page(comparison))
    (table,) = tree.xpath("//details[summary='B against A']//table")
    kinds = {row[0].text_content(): row.xpath(".//circle/@class") for row in table.xpath("./tbody/tr")}
    for name in ("rouge_l.word", "token_recall"):
        change = comparison.metrics[name].changes[0]
        assert change.p_holm is not None
        assert kinds[name] == ["dot better" if change.p_holm < 0.05 else "dot unsure"]
    assert kinds["answer_words"] == []
