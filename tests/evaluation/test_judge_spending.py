"""What judges spend is held against the budget of the run, and what they are asked with may be one's own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.evaluation import costly
from tests.evaluation.judged_runs import done, eval_words, judge, lines, reasons, score_words, spec_of, values
from tests.servers import ScriptedServer
from turnmark.assistant.types import Usage
from turnmark.core.errors import RequestError
from turnmark.evaluation.calls.cost_estimates import spent_on_judges
from turnmark.evaluation.prompts import own_prompts

JUDGE = f"{costly.SPEC}?metrics=rl_mtb"
STOPPED = (
    "judging stopped by --budget: {:,} tokens spent, and one more would exceed it; {} judgments were not requested"
)

PROMPTS = ROOT / "turnmark" / "evaluation" / "benchmarks" / "mtrag" / "prompts"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch, tmp_path):
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    costly.PROMPTS.clear()
    yield
    costly.PROMPTS.clear()


def prices(tmp_path, spec, currency="USD"):
    (tmp_path / "home").mkdir(exist_ok=True)
    table = f'[prices."{spec}"]\nprompt = 1000.0\ncompletion = 1000.0\ncurrency = "{currency}"\n'
    (tmp_path / "home" / "config.toml").write_text(table, encoding="utf-8")


def test_judging_stops_at_the_budget_and_continues_with_a_larger_one(benchmark_root, turnmark, tmp_path, check_run):
    words = score_words(benchmark_root, tmp_path, "--judge", JUDGE, "--judge", "embedded?metrics=idk[embedded]")
    summary = done(turnmark, *words, "--budget", "3500")
    check_run(tmp_path / "r")
    assert len(costly.PROMPTS) == 3, "3 * 1,100 tokens; a fourth would go beyond 3,500"
    # Five answers, one of them to a conversational task, which is in no headline.
    panel = summary.judging["rl_mtb"]
    assert panel.failed == {costly.SPEC: 2}
    assert summary.failed == 0, "the instrument stopped, not the system"
    assert sum(value is not None for value in values(tmp_path / "r", "rl_mtb").values()) == 3
    refusals = [reason for reason in reasons(tmp_path / "r", "rl_mtb").values() if reason.startswith("budget")]
    assert refusals == ["budget: stopped by --budget: 3,300 tokens spent, and one more would exceed it"] * 2
    assert any(note.startswith(STOPPED.format(3300, 2)) for note in summary.notes)
    assert not any("judgments failed" in note for note in summary.notes)
    assert None not in values(tmp_path / "r", "idk[embedded]").values(), "what costs nothing is judged"
    again = done(turnmark, *words, "--budget", "5.5k")
    assert len(costly.PROMPTS) == 5
    assert len(set(costly.PROMPTS)) == 5, "nobody was asked twice"
    assert again.judging["rl_mtb"].failed == {costly.SPEC: 0}
    assert not any("budget" in note for note in again.notes)
    assert spent_on_judges(tmp_path / "r") == Usage(calls=5, prompt_tokens=5_000, completion_tokens=500)


def test_answers_and_judgments_share_one_budget(benchmark_root, turnmark, tmp_path):
    first = turnmark(*eval_words(benchmark_root, tmp_path / "r", "--json"))
    used = json.loads(first.out)["usage"].values()
    answers = sum(row["prompt_tokens"] + row["completion_tokens"] for row in used)
    limit = str(int(answers) + 5 * costly.TOKENS // 2)
    words = eval_words(benchmark_root, tmp_path / "r", "--json", "--judge", JUDGE, "--budget", limit)
    summary = json.loads(turnmark(*words).out)
    # What failed before is tried again first, and takes its part of the budget.
    retried = sum(row["prompt_tokens"] + row["completion_tokens"] for role, row in summary["usage"].items()
                  if role != "judge") - answers  # fmt: skip
    calls = len(costly.PROMPTS)
    assert calls == (5 * costly.TOKENS // 2 - retried) // costly.TOKENS
    spent = int(answers + retried) + calls * costly.TOKENS
    remaining = summary["judging"]["rl_mtb"]["failed"][costly.SPEC]
    assert any(note.startswith(STOPPED.format(spent, remaining)) for note in summary["notes"]), summary["notes"]


def test_a_budget_in_money_needs_a_price_for_every_judge(benchmark_root, turnmark, tmp_path):
    words = score_words(benchmark_root, tmp_path, "--judge", JUDGE, "--judge", "embedded", "--budget", "$4")
    message = turnmark.refused(*words)
    assert f"--budget: no price is known for {costly.SPEC}; give the budget in tokens, e.g. --budget 200k" in message
    assert f'[prices."{costly.SPEC}"]' in message
    assert "embedded" not in message
    prices(tmp_path, costly.SPEC, "EUR")
    assert "is in EUR, not USD" in re.sub(r"\s+", " ", turnmark(*words).err)
    prices(tmp_path, costly.SPEC)
    summary = done(turnmark, *words)
    assert len(costly.PROMPTS) == 3, "1.1 a call"
    assert any("3,300 tokens, 3.3000 USD spent" in note for note in summary.notes)


def test_judge_options_without_a_judge_are_refused(benchmark_root, turnmark, tmp_path):
    ran = turnmark(*score_words(benchmark_root, tmp_path, "--budget", "much", "--prompts", tmp_path / "nowhere"))
    printed = re.sub(r"\s+", " ", ran.err)
    for piece in ("'much' is not a budget", "no such folder", "--prompts is for judges", "--budget is for judges"):
        assert piece in printed
    words = ["score", "mtrag", "--task", "retrieval", "--predictions", "x", "--budget", "5", "--prompts", "x"]
    printed = re.sub(r"\s+", " ", turnmark(*words).err)
    assert "--budget belongs to generation" in printed
    assert "--prompts belongs to generation" in printed


def test_custom_judge_prompt_is_used_and_named(benchmark_root, turnmark, check_run):
    folder = Path("prompts")
    folder.mkdir()
    prompt = (PROMPTS / "rl-mtb.txt").read_text(encoding="utf-8")
    own = prompt.replace("You are impartial.", "You are a lighthouse keeper.")
    (folder / "rl-mtb.txt").write_text(own, encoding="utf-8")
    with ScriptedServer(judge()) as server:
        words = eval_words(benchmark_root, Path("r"), "--judge", spec_of(server, options="metrics=rl_mtb"))
        done(turnmark, *words)
        calls = len(server.bodies)
        manifest = json.loads(Path("r/manifest.json").read_text())
        prompts = [len(row["prediction"] or "") for row in lines(Path("r/predictions.jsonl"))]
        done(turnmark, *words, "--prompts", folder)
        check_run(Path("r"))
        prompts_sent = [body["messages"][0]["content"] for body in server.bodies]
        assert not any("lighthouse" in text for text in prompts_sent[:calls])
        assert all("lighthouse" in text for text in prompts_sent[calls:])
        assert len(prompts_sent) == 2 * calls, "all samples are judged again"
    after = json.loads(Path("r/manifest.json").read_text())
    assert after["prompts"] == manifest["prompts"], "the answers are those of the run before"
    assert [len(row["prediction"] or "") for row in lines(Path("r/predictions.jsonl"))] == prompts
    assert after["judge_prompts"].keys() == manifest["judge_prompts"].keys() == {"rl-mtb", "verdict-repair"}
    assert after["judge_prompts"]["rl-mtb"] != manifest["judge_prompts"]["rl-mtb"]
    assert after["judge_prompts"]["verdict-repair"] == manifest["judge_prompts"]["verdict-repair"]


def test_reports_every_mistake_in_a_prompts_folder(turnmark, tmp_path):
    for name, text in {"rl-mtb": "{{ inquiry }}", "answer": "{{ broken", "lighthouse": "x", "notes": "y"}.items():
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "README.md").write_text("what these are for")
    with pytest.raises(RequestError) as error:
        own_prompts(tmp_path)
    unused, broken, placeholders = error.value.problems
    assert "lighthouse.txt, notes.txt is not used" in unused
    assert "rl-mtb" in unused
    assert "understand" in unused
    assert f"prompt {tmp_path / 'answer.txt'}" in broken
    assert "unknown placeholders: inquiry" in placeholders
    assert "available: answer, conversation, history, passages, question, reference, tag" in placeholders
    ran = turnmark("eval", "mtrag", "--prompts", tmp_path, "--repeat", "0")
    printed = re.sub(r"\s+", " ", ran.err)
    assert ran.code == 2
    assert all(piece in printed for piece in ("lighthouse.txt", "answer.txt", "unknown placeholders", "--repeat 0"))
    with pytest.raises(RequestError, match="no such folder"):
        own_prompts(tmp_path / "nowhere")
