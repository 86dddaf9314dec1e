"""Comparisons on the terminal, as Markdown, JSON and a page; judges beside each other, as in InsCoQA Table 4."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lxml import html

from tests.evaluation.compared import IDS, shifted, write_run
from tests.evaluation.reported import golden
from turnmark.evaluation.comparison.compare import RunComparison as Comparison
from turnmark.evaluation.comparison.compare import compare_runs as compare
from turnmark.evaluation.comparison.judges import judge_tables
from turnmark.evaluation.comparison.showing import comparison_markdown as markdown
from turnmark.evaluation.comparison.showing import comparison_page as page
from turnmark.evaluation.journal import json_line
from turnmark.evaluation.judging.judgements import Judgement
from turnmark.evaluation.published import facts

FEW = IDS[:4]


def judged(run, judge, values, measure="judge_score", prompts="", **also):
    """Add what a judge said of some samples of a run; None: it failed."""
    with open(run / "judgements.jsonl", "a", encoding="utf-8") as file:
        for name, value in values.items():
            text = Judgement(
                key=f"{judge} {name} {measure}", id=name, measure=measure, judge=judge, value=value, prompts=prompts,
                status="failed" if value is None else "scored", reason="it broke", also={} if value is None else also,
            )  # fmt: skip
            file.write(json_line(text))
    return run


def system(path, answer):
    return write_run(path, shifted(0, ids=FEW), answers=dict.fromkeys(FEW, answer))


def of(*runs):
    return compare(runs).judges


def constant(value):
    return dict.fromkeys(FEW, value)


@pytest.fixture
def table_4(tmp_path):
    """The paper's Table 4 as four runs, each judged by both judges."""
    rows = [fact for fact in facts() if fact.benchmark == "inscoqa" and fact.part == {"split": "validation"}]
    runs: dict[str, Path] = {}
    for fact in rows:
        run = runs.get(fact.system) or system(tmp_path / fact.system.split()[0], fact.system)
        runs[fact.system] = run
        (judge,) = fact.instruments["judge_score"].judges
        judged(run, judge, constant(fact.metrics["judge_score"]), task_completion=fact.metrics["task_completion"])
    return list(runs.values())


def test_the_papers_judges_rank_its_systems_alike(table_4, turnmark):
    correlated = of(*table_4)
    out = turnmark.ok("compare", *table_4).out
    golden("compare_judges.txt", out[out.index("The systems, by judge") :])
    assert correlated.systems == ("A", "B", "C", "D")
    assert [(pair.metric, pair.judges, pair.systems) for pair in correlated.pairs] == [
        (metric, ("GPT-4", "Qwen2-7B-Instruct"), 4) for metric in ("judge_score", "task_completion")
    ]
    assert [pair.rank_systems for pair in correlated.pairs] == pytest.approx([1.0, 1.0])
    means = {(row.metric, row.judge): list(row.means.values()) for row in correlated.means}
    assert means["judge_score", "Qwen2-7B-Instruct"] == pytest.approx([7.45, 7.89, 7.66, 8.45])
    assert means["judge_score", "GPT-4"] == pytest.approx([6.24, 6.72, 6.43, 7.12])
    assert means["task_completion", "GPT-4"] == pytest.approx([0.6883, 0.7238, 0.6992, 0.7964])


def test_ranks_by_hand(tmp_path):
    """Replies 1 2 3 4 by one judge, 2 1 3 4 by the other: 1 - 6 * 2 / (4 * 15)."""
    first = judged(judged(system(tmp_path / "a", "a"), "x", dict(zip(FEW, [1, 2, 3, 4], strict=True))), "y",
                   dict(zip(FEW, [2, 1, 3, 4], strict=True)))  # fmt: skip
    second = judged(judged(system(tmp_path / "b", "b"), "x", constant(9)), "y", {})
    (pair,) = of(first, second).pairs
    assert pair.replies == 4
    assert pair.rank_replies == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert (pair.systems, pair.rank_systems) == (1, None), "both judged but one system"


def test_one_model_with_other_prompts_is_another_judge_and_its_last_word_holds(tmp_path):
    run, second = (system(tmp_path / name, name) for name in "ab")
    for prompts, value in (("a" * 16, 3.0), ("b" * 16, 7.0), ("a" * 16, 4.0)):
        judged(run, "x", constant(value), prompts=prompts)
        judged(second, "x", constant(value + 1), prompts=prompts)
    judged(run, "x", {"nobody": 3.0}, prompts="a" * 16)
    with open(run / "judgements.jsonl", "a") as file:
        file.write("{torn")
    correlated = of(run, second)
    assert [(row.judge, row.means) for row in correlated.means] == [
        ("x (prompts aaaaaaaa)", {"A": 4.0, "B": 5.0}),
        ("x (prompts bbbbbbbb)", {"A": 7.0, "B": 8.0}),
    ]
    (pair,) = correlated.pairs
    assert (pair.replies, pair.rank_systems) == (8, pytest.approx(1.0))


def test_the_same_replies_judged_apart_are_one_system(tmp_path):
    runs = [system(tmp_path / name, text) for name, text in (("a", "same"), ("b", "same"), ("c", "other"))]
    for run, judge in zip(runs, "xyx", strict=True):
        judged(run, judge, dict(zip(FEW, [1, 2, 3, 4], strict=True)))
    correlated = of(*runs)
    assert correlated.systems == ("A=B", "C")
    (pair,) = correlated.pairs
    assert (pair.systems, pair.replies) == (1, 4)
    assert pair.rank_replies == pytest.approx(1.0)


def test_the_embedded_judge_stands_under_the_metric_whose_name_it_has(tmp_path):
    run, second = (system(tmp_path / name, name) for name in "ab")
    judged(judged(run, "x", constant(3)), "embedded", constant(5), "judge_score[embedded]")
    correlated = of(run, second)
    assert [(pair.metric, pair.judges, pair.rank_replies) for pair in correlated.pairs] == [
        ("judge_score", ("embedded", "x"), None)
    ]
    legend = next(iter(judge_tables(correlated))).lines
    assert any("ends in [embedded], which is another one" in line for line in legend)


def test_one_judge_alone_has_nothing_beside_it(tmp_path):
    run, second = (system(tmp_path / name, name) for name in "ab")
    judged(judged(run, "x", constant(3)), "y", constant(0.5), "task_completion[steps]")
    comparison = compare([run, second])
    assert comparison.judges is None
    assert list(judge_tables(comparison.judges)) == []


EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}\x1b[31m\u202e</td></table>&amp;|"


def test_the_whole_of_it_on_a_terminal(three_runs, turnmark):
    golden("compare.txt", turnmark("compare", *three_runs).out)
    golden("compare_two.txt", turnmark("compare", *three_runs[:2]).out)


def test_the_whole_of_it_as_markdown(three_runs):
    golden("compare.md", markdown(compare(three_runs)))


def test_json_holds_all_of_it_and_files_are_written(three_runs, turnmark, tmp_path):
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


def test_texts_of_the_data_stay_text(tmp_path, turnmark):
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


def test_the_page_has_every_table_and_both_answers(three_runs):
    comparison = compare(three_runs)
    tree = html.fromstring(page(comparison))
    titles = [title.text_content() for title in tree.xpath("//details[@class='fold']/summary")]
    assert titles[:6] == [
        "Runs", "Ranking", "B against A", "C against A",
        "B - A, by what is asked: rouge_l.word", "B - A, by what is asked: token_recall",
    ]  # fmt: skip
    first = tree.xpath("//details[@class='change']")[0]
    assert first.xpath("./summary/b/text()") == ["+0.3000 (0.0100 to 0.3100)"]
    assert [side.text_content() for side in first.xpath(".//h3")] == ["A", "B"]
    assert first.xpath(".//span[@class='said']/text()") == ["answer of c1<::>2"] * 2
    (table,) = tree.xpath("//details[summary='B against A']//table")
    kinds = {row[0].text_content(): row.xpath(".//circle/@class") for row in table.xpath("./tbody/tr")}
    for name in ("rouge_l.word", "token_recall"):  # a dot is full if the test is significant
        assert kinds[name] == ["dot better" if comparison.metrics[name].changes[0].p_holm < 0.05 else "dot unsure"]
    assert kinds["answer_words"] == []
