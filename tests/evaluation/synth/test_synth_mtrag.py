"""`turnmark synth mtrag` as a user runs it: conversations made, filtered, resumed, and opened by `eval mtrag-s`."""

from __future__ import annotations

import json

from tests.evaluation.synth.player import begins_attempt, one_an_attempt
from tests.servers import Say, Status
from turnmark.corpora import mtrag
from turnmark.evaluation.synth.folder import SynthManifest

TASKS = "mtrag-synthetic/generation_tasks/synthetic.jsonl"


def test_conversations_open_as_mtrag_s(synth, turnmark):
    outcome = synth("mtrag", "--n", 3, "--turns", 4)
    assert outcome.ran.code == 0, outcome.ran.err
    assert outcome.report["kept"] == 3
    assert outcome.report["failed"] == 0
    loaded = mtrag.load_tasks(outcome.out, "mtrag-s")
    assert not loaded.problems
    tasks = list(loaded.data.values())
    assert {task.domain for task in tasks} == {"demo"}
    assert len({task.conversation for task in tasks}) == 3
    for task in tasks:
        assert len(task.history) == 2 * (task.turn - 1)
        assert task.turn <= 4
        assert task.contexts[0].text
        assert task.question_types
        assert (task.multi_turn == "N/A") == (task.turn == 1)
    # The search comes after each message: what is shown with a turn is what was found for that turn.
    assert len({task.contexts[0].document_id for task in tasks}) > 3
    corpus = outcome.lines("corpora/passage_level/demo.jsonl")
    assert {context.document_id for task in tasks for context in task.contexts} <= {row["_id"] for row in corpus}
    ran = turnmark.json("eval", "mtrag-s", "--data", outcome.out, "--dry-run", "--out", outcome.out / "run")
    assert ran["n"] == len(tasks)
    manifest = SynthManifest.model_validate_json((outcome.out / "manifest.json").read_bytes())
    assert {"mtrag-question", "mtrag-answer", "claims", "claim-verdicts", "idk"} == set(manifest.prompts)
    assert manifest.corpus.documents == 80


def test_the_same_command_asks_nothing_and_a_larger_n_goes_on(synth):
    first = synth("mtrag", "--n", 1, "--turns", 3)
    lines = (first.out / "items.jsonl").read_text("utf-8")
    again = synth("mtrag", "--n", 1, "--turns", 3, out=first.out)
    assert (again.requests, again.ran.code, again.report["kept"]) == (0, 0, 1)
    more = synth("mtrag", "--n", 2, "--turns", 3, out=first.out)
    assert more.report["kept"] == 2
    assert (first.out / "items.jsonl").read_text("utf-8").startswith(lines)
    assert more.report["usage"]["generator"]["calls"] > first.report["usage"]["generator"]["calls"]


def test_how_many_run_at_once_changes_nothing(synth):
    alone, many = (synth("mtrag", "--n", 3, "--turns", 3, "--concurrency", n) for n in (1, 8))
    assert sorted(alone.lines("items.jsonl"), key=lambda row: row["id"]) == sorted(
        many.lines("items.jsonl"), key=lambda row: row["id"]
    )


def test_another_request_for_the_same_folder_is_refused(synth):
    outcome = synth("mtrag", "--n", 1, "--turns", 3)
    refused = synth("mtrag", "--n", 1, "--turns", 4, "--seed", 2, out=outcome.out)
    assert refused.ran.code == 2
    assert "options.turns: 3 there, 4 here" in refused.ran.err
    assert "seed: 0 there, 2 here" in refused.ran.err


def verdicts(supported):
    rows = [{"claim": n, "reason": "no", "supported": supported} for n in (1, 2)]
    return Say(json.dumps({"verdicts": rows}))


def always(name, reply):
    """A fault: the reply to all prompts of that name."""
    return lambda prompt, _: reply if prompt == name else None


SPEAKS = always("mtrag-question", Say('{"question": "What does the passage say?"}'))
FAULTS = [
    (always("claim-verdicts", verdicts(False)), "faithfulness", "below 0.75"),
    (always("idk", Say("Verdict: [[yes]]")), "idk", "labelled ANSWERABLE, and the judge hears yes"),
    (always("claims", Say(json.dumps({"claims": []}))), "faithfulness", "claims nothing that could be checked"),
    (always("mtrag-answer", Say("{'answer': oops")), "answer", "no usable reply: invalid"),
    (
        always("mtrag-answer", Say('{"answer": "So.", "answerability": "ANSWERABLE", "passages": [9]}')),
        "answer",
        "names a passage that there is not",
    ),
    (SPEAKS, "question", "speaks of a document that the user has not seen"),
]


def test_what_is_wrong_is_rejected_with_what_the_model_wrote(synth):
    wrong = one_an_attempt("mtrag-question", [fault for fault, _, _ in FAULTS])
    outcome = synth("mtrag", "--n", 2, "--turns", 3, "--concurrency", 1, wrong=wrong)
    assert outcome.ran.code == 0, outcome.ran.err
    assert (outcome.report["kept"], outcome.report["attempts"]) == (2, len(FAULTS) + 2)
    filters = outcome.report["filters"]
    assert filters["conversation"] == {"it ended before its turn 2": len(FAULTS)}
    rejects = outcome.lines("rejects.jsonl")
    for _, stage, reason in FAULTS:
        # Four messages, each with two answers; where one passed its own filters the next may repeat it.
        assert 1 <= filters[stage][reason] <= 8
        assert all(reject["raw"] for reject in rejects if (reject["stage"], reject["reason"]) == (stage, reason))


def test_no_more_turns_are_unanswerable_than_the_paper_has(synth):
    unknown = "Sorry, I do not have that information."
    reply = Say(json.dumps({"answer": unknown, "answerability": "UNANSWERABLE", "passages": []}))

    def wrong(name, parts):
        if name == "mtrag-answer" and parts.get("user"):
            return reply
        return Say("Verdict: [[yes]]") if name == "idk" and unknown in json.dumps(parts) else None

    outcome = synth("mtrag", "--n", 1, "--turns", 4, wrong=wrong)
    turns = outcome.lines("items.jsonl")[0]["content"]["turns"]
    assert [turn["answerability"] for turn in turns] == ["ANSWERABLE", "UNANSWERABLE", "UNANSWERABLE"]
    assert set(outcome.report["filters"]["answer"]) == {"more than 2 are unanswerable"}
    loaded = mtrag.load_tasks(outcome.out, "mtrag-s")
    assert not loaded.problems
    assert [len(task.contexts) for task in loaded.data.values()] == [1, 0, 0]


def test_a_rejected_message_is_asked_for_in_another_way(synth):
    """The third turn is rejected three times; the two before it stay, and each further request is another. None names
    a rejected message, which a small model would copy."""
    rejected = ["What does the passage say?", "What does the text say?", "According to the text, what?"]
    requests = []

    def wrong(name, parts):
        if name != "mtrag-question" or len(parts.get("user", [])) != 2:
            return None
        requests.append(parts)
        return Say(json.dumps({"question": rejected[len(requests) - 1]})) if len(requests) <= len(rejected) else None

    outcome = synth("mtrag", "--n", 1, "--turns", 3, wrong=wrong)
    assert outcome.report["kept"] == 1
    assert outcome.report["attempts"] == 1
    assert [len(request["passage"]) for request in requests[2:]] == [1, 1]
    assert len(outcome.lines("items.jsonl")[0]["content"]["turns"]) == 3
    assert not any(question in json.dumps(request) for question in rejected for request in requests)
    assert len({request["passage"][0] for request in requests[2:]}) == 2, "each from a passage that was not used"
    assert len({tuple(request["user"]) for request in requests}) == 1, "the two turns before it are the same"
    assert requests[0]["passage"] == requests[1]["passage"]
    third = [body for body in synth.server.bodies if "You play a person" in body["messages"][0]["content"]][-4:]
    assert [body["temperature"] for body in third] == [0.7, 0.85, 1.0, 1.0]
    kinds = [body["messages"][0]["content"].partition("of this kind: ")[2].partition("\n")[0] for body in third]
    assert len(set(kinds)) == 4


def test_a_rejected_answer_is_written_once_more_before_another_question(synth):
    answers = []

    def wrong(name, parts):
        if name == "mtrag-answer":
            answers.append(parts["question"])
        lone = Say('{"answer": "So.", "answerability": "ANSWERABLE", "passages": []}')
        return lone if name == "mtrag-answer" and len(answers) == 1 else None

    outcome = synth("mtrag", "--n", 1, "--turns", 3, wrong=wrong)
    assert outcome.report["kept"] == 1
    assert answers[0] == answers[1] != answers[2]
    assert outcome.report["filters"] == {"answer": {"names no passage that it rests on": 1}}
    requests = [body for body in synth.server.bodies if "from numbered passages" in body["messages"][0]["content"]]
    assert [body.get("temperature") for body in requests[:3]] in ([None, 0.7, None], [0, 0.7, 0])


def test_conversations_that_say_the_same_are_kept_once(synth):
    def wrong(name, parts):
        count = len(parts.get("user", []))
        words = ("ferry", "harbour", "sheep", "bread", "school")
        return Say(json.dumps({"question": f"What about the {words[count]}?"})) if name == "mtrag-question" else None

    outcome = synth("mtrag", "--n", 2, "--turns", 3, wrong=wrong)
    assert outcome.report["kept"] == 1
    assert "every seed was tried, or 5 times as many attempts" in outcome.report["notes"][0]
    assert outcome.report["filters"]["duplicate"] == {"says the same as another": 14}
    assert outcome.lines("rejects.jsonl")[-1]["about"]["duplicate_of"] == outcome.lines("items.jsonl")[0]["id"]


def test_calls_that_fail_leave_the_attempt_to_be_tried_again(synth):
    outcome = synth("mtrag", "--n", 2, "--turns", 3, "--concurrency", 1, replies=[Status(500), Status(500)])
    assert outcome.ran.code == 0
    assert (outcome.report["kept"], outcome.report["failed"]) == (1, 1)
    assert "1 attempt failed; the same command tries again" in outcome.report["notes"][0]
    again = synth("mtrag", "--n", 2, "--turns", 3, "--concurrency", 1, out=outcome.out)
    assert (again.report["kept"], again.report["failed"]) == (2, 0)
    # The same two as if nothing had failed.
    assert sorted(row["id"] for row in again.lines("items.jsonl")) == ["mtrag-000000", "mtrag-000001"]


def test_failures_and_budget_end_it_early(synth):
    many = synth("mtrag", "--n", 9, "--max-failures", 1, "--concurrency", 1, replies=[Status(500)] * 4)
    assert (many.ran.code, many.report["failed"]) == (1, 2)
    dear = synth("mtrag", "--n", 9, "--turns", 3, "--budget", "9k", "--concurrency", 1)
    assert dear.ran.code == 0
    assert dear.report["kept"] < 9
    assert any("stopped by --budget" in note for note in dear.report["notes"])


def test_what_a_kill_leaves_is_made_once(synth):
    outcome = synth("mtrag", "--n", 3, "--turns", 3)
    before = sorted(outcome.lines("items.jsonl"), key=lambda row: row["id"])
    attempts = outcome.out / "attempts.jsonl"
    rows = attempts.read_bytes().splitlines(keepends=True)
    attempts.write_bytes(rows[0] + rows[1][:40])  # the second is torn, the third was never written
    items = outcome.out / "items.jsonl"
    items.write_bytes(items.read_bytes() + b'{"id": "torn')
    (outcome.out / TASKS).unlink()
    again = synth("mtrag", "--n", 3, "--turns", 3, out=outcome.out)
    assert again.ran.code == 0, again.ran.err
    assert sorted(again.lines("items.jsonl"), key=lambda row: row["id"]) == before
    assert not mtrag.load_tasks(outcome.out, "mtrag-s").problems


def test_an_item_that_somebody_takes_out_of_the_file_is_left_out_and_made_up_for(synth):
    outcome = synth("mtrag", "--n", 3, "--turns", 3)
    kept = outcome.lines("items.jsonl")[1:]
    (outcome.out / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept), "utf-8")
    again = synth("mtrag", "--n", 3, "--turns", 3, out=outcome.out)
    assert (again.ran.code, again.report["kept"]) == (0, 3)
    assert again.lines("items.jsonl")[:2] == kept
    conversations = {task.conversation for task in mtrag.load_tasks(outcome.out, "mtrag-s").data.values()}
    assert len(conversations) == 3


def test_a_dry_run_says_what_it_takes_and_asks_nothing(synth):
    outcome = synth("mtrag", "--n", 10, "--dry-run")
    assert outcome.requests == 0
    assert not outcome.out.exists()
    plan = outcome.report
    assert (plan["wanted"], plan["attempts"]) == (10, 10)
    # About six turns a conversation, two calls each; the judge is asked for IDK, claims and verdicts.
    assert 80 <= plan["estimated"]["generator"]["calls"] <= 160
    assert 1.4 <= plan["estimated"]["judge"]["calls"] / plan["estimated"]["generator"]["calls"] <= 1.6


def test_a_wrong_request_says_all_its_mistakes(turnmark, with_index):
    message = turnmark.refused(
        "synth", "mtrag", "--generator", "extractive", "--judge", "nobody", "--n", 0, "--concurrency", 0
    )
    for part in ("--index names", "the embedded forms write no questions", "nobody", "--n 0", "--concurrency 0"):
        assert part in message
    assert "there is no default" in turnmark("synth", "mtrag", "--index", "demo").err
    # A wrong setting of the kind's own hides no other mistake.
    own = turnmark("synth", "compound-qa", "--types", "Riddle", "--judge", "embedded", "--n", 0)
    for part in ("no type 'Riddle'", "--index names", "there is no default", "need a language model", "--n 0"):
        assert part in own.err


def test_the_embedded_judge_filters_too(synth):
    begun = 0

    def wrong(name, parts):
        nonlocal begun
        begun += begins_attempt("mtrag-question", name, parts)
        reply = {"answer": "Submarines from Atlantis patrol Neptune.", "answerability": "ANSWERABLE", "passages": [1]}
        return Say(json.dumps(reply)) if name == "mtrag-answer" and begun == 1 else None

    outcome = synth("mtrag", "--n", 1, "--turns", 3, "--concurrency", 1, judge=False, wrong=wrong)
    assert (outcome.report["kept"], outcome.report["attempts"]) == (1, 2)
    assert set(outcome.player.asked) == {"mtrag-question", "mtrag-answer"}
    assert set(outcome.report["filters"]["faithfulness"]) == {"below 0.7"}
