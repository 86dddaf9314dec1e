"""InsCoQA's own prompt (appendix D): what counts as a reply in two parts, and what becomes of one that is in none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evaluation.benched import only, open_task
from tests.evaluation.instructions import row, written
from tests.servers import Say, ScriptedServer
from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.evaluation.benchmarks.inscoqa.generation import InsCoQA
from turnmark.evaluation.benchmarks.inscoqa.paper_prompt import InsCoQAReply, has_two_parts, read_reply
from turnmark.evaluation.benchmarks.inscoqa.rubrics import judged_steps
from turnmark.evaluation.tasks.metric import measure_sample

GOOD = "Answer: Light it, then bake.\n\nProcedural instructions:\n1. Light the oven.\n2. Bake the bread."
STEPS = ("Light the oven.", "Bake the bread.")


@pytest.mark.parametrize("text", [
    GOOD,
    "Answer: Light it, then bake.\nProcedural instructions: 1. Light the oven. 2. Bake the bread.",
    "**Answer:** Light it, then bake.\n\n**Procedural Instructions:**\n1) Light the oven.\n\n2) Bake the bread.\n",
    "### Answer:\nLight it, then bake.\n\n### Procedural instructions:\n1. Light the oven.\n2. Bake the bread.",
    f"<think>Answer: no\n1. Not this.</think>\n{GOOD}",
])  # fmt: skip
def test_parses_a_reply_in_two_parts(text):
    assert read_reply(text) == InsCoQAReply("Light it, then bake.", STEPS)


CHINESE = InsCoQAReply("先备份，再安装。", ("备份数据。", "安装系统。"))


@pytest.mark.parametrize("text", [
    "答案：先备份，再安装。\n步骤：\n1. 备份数据。\n2. 安装系统。",
    "答案:先备份，再安装。\n操作步骤:\n1、备份数据。\n2、安装系统。",
    "**答案**：先备份，再安装。\n\n**步驟**：\n１．备份数据。\n２．安装系统。",
    "【回答】先备份，再安装。\n【步骤】\n1) 备份数据。\n2) 安装系统。",
    "Answer：先备份，再安装。\nProcedural instructions：\n1. 备份数据。\n2. 安装系统。",
    "回答：先备份，再安装。\n手順：\n1. 备份数据。\n2. 安装系统。",
    "답변: 先备份，再安装。\n절차:\n1. 备份数据。\n2. 安装系统。",
])  # fmt: skip
def test_headings_may_be_in_east_asian_languages(text):
    assert read_reply(text) == CHINESE
    assert has_two_parts(text)


@pytest.mark.parametrize("text", [
    "答案：先备份，再安装。步骤：1. 备份数据。 2. 安装系统。",
    "答案：先备份，再安装。步骤：1、备份数据。2、安装系统。",
    "答案：先备份，再安装。\n步骤：\n第一步：备份数据。\n第二步：安装系统。",
    "答案：先备份，再安装。\n步骤：\n①备份数据。\n②安装系统。",
    "答案：先备份，再安装。\n步骤：\n（1）备份数据。\n（2）安装系统。",
    "答案：先备份，再安装。\n程序性说明：\n一、备份数据。\n二、安装系统。",
    "先备份，再安装。\n\n步骤：\n1. 备份数据。\n2. 安装系统。",
])  # fmt: skip
def test_lenient_parser_reads_east_asian_lists(text):
    reply = read_reply(text)
    assert (reply.answer, reply.steps, reply.in_form) == (CHINESE.answer, CHINESE.steps, False)


def test_heading_above_the_steps_of_an_ordinary_answer_makes_no_second_part():
    assert not has_two_parts("可以这样做。\n操作步骤：\n1. 备份数据 [1]。\n2. 安装系统 [2]。")


def test_an_answer_may_have_several_paragraphs_and_numbers():
    reply = read_reply(
        "Answer: First.\n\n2. is not a step here.\nProcedural instructions:\n1. Wait 2. 5 hours, that is."
    )
    assert reply == InsCoQAReply("First.\n\n2. is not a step here.", ("Wait", "5 hours, that is."))
    assert read_reply("Answer: a\nProcedural instructions:\n1. Take 2.5 l of it.") == InsCoQAReply(
        "a", ("Take 2.5 l of it.",)
    )


@pytest.mark.parametrize("text", [
    "", "Light the oven.", f"Sure!\n{GOOD}", "Answer: Light it.", "Answer: a. Procedural instructions: 1. b",
    f"{GOOD}\nProcedural instructions:\n1. Again.", "Answer:\nProcedural instructions:\n1. a",
    "Answer: a\nProcedural instructions:\nLight it.", "Answer: a\nProcedural instructions:\n1. a\n3. b",
    "Answer: a\nProcedural instructions:\n1. a\n- b\n2. c",
])  # fmt: skip
def test_strict_parser_rejects_other_forms(text):
    assert not read_reply(text).in_form


@pytest.mark.parametrize(("text", "steps"), [
    (f"Sure!\n{GOOD}", STEPS),
    (f"{GOOD}\n\nI hope this helps!", STEPS),
    ("Answer: Light it, then bake.\nProcedural instructions:\n1. Light the oven:\n   - to 220 °C\n   - for an hour\n"
     "2. Bake the bread.", ("Light the oven: to 220 °C for an hour", "Bake the bread.")),
    ("Answer: Light it, then bake.\nProcedural instructions:\n- Light the oven.\n- Bake the bread.", STEPS),
    ("Answer: Light it, then bake.\nProcedural instructions:\n\nHere they are:\n**1.** Light the oven.\n"
     "**2.** Bake the bread.", STEPS),
    ("Answer: Light it, then bake.\n\n1. Light the oven.\n2. Bake the bread.\n\nGood luck!", STEPS),
    (f"{GOOD}\nProcedural instructions:\n1. Again.", STEPS),
    ("Answer: Light it, then bake.\nProcedural instructions:\n| Step |\n|---|\n| Light the oven. |\n| Bake the bread. |"
     "\nGood luck!", STEPS),
])  # fmt: skip
def test_lenient_parser_reads_replies_in_other_forms(text, steps):
    reply = read_reply(text)
    assert (reply.answer, reply.steps) == ("Light it, then bake.", steps)
    assert not reply.in_form


BODIES = ("Light the oven. Turn it to 220 °C.", "Bake the bread. Put it in.")


@pytest.mark.parametrize("text", [
    "### Step 1: Light the oven.\n\nTurn it to 220 °C.\n\n### Step 2: Bake the bread.\n\nPut it in.\n\nEnjoy!",
    "### Step 1: Light the oven.\nTurn it to 220 °C.\n### Step 2: Bake the bread.\nPut it in.",
    "### Step 1: Light the oven.\nTurn it to 220 °C.\n\n### Step 2: Bake the bread.\nPut it in.\n\n## Tips\n\nEnjoy!",
    "Step 1: Light the oven.\nTurn it to 220 °C.\nStep 2: Bake the bread.\nPut it in.\n\nEnjoy!\n  ",
    "1. Light the oven.\n\nTurn it to 220 °C.\n\n2. Bake the bread.\n\nPut it in.\n\nEnjoy!",
])  # fmt: skip
def test_text_below_a_step_title_belongs_to_the_step(text):
    """Below the last one, too: its body was taken for words after the list."""
    for reply in (text, f"Answer: So.\nProcedural instructions:\n\n{text}"):
        assert read_reply(reply).steps == BODIES


def test_heading_steps_keep_their_bodies():
    one = "Answer: So.\nProcedural instructions:\n### Step 1: Light the oven.\n\nTurn it to 220 °C."
    assert read_reply(one).steps == BODIES[:1]
    text = "1. Light the oven.\nTurn it to 220 °C.\n2. Bake the bread.\n\nEnjoy!"
    assert read_reply(text).steps == (BODIES[0], "Bake the bread.")


LINE = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=30).map(
    lambda text: " ".join(text.split())
).filter(lambda text: text and not text[0].isdigit())  # fmt: skip


@given(LINE, st.lists(LINE, min_size=2, max_size=9))
def test_parsing_returns_what_was_written_in_the_form(answer, steps):
    text = f"Answer: {answer}\nProcedural instructions:\n" + "\n".join(f"{n}. {s}" for n, s in enumerate(steps, 1))
    assert read_reply(text) == InsCoQAReply(answer, tuple(steps))


def asked(source, *replies, options=""):
    bench = open_task(InsCoQA, source, "prompt")
    item = only(bench)
    with ScriptedServer(*replies) as server:
        sample = bench.answer(item, open_generator(f"openai:tiny@{server.url}?retries=0{options}"))
    return item, sample, server


def test_one_prompt_has_all_documents_and_one_reply_has_both_parts(tmp_path):
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
    assert sample.prediction == GOOD
    assert sample.procedure == tuple({"step": step, "citations": []} for step in STEPS)
    assert (sample.status, sample.notes, sample.usage["answer"].calls) == ("done", (), 1)


@pytest.mark.parametrize(
    ("reply", "steps", "format_ok"),
    [
        (GOOD, STEPS, 1.0), (f"Sure!\n{GOOD}\n\nI hope this helps!", STEPS, 0.0), ("Just light it.", (), 0.0),
        ("Answer: Light it, then bake.\n1. Light the oven.\n2. Bake the bread.", STEPS, 0.0),
    ],
)  # fmt: skip
def test_reply_is_requested_once_and_kept_unchanged(tmp_path, reply, steps, format_ok):
    source = written(tmp_path, row())
    item, sample, server = asked(source, Say(reply))
    assert len(server.bodies) == 1, "asked once, as in the paper"
    assert (sample.status, sample.prediction) == ("done", reply)
    assert tuple(step["step"] for step in sample.procedure) == steps
    assert bool(sample.notes) == (format_ok == 0)
    bench = open_task(InsCoQA, source, "prompt")
    context = bench.context(item, sample)
    assert judged_steps(context)[0] == (list(steps) or [reply]), "without a list it is judged as it is"
    assert context.answer == ("Light it, then bake." if steps else reply)
    scores = {score.metric: score.value for score in measure_sample(bench.metrics, sample, lambda: context)}
    assert scores["format_ok"] == format_ok
    assert scores["rouge_l.word"] is not None


def test_runs_the_prompt_setting_by_command(turnmark, tmp_path, check_run):
    out = tmp_path / "r"
    message = turnmark.refused("eval", "inscoqa", "--setting", "prompt", "--step", "understand=rules")
    assert "--setting prompt asks a language model" in message
    assert "--step is for the steps of the turn" in message
    with ScriptedServer(Say(GOOD)) as server:
        words = ["eval", "inscoqa", "--setting", "prompt", "--generator", f"openai:tiny@{server.url}", "--limit", "2"]
        planned = turnmark.json(*words, "--dry-run")
        assert not server.bodies
        assert planned["estimated"]["answer"]["calls"] == 2
        ran = turnmark(*words, "--out", out, "--json")
    assert ran.code == 0, ran.err
    check_run(out)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["setting"] == "prompt"
    assert set(manifest["inputs"]) == {"prompt inscoqa-answer"}
    (first, *_) = (json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines())
    assert (first["prediction"], len(first["procedure"])) == (GOOD, 2)
    rescored = turnmark.json("score", "inscoqa", "--setting", "prompt", "--predictions", out / "predictions.jsonl")
    assert rescored["metrics"]["format_ok"] == json.loads(ran.out)["metrics"]["format_ok"]
    assert json.loads(ran.out)["metrics"]["format_ok"]["mean"] == 1.0


@pytest.mark.parametrize("text", [
    "Step 1: Mix.\nStep 2: Bake.", "**Step 1:** Mix.\n**Step 2:** Bake.", "(1) Mix.\n(2) Bake.", "1: Mix.\n2: Bake.",
    "1.Mix.\n2.Bake.", "1、Mix.\n2、Bake.", "a. Mix.\nb. Bake.", "### 1. Mix.\n### 2. Bake.",
    "**1. Mix.**\n**2. Bake.**",
    "| Step | What |\n|---|---|\n| 1 | Mix. |\n| 2 | Bake. |", "Mix.\nBake.", "- Mix.\n- Bake.",
    "步骤1：Mix.\n步骤2：Bake.",
    "1. Mix.\n2. Bake.",
])  # fmt: skip
def test_reads_steps_in_many_forms(text):
    reply = read_reply(f"Answer: So.\n\nProcedural instructions:\n{text}")
    assert (reply.answer, reply.steps) == ("So.", ("Mix.", "Bake."))
    if text not in ("Mix.\nBake.", "- Mix.\n- Bake."):  # without a heading, lines alone are prose
        assert read_reply(f"So.\n\n{text}").steps == ("Mix.", "Bake.")


def test_numbers_inside_steps_start_no_step():
    text = "1. Take 1.5 litres.\n   a. Boil it.\n   b. Wait.\n2. Add salt: 3 g."
    assert read_reply(text).steps == ("Take 1.5 litres. Boil it. Wait.", "Add salt: 3 g.")
    assert read_reply("It took 3 days.\nA. Smith said so.").steps == ()
