"""Compound questions in the layout of the official repository, and as training data for supervised fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpora.home import write_atomic, write_json
from corpora.statistics import Sheet
from evaluation.synth.kinds import Exported
from evaluation.synth.mtrag_files import lines
from evaluation.synth.records import Made

SFT = "sft"
LORA = """\
# LoRA fine-tuning on compound questions, for LLaMA-Factory: llamafactory-cli train lora.yaml
# The paper (Compound-QA, section 5, "How to improve …") gives rank 8, alpha 16, learning rate 0.0001 and batch size
# 128 on 8 GPUs for LLaMA-3.1, trained on reasoning and knowledge and tested on understanding. What is marked "ours" it
# does not say. Batch size 128 = 4 on a device x 4 steps x 8 GPUs: with other numbers of GPUs change the steps.
model_name_or_path: meta-llama/Llama-3.1-8B-Instruct  # ours: the paper says LLaMA-3.1
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 8
lora_alpha: 16
lora_target: all  # ours
dataset_dir: .
dataset: compound_qa_alpaca  # or compound_qa_sharegpt
template: llama3
cutoff_len: 2048  # ours
per_device_train_batch_size: 4
gradient_accumulation_steps: 4
learning_rate: 1.0e-4
num_train_epochs: 3.0  # ours
lr_scheduler_type: cosine  # ours
warmup_ratio: 0.1  # ours
bf16: true  # ours
seed: 0  # ours
output_dir: saves/compound-qa-lora
report_to: none
"""


def export(folder: Path, items: Sequence[Made], capability: str, types: Sequence[str]) -> Exported:
    """Write a file for each type, and the training data."""
    files = []
    for kind in types:
        name = f"data/{capability}/{capability}_{kind.replace('-', '_')}.jsonl"
        own = [item.content for item in items if item.content["type"] == kind]
        if own:
            write_atomic(folder / name, lines({key: row[key] for key in row if key != "type"} for row in own))
            files.append(name)
        else:
            (folder / name).unlink(missing_ok=True)
    return Exported(
        (*files, *_sft(folder / SFT, items)), (f"try it: turnmark eval compound-qa --data {folder}",) if files else ()
    )


def _sft(folder: Path, items: Sequence[Made]) -> list[str]:
    """LLaMA-Factory's formats (alpaca, sharegpt, what it is told of them), chat messages, and LoRA's settings."""
    rows = [item.content for item in items]
    alpaca = [
        {"instruction": row["com_question"], "input": row["context"], "output": row["com_reference"]} for row in rows
    ]
    sharegpt = [
        {"conversations": [{"from": "human", "value": _asked(row)}, {"from": "gpt", "value": row["com_reference"]}]}
        for row in rows
    ]
    messages = (
        {"messages": [
            {"role": "user", "content": _asked(row)}, {"role": "assistant", "content": row["com_reference"]},
        ]}
        for row in rows
    )  # fmt: skip
    info = {
        "compound_qa_alpaca": {
            "file_name": "alpaca.json",
            "columns": {"prompt": "instruction", "query": "input", "response": "output"},
        },
        "compound_qa_sharegpt": {
            "file_name": "sharegpt.json",
            "formatting": "sharegpt",
            "columns": {"messages": "conversations"},
        },
    }
    write_json(folder / "alpaca.json", alpaca)
    write_json(folder / "sharegpt.json", sharegpt)
    write_json(folder / "dataset_info.json", info)
    write_atomic(folder / "messages.jsonl", lines(messages))
    write_atomic(folder / "lora.yaml", LORA)
    names = ("alpaca.json", "sharegpt.json", "dataset_info.json", "messages.jsonl", "lora.yaml")
    return [f"{SFT}/{name}" for name in names]


def _asked(row: dict[str, Any]) -> str:
    """Question and context as LLaMA-Factory joins the two columns of alpaca."""
    return f"{row['com_question']}\n{row['context']}"


def statistics(folder: Path) -> Sequence[Sheet]:
    """Questions by capability and type beside the paper's 100 each, and lengths."""
    from corpora import compound_qa
    from corpora.rows import Source as Data
    from corpora.statistics_others import check_compound_qa

    if not compound_qa.files(folder):
        return []
    return check_compound_qa(Data(root=folder, demo=False)).sheets
