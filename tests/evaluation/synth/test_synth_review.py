"""`turnmark synth review`: decisions by line, what they change, who may say what, and how far a sample holds."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from turnmark.corpora import compound_qa, mtrag
from turnmark.evaluation.synth.folder import SynthItem
from turnmark.evaluation.synth.review import decision
from turnmark.evaluation.synth.reviews import Review, reviewed, take_in


def test_decisions_a_line_each_change_the_files(conversations, turnmark):
    lines = "accept\nr hallucination the second turn\ne turns.0.answer=It is otherwise.\n"
    outcome = turnmark.json("synth", "review", conversations / "items.jsonl", "--reviewer", "ann", stdin=lines)
    assert (outcome["asked"], outcome["decided"], outcome["left"]) == (3, 3, 0)
    assert outcome["decisions"] == {"accept": 1, "reject": 1, "edit": 1}
    assert outcome["reasons"] == {"hallucination": 1}
    tasks = list(mtrag.load_tasks(conversations, "mtrag-s").data.values())
    assert len({task.conversation for task in tasks}) == 2
    edited_first = [task for task in tasks if task.reference == "It is otherwise."]
    assert len(edited_first) == 1
    later = [task for task in tasks if task.conversation == edited_first[0].conversation and task.turn > 1]
    # What was edited is what the later turns have been told.
    assert all(task.history[1].content == "It is otherwise." for task in later)
    assert "1 rejected, 1 edited" in (conversations / "data_sheet.md").read_text("utf-8")
    # items.jsonl stays as it was made.
    assert "It is otherwise." not in (conversations / "items.jsonl").read_text("utf-8")


def test_a_review_goes_on_and_a_synthesis_keeps_it(synth, turnmark):
    conversations = synth("mtrag", "--n", 3, "--turns", 3).out
    first = turnmark.json("synth", "review", conversations, stdin="a\n")
    assert (first["decided"], first["left"]) == (1, 2)
    second = turnmark.json("synth", "review", conversations, stdin="s\nr other\nq\n")
    assert (second["decided"], second["left"]) == (1, 1)
    more = synth("mtrag", "--n", 4, "--turns", 3, out=conversations)
    assert more.report["kept"] == 4
    tasks = mtrag.load_tasks(conversations, "mtrag-s").data.values()
    assert len({task.conversation for task in tasks}) == 3


def test_a_line_that_is_none_leaves_its_item_and_is_told(conversations, turnmark):
    lines = "yes\nr because\ne turns.0.answerability=MAYBE\n"
    ran = turnmark("synth", "review", conversations, "--json", stdin=lines)
    assert ran.code == 2
    assert json.loads(ran.out)["decided"] == 0
    for part in ("line 1: 'yes'", "line 2: 'r because'", "reversal, hallucination, marketing", "no text to edit at"):
        assert part in ran.err
    assert not (conversations / "reviews.jsonl").exists()


def test_the_accuracy_of_a_sample_beside_the_paper_s(conversations, turnmark):
    ran = turnmark.ok("synth", "review", conversations, "--sample", "67%", stdin="a\nr reversal\n")
    assert "accuracy 50.00% of 2 inspected (InsCoQA's inspection: 95.15% of a tenth)" in ran.out
    again = turnmark.json("synth", "review", conversations, "--sample", "67%", stdin="")
    assert again["sample"] == {"n": 2, "accepted": 1, "accuracy": 0.5, "paper": 0.9515}
    # What one has thrown out is not among the data of which another draws a sample; what was decided before counts.
    turnmark.ok("synth", "review", conversations, "--reviewer", "bo", stdin="a\n")
    bo = turnmark.json(
        "synth", "review", conversations, "--reviewer", "bo", "--sample", "100%", stdin="e turns.0.answer=No.\n"
    )
    assert (bo["asked"], bo["decided"], bo["left"]) == (2, 1, 0)
    assert bo["sample"] == {"n": 2, "accepted": 1, "accuracy": 0.5, "paper": 0.9515}
    assert turnmark("synth", "review", conversations, "--sample", "0%", stdin="").code == 2
    assert turnmark("synth", "review", conversations, "--reviewer", "../x\n", stdin="").code == 2


def test_only_what_three_people_gave_a_two_is_kept(synth, turnmark):
    out = synth("compound-qa", "--n", 3, "--types", "Factual-Statement", judge=False).out
    # An edit is scored as well, now or later, and holds beside the score.
    for name, lines, undecided in (
        ("ann", "e com_reference=Better.\n", 3), ("ann", "2\n2\n2\n", 0), ("bo", "2\n2\n1 too easy\n", 0),
    ):  # fmt: skip
        ran = turnmark("synth", "review", out, "--reviewer", name, "--json", stdin=lines)
        assert (ran.code, json.loads(ran.out)["left"]) == (0, undecided), ran.err
    assert not compound_qa.files(out)  # nothing has three scores yet
    ran = turnmark("synth", "review", out, "--reviewer", "cy", "--json", stdin="2\n2\n2\n")
    assert json.loads(ran.out)["decisions"] == {"2": 3}
    references = [task.reference for task in compound_qa.load_tasks(out).data.values()]
    assert len(references) == 2
    assert references[0] == "Better."
    # What was said of the synthesis still is.
    assert "the judge is the model that wrote the data" in (out / "data_sheet.md").read_text("utf-8")
    assert turnmark("synth", "review", out, "--reviewer", "dee", stdin="accept\n").code == 2


def test_a_folder_that_was_changed_by_hand_is_told_not_followed(conversations, turnmark):
    items = conversations / "items.jsonl"
    rows = [json.loads(line) for line in items.read_text("utf-8").splitlines()]
    rows[0]["content"]["domain"] = "../../../far/away"
    items.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    turnmark.ok("synth", "review", conversations, stdin="")
    assert {task.domain for task in mtrag.load_tasks(conversations, "mtrag-s").data.values()} == {"demo", "faraway"}
    del rows[0]["content"]["turns"]
    items.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    message = turnmark.refused("synth", "review", conversations, stdin="")
    assert "an item is not as synth mtrag makes it ('turns')" in message
    manifest = json.loads((conversations / "manifest.json").read_text("utf-8"))
    for options in ({"turns": "many"}, {"rounds": 3}):
        (conversations / "manifest.json").write_text(json.dumps({**manifest, "options": options}), "utf-8")
        message = turnmark.refused("synth", "review", conversations, stdin="")
        assert "these are no settings of it" in message


def test_a_line_that_cannot_be_read_stays_and_is_reported(conversations, turnmark):
    items = conversations / "items.jsonl"
    rows = items.read_bytes().splitlines(keepends=True)
    broken = rows[1].replace(b'"content":', b'"contnet":')
    items.write_bytes(rows[0] + broken + rows[2].rstrip(b"\n"))
    (conversations / "rejects.jsonl").write_bytes(b"half a line\n{torn")
    for _ in range(2):  # until somebody sees to it
        ran, outcome = review(turnmark, conversations, "")
        assert ran.code == 0, ran.err
        assert outcome["asked"] == 2
        notes = "\n".join(outcome["notes"])
        assert "1 line of items.jsonl cannot be read and left out (line 2)" in notes
        assert "1 line of rejects.jsonl cannot be read" in notes
        assert items.read_bytes() == rows[0] + broken + rows[2]
    assert (conversations / "rejects.jsonl").read_bytes() == b"half a line\n"
    assert "cannot be read" in (conversations / "data_sheet.md").read_text("utf-8")
    items.write_bytes(b"".join(rows))
    assert review(turnmark, conversations, "")[1]["asked"] == 3


def test_what_is_no_synthesis_is_refused(turnmark, tmp_path):
    assert "name the folder of a synthesis" in turnmark("synth", "review", tmp_path / "none", stdin="").err
    assert "no manifest.json" in turnmark("synth", "review", tmp_path, stdin="").err


def review(turnmark, out, lines, *flags):
    ran = turnmark("synth", "review", out, "--json", *flags, stdin=lines)
    return ran, json.loads(ran.out)


def test_a_decision_is_taken_back_and_its_item_asked_about_again(conversations, turnmark):
    ran, outcome = review(turnmark, conversations, "r other\nr safety\nu\na\na\n")
    assert ran.code == 0, ran.err
    assert (outcome["decided"], outcome["undone"], outcome["left"]) == (3, 1, 0)
    assert (outcome["decisions"], outcome["reasons"]) == ({"reject": 1, "accept": 2}, {"other": 1})
    lines = [json.loads(line) for line in (conversations / "reviews.jsonl").read_text("utf-8").splitlines()]
    assert [line["decision"] for line in lines] == ["reject", "reject", "undo", "accept", "accept"]
    assert len({line["id"] for line in lines[1:4]}) == 1
    tasks = mtrag.load_tasks(conversations, "mtrag-s").data.values()
    assert len({task.conversation for task in tasks}) == 2
    # Of an earlier call it is taken back by its id, also where nothing else is left to decide, and by its own reviewer.
    first = lines[0]["id"]
    ran, outcome = review(turnmark, conversations, f"u {first}\n", "--reviewer", "bo")
    assert ran.code == 2
    assert f"'{first}': bo has decided nothing of it" in ran.err
    assert outcome["undone"] == 0
    ran, outcome = review(turnmark, conversations, f"u {first}\n")
    assert (ran.code, outcome["decided"], outcome["undone"], outcome["left"]) == (0, 0, 1, 1)
    tasks = mtrag.load_tasks(conversations, "mtrag-s").data.values()
    assert len({task.conversation for task in tasks}) == 3
    assert "2 of 3 items; 0 rejected" in (conversations / "data_sheet.md").read_text("utf-8")
    ran, outcome = review(turnmark, conversations, "u\na\nu nobody\n")
    assert ran.code == 2
    assert "line 1: 'u' is no decision (nothing was decided yet in this call; u ID takes back" in ran.err
    assert "'nobody': reviewer has decided nothing of it" in ran.err
    assert (outcome["decided"], outcome["left"]) == (1, 0)


def test_an_edit_goes_with_the_score_that_is_taken_back(synth, turnmark):
    out = synth("compound-qa", "--n", 1, "--types", "Factual-Statement", judge=False).out
    _, outcome = review(turnmark, out, "e com_reference=Worse.\n2\nu\n2\n")
    assert (outcome["decided"], outcome["undone"], outcome["decisions"]) == (1, 1, {"2": 1})
    for name in ("bo", "cy"):
        review(turnmark, out, "2\n", "--reviewer", name)
    (task,) = compound_qa.load_tasks(out).data.values()
    assert task.reference != "Worse."


def item(content, name="i"):
    return SynthItem(id=name, seed="0", key="k", content=content)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.sampled_from("pq"), st.sampled_from(["ann", "bo"]), st.sampled_from("arue")), max_size=12))
def test_what_holds_is_the_last_line_that_was_not_taken_back(steps):
    reviews: dict[str, dict[str, Review]] = {}
    last: dict[tuple[str, str], str] = {}
    for name, reviewer, letter in steps:
        line = {"a": "a", "r": "r other", "e": "e a=x"}.get(letter)
        verdict = (
            decision(line, item({"a": "text"}, name), reviewer, False, False)
            if line
            else Review(id=name, reviewer=reviewer, decision="undo", at="now")
        )
        take_in(reviews, verdict)
        last[name, reviewer] = verdict.decision
    holds = {
        (name, person): own.decision for name, by_reviewer in reviews.items() for person, own in by_reviewer.items()
    }
    assert holds == {key: letter for key, letter in last.items() if letter != "undo"}
    assert all(reviews.values())


def test_unreviewed_items_stay_where_nobody_scores():
    items = [item({"a": "x"}, name) for name in "pqr"]
    accept = decision("a", items[0], "ann", False, False)
    reject = decision("r safety", items[1], "bo", False, False)
    passing, notes = reviewed(items, {"p": {"ann": accept}, "q": {"ann": accept, "bo": reject}})
    assert [passed.id for passed in passing] == ["p", "r"]
    assert notes == ("reviewed: 2 of 3 items; 1 rejected, 0 edited",)
