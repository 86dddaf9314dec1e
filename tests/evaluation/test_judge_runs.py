"""`--judge`, end to end: runs judged, judged again and by more, with what they cost and what went wrong."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.evaluation import writer
from tests.evaluation.conftest import TURNS, write_benchmark
from tests.evaluation.judged_runs import (
    ANSWERS,
    UNKNOWN,
    done,
    eval_words,
    judge,
    kind_of,
    lines,
    official,
    reasons,
    score_words,
    spec_of,
    values,
)
from tests.servers import Say, ScriptedServer, Status


def test_judged_metrics_match_hand_computed_values(benchmark_root, turnmark, tmp_path, check_run):
    with ScriptedServer(judge()) as server:
        summary = done(turnmark, *score_words(benchmark_root, tmp_path), "--judge", spec_of(server))
    out = tmp_path / "r"
    check_run(out)
    assert values(out, "rb_llm") == dict.fromkeys(ANSWERS, 0.7)
    assert values(out, "rl_f") == {name: None if text == UNKNOWN else 0.5 for name, text in ANSWERS.items()}
    assert values(out, "idk") == {name: float(text == UNKNOWN) for name, text in ANSWERS.items()}
    # answerable; answerable and "I don't know"; conversational; partial; unanswerable and "I don't know"
    assert values(out, "rl_f.idk") == {"c1<::>1": 0.5, "c1<::>2": 0.0, "c1<::>3": None, "c2<::>1": 0.5, "c2<::>2": 1.0}
    assert values(out, "rb_llm.idk") == {
        "c1<::>1": 0.7, "c1<::>2": 0.0, "c1<::>3": None, "c2<::>1": 0.7, "c2<::>2": 1.0,
    }  # fmt: skip
    assert values(out, "answerability_accuracy") == {
        "c1<::>1": 1.0, "c1<::>2": 0.0, "c1<::>3": None, "c2<::>1": 1.0, "c2<::>2": 1.0,
    }  # fmt: skip
    assert reasons(out, "rl_f")["c2<::>2"] == "the reply makes no claims"
    assert reasons(out, "rl_f")["c1<::>1"] == "1 of 2 claims are supported; not: two"
    # As in Table 13: what the judges say of the unanswerable tasks, before and after.
    part = summary.breakdowns["answerability"]["UNANSWERABLE"]
    assert (part["rb_llm"].mean, part["rb_llm.idk"].mean, part["rl_f"].n, part["rl_f.idk"].mean) == (0.7, 1.0, 0, 1.0)
    assert summary.metrics["rb_llm"].n == 4, "conversational tasks stay out of the headline"
    assert not {"rl_mtb", "rl_r"} & summary.metrics.keys(), "this judge is not asked for them"
    assert summary.judging["rb_llm"].rule == "one judge"
    assert any("the model that wrote the answers is unknown" in note for note in summary.notes)


def test_two_judges_are_combined_by_median_and_majority(benchmark_root, turnmark, tmp_path):
    words = score_words(benchmark_root, tmp_path)
    with ScriptedServer(judge(4)) as low, ScriptedServer(judge(9, idk="Verdict: [[partial]]")) as high:
        summary = done(turnmark, *words, "--judge", spec_of(low, "a"), "--judge", spec_of(high, "b"))
    names = tuple(f"openai:{name}@{server.url}" for name, server in (("a", low), ("b", high)))
    assert summary.metrics["rb_llm"].mean == 0.65
    panel = summary.judging["rb_llm"]
    assert (panel.judges, panel.rule, panel.level, panel.n) == (names, "median", "interval", 5)
    assert panel.means == {names[0]: pytest.approx(0.4), names[1]: pytest.approx(0.9)}
    assert panel.judged == dict.fromkeys(names, 5), "a conversational task too, which the mean of the metric leaves out"
    assert summary.metrics["rb_llm"].n == 4
    assert (panel.alpha or 0) < 0, "one always says 4 and the other 9: worse than chance"
    assert summary.judging["idk"].rule == "majority"
    assert values(tmp_path / "r", "idk")["c1<::>2"] == 1.0, "split evenly: the judge named first"
    row = next(row for row in lines(tmp_path / "r/scores.jsonl") if row["metric"] == "rb_llm")
    assert row["by"] == f"median of {names[0]}, {names[1]}"
    assert f"{names[0]}: 0.4" in row["reason"]
    assert f"{names[1]}: 0.9" in row["reason"]
    assert any(note.startswith("agreement of the judges (Krippendorff's alpha): rb_llm -0.") for note in summary.notes)
    assert f"judged by {names[0]}, {names[1]}; their verdicts are in judgements.jsonl" in summary.notes


def test_the_dated_snapshot_behind_an_alias_is_recorded_and_named(benchmark_root, turnmark, tmp_path):
    words = score_words(benchmark_root, tmp_path)
    snapshot = "gpt-4o-mini-2024-07-18"
    with ScriptedServer(lambda body: replace(judge()(body), model=snapshot)) as server:
        name = f"openai:gpt-4o-mini@{server.url}"
        summary = done(turnmark, *words, "--judge", spec_of(server, "gpt-4o-mini"))
    assert {tuple(row["models"]) for row in lines(tmp_path / "r/judgements.jsonl")} == {(snapshot,)}
    assert summary.judging["rb_llm"].answered == {name: (snapshot,)}
    assert f"judged by {name} (answered as {snapshot}); their verdicts" in " ".join(summary.notes)
    assert snapshot in turnmark.ok("report", tmp_path / "r").out.replace("\n", "").replace(" ", "")


def test_command_fails_if_every_judgment_failed(benchmark_root, turnmark, tmp_path):
    with ScriptedServer(lambda _: Status(401)) as dead:
        ran = turnmark(*score_words(benchmark_root, tmp_path), "--judge", spec_of(dead))
    assert ran.code == 1
    assert "every judgment failed" in ran.err
    assert (tmp_path / "r" / "summary.json").is_file(), "what does not need a judge is kept"


def test_panel_with_failed_judges_fails(benchmark_root, turnmark, tmp_path, check_run):
    words = score_words(benchmark_root, tmp_path)
    with ScriptedServer(judge(8)) as server, ScriptedServer(lambda _: Status(401)) as dead:
        specs = [spec_of(server), *(spec_of(dead, name) for name in "abc")]
        summary = done(turnmark, *words, *(word for spec in specs for word in ("--judge", spec)))
        assert len(dead.bodies) < 3 * 15, "a judge whose key is wrong is not asked for everything"
    check_run(tmp_path / "r")
    assert "sk-nobody" not in (tmp_path / "r/scores.jsonl").read_text()
    assert (summary.metrics["rb_llm"].mean, summary.metrics["rb_llm"].failed) == (None, 4)
    assert summary.judging["rb_llm"].means[f"openai:tiny@{server.url}"] == pytest.approx(0.8), "the fourth is not lost"
    assert reasons(tmp_path / "r", "rb_llm")["c1<::>1"].startswith("3 of 4 judges failed: ")
    assert values(tmp_path / "r", "rb_llm.idk")["c1<::>1"] is None, "no verdict of the panel says whether it is IDK"


def test_failed_judgments_are_retried_on_rescoring(benchmark_root, turnmark, tmp_path, check_run):
    words = score_words(benchmark_root, tmp_path)
    broken = [True]

    def reply(body):
        return Say("I would say 8, or 9.") if broken[0] and kind_of(body) == "rb_llm" else judge()(body)

    with ScriptedServer(reply) as server:
        summary = done(turnmark, *words, "--judge", spec_of(server))
        check_run(tmp_path / "r")
        rb_llm = summary.metrics["rb_llm"]
        assert (rb_llm.n, rb_llm.failed, rb_llm.mean) == (0, 4, None)
        assert summary.failed == 0, "the instrument failed, not the system"
        why = reasons(tmp_path / "r", "rb_llm")["c1<::>1"]
        assert why.startswith("invalid: no verdict, twice")
        assert why.endswith("it wrote: I would say 8, or 9.")
        assert "5 judgments failed: invalid 5; scoring the run again retries them" in summary.notes
        # A figure of the IDK verdict alone would be none of rb_llm.
        given = summary.metrics["rb_llm.idk"]
        assert (given.n, given.failed, given.mean) == (0, 4, None)
        assert set(values(tmp_path / "r", "rb_llm.idk").values()) == {None}
        assert summary.metrics["rl_f.idk"].n == 4, "what is not broken stays"
        turnmark.ok("report", tmp_path / "r", "--markdown", tmp_path / "r.md")
        table = (tmp_path / "r.md").read_text().partition("### As MTRAG Table 5")[2].partition("### As")[0]
        heads, _, ours = ([cell.strip(" *") for cell in line.split("|")] for line in table.splitlines()[2:5])
        figures = dict(zip(heads, ours, strict=True))
        assert (figures["RL\\_F ●"], figures["RBllm ●"]) == ("0.50", "-")
        before, spent, broken[0] = len(server.bodies), summary.usage["judge"]["calls"], False
        again = done(turnmark, *words, "--judge", spec_of(server))
        assert len(server.bodies) - before == 5, "only what failed is asked for again"
        assert again.metrics["rb_llm"].mean == pytest.approx(0.7)
        assert again.usage["judge"]["calls"] == (spent or 0) + 5
        judgments = [row for row in lines(tmp_path / "r/judgements.jsonl") if row["measure"] == "rb_llm"]
        assert [row["tries"] for row in judgments] == [1] * 5 + [2] * 5
        assert judgments[0]["raw"] == "I would say 8, or 9."


def test_failed_judge_gives_no_conditioned_scores(benchmark_root, turnmark, tmp_path, check_run):
    """Replies that make no claims are not applicable to `rl_f`, and IDK alone decides them; the others have failed."""

    def reply(body):
        return Say("I would rather not.") if kind_of(body) == "verdicts" else judge()(body)

    words = score_words(benchmark_root, tmp_path)
    with ScriptedServer(reply) as server:
        summary = done(turnmark, *words, "--judge", spec_of(server))
    check_run(tmp_path / "r")
    assert (summary.metrics["rl_f"].n, summary.metrics["rl_f"].failed, summary.metrics["rl_f"].not_applicable) == (
        0, 2, 2,
    )  # fmt: skip
    assert (summary.metrics["rl_f.idk"].n, summary.metrics["rl_f.idk"].failed) == (0, 4)
    assert reasons(tmp_path / "r", "rl_f.idk")["c2<::>2"] == "rl_f failed on every reply of the run that has it"
    assert summary.metrics["rb_llm.idk"].mean == pytest.approx((0.7 + 0.0 + 0.7 + 1.0) / 4)


def test_failed_verdict_fails_only_its_conditioned_score(benchmark_root, turnmark, tmp_path):
    """A reply that IDK decides has no conditioned score either if its own verdict failed."""

    def reply(body):
        unknown = kind_of(body) == "rb_llm" and "when was it cast" in json.dumps(body["messages"])
        return Say("I would say 8, or 9.") if unknown else judge()(body)

    with ScriptedServer(reply) as server:
        done(turnmark, *score_words(benchmark_root, tmp_path), "--judge", spec_of(server))
    failed = [name for name, value in values(tmp_path / "r", "rb_llm").items() if value is None]
    conditioned = values(tmp_path / "r", "rb_llm.idk")
    assert failed == ["c1<::>2", "c1<::>3"]
    assert [name for name, value in conditioned.items() if value is None] == failed


def test_interrupted_judging_continues_where_it_stopped(benchmark_root, turnmark, tmp_path, monkeypatch):
    from turnmark.evaluation.storage.journal import Journal

    written, append = [], Journal.append

    def interrupted(self, record):
        if self.path.name == "judgements.jsonl":
            if len(written) == 3:
                raise KeyboardInterrupt
            written.append(record.key)
        append(self, record)

    with ScriptedServer(judge()) as server:
        words = score_words(benchmark_root, tmp_path, "--judge", spec_of(server, options="metrics=rb_llm"))
        monkeypatch.setattr(Journal, "append", interrupted)
        assert turnmark(*words).code == 130
        assert len(lines(tmp_path / "r/judgements.jsonl")) == 3
        assert not (tmp_path / "r/summary.json").exists()
        monkeypatch.setattr(Journal, "append", append)
        summary = done(turnmark, *words)
    rows = lines(tmp_path / "r/judgements.jsonl")
    assert [row["key"] for row in rows[:3]] == written
    assert len(rows) == len({row["key"] for row in rows}) == 5
    assert summary.metrics["rb_llm"].n == 4


def test_finished_run_is_judged_by_more_judges_without_new_answers(benchmark_root, turnmark, tmp_path, check_run):
    out = tmp_path / "r"
    plain = done(turnmark, *eval_words(benchmark_root, out))
    answered = (out / "predictions.jsonl").read_bytes()
    with ScriptedServer(judge(4)) as low, ScriptedServer(judge(9)) as high:
        judged = done(turnmark, *eval_words(benchmark_root, out, "--judge", spec_of(low)))
        assert not writer.WRITERS[0].prompts or plain.failed, "only what failed is tried again"
        assert judged.metrics["rb_llm"].mean == 0.4
        kinds = [kind_of(body) for body in low.bodies]
        by_both = done(turnmark, *eval_words(benchmark_root, out, "--judge", spec_of(low), "--judge", spec_of(high)))
        assert len(low.bodies) == len(kinds), "what the first one said is kept"
        assert [kind_of(body) for body in high.bodies].count("rb_llm") == kinds.count("rb_llm") > 0
        assert by_both.metrics["rb_llm"].mean == 0.65
        manifest = json.loads((out / "manifest.json").read_text())
        assert manifest["judges"] == {
            f"openai:tiny@{server.url}": "idk, rb_llm, rl_f" for server in (low, high)
        }  # fmt: skip
        assert set(manifest["judge_prompts"]) == {"rb-llm", "idk", "claims", "claim-verdicts", "verdict-repair"}
    texts = [[row["prediction"] for row in map(json.loads, content.splitlines())] for content in
             (answered, (out / "predictions.jsonl").read_bytes())]  # fmt: skip
    assert texts[0] == texts[1]
    check_run(out)
    back = done(turnmark, *eval_words(benchmark_root, out))
    assert {name: low.mean for name, low in back.metrics.items()} == {
        name: low.mean for name, low in plain.metrics.items()
    }


def test_warns_first_if_the_judge_is_the_model_under_test(benchmark_root, turnmark):
    judging = judge()

    def reply(body):
        system = body["messages"][0]["content"]
        return judging(body) if "You judge" in system or "You read an inquiry" in system else Say("It is old [1].")

    with ScriptedServer(reply) as server:
        own = f"openai:tiny@{server.url}"
        words = ["eval", "mtrag", "--data", benchmark_root, "--only", "c1<::>1", "--generator", own, "--out", "r"]
        summary = done(turnmark, *words, "--judge", f"{own}?metrics=rb_llm")
        assert summary.notes[0] == f"the judge {own} is the model under test: it grades its own answers"
        assert summary.warnings == summary.notes[:1]
        assert summary.usage["judge"]["calls"], "apart from the generator"
        assert len(summary.usage) > 1
        other = f"openai:org/Tiny@{server.url}?metrics=rb_llm"
        words = ["score", "mtrag", "--data", benchmark_root, "--predictions", "r", "--judge", other, "--out", "s"]
        assert done(turnmark, *words).notes[0].startswith("the judge openai:org/Tiny@")


def test_underspecified_tasks_count_only_in_clarification(turnmark, check_run):
    turns = [(*row[:5], "UNDERSPECIFIED", *row[6:]) if row[0] == "c2" else row for row in TURNS]
    root = write_benchmark(Path("mt-rag-benchmark"), turns)
    file = official(Path("x.jsonl"), ANSWERS | {"c2<::>1": "There are two towers: which one do you mean?"})
    with ScriptedServer(judge()) as server:
        summary = done(
            turnmark, "score", "mtrag-un", "--data", root, "--predictions", file, "--out", Path("r"), "--judge",
            spec_of(server, options="metrics=rb_llm,rl_f,idk,clarification"),
        )  # fmt: skip
    check_run(Path("r"))
    assert values(Path("r"), "clarification") == {
        "c1<::>1": None, "c1<::>2": None, "c1<::>3": None, "c2<::>1": 1.0, "c2<::>2": 0.0,
    }  # fmt: skip
    for metric in ("rb_llm", "rl_f", "idk", "rb_llm.idk", "rl_f.idk", "answerability_accuracy"):
        values_of = values(Path("r"), metric)
        assert values_of["c2<::>1"] is values_of["c2<::>2"] is None, metric
    assert summary.metrics["clarification"].mean == 0.5
    # MTRAG-UN's own variants have them in: 1 where the reply asks back, 0 elsewhere; other tasks as without.
    assert values(Path("r"), "rb_llm.idk_underspecified") == {
        "c1<::>1": 0.7, "c1<::>2": 0.0, "c1<::>3": None, "c2<::>1": 1.0, "c2<::>2": 0.0,
    }  # fmt: skip
    assert summary.metrics["rl_f.idk_underspecified"].n == 4
    assert {row.source[:8] for row in summary.published} == {"MTRAG-UN"}
    assert not any("metric" in row.differs and "not measured here" in (row.why or "") for row in summary.published)


def test_reports_judge_mistakes_with_all_others(benchmark_root, turnmark):
    message = turnmark.refused(
        "eval", "mtrag", "--data", benchmark_root, "--judge", "nobody:x", "--judge", "extractive", "--repeat", "0"
    )
    for piece in ("--judge nobody:x: no generator is called 'nobody'", "is not a language model", "--repeat 0"):
        assert piece in message, message
    message = turnmark.refused("eval", "kiwi", "--judge", "replay:nowhere.jsonl")
    assert "nowhere.jsonl: cannot be read" in message
    ran = turnmark("eval", "mtrag", "--chain")
    assert "--chain: mtrag does not use it; it is for kiwi" in ran.err
    ran = turnmark("score", "mtrag", "--task", "retrieval", "--predictions", "x.trec", "--judge", "replay:x")
    assert "--judge belongs to generation" in ran.err
    ran = turnmark("eval", "mtrag", "--judge", "openai:x@http://127.0.0.1:9/v1?metrics=rb_lm")
    assert "metrics=rb_lm: the judged metrics of mtrag are idk, rb_llm, rl_f, rl_mtb, rl_r" in re.sub(
        r"\s+", " ", ran.err
    )
