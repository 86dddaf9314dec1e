"""`turnmark synth sft`: training data for fine-tuning, without anything that is evaluated on."""

from __future__ import annotations

import json
from itertools import product

from turnmark.corpora import compound_qa
from turnmark.evaluation.synth.sft import source_of, split

KINDS = ("Factual_Statement", "Cause_and_Effect")


def written(root, contexts=40):
    """Three capabilities of two types over shared contexts, as upstream shares them; every fifth has none."""
    for capability, kind in product(("Understanding", "Reasoning", "Knowledge"), KINDS):
        first = 0 if capability == "Understanding" else contexts - 10  # ten contexts are in all three
        rows = [
            {"ID": f"x_{n}", **({} if n % 5 == 4 else {"context": f"Context {n}  of the lamp."}),
             "com_question": f"{kind} {n}: when was it lit? What did it burn?", "com_reference": f"In {1800 + n}."}
            for n in range(first, first + contexts)
        ]  # fmt: skip
        path = root / "data" / capability / f"{capability}_{kind}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return root


def tasks_of(root):
    return list(compound_qa.load_tasks(root).data.values())


def sources_to_train_on(out):
    rows = json.loads((out / "sft/alpaca.json").read_text("utf-8"))
    return {" ".join((row["input"] or row["instruction"]).split()).casefold() for row in rows}


def test_no_context_is_on_both_sides(turnmark, tmp_path):
    data = written(tmp_path / "in")
    outcome = turnmark.json("synth", "sft", data, "--out", tmp_path / "out", "--train", "0.6")
    assert outcome["train"] + outcome["evaluation"] == len(tasks_of(data)) == 240
    assert 0.4 < outcome["train"] / 240 < 0.8
    evaluated = {source_of(task) for task in tasks_of(tmp_path / "out")}
    assert len(tasks_of(tmp_path / "out")) == outcome["evaluation"]
    assert evaluated
    assert evaluated.isdisjoint(sources_to_train_on(tmp_path / "out"))
    check_formats(tmp_path / "out/sft", outcome["train"])
    turnmark.ok("eval", "compound-qa", "--data", tmp_path / "out", "--dry-run")


def test_a_capability_is_held_out_with_its_contexts(turnmark, tmp_path):
    data = written(tmp_path / "in")
    outcome = turnmark.json("synth", "sft", data, "--out", tmp_path / "out", "--held-out", "Understanding")
    # Two files of 40 are held out; of the four others, ten of 40 rows each share a source with these.
    assert (outcome["evaluation"], outcome["train"], outcome["left_out"]) == (80, 120, 40)
    assert {task.capability for task in tasks_of(tmp_path / "out")} == {"Understanding"}
    assert {source_of(task) for task in tasks_of(tmp_path / "out")}.isdisjoint(sources_to_train_on(tmp_path / "out"))


def test_more_data_moves_no_context_to_the_other_side(tmp_path):
    few, many = tasks_of(written(tmp_path / "few", 20)), tasks_of(written(tmp_path / "many", 60))
    first, second = (
        {source_of(task) for task in split(tasks, None, 0.5, 3).train if task.capability == "Understanding"}
        for tasks in (few, many)
    )
    assert first < second
    assert split(many, None, 0.5, 3) == split(many, None, 0.5, 3) != split(many, None, 0.5, 4)


def test_what_is_wrong_is_said_at_once_and_nothing_is_overwritten(turnmark, tmp_path):
    data = written(tmp_path / "in", 12)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("mine")
    ran = turnmark("synth", "sft", data, "--out", tmp_path / "out", "--held-out", "Baking", "--train", "2")
    errors = " ".join(ran.err.split())
    assert ran.code == 2
    for problem in ("--held-out 'Baking'", "--train 2: expected a share", "is there already"):
        assert problem in errors
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]
    alone = tmp_path / "alone"
    file = alone / "data/Understanding/Understanding_Factual_Statement.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text((data / "data/Understanding/Understanding_Factual_Statement.jsonl").read_text())
    ran = turnmark("synth", "sft", alone, "--out", tmp_path / "new", "--held-out", "Understanding")
    assert (ran.code, "nothing is left to train on" in " ".join(ran.err.split())) == (2, True)


def check_formats(sft, count):
    """For LLaMA-Factory, and as chat messages."""
    alpaca = json.loads((sft / "alpaca.json").read_text("utf-8"))
    info = json.loads((sft / "dataset_info.json").read_text("utf-8"))
    assert len(alpaca) == count
    columns = info["compound_qa_alpaca"]["columns"]
    assert {columns["prompt"], columns["query"], columns["response"]} == set(alpaca[0])
    messages = [json.loads(line) for line in (sft / "messages.jsonl").read_text("utf-8").splitlines()]
    sharegpt = json.loads((sft / "sharegpt.json").read_text("utf-8"))
    for plain, chat, shared in zip(alpaca, messages, sharegpt, strict=True):
        prompt = "\n".join(filter(None, (plain["instruction"], plain["input"])))
        assert chat["messages"] == [
            {"role": "user", "content": prompt},
            {"role": "assistant", "content": plain["output"]},
        ]
        assert [message["value"] for message in shared["conversations"]] == [prompt, plain["output"]]
    settings = dict(
        line.split("#")[0].strip().split(": ") for line in (sft / "lora.yaml").read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    )  # fmt: skip
    # Compound-QA, section 5: rank 8, alpha 16, learning rate 0.0001, batch size 128 on 8 GPUs.
    assert (settings["lora_rank"], settings["lora_alpha"]) == ("8", "16")
    assert float(settings["learning_rate"]) == 0.0001
    assert int(settings["per_device_train_batch_size"]) * int(settings["gradient_accumulation_steps"]) * 8 == 128
    assert settings["dataset"] in info
