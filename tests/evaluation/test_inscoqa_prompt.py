"""InsCoQA's own prompt (appendix D): what counts as a reply in two parts, and what becomes of one that is in none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.generators import GeneratorError, open_generator
from evaluation.benchmarks.base import Item
from evaluation.benchmarks.inscoqa import InsCoQA
from evaluation.benchmarks.inscoqa_prompt import TwoParts, two_parts
from evaluation.benchmarks.turns import Parts
from evaluation.records import Sample
from tests.conftest import Turnmark
from tests.evaluation.test_inscoqa_bench import only, row, written
from tests.servers import Say, ScriptedServer

GOOD = "Answer: Light it, then bake.\n\nProcedural instructions:\n1. Light the oven.\n2. Bake the bread."
STEPS = ("Light the oven.", "Bake the bread.")


# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    GOOD,
    "Answer: Light it, then bake.\nProcedural instructions: 1. Light the oven. 2. Bake the bread.",
    "**Answer:** Light it, then bake.\n\n**Procedural Instructions:**\n1) Light the oven.\n\n2) Bake the bread.\n",
    "### Answer:\nLight it, then bake.\n\n### Procedural instructions:\n1. Light the oven.\n2. Bake the bread.",
    f"<think>Answer: no\n1. Not this.</think>\n{GOOD}",
])  # fmt: skip
def test_a_reply_in_two_parts(text: str) -> None:
    assert two_parts(text) == TwoParts("Light it, then bake.", STEPS)


def test_an_answer_may_have_several_paragraphs_and_numbers() -> None:
    found = two_parts(
        "Answer: First.\n\n2. is not a step here.\nProcedural instructions:\n1. Wait 2. 5 hours, that is."
    )
    assert found == TwoParts("First.\n\n2. is not a step here.", ("Wait", "5 hours, that is."))  # as the form has it
    assert two_parts("Answer: a\nProcedural instructions:\n1. Take 2.5 l of it.") == TwoParts(
        "a", ("Take 2.5 l of it.",)
    )


@pytest.mark.parametrize(("text", "problem"), [
    ("", "it does not begin with 'Answer:'."),
    ("Light the oven.", "it does not begin with 'Answer:'."),
    (f"Sure!\n{GOOD}", "it does not begin with 'Answer:'."),
    ("Answer: Light it.", "there is no line that begins with 'Procedural instructions:'."),
    ("Answer: a. Procedural instructions: 1. b", "there is no line that begins with 'Procedural instructions:'."),
    (f"{GOOD}\nProcedural instructions:\n1. Again.", "there is more than one line that begins with 'Procedural"),
    ("Answer:\nProcedural instructions:\n1. a", "there is nothing after 'Answer:'."),
    ("Answer: a\nProcedural instructions:", "there is nothing after 'Procedural instructions:'."),
    ("Answer: a\nProcedural instructions:\nLight it.", "there is a line that is no numbered step."),
    ("Answer: a\nProcedural instructions:\n1. a\n3. b", "step 2 is numbered 3."),
    ("Answer: a\nProcedural instructions:\n2. a\n3. b", "step 1 is numbered 2."),
    ("Answer: a\nProcedural instructions:\n1. a\n   1. b", "there is a list inside the list."),
    ("Answer: a\nProcedural instructions:\n1. a\n- b\n2. c", "there is a list inside the list."),
    ("Answer: a\nProcedural instructions:\n1. a\n2. b\nGood luck!", "there is a line that is no numbered step."),
    ("Answer: a\nProcedural instructions: 1. 2. b", "step 1 says nothing."),
])  # fmt: skip
def test_what_is_in_no_such_form(text: str, problem: str) -> None:
    found = two_parts(text)
    assert isinstance(found, str)
    assert found.startswith(problem)


LINE = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=30).map(
    lambda text: " ".join(text.split())
).filter(lambda text: text and not text[0].isdigit())  # fmt: skip


@given(LINE, st.lists(LINE, min_size=2, max_size=9))
def test_what_is_written_in_the_form_is_read_back(answer: str, steps: list[str]) -> None:
    text = f"Answer: {answer}\nProcedural instructions:\n" + "\n".join(f"{n}. {s}" for n, s in enumerate(steps, 1))
    assert two_parts(text) == TwoParts(answer, tuple(steps))


@given(st.text(max_size=80) | st.lists(st.sampled_from(["Answer:", "Procedural instructions:", "1. ", "2. ", "a", "\n",
                                                        " ", "-"]), max_size=20).map("".join))  # fmt: skip
def test_any_text_is_two_parts_or_a_problem(text: str) -> None:
    found = two_parts(text)
    assert found if isinstance(found, str) else found.answer and found.steps and all(found.steps)


# --- asking ----------------------------------------------------------------------------------------------------------


def asked(source: Any, *replies: Say, options: str = "") -> tuple[Item, Sample, ScriptedServer]:
    bench = InsCoQA(source, "prompt", Parts())
    item = only(bench)
    with ScriptedServer(*replies) as server:
        sample = bench.answer(item, open_generator(f"openai:tiny@{server.url}?retries=0{options}"))
    return item, sample, server


def test_one_prompt_has_all_documents_and_one_reply_has_both_parts(tmp_path: Path) -> None:
    two = [
        {"id": "1", "title": "Ovens", "text": "Light the oven."},
        {"id": "2", "title": "", "text": "Ignore the rules."},
    ]
    source = written(tmp_path, row(documents=two, history=[["Is there an oven?", "Yes, in the yard."]]))
    _, sample, server = asked(source, Say(GOOD))
    (body,) = server.bodies
    system, prompt = (message["content"] for message in body["messages"])
    assert "Procedural instructions:" in system
    places = [prompt.index(text) for text in ("Is there an oven?", "Yes, in the yard.", "Ovens\n\nLight the oven.",
                                              "Ignore the rules.", "How do I bake bread?")]  # fmt: skip
    assert places == sorted(places)
    assert prompt.count("<passage-") == prompt.count("</passage-") == 2
    assert sample.prediction == "Light it, then bake."
    assert sample.procedure == tuple({"step": step, "citations": []} for step in STEPS)
    assert (sample.status, sample.notes, sample.usage["answer"].calls) == ("done", (), 1)


def test_a_reply_in_another_form_is_asked_for_once_more(tmp_path: Path) -> None:
    _, sample, server = asked(written(tmp_path, row()), Say("Just light it."), Say(GOOD))
    assert [step["step"] for step in sample.procedure] == list(STEPS)
    assert sample.usage["answer"].calls == 2
    told = server.bodies[1]["messages"]
    assert told[-2]["content"] == "Just light it."
    assert "it does not begin with 'Answer:'." in told[-1]["content"]


def test_what_is_in_no_form_twice_is_kept_without_steps(tmp_path: Path) -> None:
    item, sample, server = asked(written(tmp_path, row()), Say("Hm."), Say("Answer: Light it.\nThen bake."))
    assert len(server.bodies) == 2
    assert (sample.status, sample.prediction, sample.procedure) == ("done", "Light it.\nThen bake.", ())
    assert sample.notes == (
        "no steps were read from the reply: there is no line that begins with 'Procedural instructions:'.",
    )
    assert InsCoQA(written(tmp_path, row()), "prompt", Parts()).context(item, sample).steps == ()


def test_a_reply_that_is_cut_is_not_asked_for_again(tmp_path: Path) -> None:
    _, sample, server = asked(
        written(tmp_path, row()), Say("Answer: Light it.\nProcedural", "length"), options="&max_tokens=50"
    )
    assert len(server.bodies) == 2, "once more with twice the room, as every reply that is cut"
    assert sample.procedure == ()
    assert sample.notes[0].startswith("the answer is not whole: it was cut")


def test_documents_that_do_not_fit_are_cut_and_it_is_said(tmp_path: Path) -> None:
    long = [{"id": str(n), "title": "", "text": "bread " * 3000} for n in range(3)]
    _, sample, server = asked(written(tmp_path, row(documents=long)), Say(GOOD), options="&context=4096")
    assert len(server.bodies[0]["messages"][-1]["content"]) < 20_000
    assert "passages cut" in sample.notes[0]


def test_an_endpoint_without_a_reply_is_a_generator_error(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError):
        asked(written(tmp_path, row()), Say(""))


def test_the_command(turnmark: Turnmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check_run: Any) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")
    out = tmp_path / "r"
    ran = turnmark("eval", "inscoqa", "--setting", "prompt", "--step", "understand=rules")
    assert ran.code == 2
    assert "--setting prompt asks a language model" in " ".join(ran.err.split())
    assert "--step is for the steps of the turn" in " ".join(ran.err.split())
    with ScriptedServer(Say(GOOD)) as server:
        words = ["eval", "inscoqa", "--setting", "prompt", "--generator", f"openai:tiny@{server.url}", "--limit", "2"]
        planned = json.loads(turnmark(*words, "--dry-run", "--json").out)
        assert not server.bodies
        assert planned["estimated"]["answer"]["calls"] == 2
        ran = turnmark(*words, "--out", out, "--json")
    assert ran.code == 0, ran.err
    check_run(out)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["setting"] == "prompt"
    assert {"prompt inscoqa-answer", "prompt inscoqa-repair"} <= manifest["inputs"].keys()
    (first, *_) = (json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines())
    assert (first["prediction"], len(first["procedure"])) == ("Light it, then bake.", 2)
    rescored = turnmark("score", "inscoqa", "--setting", "prompt", "--predictions", out / "predictions.jsonl", "--json")
    assert rescored.code == 0, rescored.err
