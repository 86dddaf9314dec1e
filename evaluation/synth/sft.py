"""Compound questions as training data for supervised fine-tuning, apart from those that are evaluated on.

The paper trains on two capabilities and tests on the third (section 5). Contexts recur in the files of all types, and
may in those of several capabilities, so both ways to split go by context: none that is evaluated on is trained on. A
closed-book question stands for itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from turnmark.corpora import compound_qa
from turnmark.corpora.compound_qa import Capability, Task
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.home import write_atomic, write_json
from turnmark.corpora.rows import Source
from turnmark.corpora.types import Problem, Record
from turnmark.evaluation.synth.folder import write_rows

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


_INFO = {
    "compound_qa_alpaca": {
        "file_name": "alpaca.json", "columns": {"prompt": "instruction", "query": "input", "response": "output"},
    },
    "compound_qa_sharegpt": {
        "file_name": "sharegpt.json", "formatting": "sharegpt", "columns": {"messages": "conversations"},
    },
}  # fmt: skip
"""What LLaMA-Factory is told of the files."""


class Split(NamedTuple):
    """The tasks of a folder, apart; of those left out, a context is also among what is held out."""

    train: list[Task]
    evaluation: list[Task]
    left_out: int = 0


class Written(Record):
    """What `turnmark synth sft` wrote."""

    out: str
    train: int
    evaluation: int
    left_out: int
    unread: int
    files: tuple[str, ...]


def source_of(task: Task) -> str:
    """What may not stand on both sides: the context or, of a closed-book question, the question itself."""
    return " ".join((task.context or task.question).split()).casefold()


def split(tasks: Sequence[Task], held_out: str | None, share: float, seed: int) -> Split:
    """Tasks to train on, and tasks to evaluate on; no context is on both sides.

    Args:
        held_out: the capability that is evaluated on, all others being trained on; None: contexts are drawn.
        share: of the contexts, to be trained on; each by a hash of its own, so that more data moves none.
        seed: of that hash.
    """
    if held_out is not None:
        evaluation = [task for task in tasks if task.capability == held_out]
        sources = {source_of(task) for task in evaluation}
        train = [task for task in tasks if source_of(task) not in sources]
        return Split(train, evaluation, len(tasks) - len(evaluation) - len(train))
    sides: tuple[list[Task], list[Task]] = ([], [])
    for task in tasks:
        sides[_draw(source_of(task), seed) >= share].append(task)
    return Split(*sides)


def _draw(source: str, seed: int) -> float:
    digest = hashlib.sha256(f"{seed}\0{source}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def write_training(data: Path, out: Path, held_out: str | None, share: float, seed: int) -> Written:
    """Read Compound-QA data, published or made here, and write `sft/` to train on and `data/` to evaluate on.

    Raises:
        RequestError: everything that is wrong with the request, at once; one side of the split is empty.
    """
    errors = ErrorCollector()
    source = errors.collect(_located, data)
    if held_out is not None and held_out not in get_args(Capability):
        errors.add(f"--held-out {held_out!r}: expected one of {', '.join(get_args(Capability))}")
    if not 0 < share < 1:
        errors.add(f"--train {share:g}: expected a share between 0 and 1")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        errors.add(f"--out {str(out)!r} is there already; name a new folder")
    errors.raise_all()
    assert source is not None, "errors.raise_all() raised otherwise"
    rows = list(compound_qa.stream_tasks(source.root))
    parts = split([row for row in rows if isinstance(row, Task)], held_out, share, seed)
    if not parts.train or not parts.evaluation:
        side = "train on" if not parts.train else "evaluate on"
        flag = f"--held-out {held_out}" if held_out else f"--train {share:g}"
        raise RequestError(f"{flag}: nothing is left to {side} of {len(rows)} rows in {str(data)!r}")
    files = (*_evaluation(out, parts.evaluation), *_sft(out / SFT, parts.train))
    return Written(
        out=str(out), train=len(parts.train), evaluation=len(parts.evaluation), left_out=parts.left_out,
        unread=sum(isinstance(row, Problem) for row in rows), files=files,
    )  # fmt: skip


def _located(data: Path) -> Source:
    try:
        return compound_qa.locate(data)
    except RequestError as error:  # it is the argument here, and no flag
        raise RequestError([problem.removeprefix("--data: ") for problem in error.problems]) from error


def _evaluation(out: Path, tasks: Sequence[Task]) -> Iterator[str]:
    """The files of the official layout, one for each capability and type."""
    for capability, kind in dict.fromkeys((task.capability, task.type) for task in tasks):
        name = f"data/{capability}/{capability}_{kind.replace('-', '_')}.jsonl"
        rows = (
            {"ID": task.source_id, **({"context": task.context} if task.context else {}),
             "com_question": task.question, "com_reference": task.reference}
            for task in tasks if (task.capability, task.type) == (capability, kind)
        )  # fmt: skip
        write_rows(out / name, rows)
        yield name


def _sft(folder: Path, tasks: Sequence[Task]) -> list[str]:
    """LLaMA-Factory's formats (alpaca, sharegpt, what it is told of them), chat messages, and LoRA's settings."""
    alpaca = [{"instruction": task.question, "input": task.context or "", "output": task.reference} for task in tasks]
    pairs = [(_prompt(task), task.reference) for task in tasks]
    sharegpt = [
        {"conversations": [{"from": "human", "value": prompt}, {"from": "gpt", "value": reference}]}
        for prompt, reference in pairs
    ]
    write_json(folder / "alpaca.json", alpaca)
    write_json(folder / "sharegpt.json", sharegpt)
    write_json(folder / "dataset_info.json", _INFO)
    write_rows(
        folder / "messages.jsonl",
        (
            {"messages": [{"role": "user", "content": prompt}, {"role": "assistant", "content": reference}]}
            for prompt, reference in pairs
        ),
    )
    write_atomic(folder / "lora.yaml", LORA)
    names = ("alpaca.json", "sharegpt.json", "dataset_info.json", "messages.jsonl", "lora.yaml")
    return [f"{SFT}/{name}" for name in names]


def _prompt(task: Task) -> str:
    """Question and context as LLaMA-Factory joins the two columns of alpaca."""
    return f"{task.question}\n{task.context}" if task.context else task.question
