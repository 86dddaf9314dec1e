"""Runs compared: differences, intervals, tests, what is comparable and refused; on the terminal, as JSON and a page."""

from __future__ import annotations

import json

import numpy as np
import pytest
from lxml import html

from tests.evaluation.compared import HEADLINE, IDS, facts_of, shifted, write_run
from tests.evaluation.reported import golden
from turnmark.core.errors import RequestError
from turnmark.evaluation.comparison.comparison_tables import comparison_markdown as markdown
from turnmark.evaluation.comparison.comparison_tables import comparison_page as page
from turnmark.evaluation.comparison.run_comparison import RunComparison as Comparison
from turnmark.evaluation.comparison.run_comparison import compare_runs as compare
from turnmark.evaluation.scores.score_tally import FACTS_FILE, read_facts, write_facts


def test_differences_match_numpy(three_runs):
    comparison = compare(three_runs)
    metric = comparison.metrics["rouge_l.word"]
    first, second, third = (
        np.array([shifted(shift)["rouge_l.word"][name] for name in HEADLINE]) for shift in (0, 0.3, 0.1)
    )
    assert metric.n == len(HEADLINE) == 17
    assert metric.clusters == 6
    assert metric.means == pytest.approx((first.mean(), second.mean(), third.mean()))
    assert [change.difference for change in metric.changes] == pytest.approx(
        [(second - first).mean(), (third - first).mean()]
    )
    assert [change.run for change in metric.changes] == ["B", "C"]
    # All of 64 ways to flip six conversations: only the one that was seen and its opposite are as large.
    assert [change.p for change in metric.changes] == [2 / 64, 2 / 64]
    changes = [change for metric in comparison.metrics.values() for change in metric.changes]
    assert [change.p_holm for change in changes] == [6 * 2 / 64] * 6, "corrected over all tests of the headline"


def test_breakdowns_exclude_the_samples_that_the_headline_excludes(three_runs):
    for run in three_runs:
        with write_facts(run) as note:
            for name in IDS:
                facts = facts_of(name)
                label = ("ANSWERABLE",) if facts.headline else ("CONVERSATIONAL",)
                note(name, facts.model_copy(update={"labels": {**facts.labels, "answerability": label}}))
    breakdowns = compare(three_runs).breakdowns
    tested = [
        change
        for values in breakdowns.values()
        for metrics in values.values()
        for change in metrics["rouge_l.word"].changes
        if change.run == "B" and change.p is not None
    ]
    assert tested
    assert all(change.p_holm >= change.p for change in tested)
    few = breakdowns["domain"]["clapnq"]["rouge_l.word"].changes[0]  # three conversations
    assert (few.p, few.p_holm, few.ci95, few.detectable) == (None, None, None, None)
    assert list(breakdowns) == ["domain", "turn", "question_type", "answerability"]
    assert {value: metrics["rouge_l.word"].n for value, metrics in breakdowns["domain"].items()} == {
        "clapnq": 8,
        "fiqa": 9,
    }
    assert {value: metrics["rouge_l.word"].n for value, metrics in breakdowns["question_type"].items()} == {
        "Factoid": 17, "Keyword": 6,
    }  # fmt: skip
    assert {value: metrics["rouge_l.word"].n for value, metrics in breakdowns["answerability"].items()} == {
        "ANSWERABLE": 17, "CONVERSATIONAL": 1,
    }, "which no sample of the headline has"  # fmt: skip
    names = [name for name in IDS if facts_of(name).labels["turn"] == ("first",)]
    first, second = ([shifted(shift)["rouge_l.word"][name] for name in names] for shift in (0, 0.3))
    assert breakdowns["turn"]["first"]["rouge_l.word"].changes[0].difference == pytest.approx(
        np.mean(second) - np.mean(first)
    )


def test_failed_and_inapplicable_samples_are_left_out_of_every_run(tmp_path):
    first, second = {"k_precision": dict.fromkeys(IDS, 0.5)}, {"k_precision": {**dict.fromkeys(IDS, 0.5)}}
    first["k_precision[lead]"] = second["k_precision[lead]"] = dict.fromkeys(IDS, 0.5)
    second["k_precision"] |= {"c2<::>1": "timeout", "c2<::>2": None, "c3<::>1": 1.0}
    first["k_precision"] |= {"c2<::>2": None, "c4<::>1": None}
    comparison = compare([write_run(tmp_path / "a", first), write_run(tmp_path / "b", second)])
    assert list(comparison.metrics) == ["k_precision"], "a baseline is no metric of a system"
    metric = comparison.metrics["k_precision"]
    assert (metric.n, metric.left_out) == (14, 2)
    assert metric.changes[0].difference == pytest.approx(0.5 / 14)
    second["k_precision"] |= dict.fromkeys(IDS[9:])
    comparison = compare([tmp_path / "a", write_run(tmp_path / "skipped", second, skipped=IDS[9:])])
    assert comparison.n == 9
    assert "9 samples were not tried in A or B and are left out" in comparison.notes


def test_third_run_does_not_change_the_comparison_of_the_first_two(tmp_path):
    """A run that lacked all unanswerable samples turned an insignificant loss of another into a significant gain."""
    ids = [name for name in IDS if facts_of(name).labels["domain"] == ("fiqa",)]
    first = write_run(tmp_path / "a", shifted(0))
    second = write_run(tmp_path / "b", shifted(0.3))
    third = write_run(tmp_path / "c", {"rouge_l.word": shifted(0.1, ids=ids)["rouge_l.word"]})
    alone = compare([first, second])
    together = compare([first, second, third])
    for name, metric in alone.metrics.items():
        change = together.metrics[name].changes[0]
        assert change.model_copy(update={"p_holm": None}) == metric.changes[0].model_copy(update={"p_holm": None})
    (_, change) = together.metrics["rouge_l.word"].changes
    assert (change.run, change.n, change.clusters) == ("C", 9, 3)
    assert [change.run for change in together.metrics["token_recall"].changes] == ["B"]
    assert together.n == 9


def test_samples_left_out_are_reported_if_they_are_not_spread_like_the_rest(tmp_path):
    clapnq = [name for name in IDS if facts_of(name).labels["domain"] == ("clapnq",)]
    fiqa = [name for name in IDS if name not in clapnq]
    whole = write_run(tmp_path / "a", shifted(0))
    notes = " ".join(compare([whole, write_run(tmp_path / "b", shifted(0.1, ids=fiqa))]).notes)
    assert "9 samples of A are not in B and are left out" in notes
    assert "not spread like the rest: domain clapnq (9 of these 9, but 0 of the 9 others)" in notes
    failing = {name: "no answer" if name in clapnq else value for name, value in shifted(0.1)["rouge_l.word"].items()}
    failed = write_run(tmp_path / "d", {"rouge_l.word": failing}, failed=clapnq)
    notes = " ".join(compare([whole, failed]).notes)
    assert "9 samples failed in B and are left out these samples are not spread like the rest: domain clapnq" in notes
    spread = [name for name in IDS if name.endswith(("1", "2"))]
    assert "not spread" not in " ".join(compare([whole, write_run(tmp_path / "c", shifted(0.1, ids=spread))]).notes)


def test_missing_and_failed_samples_count_as_zero_on_request(tmp_path):
    values = shifted(0.2)["rouge_l.word"]
    first = write_run(tmp_path / "a", {"rouge_l.word": values})
    lacking, failed = IDS[-1], IDS[-2]
    second_values = {
        name: "no answer" if name == failed else value for name, value in values.items() if name != lacking
    }
    second = write_run(tmp_path / "b", {"rouge_l.word": second_values})
    assert compare([first, second]).metrics["rouge_l.word"].changes[0].difference == 0
    for runs, sign in (([first, second], -1), ([second, first], 1)):
        change = compare(runs, "zero").metrics["rouge_l.word"].changes[0]
        assert (change.n, change.left_out) == (17, 0)
        assert change.difference == pytest.approx(sign * (values[lacking] + values[failed]) / 17)


def test_precision_is_over_the_predictions_of_each_run(tmp_path):
    name = "unknown.precision"
    first = {name: {**dict.fromkeys(IDS), "c2<::>1": 1.0, "c3<::>1": 0.0}}
    second = {name: {**dict.fromkeys(IDS), "c2<::>1": 1.0, "c4<::>1": 1.0, "c5<::>1": 0.0}}
    metric = compare([write_run(tmp_path / "a", first), write_run(tmp_path / "b", second)]).metrics[name]
    assert metric.means == pytest.approx((1 / 2, 2 / 3))
    assert metric.n == 17
    assert metric.changes[0].difference == pytest.approx(2 / 3 - 1 / 2)


def test_repeats_of_a_sample_count_once_and_show_their_spread(tmp_path, turnmark):
    once = write_run(tmp_path / "once", shifted(0))
    thrice = write_run(tmp_path / "thrice", shifted(0.1), repeats=(shifted(0.2), shifted(0.3)))
    metric = json.loads((thrice / "summary.json").read_text())["metrics"]["rouge_l.word"]
    means = [np.mean([shifted(shift)["rouge_l.word"][name] for name in HEADLINE]) for shift in (0.1, 0.2, 0.3)]
    assert metric["repeats"] == pytest.approx(means)
    assert metric["spread"] == pytest.approx(np.std(means, ddof=1))
    assert (metric["n"], metric["clusters"]) == (51, 6), "repeats of a sample belong to its conversation"
    assert "repeats" not in json.loads((once / "summary.json").read_text())["metrics"]["rouge_l.word"]
    comparison = compare([once, thrice])
    assert comparison.metrics["rouge_l.word"].n == 17
    alike = compare([once, write_run(tmp_path / "mean", shifted(0.2))]).metrics["rouge_l.word"].changes[0]
    assert comparison.metrics["rouge_l.word"].changes[0].difference == pytest.approx(alike.difference, abs=1e-4)
    words = "B: rouge_l.word over 3 repeats: 0.1653, 0.2418, 0.3182 (standard deviation 0.0765)"
    assert {words, "repeats of a task: 1 in A, 3 in B; a sample counts once, by its mean"} <= {*comparison.notes}
    out = turnmark.ok("report", thrice).out
    assert "sd of" in out
    assert "0.0765" in out
    assert "sd of" not in turnmark.ok("report", once).out


@pytest.mark.parametrize(
    ("benchmark", "words"),
    [
        ("mtrag", "one conversation: no interval, which takes at least 6"),
        ("kiwi", "one question: no interval, which takes at least 6"),
    ],
)
def test_single_cluster_has_no_interval(tmp_path, turnmark, benchmark, words):
    runs = [write_run(tmp_path / f"{n}", shifted(n, ids=IDS[:2]), benchmark=benchmark) for n in (0, 1)]
    comparison = compare(runs)
    assert (comparison.clusters, comparison.notes[0]) == (1, words)
    assert {change.ci95 for metric in comparison.metrics.values() for change in metric.changes} == {None}
    out = turnmark.ok("compare", *runs).out
    assert words in out
    assert "0.75 to" not in out
    assert "no interval" in turnmark.ok("report", runs[0]).out


def test_reports_differences_other_than_the_system(tmp_path):
    first = write_run(
        tmp_path / "a", shifted(0), specs={"generator": "x", "judge": "openai:one"},
        corpora={"fiqa": {"passages": 15_364, "sha256": "1" * 64, "extent": "partial"}},
    )  # fmt: skip
    ids = IDS[:9]
    second = write_run(
        tmp_path / "b", shifted(0.1, ids=ids), setting="rag", domains=("clapnq",), limit=9,
        specs={"generator": "y", "judge": "openai:two"},
        data={"name": "mt-rag-benchmark", "demo": False, "fingerprint": "e" * 64},
        corpora={"fiqa": {"passages": 57_638, "sha256": "2" * 64, "extent": "full"}},
    )  # fmt: skip
    comparison = compare([first, second])
    assert not comparison.comparable
    assert [reason.aspect for reason in comparison.why] == [
        "data", "setting", "domains", "subset", "documents", "judge",
    ]  # fmt: skip
    text = " ".join(reason.why for reason in comparison.why)
    for words in ("reference in A, rag in B", "none in A, limit 9 in B", "fiqa 15,364 passages (111111111111) in A",
                  "openai:one in A", "clapnq, fiqa in A, clapnq in B", "(files ffffffffffff) in A"):  # fmt: skip
        assert words in text
    assert comparison.n == 9
    assert comparison.metrics["rouge_l.word"].changes
    assert comparison.differs == {"specs.generator": ["x", "y"]}
    assert "9 samples of A are not in B and are left out" in comparison.notes


def test_metrics_of_different_instruments_are_not_compared(tmp_path):
    first = write_run(tmp_path / "a", shifted(0), instruments={"token_recall": "one"})
    second = write_run(tmp_path / "b", shifted(0.2), instruments={"token_recall": "two"})
    comparison = compare([first, second])
    assert comparison.comparable
    assert comparison.metrics["token_recall"].changes == ()
    assert comparison.metrics["token_recall"].why == "metric: measured by one in A, by two in B"
    assert comparison.lead == ("rouge_l.word",)
    assert "token\\_recall is not compared: metric: measured by one in A, by two in B" in markdown(comparison)


def test_reports_metrics_of_different_judges(tmp_path):
    runs = [write_run(tmp_path / name, shifted(0.1, ("rl_f",)), instruments={"rl_f": name}) for name in "ab"]
    for path, judge in zip(runs, ("openai:one", "openai:two"), strict=True):
        summary = json.loads((path / "summary.json").read_text())
        panel = {"judges": [judge], "rule": "one judge", "alpha": None, "level": "interval"}
        (path / "summary.json").write_text(json.dumps({**summary, "judging": {"rl_f": panel}}))
    comparison = compare(runs)
    assert [reason.why for reason in comparison.why] == ["judge: rl_f openai:one in A, rl_f openai:two in B"]
    assert comparison.metrics["rl_f"].changes == ()


def test_refuses_wrong_runs_with_all_reasons(tmp_path, three_runs):
    first = write_run(tmp_path / "a", shifted(0))
    runs = write_run(tmp_path / "b", {"good": {"9/1": 1.0}}, benchmark="kiwi", task="revise")
    demo = write_run(
        tmp_path / "c", {"x": dict.fromkeys(IDS, 1.0)}, data={"name": "demo", "demo": True, "fingerprint": "d"}
    )
    with pytest.raises(RequestError) as caught:
        compare([first, runs, demo])
    problems = "\n".join(caught.value.problems)
    for words in ("benchmark kiwi, but mtrag", "task revise, but generation", "no sample in common", "the demo split",
                  "no metric in common"):  # fmt: skip
        assert words in problems
    (tmp_path / "empty").mkdir()
    together = tmp_path / "all"
    together.mkdir()
    (together / "summary.json").write_text(json.dumps({"mtrag": json.loads((first / "summary.json").read_text())}))
    (demo / "scores.jsonl").unlink()
    (runs / "manifest.json").write_text("{")
    with pytest.raises(RequestError) as caught:
        compare([first, first, tmp_path / "empty", tmp_path / "nowhere", together, demo, runs])
    problems = "\n".join(caught.value.problems)
    for words in ("is named twice", "empty' is not a run", "nowhere' does not exist",
                  "all' contains the runs of `eval all`",
                  "all/mtrag", "c' has no scores", "b': manifest.json cannot be read"):  # fmt: skip
        assert words in problems, words
    with pytest.raises(RequestError, match="a single run cannot"):
        compare(three_runs[:1])


def test_at_least_one_run_must_have_facts(tmp_path, three_runs):
    bare = [write_run(tmp_path / f"bare{shift}", shifted(shift), with_facts=False) for shift in (0, 0.3)]
    assert compare([bare[0], three_runs[1]]).metrics["rouge_l.word"].n == 17
    with pytest.raises(RequestError, match="score it again: turnmark score mtrag") as refused:
        compare(bare)
    assert len(refused.value.problems) == 2
    assert read_facts(three_runs[0]) == {name: facts_of(name) for name in IDS}
    (bare[0] / FACTS_FILE).write_text("{}\n")
    assert read_facts(bare[0]) is None


EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}\x1b[31m\u202e</td></table>&amp;|"


def test_prints_the_comparison_and_writes_markdown(three_runs, turnmark):
    golden("compare.txt", turnmark("compare", *three_runs).out)
    golden("compare_two.txt", turnmark("compare", *three_runs[:2]).out)
    golden("compare.md", markdown(compare(three_runs)))


def test_json_contains_the_comparison_and_files_are_written(three_runs, turnmark, tmp_path):
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
    assert "is not a report of this kind" in message


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


def test_page_has_every_table_and_both_answers(three_runs):
    comparison = compare(three_runs)
    tree = html.fromstring(page(comparison))
    titles = [title.text_content() for title in tree.xpath("//details[@class='fold']/summary")]
    assert titles[:5] == [
        "Runs", "B against A", "C against A",
        "B - A, by kind of question: rouge_l.word", "B - A, by kind of question: token_recall",
    ]  # fmt: skip
    first = tree.xpath("//details[@class='change']")[0]
    assert first.xpath("./summary/b/text()") == ["B - A: +0.3000 (0.0100 to 0.3100)"]
    assert [side.text_content() for side in first.xpath(".//h3")] == ["A", "B"]
    assert first.xpath(".//span[@class='said']/text()") == ["answer of c1<::>2"] * 2
    (table,) = tree.xpath("//details[summary='B against A']//table")
    kinds = {row[0].text_content(): row.xpath(".//circle/@class") for row in table.xpath("./tbody/tr")}
    for name in ("rouge_l.word", "token_recall"):  # a dot is full if the test is significant
        assert kinds[name] == ["dot better" if comparison.metrics[name].changes[0].p_holm < 0.05 else "dot unsure"]
    assert kinds["answer_words"] == []


def test_another_folder_or_other_files_of_queries_are_not_other_data(tmp_path):
    data = {"demo": False, "tasks": "e" * 64}
    runs = [
        write_run(tmp_path / mark, shifted(0), data={**data, "name": mark, "fingerprint": mark * 64}) for mark in "ab"
    ]
    assert compare(runs).comparable
    data |= {"name": "a", "fingerprint": "c" * 64, "tasks": "f" * 64}
    other = write_run(tmp_path / "c", shifted(0), data=data)
    with pytest.raises(RequestError, match="other data"):
        compare([runs[0], other])
