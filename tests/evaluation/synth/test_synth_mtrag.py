"""`turnmark synth mtrag` as a user runs it: conversations made, filtered, resumed, and opened by `eval mtrag-s`."""

from __future__ import annotations

import json

from tests.evaluation.synth.player import one_an_attempt
from tests.servers import Say, Status
from turnmark.corpora.benchmarks import mtrag
from turnmark.evaluation.synth.synthesis_folder import SynthManifest

TASKS = "mtrag-synthetic/generation_tasks/synthetic.jsonl"


def test_conversations_load_as_mtrag_s(synth, turnmark):
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
    assert {"mtrag-question", "mtrag-answer"} == set(manifest.prompts)
    assert manifest.corpus.documents == 80


def test_resumes_with_a_larger_n_and_refuses_another_request(synth):
    first = synth("mtrag", "--n", 1, "--turns", 3, "--concurrency", 1)
    lines = (first.out / "items.jsonl").read_text("utf-8")
    again = synth("mtrag", "--n", 1, "--turns", 3, out=first.out)
    assert (again.requests, again.ran.code, again.report["kept"]) == (0, 0, 1)
    more = synth("mtrag", "--n", 2, "--turns", 3, out=first.out)
    assert more.report["kept"] == 2
    assert (first.out / "items.jsonl").read_text("utf-8").startswith(lines)
    assert more.report["usage"]["generator"]["calls"] > first.report["usage"]["generator"]["calls"]
    refused = synth("mtrag", "--n", 1, "--turns", 4, "--seed", 2, out=first.out)
    assert refused.ran.code == 2
    assert "options.turns: 3 there, 4 here" in refused.ran.err
    assert "seed: 0 there, 2 here" in refused.ran.err


def always(name, reply):
    """A fault: the reply to all prompts of that name."""
    return lambda prompt, _: reply if prompt == name else None


SPEAKS = always("mtrag-question", Say('{"question": "What does the passage say?"}'))
UNKNOWN = "Sorry, I do not have that information."


def answer(text, label="ANSWERABLE", passages=(1,)):
    return Say(json.dumps({"answer": text, "answerability": label, "passages": list(passages)}))


FAULTS = [
    (always("mtrag-answer", answer("Submarines from Atlantis patrol Neptune.")), "faithfulness", "below 0.7"),
    (always("mtrag-answer", answer(UNKNOWN)), "idk", "labeled ANSWERABLE, and the judge hears yes"),
    (always("mtrag-answer", Say("{'answer': oops")), "answer", "no usable reply: invalid"),
    (always("mtrag-answer", answer("So.", passages=[9])), "answer", "names a passage that does not exist"),
    (SPEAKS, "question", "speaks of a document that the user has not seen"),
]


def test_rejects_keep_the_text_of_the_model(synth):
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
    def wrong(name, parts):
        return answer(UNKNOWN, "UNANSWERABLE", ()) if name == "mtrag-answer" and parts.get("user") else None

    outcome = synth("mtrag", "--n", 1, "--turns", 4, wrong=wrong)
    turns = outcome.lines("items.jsonl")[0]["content"]["turns"]
    assert [turn["answerability"] for turn in turns] == ["ANSWERABLE", "UNANSWERABLE", "UNANSWERABLE"]
    assert set(outcome.report["filters"]["answer"]) == {"more than 2 are unanswerable"}
    loaded = mtrag.load_tasks(outcome.out, "mtrag-s")
    assert not loaded.problems
    assert [len(task.contexts) for task in loaded.data.values()] == [1, 0, 0]


def test_rejected_answer_is_retried_before_another_question(synth):
    answers = []

    def wrong(name, parts):
        if name == "mtrag-answer":
            answers.append(parts["question"])
        lone = Say('{"answer": "So.", "answerability": "ANSWERABLE", "passages": []}')
        return lone if name == "mtrag-answer" and len(answers) == 1 else None

    outcome = synth("mtrag", "--n", 1, "--turns", 3, wrong=wrong)
    assert outcome.report["kept"] == 1
    assert answers[0] == answers[1] != answers[2]
    assert outcome.report["filters"] == {"answer": {"names no supporting passage": 1}}
    requests = [body for body in synth.server.bodies if "from numbered passages" in body["messages"][0]["content"]]
    assert [body.get("temperature") for body in requests[:3]] in ([None, 0.7, None], [0, 0.7, 0])


def test_duplicate_conversations_are_kept_once(synth):
    def wrong(name, parts):
        count = len(parts.get("user", []))
        words = ("ferry", "harbour", "sheep", "bread", "school")
        return Say(json.dumps({"question": f"What about the {words[count]}?"})) if name == "mtrag-question" else None

    outcome = synth("mtrag", "--n", 2, "--turns", 3, wrong=wrong)
    assert outcome.report["kept"] == 1
    assert "every seed was tried, or 5 times the attempts" in outcome.report["notes"][0]
    assert outcome.report["filters"]["duplicate"] == {"duplicates another item": 14}
    assert outcome.lines("rejects.jsonl")[-1]["about"]["duplicate_of"] == outcome.lines("items.jsonl")[0]["id"]


def test_failures_and_budget_end_it_early(synth):
    many = synth("mtrag", "--n", 9, "--max-failures", 1, "--concurrency", 1, replies=[Status(500)] * 4)
    assert (many.ran.code, many.report["failed"]) == (1, 2)
    flags = ("mtrag", "--n", 2, "--turns", 3, "--concurrency", 1)
    some = synth(*flags, replies=[Status(500), Status(500)])
    assert (some.ran.code, some.report["kept"], some.report["failed"]) == (0, 1, 1)
    assert "attempts failed: 1; the same command tries them again" in some.report["notes"][0]
    again = synth(*flags, out=some.out)
    assert (again.report["kept"], again.report["failed"]) == (2, 0)
    # The same two as if nothing had failed.
    assert sorted(row["id"] for row in again.lines("items.jsonl")) == ["mtrag-000000", "mtrag-000001"]
    dear = synth("mtrag", "--n", 9, "--turns", 3, "--budget", "6k", "--concurrency", 1)
    assert dear.ran.code == 0
    assert dear.report["kept"] < 9
    assert any("stopped by --budget" in note for note in dear.report["notes"])


def test_killed_synthesis_makes_each_item_once(synth):
    outcome = synth("mtrag", "--n", 3, "--turns", 3, "--concurrency", 1)
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
    # What somebody takes out of the file is left out and made up for, and how many run at once changes nothing.
    items.write_text("".join(json.dumps(row) + "\n" for row in before[1:]), "utf-8")
    more = synth("mtrag", "--n", 3, "--turns", 3, out=outcome.out)
    assert (more.ran.code, more.report["kept"]) == (0, 3)
    assert more.lines("items.jsonl")[:2] == before[1:]


def test_reports_all_mistakes_of_a_synthesis_request(turnmark, with_index):
    message = turnmark.refused("synth", "mtrag", "--generator", "extractive", "--n", 0, "--concurrency", 0)
    for part in ("--index names", "the embedded forms cannot write questions", "--n 0", "--concurrency 0"):
        assert part in message
    assert "there is no default" in turnmark("synth", "mtrag", "--index", "demo").err
    # A wrong setting of the kind's own hides no other mistake.
    own = turnmark("synth", "compound-qa", "--types", "Riddle", "--capability", "Wit", "--judge", "embedded", "--n", 0)
    assert "there are: Understanding, Reasoning, Knowledge" in own.err
    for part in (
        "no type 'Riddle'",
        "no capability 'Wit'",
        "--judge embedded: the embedded forms cannot tell",
        "--index names",
        "there is no default",
        "--n 0",
    ):
        assert part in own.err
