"""KIWI's revisions on written sessions: single ones, the paper's protocol, chains (`--chain`), and judged ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.evaluation.benched import asked, items_of, only, open_task, values
from tests.evaluation.judged_runs import lines
from tests.evaluation.kiwis import ANSWER, revising, session, turn, written
from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.llm.calls.protocols import GeneratorError
from turnmark.evaluation.benchmarks.kiwi.revision import Kiwi
from turnmark.evaluation.records import Sample
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.turn_samples import EarlierTurn


def evidence(bench, item):
    return [context.document_id for context in bench.answer(item, None).contexts]


def figures(bench, item, sample):
    """Length ratio, edit distance, edit ratio and words of the answer."""
    scores = values(bench, item, sample)
    assert list(scores) == ["length_ratio", "edit_distance", "edit_ratio", "answer_words"]
    return list(scores.values())


def test_removing_a_sentence_records_the_operation(tmp_path):
    bench, [item] = revising(tmp_path, session(turn(instruction="Shorten it.")))
    sample = bench.answer(item, None)
    assert sample.prediction == "The lamp was lit in 1868."
    assert sample.operations == ({"kind": "remove", "before": "It burned rape oil.", "after": ""},)
    assert figures(bench, item, sample) == [6 / 10, 4, 4 / 10, 6]
    labels = item.facts.labels
    assert (labels["instruction"], labels["type"], labels["rating"]) == ((), (), ("good",)), "what a turn does not say"


def test_a_turn_starts_from_the_recorded_answer_before_it(tmp_path):
    lit = "The lamp was lit. It burned."
    turns = (turn(answer_2=lit), turn(rating="bad", answer_1="No."), turn())
    bench, items = revising(tmp_path, session(*turns))
    assert [bench.answer(item, None).previous for item in items] == [ANSWER, lit, lit]


def test_model_revises_with_the_recorded_passages(tmp_path):
    passages = [{"title": "Oil", "text": "From 1885 it burned paraffin."}]
    bench, [item] = revising(tmp_path, session(turn(instruction="And later?", retrieved_passages=passages)))
    reply = f"{ANSWER} From 1885 it burned paraffin [1]."
    sample, [body] = asked(bench, item, Say(reply))
    prompt = body["messages"][-1]["content"]
    for piece in ("What of the lamp?", ANSWER, "And later?", "From 1885 it burned paraffin."):
        assert piece in prompt
    assert sample.prediction == reply
    assert [operation["kind"] for operation in sample.operations] == ["insert"]
    assert [used.calls for used in sample.usage.values()] == [1]
    assert figures(bench, item, sample) == [1.6, 6, 0.6, 16]


def test_evidence_falls_back_from_turn_to_session_to_papers(tmp_path):
    mine, shared = ["Of the turn.", "Also of the turn."], ["Of the session."]
    rows = (
        session(turn(retrieved_passages=mine), turn(), retrieved_passages=shared),
        session(turn(), model_name="other"), session(turn(), original_question="What of the horn?"),
    )  # fmt: skip
    bench, items = revising(tmp_path, *rows, papers=[f"Paragraph {n}." for n in range(7)])
    assert [evidence(bench, item) for item in items] == [
        ["0/0#passage-1", "0/0#passage-2"], ["0#passage-1"], [f"1#paragraph-{n}" for n in range(1, 6)], [],
    ]  # fmt: skip


def test_texts_count_as_written_and_a_file_does_not_choose_the_previous_answer(tmp_path):
    bench, [item] = revising(tmp_path, session(initial_answer="The lamp [0] was lit [1, 2]."))
    sample = Sample(id=item.id, status="done", prediction="The lamp was lit at night [3].", previous="Something else.")
    assert figures(bench, item, sample) == [7 / 7, 4, 4 / 7, 7]
    assert figures(bench, item, sample.model_copy(update={"prediction": ""})) == [0, 7, 1, 0]


PASSAGES = [{"title": "Oil lamps", "text": "From 1885 it burned paraffin."}]
SEEKING = turn(instruction="And later?", instruction_type="information-seeking", retrieved_passages=PASSAGES)
STYLE = turn(instruction="Shorten it.", instruction_type="stylistic", retrieved_passages=PASSAGES)


def rewritten(root, turn_fields, *replies):
    bench = open_task(Kiwi, written(root, session(turn_fields)), protocol="paper")
    return asked(bench, only(bench), *replies)


def prompt_of(body):
    return "\n".join(message["content"] for message in body["messages"])


def test_an_instruction_that_seeks_information_takes_a_summary_and_then_the_whole_answer(tmp_path):
    revision = f"{ANSWER} From 1885 it burned paraffin [1]."
    sample, bodies = rewritten(tmp_path, SEEKING, Say("Paraffin, from 1885 [1]."), Say(revision))
    first, second = map(prompt_of, bodies)
    for text in ("Oil lamps", "From 1885 it burned paraffin.", ANSWER, "And later?"):
        assert text in first
    for text in ("What of the lamp?", ANSWER, "And later?", "Paraffin, from 1885 [1]."):
        assert text in second
    assert "Oil lamps" not in second
    assert [body["temperature"] for body in bodies] == [0.7, 0.7]
    assert sample.prediction == revision
    assert [operation["kind"] for operation in sample.operations] == ["insert"]
    assert [context.document_id for context in sample.contexts] == ["0/0#passage-1"]
    assert sample.usage["revise"].calls == 2


def test_other_instructions_take_one_call_without_passages(tmp_path):
    sample, [body] = rewritten(tmp_path, STYLE, Say("asdf"))
    assert "Oil lamps" not in prompt_of(body)
    assert (sample.prediction, sample.contexts, sample.usage["revise"].calls) == ("asdf", (), 1)


def test_an_empty_reply_fails_and_its_cost_is_counted(tmp_path):
    with pytest.raises(GeneratorError) as caught:
        rewritten(tmp_path, SEEKING, Say("Paraffin."), Say(""))
    assert (caught.value.kind, caught.value.usage.calls) == ("bad_reply", 2)


def test_the_command_chains_whole_answers_with_their_marks(turnmark, tmp_path):
    written(tmp_path, session(STYLE, STYLE))
    words: list[str | Path] = ["eval", "kiwi", "--data", tmp_path, "--protocol", "paper"]
    replies = [Say("First [1]."), Say("Second [1]."), Say("Third [1].")]
    with ScriptedServer(*replies) as server:
        spec = f"openai:tiny@{server.url}?retries=0"
        turnmark.ok(*words, "--chain", "--generator", spec, "--out", tmp_path / "r", "--json")
    rows = [json.loads(line) for line in (tmp_path / "r/predictions.jsonl").read_text().splitlines()]
    assert [(row["previous"], row["prediction"]) for row in rows] == [
        ("First [1].", "Second [1]."), ("Second [1].", "Third [1]."),
    ]  # fmt: skip
    manifest = json.loads((tmp_path / "r/manifest.json").read_text())
    assert manifest["specs"]["protocol"] == "paper"
    assert {"prompt kiwi-first", "prompt kiwi-information", "prompt kiwi-rewrite"} <= manifest["inputs"].keys()


def test_reports_all_mistakes_of_a_revision_request(turnmark):
    ran = turnmark("eval", "kiwi", "--protocol", "paper", "--step", "understand=rules")
    message = " ".join(ran.err.split())
    assert ran.code == 2
    assert "--protocol paper asks a language model by the paper's prompts" in message
    assert "--step is for the steps of the turn" in message
    ran = turnmark("eval", "kiwi", "--task", "judge", "--protocol", "paper")
    assert (ran.code, "is for the task revise" in " ".join(ran.err.split())) == (2, True)


def test_report_says_that_all_revisions_are_copies(turnmark):
    turnmark.ok("eval", "kiwi", "--limit", "2", "--out", "run")
    assert "all 2 revisions are copies of the answer before them" in " ".join(turnmark.ok("report", "run").out.split())


STYLISTIC = {"instruction_type": "stylistic"}


def say(number):
    return turn(instruction=f'Add "{number} was said here." at the end.', **STYLISTIC)


def reviser(fail="never"):
    """Writes first answers that name their question, and adds what is to be added; refuses what holds `fail`."""

    def reply(body):
        system, prompt = body["messages"][0]["content"], body["messages"][-1]["content"]
        if "You answer a research question" in system:
            return Say(f"First answer to {(re.search('Q[0-9][?]', prompt) or ['it'])[0]}")
        _, _, asked = prompt.rpartition("Your last answer, which ends the conversation so far:")
        if fail in asked:
            return Status(400)
        previous = " ".join(re.findall("^> (.+)", asked, re.MULTILINE))
        addition = asked.split('"')[1]
        return Say(f"{previous} {addition}")

    return reply


def test_each_turn_continues_from_our_own_answer(turnmark, tmp_path, check_run):
    rows = [session(say("One"), say("Two"), say("Three"), original_question=f"Q{n}?", model_name="m") for n in range(3)]
    source = written(tmp_path / "data", *rows)
    with ScriptedServer(reviser()) as server:
        ran = turnmark("eval", "kiwi", "--data", source.root, "--generator", f"openai:tiny@{server.url}?retries=0",
                       "--chain", "--repeat", "2", "--out", "run", "--json")  # fmt: skip
    assert ran.code == 0, ran.err
    check_run(Path("run"))
    summary = json.loads(ran.out)
    assert (summary["n"], summary["failed"], summary["specs"]["chain"]) == (18, 0, "our own answers")
    row_of = {(row["id"], row["repeat"]): row for row in lines(Path("run/predictions.jsonl"))}
    for n in range(3):
        for repeat in range(2):
            text = f"First answer to Q{n}?"
            for place, number in enumerate(("One", "Two", "Three")):
                row = row_of[(f"{n}/{place}", repeat)]
                assert row["previous"] == text
                text = f"{text} {number} was said here."
                assert row["prediction"] == text
    assert {body["temperature"] for body in server.bodies} == {0.7}
    # Four words each time, on 4, 8 and 12 words.
    assert summary["metrics"]["edit_distance"]["mean"] == 4
    assert summary["metrics"]["edit_ratio"]["mean"] == pytest.approx((4 / 4 + 4 / 8 + 4 / 12) / 3)


def test_failed_turn_fails_later_turns_until_resumed(turnmark, tmp_path):
    source = written(tmp_path / "data", session(say("One"), say("Two"), say("Three")), session(say("Four"), say("Five"),
                     original_question="Q1?"))  # fmt: skip
    with ScriptedServer(reviser("Two")) as server:
        spec = f"openai:tiny@{server.url}?retries=0"
        words = ["eval", "kiwi", "--data", str(source.root), "--generator", spec, "--chain", "--out", "run", "--json"]
        first = turnmark.ok(*words)
        assert json.loads(first.out)["failed"] == 2
        broken = {row["id"]: row for row in lines(Path("run/predictions.jsonl")) if row["status"] == "failed"}
        assert list(broken) == ["0/1", "0/2"]
        assert broken["0/2"]["kind"] == "EarlierTurn"
        assert "turn 0/1 has no answer to continue from" in broken["0/2"]["reason"]
        before = len(server.bodies)
        server.replies[:] = [reviser()]
        again = turnmark(*words)
        assert json.loads(again.out)["failed"] == 0
        assert len(server.bodies) == before + 2  # what was done is not asked for again
    rows = {row["id"]: row for row in lines(Path("run/predictions.jsonl"))}
    assert rows["0/2"]["previous"] == rows["0/1"]["prediction"]
    assert rows["0/1"]["previous"] == rows["0/0"]["prediction"]


def test_refuses_chains_with_gaps(tmp_path):
    bench = open_task(Kiwi, written(tmp_path, session(say("One"), say("Two"))), chain=True)
    first, second = items_of(bench)
    bad = Sample(id="0/0", status="failed", kind="timeout", reason="timeout: late")
    with pytest.raises(EarlierTurn, match="timeout: late"):
        bench.answer(Item(second.id, second.task, after="0/0", earlier=bad), None)
    # By rules a session begins with the recorded answer, and marks do not pass on.
    assert bench.answer(first, None).previous == ANSWER
    good = Sample(id="0/0", status="done", prediction="It was lit [1].")
    sample = bench.answer(Item(second.id, second.task, after="0/0", earlier=good), None)
    assert (sample.previous, sample.prediction) == ("It was lit.", "It was lit.")
    assert values(bench, second, sample)["edit_distance"] == 0


def test_a_judge_rates_revisions_as_users_do(turnmark, tmp_path, check_run):
    short = "Shorten it."
    rows = [session(turn(instruction=short, fine_type="Remove"), turn(instruction="Dance.", fine_type="Others")),
            session(turn(instruction=short), original_question="Q?")]  # fmt: skip
    source = written(tmp_path / "data", *rows)

    def reply(body):
        system, prompt = body["messages"][0]["content"], body["messages"][-1]["content"]
        assert "You rate, in the user's place" in system
        revised = prompt.rpartition("<reply-")[2]
        if "Dance" in prompt:
            return Say("Nobody danced. [[good]] would be wrong.\nVerdict: [[neutral]]")
        return Say(f"Done.\nVerdict: [[{'bad' if 'rape' in revised else 'good'}]]")

    with ScriptedServer(reply) as server:
        spec = f"openai:tiny@{server.url}?retries=0"
        ran = turnmark("eval", "kiwi", "--data", source.root, "--judge", spec, "--judge", "embedded", "--out", "run",
                       "--json")  # fmt: skip
    assert ran.code == 0, ran.err
    check_run(Path("run"))
    summary = json.loads(ran.out)
    assert summary["metrics"]["good"]["mean"] == pytest.approx(2 / 3)
    assert summary["breakdowns"]["instruction"]["Others"]["good"]["mean"] == 0
    assert summary["metrics"]["good[embedded]"]["n"] == 3
    labels = {row["id"]: row["label"] for row in lines(Path("run/judgements.jsonl")) if row["measure"] == "good"}
    assert labels == {"0/0": "good", "0/1": "neutral", "1/0": "good"}
    for body in server.bodies:
        prompt = body["messages"][-1]["content"]
        assert [name for name in ("previous", "instruction", "reply") if f"<{name}-" not in prompt] == []
    assert any(row["metrics"] == {"good": 0.3968} and "judge" in row["differs"] for row in summary["published"])
