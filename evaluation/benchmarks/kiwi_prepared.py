"""What is known of a KIWI task before anything is answered: the data, the prompts that take part, what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from turnmark.corpora import kiwi
from turnmark.corpora.errors import ErrorCollector
from turnmark.corpora.rows import Source
from turnmark.evaluation.benchmarks.base import Benchmark
from turnmark.evaluation.benchmarks.kiwi import TEMPERATURE, Kiwi
from turnmark.evaluation.benchmarks.kiwi_prompts import FIRST, NEEDS_MODEL, PROMPTS
from turnmark.evaluation.benchmarks.turns import Parts
from turnmark.evaluation.prompts import prompt_hashes
from turnmark.evaluation.request import EvalRequest
from turnmark.retrieval.types import Retriever

MOST_TURNS = 100
"""Turns before one that `--only` names that are looked for; the paper's sessions end after ten."""
Build = Callable[[Parts, Mapping[str, Retriever]], Benchmark[Any]]


@dataclass(frozen=True)
class Task:
    """A task ready to be built: what builds it, names of the prompts that its model is asked with, what to report."""

    build: Build
    prompts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def prepare_kiwi(
    request: EvalRequest, setting: str | None, scoring: bool
) -> tuple[Source, Build, dict[str, str], tuple[str, ...]]:
    """Where the data are, what builds the benchmark, inputs of the run by role, and what its report has to say.

    Args:
        scoring: answers are there already, so that no model is needed.

    Raises:
        RequestError: everything that is wrong with the request, at once.
    """
    errors = ErrorCollector()
    task = request.task or "revise"
    model = not (scoring or request.generator.startswith("extractive"))
    if request.domains:
        errors.add("--domains: kiwi has no domains; leave it out")
    _check_chain(request, task, errors)
    _check_protocol(request, task, model or scoring, errors)
    if task == "judge" and (setting or "").startswith("few-shot") and not (model or scoring):
        errors.add(
            f"--setting {setting}: examples are shown to a language model; name one with --judge (the embedded judge "
            "learns nothing from them)"
        )
    source = errors.collect(kiwi.locate, request.data)
    prepared_task = errors.collect(_found, request, task, source, setting or "", model) if source else None
    prompts = errors.collect(prompt_hashes, prepared_task.prompts if prepared_task and model else (), request.prompts)
    errors.raise_all()
    assert source is not None, "errors.raise_all() raised otherwise"
    assert prepared_task is not None, "errors.raise_all() raised otherwise"
    inputs = {f"prompt {name}": content for name, content in (prompts or {}).items()}
    if task == "revise" and model:
        inputs["temperature"] = f"{TEMPERATURE:g}, unless the spec names one"
    return source, prepared_task.build, inputs, prepared_task.notes


def _check_chain(request: EvalRequest, task: str, errors: ErrorCollector) -> None:
    """Take down what of a selection would break a session that goes on from its own answers."""
    if not request.chain:
        return
    if task != "revise":
        errors.add(f"--chain is for the task revise; {task} looks at recorded answers")
    if request.sample is not None:
        errors.add("--sample draws single turns, and a chain needs those before them; use --limit, or --only")
    for name in request.only:
        session, _, turn = name.partition("/")
        earlier_ids = (f"{session}/{n}" for n in range(min(int(turn), MOST_TURNS) if turn.isdecimal() else 0))
        lacking = [turn_id for turn_id in earlier_ids if turn_id not in request.only]
        if lacking:
            errors.add(f"--only {name}: a chain needs the turns before it, too: {', '.join(lacking)}")


def _check_protocol(request: EvalRequest, task: str, model: bool, errors: ErrorCollector) -> None:
    if request.protocol != "paper":
        return
    if task != "revise":
        errors.add(f"--protocol paper is for the task revise; the prompts of {task} are the paper's way to ask already")
    elif not model:
        errors.add(NEEDS_MODEL)
    if request.steps:
        errors.add("--step is for the steps of the turn, which --protocol paper does without; give one of them")


def _found(request: EvalRequest, task: str, source: Source, setting: str, model: bool) -> Task:
    """The task, once what is wrong with the folder has been said."""
    if task == "judge":
        from turnmark.evaluation.benchmarks.kiwi_judge import PROMPT, KiwiJudge

        split_note = KiwiJudge(source, setting, Parts(), request.seed).told()
        return Task(lambda parts, _: KiwiJudge(source, setting, parts, request.seed), (PROMPT,), (split_note,))
    if task == "analyse":
        from turnmark.evaluation.benchmarks.kiwi_analyse import KiwiAnalyse
        from turnmark.evaluation.benchmarks.kiwi_labels import PROMPTS as LABELS

        KiwiAnalyse(source, Parts())
        labeller = "a language model" if model else "rules"
        note = f"instruction types, errors and what was retrieved are labelled by {labeller}; all else is as recorded"
        return Task(lambda parts, _: KiwiAnalyse(source, parts), LABELS, (note,))
    Kiwi(source, Parts())
    paper = request.protocol == "paper"
    stripped = "" if paper else ", its marks stripped"
    notes = [f"each turn starts from our own revision before it{stripped}"] if request.chain else []
    notes += (
        ["rules write no first answer: sessions begin with the recorded one"] if request.chain and not model else []
    )
    return Task(
        lambda parts, _: Kiwi(source, parts, request.chain, paper),
        PROMPTS if paper else (FIRST,) * request.chain,
        notes=tuple(notes),
    )
