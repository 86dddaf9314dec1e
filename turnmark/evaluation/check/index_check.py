"""Run a check: write the questions, let the assistant answer them, and report the result.

`turnmark.evaluation.synth` writes the questions. A run of MTRAG's tasks over the index answers and judges them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.assistant.types import Usage
from turnmark.core.console import shown_progress
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.corpora.text.segmentation import comparable_words
from turnmark.evaluation.benchmarks import index_questions
from turnmark.evaluation.check.index_runs import eval_request, open_loaded, synth_request
from turnmark.evaluation.check.judged_figures import (
    AGREEMENT_NAME,
    MIN_AGREEMENT,
    SUPPORT_NAME,
    means_of,
    support_judge,
)
from turnmark.evaluation.check.request import (
    MAX_FOUND_RANK,
    CheckManifest,
    CheckRequest,
    check_manifest,
    place,
)
from turnmark.evaluation.check.result import CheckResult, QuestionResult, finished_of, is_found, share, worst_of
from turnmark.evaluation.check.sentence_sampling import RemovedSentence, draw_sentences
from turnmark.evaluation.check.sentence_searches import (
    SearchedSentences,
    compare_sentences,
    read_sentences,
    write_sentences,
)
from turnmark.evaluation.records import ContextRef, Sample
from turnmark.evaluation.report.finished_runs import samples
from turnmark.evaluation.runs.benchmark_run import FinishedRun, run_plan
from turnmark.evaluation.runs.judge_setup import judge_problems
from turnmark.evaluation.runs.planning import check_specs, plan_run
from turnmark.evaluation.storage.corpus_passages import HIDDEN_SUFFIX, CorpusTexts, span_of
from turnmark.evaluation.storage.run_folder import OutputFolder, default_folder, now, open_folder, stored_manifest
from turnmark.evaluation.synth.synthesis_folder import SynthManifest, passage_of
from turnmark.evaluation.synth.synthesis_run import SynthReport, plan_synthesis, synthesize
from turnmark.evaluation.tasks.request import EvalRequest
from turnmark.retrieval.index.changed_copy import copy_with_passages
from turnmark.retrieval.search.opened_index import StoredIndex, open_index
from turnmark.retrieval.search.retriever_factory import default_retriever, open_retriever
from turnmark.retrieval.types import Hit, Query

UNKNOWN_SHARE = 8 / 30
"""Share of the questions that are asked again with their sections hidden."""
MIN_COPIED_SHARE = 0.6
"""Minimum share of a section's runs of three words in its near-copy; one word changed in ten leaves .7 of them."""
QUESTIONS = "questions"
RETRIEVED = 10
"""Number of passages that are searched for the one without its sentence."""


@dataclass(frozen=True)
class CheckPlan:
    """A checked request."""

    request: CheckRequest
    index: StoredIndex
    retriever: str
    manifest: CheckManifest
    out: Path
    began: float


def plan_check(request: CheckRequest, errors: ErrorCollector) -> CheckPlan:
    """Check a request.

    Raises:
        RequestError: all mistakes, including those already in `errors`.
    """
    began = time.perf_counter()
    index = errors.collect(open_index, request.index) if request.index else None
    retriever = request.assistant.retriever or (default_retriever(index) if index else None)
    if index is not None and retriever is not None:
        errors.collect(open_retriever, retriever, index)
    if request.asks_model:
        errors.problems += judge_problems(index_questions.QUESTIONS_BENCHMARK, ["generation"], [request.judge])
        check_specs(_eval_request(request, index, None), errors)
    else:
        for name, flag in (("judge", "--judge"), ("budget", "--budget"), ("steps", "--step")):
            if name in request.typed:
                errors.add(f"{flag} is for answers, and without --generator only retrieval is checked; leave it out")
    errors.raise_all()
    assert index is not None, "errors.raise_all() raised otherwise"
    assert retriever is not None, "an open index has a default"
    manifest = check_manifest(request, index, now())
    out = request.out or default_folder(manifest)
    return CheckPlan(request, index, retriever, manifest, out, began)


def run_check(checked: CheckPlan) -> tuple[CheckResult, bool]:
    """Do the work whose results are not in the folder yet.

    Returns:
        The result, and whether failures stopped the work.
    """
    with open_folder(checked.out, checked.manifest) as manifest:
        OutputFolder(checked.out, manifest).update_manifest()
        if checked.request.asks_model:
            return _check_answers(checked)
        return _check_retrieval(checked), False


def _eval_request(request: CheckRequest, index: StoredIndex | None, retriever: str | None) -> EvalRequest:
    """Return the request of the run over the questions, without its data."""
    changed = {"retriever": retriever} if retriever else {}
    asked = {
        "benchmark": index_questions.QUESTIONS_BENCHMARK,
        "setting": "rag",
        "counterfactual": True,
        "judge": (support_judge(request.judge),),
    }
    return eval_request(request, index, changed | asked)


def _run(checked: CheckPlan, request: EvalRequest, spent: Usage) -> FinishedRun:
    """Run the unfinished samples in a folder of the check, over an index instead of a passage file."""
    made = plan_run(request)
    digest = made.folder.name.rpartition("-")[2]
    made = replace(
        made,
        folder=checked.out / f"answers-{digest}",
        open_corpus=lambda _: open_loaded(checked.retriever, checked.index),
        elsewhere=spent,
    )
    return run_plan(made)


def _result(
    checked: CheckPlan,
    asked: Sequence[QuestionResult],
    notes: Sequence[str],
    ran: FinishedRun | None = None,
    written: SynthReport | None = None,
) -> CheckResult:
    known = [*finished_of(asked, "known"), *finished_of(asked, "sentence")]
    asked_hidden = finished_of(asked, "hidden")
    hidden = [one for one in asked_hidden if one.rank is None]  # a copy of the section answers the question
    answered = [one for one in known if one.decision in ("answer", "partial")]
    judged = [one for one in answered if one.support is not None]
    compared = [one for one in answered if one.agreement is not None]
    with_model = checked.request.asks_model
    usage = {**ran.summary.usage} if ran else {}
    if written is not None:
        usage = {f"questions, {role}": dict(used) for role, used in written.usage.items()} | usage
    found = share(sum(is_found(one) for one in known), len(known))
    supported = share(sum((one.support or 0.0) >= index_questions.MIN_FAITHFULNESS for one in judged), len(judged))
    agreeing = share(sum((one.agreement or 0.0) >= MIN_AGREEMENT for one in compared), len(compared))
    recognised = share(sum(one.decision == "unknown" for one in hidden), len(hidden))
    folders = [path.parent for path in sorted(checked.out.glob("answers-*/summary.json"))]
    return CheckResult(
        index=checked.request.index,
        documents=checked.index.manifest.documents,
        passages=checked.index.manifest.passages,
        generator=checked.request.assistant.generator,
        judge=checked.request.judge if with_model else None,
        retriever=checked.retriever,
        out=str(checked.out),
        run=str(ran.folder) if ran else "",
        wanted=checked.request.n,
        found=found,
        answered=share(len(answered), len(known)) if with_model else None,
        supported=supported if with_model else None,
        agreeing=agreeing if with_model else None,
        recognised=recognised if with_model else None,
        hedged=sum(one.hedged for one in hidden),
        asked_back=sum(one.decision == "clarify" for one in hidden),
        elsewhere=sum(_is_elsewhere(one) for one in hidden),
        copied=len(asked_hidden) - len(hidden),
        failed=sum(one.failed is not None for one in asked),
        worst=worst_of(asked),
        usage=usage,
        seconds=round(time.perf_counter() - checked.began, 1),
        notes=tuple(notes),
        other_runs=tuple(str(folder) for folder in folders if folder != ran.folder) if ran else (),
    )


def _is_elsewhere(one: QuestionResult) -> bool:
    """Return whether a hidden question is answered, and the judge rates the answer as supported by other sections."""
    return (
        one.decision in ("answer", "partial")
        and not one.hedged
        and (one.support or 0.0) >= index_questions.MIN_FAITHFULNESS
    )


def near_copies(text: str, passages: Mapping[str, str]) -> Iterator[str]:
    """Yield the ids of passages that have most of a text, such as the same section in another version of a manual.

    Args:
        passages: id -> text.
    """
    wanted = _runs_of_words(text)
    for name, other in passages.items():
        if len(wanted & _runs_of_words(other)) >= MIN_COPIED_SHARE * len(wanted) > 0:
            yield name


def _runs_of_words(text: str) -> frozenset[tuple[str, ...]]:
    tokens = comparable_words(text)
    return frozenset(zip(tokens, tokens[1:], tokens[2:], strict=False))


def rank_of(contexts: Sequence[ContextRef], relevant: Iterable[str]) -> int | None:
    """Return the rank, by score, of the first passage that is or contains a relevant one.

    The order of the list does not matter: a model is shown sections in another order.
    """
    names = frozenset(relevant)
    spans = [span for name in names if (span := span_of(name)) is not None]
    for rank, ref in enumerate(sorted(contexts, key=lambda ref: -ref.score), 1):
        place = span_of(ref.document_id)
        if ref.document_id in names or (place is not None and any(place.contains(span) for span in spans)):
            return rank
    return None


# --- retrieval, without a model --------------------------------------------------------------------------------------


def _check_retrieval(checked: CheckPlan) -> CheckResult:
    request, index = checked.request, checked.index
    left_out = draw_sentences(index, request.n, request.seed)
    if not left_out:
        raise RequestError(f"index {request.index!r}: no passage has a sentence that can be removed for the test")
    altered = {left.passage.id: left.rest for left in left_out}
    with tempfile.TemporaryDirectory(prefix="turnmark-check-") as scratch, shown_progress() as progress:
        copy = copy_with_passages(index, altered, Path(scratch), progress)
        queries = [Query(text=left.sentence) for left in left_out]
        hit_lists = open_retriever(checked.retriever, copy).search(queries, RETRIEVED)
    asked = [_make_search_result(left, hits) for left, hits in zip(left_out, hit_lists, strict=True)]
    few = f"{len(left_out)} sentences, not {request.n}: the index has no more that can be left out"
    result = _result(checked, asked, [few] if len(left_out) < request.n else [])
    others = [other for other in read_sentences(checked.out) if other.retriever != checked.retriever]
    result = result.model_copy(update={"compared": tuple(compare_sentences(asked, other) for other in others)})
    write_sentences(checked.out, SearchedSentences(retriever=checked.retriever, asked=tuple(asked)))
    return result


def _make_search_result(left: RemovedSentence, hits: Sequence[Hit]) -> QuestionResult:
    shown = [hit.passage for hit in hits]
    copies = near_copies(left.rest.text, {passage.id: passage.text for passage in shown})
    contexts = [ContextRef(document_id=hit.passage.id, score=hit.score) for hit in hits]
    rank = rank_of(contexts, (left.passage.id, *copies))
    one = QuestionResult(
        id=left.passage.id,
        kind="sentence",
        question=left.sentence,
        passage=left.passage.id,
        place=place(left.passage),
        text=left.rest.text,
        rank=rank,
        first=place(shown[0]) if shown and rank != 1 else "",
    )
    if is_found(one):
        return one
    where = f"its passage had rank {rank}" if rank else f"its passage was not among the first {RETRIEVED}"
    return one.model_copy(update={"why": (where,)})


# --- answers, with a model -------------------------------------------------------------------------------------------


def _check_answers(checked: CheckPlan) -> tuple[CheckResult, bool]:
    request = checked.request
    wanted = max(1, request.n - round(request.n * UNKNOWN_SHARE))
    report, gave_up = _write_questions(checked, wanted)
    folder = checked.out / QUESTIONS
    if report is not None and not report.kept:
        stages = "; ".join(f"{stage}: {', '.join(reasons)}" for stage, reasons in report.filters.items())
        raise TurnmarkError(f"no question passed the filters ({stages or 'no call succeeded'}); see {folder}")
    if gave_up:
        raise TurnmarkError(
            f"{request.assistant.generator} failed too often to write questions; the same command continues"
        )
    tasks = index_questions.read_questions(folder)
    hidden = tasks[: max(1, round(len(tasks) * UNKNOWN_SHARE / (1 - UNKNOWN_SHARE)))]
    ids = [task.id for task in tasks] + [f"{task.id}{HIDDEN_SUFFIX}" for task in hidden]
    eval_request = _eval_request(request, checked.index, checked.retriever)
    eval_request = eval_request.model_copy(update={"data": folder, "only": tuple(ids)})
    used = report.usage.values() if report is not None else ()
    ran = _run(checked, eval_request, sum(map(Usage.model_validate, used), Usage()))
    notes: list[str] = []
    if len(tasks) < wanted:
        tried = f" after {report.attempts} tries; questions/rejects.jsonl says why" if report is not None else ""
        notes.append(f"{len(tasks)} questions, not {wanted}: no more passed the filters{tried}")
    found = {sample.id: sample for sample in samples(ran.folder)}
    support, agreement = means_of(ran.folder, SUPPORT_NAME), means_of(ran.folder, AGREEMENT_NAME)
    corpus = index_questions.corpus_of(folder, checked.index)
    asked = [
        _make_answer_result(checked.index, task, found[task.id + suffix], support, agreement, suffix, corpus)
        for suffix, chosen in (("", tasks), (HIDDEN_SUFFIX, hidden))
        for task in chosen
    ]
    return _result(checked, asked, notes, ran, report), ran.gave_up


def _write_questions(checked: CheckPlan, wanted: int) -> tuple[SynthReport | None, bool]:
    """Write the missing questions. Return None if another model has written them; they are then used unchanged."""
    request, folder = checked.request, checked.out / QUESTIONS
    synth = synth_request(request, wanted, folder)
    stored = stored_manifest(folder, SynthManifest)
    if stored is not None and stored.ended is not None and index_questions.has_questions(folder):
        generator = open_generator(request.assistant.generator)
        if generator is not None and stored.specs["generator"] != generator.name:
            return None, False
    return synthesize(plan_synthesis(synth, index_questions.QuestionSynthesis(), ErrorCollector()))


def _make_answer_result(
    index: StoredIndex,
    task: index_questions.Question,
    sample: Sample,
    support: Mapping[str, float],
    agreement: Mapping[str, float],
    suffix: str,
    corpus: CorpusTexts,
) -> QuestionResult:
    """Return a question with its result.

    Args:
        support: task id -> faithfulness.
        agreement: task id -> share of the reference answer.
        suffix: `HIDDEN_SUFFIX` if its section was hidden; otherwise empty.
    """
    source = passage_of(index, task.contexts[0].document_id)
    section = [context.document_id for context in task.contexts]
    found = {ref.document_id: passage.text for ref in sample.contexts if (passage := corpus.get(ref.document_id))}
    for context in task.contexts:
        section += near_copies(context.text, found)
    one = QuestionResult(
        id=sample.id,
        kind="hidden" if suffix else "known",
        question=task.question,
        passage=source.id,
        place=place(source),
        text=source.text,
        rank=rank_of(sample.contexts, section),
        decision=sample.decision,
        hedged=sample.hedged,
        answer=sample.prediction or "",
        support=support.get(sample.id),
        reference=task.reference,
        agreement=None if suffix else agreement.get(sample.id),
        failed=(sample.reason or sample.status) if sample.status != "done" else None,
    )
    if one.failed is not None:
        return one
    return one.model_copy(update={"why": tuple(_faults_hidden(one) if suffix else _faults_known(one))})


def _faults_known(one: QuestionResult) -> Iterator[str]:
    if one.rank is None:
        yield "its section was not found"
    elif one.rank > MAX_FOUND_RANK:
        yield f"its section had rank {one.rank}"
    if one.decision == "unknown":
        yield "the reply says it is unknown"
    elif one.decision == "clarify":
        yield "asked back"
    else:
        if one.support is not None and one.support < index_questions.MIN_FAITHFULNESS:
            yield f"hardly supported by the passages found ({one.support:.2f})"
        if one.agreement is not None and one.agreement < MIN_AGREEMENT:
            yield f"hardly agrees with the reference answer ({one.agreement:.2f} of its words)"


def _faults_hidden(one: QuestionResult) -> Iterator[str]:
    if one.decision == "unknown" or one.hedged or one.rank is not None:
        return
    others = ", and rated as supported by other sections" if _is_elsewhere(one) else ""
    yield f"answered although its section was hidden{others}"
    if one.support is not None and one.support < index_questions.MIN_FAITHFULNESS:
        yield f"hardly supported by the passages found ({one.support:.2f})"
